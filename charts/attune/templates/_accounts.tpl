{{/* User names and Deployments of the operator. Only this file defines them. */}}

{{/* User names that may write recommendations, as a JSON list. */}}
{{- define "attune.writers" -}}
{{- concat (list (printf "system:serviceaccount:%s:%s" .Release.Namespace (include "attune.name" .))) (.Values.rbac.recommendationWriters | default list) | toJson -}}
{{- end -}}

{{/* Deployments of the operator, as a JSON list. */}}
{{- define "attune.deployments" -}}
{{- $names := list -}}
{{- range include "attune.programs" . | fromJsonArray -}}
{{- $names = append $names .name -}}
{{- end -}}
{{- $names | toJson -}}
{{- end -}}
