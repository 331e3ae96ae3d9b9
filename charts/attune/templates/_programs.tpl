{{/*
The operator's processes, as a list in JSON. Each has a Deployment, a ServiceAccount and a budget of its own, all of its
name, and the rights of what it does. With webhook.separate=false there is one, which does both.
*/}}
{{- define "attune.programs" -}}
{{- $controller := dict "name" (include "attune.name" .) "component" "controller" "controls" true "serves" (not .Values.webhook.separate)
      "command" (ternary "controller" "" .Values.webhook.separate)
      "replicas" (.Values.controller.replicas | default .Values.replicas) "resources" .Values.controller.resources -}}
{{- $webhook := dict "name" (include "attune.webhook" .) "component" "webhook" "controls" false "serves" true "command" "webhook"
      "replicas" (.Values.webhook.replicas | default .Values.replicas) "resources" .Values.webhook.resources -}}
{{- ternary (list $controller $webhook) (list $controller) .Values.webhook.separate | toJson -}}
{{- end -}}

{{/*
Resources of a program: what the values say, and on the node's disk its log and its /tmp.
*/}}
{{- define "attune.resources" -}}
{{- $disk := dict "requests" (dict "ephemeral-storage" "64Mi") "limits" (dict "ephemeral-storage" "256Mi") -}}
{{- mergeOverwrite $disk .resources | toYaml -}}
{{- end -}}
