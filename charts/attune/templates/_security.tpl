{{/* Security context of all pods. OpenShift refuses ids that a chart chooses. */}}
{{- define "attune.podSecurityContext" -}}
{{- $context := .Values.podSecurityContext -}}
{{- if kindIs "invalid" $context -}}
{{- $context = dict "runAsNonRoot" true "runAsUser" 65532 "runAsGroup" 65532 "fsGroup" 65532 "seccompProfile" (dict "type" "RuntimeDefault") -}}
{{- end -}}
{{- if .Capabilities.APIVersions.Has "security.openshift.io/v1" -}}
{{- range $id := list "runAsUser" "runAsGroup" "fsGroup" -}}
{{- if eq (int (get $context $id)) 65532 -}}{{- $context = omit $context $id -}}{{- end -}}
{{- end -}}
{{- end -}}
{{- toYaml $context -}}
{{- end -}}

{{/* Security context of all containers. */}}
{{- define "attune.securityContext" -}}
{{- $context := .Values.securityContext -}}
{{- if kindIs "invalid" $context -}}
{{- $context = dict "allowPrivilegeEscalation" false "readOnlyRootFilesystem" true "capabilities" (dict "drop" (list "ALL")) -}}
{{- end -}}
{{- toYaml $context -}}
{{- end -}}
