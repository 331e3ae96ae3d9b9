{{/* What cannot work is refused here, in one sentence that says what would do. */}}
{{- define "attune.checks" -}}
{{- if and (eq .Values.usage.source "prometheus") (not .Values.usage.prometheus.address) -}}
{{- fail "usage.prometheus.address is empty: set it to the base URL of a server that speaks the Prometheus HTTP API, such as http://prometheus.monitoring:9090" -}}
{{- end -}}
{{- range $name, $_ := .Values.usage.embedded -}}
{{- fail (printf "usage.embedded.%s does not exist any more, as the embedded usage source keeps samples in memory only: remove usage.embedded from your values" $name) -}}
{{- end -}}
{{- with .Values.webhook.clientCA -}}
{{- if and .names (not .configMap.name) -}}
{{- fail "webhook.clientCA.names needs webhook.clientCA.configMap.name: set it to a ConfigMap with the certificates that callers are verified with" -}}
{{- end -}}
{{- end -}}
{{- with .Values.kubelet.tls -}}
{{- if gt (len (compact (list .caConfigMap.name .caFile (ternary "yes" "" .insecureSkipVerify)))) 1 -}}
{{- fail "kubelet.tls.caConfigMap, kubelet.tls.caFile and kubelet.tls.insecureSkipVerify exclude each other: set one" -}}
{{- end -}}
{{- end -}}
{{- if .Values.watchNamespaces -}}
{{- if .Values.node.eviction.enabled -}}
{{- fail "node.eviction.enabled goes with all namespaces alone: whether an evicted pod finds a place is up to pods of other ones too; set it to false, or leave watchNamespaces empty" -}}
{{- end -}}
{{- if .Values.node.loadTaint.enabled -}}
{{- fail "node.loadTaint.enabled goes with all namespaces alone: a taint is for every namespace's pods; set it to false, or leave watchNamespaces empty" -}}
{{- end -}}
{{- range .Values.usage.policySources.namespaces -}}
{{- if not (has . $.Values.watchNamespaces) -}}
{{- fail (printf "usage.policySources.namespaces has %s, which watchNamespaces has not: leave it out there, or add it here" .) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if and .Values.watchNamespaces (.Capabilities.APIVersions.Has "attune.io/v1alpha1") -}}
{{- range $kind := list "AttuneRecommendation" "AttunePolicy" -}}
{{- range (lookup "attune.io/v1alpha1" $kind "" "").items -}}
{{- if and (not (has .metadata.namespace $.Values.watchNamespaces)) (or (has "attune.io/records" (.metadata.finalizers | default list)) (has "attune.io/cleanup" (.metadata.finalizers | default list))) -}}
{{- fail (printf "namespace %s has a resize that is under way or watched (%s %s), which nobody would finish there: watchNamespaces has it not. Pause it (AttuneNamespaceDefaults, spec.paused: true), wait until kubectl get attunerecommendations --namespace %s shows none that is Resizing, Watching or Reverting, and upgrade again" .metadata.namespace $kind .metadata.name .metadata.namespace) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- range (lookup "apiextensions.k8s.io/v1" "CustomResourceDefinition" "" "").items -}}
{{- if eq .spec.group "attune.io" -}}
{{- if ne (dig "labels" "attune.io/crds" "" .metadata) "chart" -}}
{{- fail (printf "the cluster has a CustomResourceDefinition %s that is not from this chart: whoever installed it owns the group attune.io here; uninstall that first (deleting the CustomResourceDefinition deletes its objects)" .metadata.name) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if and (eq .Values.certs.provider "cert-manager") (lookup "v1" "Namespace" "" "kube-system") (not (.Capabilities.APIVersions.Has "cert-manager.io/v1")) -}}
{{- fail "certs.provider is cert-manager, but the cluster has none: install cert-manager, or set certs.provider=self-signed" -}}
{{- end -}}
{{- if and (.Values.alerts).enabled (lookup "v1" "Namespace" "" "kube-system") (not (.Capabilities.APIVersions.Has "monitoring.coreos.com/v1")) -}}
{{- fail "alerts.enabled needs Prometheus Operator's PrometheusRule, which the cluster has not: install it, or have your Prometheus server read charts/attune/alerts" -}}
{{- end -}}
{{- end -}}
