{{/* Who the operator is to the API server, and what runs as it: here alone. */}}

{{/* User names of its ServiceAccounts, as a list in JSON. */}}
{{- define "attune.usernames" -}}
{{- list (printf "system:serviceaccount:%s:%s" .Release.Namespace (include "attune.name" .)) | toJson -}}
{{- end -}}

{{/* Its Deployments, as a list in JSON. */}}
{{- define "attune.deployments" -}}
{{- $names := list -}}
{{- range include "attune.programs" . | fromJsonArray -}}
{{- $names = append $names .name -}}
{{- end -}}
{{- $names | toJson -}}
{{- end -}}
