{{/* Flags of both programs. */}}
{{- define "attune.args" -}}
- --log-level={{ .Values.logLevel }}
{{- if .Values.metrics.secure }}
- --metrics-secure
{{- with .Values.metrics.audience }}
- {{ printf "--metrics-audience=%s" . | quote }}
{{- end }}
{{- end }}
{{- $ports := include "attune.ports" . | fromJson }}
{{- if ne (int $ports.metrics) 8080 }}
- --metrics-bind-address=:{{ int $ports.metrics }}
{{- end }}
{{- if ne (int $ports.probes) 8081 }}
- --health-probe-bind-address=:{{ int $ports.probes }}
{{- end }}
- --certs-provider={{ include "attune.provider" . }}
{{- if eq (include "attune.provider" .) "self-signed" }}
- --webhook-service={{ include "attune.webhook" . }}
- --cert-secret={{ include "attune.secret" . }}
- --authority-secret={{ include "attune.authority" . }}
- --mutating-webhook-config={{ include "attune.name" . }}
- --validating-webhook-config={{ include "attune.name" . }}
{{- end }}
{{- with .Values.watchNamespaces }}
- --watch-namespaces={{ join "," . }}
{{- end }}
{{- with .Values.usage.policySources.namespaces }}
- --policy-source-namespaces={{ join "," . }}
{{- end }}
{{- with .Values.usage.limits }}
{{- if ne (int .steps) 11000 }}
- --max-history-steps={{ int .steps }}
{{- end }}
{{- if ne .rateWindow "1h" }}
- --max-rate-window={{ .rateWindow }}
{{- end }}
{{- end }}
{{- end -}}

{{/* Flags of the program that serves the webhooks, if it needs any. */}}
{{- define "attune.args.webhook" -}}
{{- $args := list -}}
{{- $port := int (include "attune.ports" . | fromJson).webhook -}}
{{- if ne $port 9443 -}}
{{- $args = append $args (printf "--webhook-port=%d" $port) -}}
{{- end -}}
{{- if eq (include "attune.provider" .) "cert-manager" -}}
{{- $args = append $args "--cert-dir=/etc/attune/certs" -}}
{{- end -}}
{{- with .Values.webhook.clientCA -}}
{{- if .configMap.name -}}
{{- $args = append $args (printf "--webhook-client-ca-file=/etc/attune/client-ca/%s" .configMap.key) -}}
{{- range .names -}}
{{- $args = append $args (printf "--webhook-client-name=%s" .) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- with $args -}}{{- toYaml . -}}{{- end -}}
{{- end -}}

{{/* The usage sources whose values become flags and volumes: the selected one, and prometheus, from which embedded reads past usage. */}}
{{- define "attune.sources" -}}
{{- uniq (list "prometheus" .Values.usage.source) | toJson -}}
{{- end -}}

{{/* Flags of the controller. */}}
{{- define "attune.args.controller" -}}
- --usage-source={{ .Values.usage.source }}
- --usage-interval={{ .Values.usage.interval }}
{{- range $source := include "attune.sources" . | fromJsonArray }}
{{- with get $.Values.usage $source }}
{{- range $name, $value := omit . "headers" "queryParameters" "matchers" "bearerTokenSecret" "tls" }}
{{- with $value }}
- --{{ $source }}-{{ kebabcase $name }}={{ . }}
{{- end }}
{{- end }}
{{- range $name, $value := .headers }}
- {{ printf "--%s-header=%s=%s" $source $name $value | quote }}
{{- end }}
{{- range $name, $value := .queryParameters }}
- {{ printf "--%s-query-parameter=%s=%s" $source $name $value | quote }}
{{- end }}
{{- range $name, $value := .matchers }}
- {{ printf "--%s-matcher=%s=%s" $source $name $value | quote }}
{{- end }}
{{- with .bearerTokenSecret }}
{{- if .name }}
- --{{ $source }}-bearer-token-file=/etc/attune/{{ $source }}-token/{{ .key }}
{{- end }}
{{- end }}
{{- with (.tls).caConfigMap }}
{{- if .name }}
- --{{ $source }}-ca-file=/etc/attune/{{ $source }}-ca/{{ .key }}
{{- end }}
{{- end }}
{{- if (.tls).insecureSkipVerify }}
- --{{ $source }}-insecure-skip-verify
{{- end }}
{{- end }}
{{- end }}
{{- with .Values.usage.policySources.addresses }}
- {{ printf "--policy-source-address=%s" (join "," .) | quote }}
{{- end }}
{{- if .Values.node.eviction.enabled }}
- --eviction
{{- end }}
{{- if ne .Values.node.interval "5m" }}
- --node-interval={{ .Values.node.interval }}
{{- end }}
{{- if not (has (toString (.Values.hpa).tolerance) (list "0.1" "<nil>")) }}
- --hpa-tolerance={{ .Values.hpa.tolerance }}
{{- end }}
{{- if (.Values.hpa).retarget }}
- --hpa-retarget
{{- end }}
{{- if not (has (toString (.Values.hpa).syncPeriod) (list "15s" "<nil>")) }}
- --hpa-sync-period={{ .Values.hpa.syncPeriod }}
{{- end }}
{{- with .Values.nodes.largest.cpu }}
- --largest-node-cpu={{ . }}
{{- end }}
{{- with .Values.nodes.largest.memory }}
- --largest-node-memory={{ . }}
{{- end }}
{{- if .Values.node.loadTaint.enabled }}
- --node-load-taint
{{- end }}
{{- with .Values.scaledKinds }}
- --scaled-kinds={{ join "," . }}
{{- end }}
{{- if eq (.Values.webhook.namespaces | default "Labelled") "AllButDisabled" }}
- --webhook-namespaces=AllButDisabled
{{- end }}
{{- with .Values.webhook.excludedNamespaces }}
- --webhook-excluded-namespaces={{ join "," . }}
{{- end }}
{{- with .Values.webhook.namespaceSelector }}
- {{ printf "--webhook-namespace-selector=%s" (include "attune.selectorTerms" .) | quote }}
{{- end }}
{{- if (.Values.bridge).vpa }}
- --bridge-vpa-role={{ include "attune.name" . }}-bridge-vpa
{{- end }}
{{- if eq .Values.usage.source "embedded" }}
- --scraper-service-account={{ include "attune.scraper" . }}
{{- if .Values.kubelet.tls.caConfigMap.name }}
- --kubelet-ca-file=/etc/attune/kubelet-ca/{{ .Values.kubelet.tls.caConfigMap.key }}
{{- else if .Values.kubelet.tls.caFile }}
- --kubelet-ca-file={{ .Values.kubelet.tls.caFile }}
{{- end }}
{{- if .Values.kubelet.tls.insecureSkipVerify }}
- --kubelet-insecure-skip-verify
{{- end }}
{{- end }}
{{- end -}}

{{/* matchExpressions as a label selector in the syntax of kubectl -l. */}}
{{- define "attune.selectorTerms" -}}
{{- $terms := list -}}
{{- range . -}}
{{- $operator := get (dict "In" "in" "NotIn" "notin") .operator -}}
{{- if $operator -}}
{{- $terms = append $terms (printf "%s %s (%s)" .key $operator (join "," .values)) -}}
{{- else -}}
{{- $terms = append $terms (ternary .key (printf "!%s" .key) (eq .operator "Exists")) -}}
{{- end -}}
{{- end -}}
{{- join "," $terms -}}
{{- end -}}
