{{/* Name prefix of all objects: attune if the release has this name. */}}
{{- define "attune.name" -}}
{{- if contains .Chart.Name .Release.Name -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name .Chart.Name | trunc 40 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "attune.webhook" -}}{{ include "attune.name" . }}-webhook{{- end -}}

{{- define "attune.secret" -}}{{ include "attune.name" . }}-webhook-cert{{- end -}}

{{/* The self-signed authority and its key; cert-manager's is another one, of another type. */}}
{{- define "attune.authority" -}}{{ include "attune.name" . }}-webhook-ca{{- end -}}

{{- define "attune.image" -}}{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}{{- end -}}

{{/* The component that serves the webhooks: separate pods, or the controller's pods. */}}
{{- define "attune.webhookComponent" -}}{{ ternary "webhook" "controller" .Values.webhook.separate }}{{- end -}}

{{/* The ServiceAccount for scrapes of kubelets. */}}
{{- define "attune.scraper" -}}{{ include "attune.name" . }}-scraper{{- end -}}

{{/* The pods of one component, as (dict "root" $ "component" "webhook"); the chart's test pod has no component. */}}
{{- define "attune.selector" -}}
app.kubernetes.io/name: attune
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- end -}}

{{- define "attune.labels" -}}
app.kubernetes.io/name: attune
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/part-of: attune
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end -}}
