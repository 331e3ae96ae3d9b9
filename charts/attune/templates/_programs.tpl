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

{{/* Bytes of an amount as values.schema.json allows it, such as 1Gi. */}}
{{- define "attune.bytes" -}}
{{- $unit := regexFind "[a-zA-Z]+$" . -}}
{{- $factors := dict "" 1 "k" 1000 "M" 1000000 "G" 1000000000 "T" 1000000000000 "P" 1000000000000000 "E" 1000000000000000000
      "Ki" 1024 "ki" 1024 "Mi" 1048576 "Gi" 1073741824 "Ti" 1099511627776 "Pi" 1125899906842624 "Ei" 1152921504606846976 -}}
{{- mul (trimSuffix $unit .) (get $factors $unit) -}}
{{- end -}}

{{/*
Resources of a program, as (dict "root" $ "program" $program): what the values say, and on the node's disk its log, its
/tmp and, where it keeps raw samples in an emptyDir, those.
*/}}
{{- define "attune.resources" -}}
{{- $samples := 0 -}}
{{- if and .program.controls (eq .root.Values.usage.source "embedded") (not .root.Values.usage.embedded.volume) -}}
{{- $samples = div (include "attune.bytes" .root.Values.usage.embedded.size | int64) 1048576 | add 1 -}}
{{- end -}}
{{- $disk := dict "requests" (dict "ephemeral-storage" (printf "%dMi" (add $samples 64))) "limits" (dict "ephemeral-storage" (printf "%dMi" (add $samples 256))) -}}
{{- mergeOverwrite $disk .program.resources | toYaml -}}
{{- end -}}
