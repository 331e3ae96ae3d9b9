{{/*
The operator's processes, as a list in JSON. values has those of the component; what is not set there has a value for all. Each has a Deployment, a ServiceAccount and a budget of its own, all of its
name, and the rights of what it does. With webhook.separate=false there is one, which does both.
*/}}
{{- define "attune.programs" -}}
{{- $controller := dict "name" (include "attune.name" .) "component" "controller" "controls" true "serves" (not .Values.webhook.separate)
      "command" (ternary "controller" "" .Values.webhook.separate)
      "values" .Values.controller -}}
{{- $webhook := dict "name" (include "attune.webhook" .) "component" "webhook" "controls" false "serves" true "command" "webhook"
      "values" .Values.webhook -}}
{{- ternary (list $controller $webhook) (list $controller) .Values.webhook.separate | toJson -}}
{{- end -}}

{{/*
Resources of a program: what the values say, and on the node's disk a limit for its log and its /tmp. It requests no disk: where
kubelets do not measure local storage, nodes have none to allocate, and the pod would not be scheduled.
*/}}
{{- define "attune.resources" -}}
{{- $disk := dict "requests" (dict "ephemeral-storage" "0") "limits" (dict "ephemeral-storage" "256Mi") -}}
{{- mergeOverwrite $disk .values.resources | toYaml -}}
{{- end -}}

{{/*
Fields of all pods, as (dict "root" $ "values" .Values.controller). The pods of hooks have the controller's: they run where
its pods ran.
*/}}
{{- define "attune.pod" -}}
{{- $values := .values -}}
{{- $fields := dict "securityContext" (include "attune.podSecurityContext" .root | fromYaml) -}}
{{- with .root.Values -}}
{{- if kindIs "bool" .hostUsers }}{{ $_ := set $fields "hostUsers" .hostUsers }}{{ end -}}
{{- if .image.pullSecrets }}{{ $_ := set $fields "imagePullSecrets" .image.pullSecrets }}{{ end -}}
{{- $common := . -}}
{{- range $key := list "affinity" "priorityClassName" "tolerations" -}}
{{- with get $values $key | default (get $common $key) }}{{ $_ := set $fields $key . }}{{ end -}}
{{- end -}}
{{- /* The image has no program for Windows nodes. */ -}}
{{- $selector := $values.nodeSelector | default $common.nodeSelector | default dict -}}
{{- $_ := set $fields "nodeSelector" (merge (dict) $selector (dict "kubernetes.io/os" "linux")) -}}
{{- end -}}
{{- toYaml $fields -}}
{{- end -}}

{{/* Ports of the pods, as JSON. */}}
{{- define "attune.ports" -}}
{{- merge (dict) (.Values.ports | default dict) (dict "webhook" 9443 "metrics" 8080 "probes" 8081) | toJson -}}
{{- end -}}
