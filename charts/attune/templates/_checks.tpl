{{/* Rejects values that cannot work, with one sentence that has a valid value. */}}
{{- define "attune.checks" -}}
{{- if has .Release.Namespace (list "kube-system" "kube-public" "kube-node-lease") -}}
{{- fail (printf "attune must not share namespace %s with Kubernetes' own components: install it into a namespace of its own, such as --namespace attune-system --create-namespace" .Release.Namespace) -}}
{{- end -}}
{{- if not (regexMatch "^[a-z][-a-z0-9]*$" (include "attune.name" .)) -}}
{{- fail (printf "the name %s of the objects is not valid for a Service: set fullnameOverride, such as fullnameOverride=attune" (include "attune.name" .)) -}}
{{- end -}}
{{- if and .Values.networkPolicy.egress (not .Values.networkPolicy.enabled) -}}
{{- fail "networkPolicy.egress needs networkPolicy.enabled: set networkPolicy.enabled to true, or remove the rules" -}}
{{- end -}}
{{- if and (eq .Values.usage.source "prometheus") (not .Values.usage.prometheus.address) -}}
{{- fail "usage.prometheus.address is empty: set it to the base URL of a server with the Prometheus HTTP API, such as http://prometheus.monitoring:9090" -}}
{{- end -}}
{{- range $name, $_ := omit (.Values.usage.embedded | default dict) "nodeSelector" -}}
{{- fail (printf "usage.embedded.%s was removed, because the embedded usage source keeps samples in memory only: remove it from your values" $name) -}}
{{- end -}}
{{- if and (eq (.Values.webhook.failurePolicy | default "Ignore") "Fail") (eq (.Values.webhook.namespaces | default "Labelled") "AllButDisabled") -}}
{{- fail "webhook.failurePolicy Fail does not work with webhook.namespaces AllButDisabled: without the webhook, no pod of the cluster's own components could be created. Set webhook.namespaces to Labelled, or webhook.failurePolicy to Ignore" -}}
{{- end -}}
{{- with .Values.webhook.clientCA -}}
{{- if and .names (not .configMap.name) -}}
{{- fail "webhook.clientCA.names needs webhook.clientCA.configMap.name: set it to a ConfigMap with the CA certificates that verify callers" -}}
{{- end -}}
{{- end -}}
{{- with .Values.kubelet.tls -}}
{{- if gt (len (compact (list .caConfigMap.name .caFile (ternary "yes" "" .insecureSkipVerify)))) 1 -}}
{{- fail "kubelet.tls.caConfigMap, kubelet.tls.caFile and kubelet.tls.insecureSkipVerify exclude each other: set one" -}}
{{- end -}}
{{- end -}}
{{- if .Values.watchNamespaces -}}
{{- if .Values.node.eviction.enabled -}}
{{- fail "node.eviction.enabled and watchNamespaces exclude each other: to evict, the operator must see all pods; set node.eviction.enabled to false, or leave watchNamespaces empty" -}}
{{- end -}}
{{- if .Values.node.loadTaint.enabled -}}
{{- fail "node.loadTaint.enabled and watchNamespaces exclude each other: a taint affects pods of all namespaces; set node.loadTaint.enabled to false, or leave watchNamespaces empty" -}}
{{- end -}}
{{- range .Values.usage.policySources.namespaces -}}
{{- if not (has . $.Values.watchNamespaces) -}}
{{- fail (printf "usage.policySources.namespaces has %s, but watchNamespaces does not: remove it from the first list, or add it to the second" .) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if and .Values.watchNamespaces (.Capabilities.APIVersions.Has "attune.io/v1alpha1") -}}
{{- range $kind := list "AttuneRecommendation" "AttunePolicy" -}}
{{- range (lookup "attune.io/v1alpha1" $kind "" "").items -}}
{{- if and (not (has .metadata.namespace $.Values.watchNamespaces)) (or (has "attune.io/records" (.metadata.finalizers | default list)) (has "attune.io/cleanup" (.metadata.finalizers | default list))) -}}
{{- fail (printf "namespace %s has an in-flight resize (%s %s), but is not in watchNamespaces: the operator would not finish the resize. Pause the namespace (AttuneNamespaceDefaults, spec.paused: true), wait until kubectl get attunerecommendations --namespace %s shows no phase Resizing, Watching or Reverting, and upgrade again" .metadata.namespace $kind .metadata.name .metadata.namespace) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- include "attune.checks.other" . -}}
{{- if include "attune.installsCRDs" . -}}
{{- include "attune.checks.owner" . -}}
{{- end -}}
{{- if and (eq (include "attune.provider" .) "cert-manager") (lookup "v1" "Namespace" "" "kube-system") (not (.Capabilities.APIVersions.Has "cert-manager.io/v1")) -}}
{{- fail "certs.provider is cert-manager, but the cluster does not have cert-manager: install it, or set certs.provider=self-signed" -}}
{{- end -}}
{{- if and (.Values.serviceMonitor).enabled .Values.metrics.audience (not (.Values.serviceMonitor.bearerTokenSecret).name) -}}
{{- fail "serviceMonitor.enabled with metrics.audience needs serviceMonitor.bearerTokenSecret.name: set it to a Secret with a token for this audience, because the API server issued Prometheus' own token for another one" -}}
{{- end -}}
{{- if and (.Values.serviceMonitor).enabled (lookup "v1" "Namespace" "" "kube-system") (not (.Capabilities.APIVersions.Has "monitoring.coreos.com/v1")) -}}
{{- fail "serviceMonitor.enabled needs Prometheus Operator's ServiceMonitor, which the cluster does not have: install Prometheus Operator, or scrape the Services as docs/metrics.md shows" -}}
{{- end -}}
{{- if and (.Values.alerts).enabled (lookup "v1" "Namespace" "" "kube-system") (not (.Capabilities.APIVersions.Has "monitoring.coreos.com/v1")) -}}
{{- fail "alerts.enabled needs Prometheus Operator's PrometheusRule, which the cluster does not have: install Prometheus Operator, or let your Prometheus server read charts/attune/alerts" -}}
{{- end -}}
{{- end -}}

