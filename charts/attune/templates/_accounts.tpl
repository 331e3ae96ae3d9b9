{{/* Who the operator is to the API server, and what runs as it: here alone. */}}

{{/* User names that write recommendations, as a list in JSON. */}}
{{- define "attune.writers" -}}
{{- concat (list (printf "system:serviceaccount:%s:%s" .Release.Namespace (include "attune.name" .))) (.Values.rbac.recommendationWriters | default list) | toJson -}}
{{- end -}}

{{/* Its Deployments, as a list in JSON. */}}
{{- define "attune.deployments" -}}
{{- $names := list -}}
{{- range include "attune.programs" . | fromJsonArray -}}
{{- $names = append $names .name -}}
{{- end -}}
{{- $names | toJson -}}
{{- end -}}
