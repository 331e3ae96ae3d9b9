{{/* Flags of both programs. */}}
{{- define "attune.args" -}}
- --log-level={{ .Values.logLevel }}
{{- if .Values.metrics.secure }}
- --metrics-secure
{{- with .Values.metrics.audience }}
- {{ printf "--metrics-audience=%s" . | quote }}
{{- end }}
{{- end }}
- --certs-provider={{ .Values.certs.provider }}
{{- if eq .Values.certs.provider "self-signed" }}
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
{{- if eq .Values.certs.provider "cert-manager" -}}
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