{{/* Not empty if the chart installs the CustomResourceDefinitions. */}}
{{- define "attune.installsCRDs" -}}
{{- if ne (toString (.Values.crds).enabled) "false" }}yes{{ end -}}
{{- end -}}

{{/*
Rejects a second installation: both would resize the same pods. Helm deletes ValidatingAdmissionPolicies last, so they are
there as long as anything of an installation is. Helm refuses or takes over objects of the same name without a release.
*/}}
{{- define "attune.checks.other" -}}
{{- range (lookup "admissionregistration.k8s.io/v1" "ValidatingAdmissionPolicy" "" "").items -}}
{{- if eq (dig "labels" "app.kubernetes.io/name" "" .metadata) "attune" -}}
{{- $name := dig "annotations" "meta.helm.sh/release-name" "" .metadata -}}
{{- $namespace := dig "annotations" "meta.helm.sh/release-namespace" "" .metadata -}}
{{- if not $name -}}
{{- if not (hasPrefix (printf "%s-" (include "attune.name" $)) .metadata.name) -}}
{{- fail (printf "attune is already installed without Helm (ValidatingAdmissionPolicy %s), and a cluster can have one: delete it first, with the manifests that it was installed from" .metadata.name) -}}
{{- end -}}
{{- else if or (ne $name $.Release.Name) (ne $namespace $.Release.Namespace) -}}
{{- fail (printf "attune is already installed as release %s in namespace %s, and a cluster can have one: upgrade it, or uninstall it first with helm uninstall %s --namespace %s" $name $namespace $name $namespace) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/*
Rejects CustomResourceDefinitions of another installation. Those of an uninstalled release may be taken over: Helm would refuse
them without saying how.
*/}}
{{- define "attune.checks.owner" -}}
{{- range (lookup "apiextensions.k8s.io/v1" "CustomResourceDefinition" "" "").items -}}
{{- if eq .spec.group "attune.io" -}}
{{- if ne (dig "labels" "attune.io/crds" "" .metadata) "chart" -}}
{{- fail (printf "the CustomResourceDefinition %s is not from this chart: another installation owns the group attune.io; uninstall it first (deleting the CustomResourceDefinition deletes its objects)" .metadata.name) -}}
{{- end -}}
{{- $name := dig "annotations" "meta.helm.sh/release-name" $.Release.Name .metadata -}}
{{- $namespace := dig "annotations" "meta.helm.sh/release-namespace" $.Release.Namespace .metadata -}}
{{- if or (ne $name $.Release.Name) (ne $namespace $.Release.Namespace) -}}
{{- fail (printf "the CustomResourceDefinitions are from release %s in namespace %s, which was uninstalled. To use them and the policies for this release, run: kubectl annotate crd --selector attune.io/crds=chart --overwrite meta.helm.sh/release-name=%s meta.helm.sh/release-namespace=%s" $name $namespace $.Release.Name $.Release.Namespace) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
