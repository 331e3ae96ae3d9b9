{{/* The release's name for everything: attune for a release called so. */}}
{{- define "attune.name" -}}
{{- if contains .Chart.Name .Release.Name -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name .Chart.Name | trunc 40 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "attune.webhook" -}}{{ include "attune.name" . }}-webhook{{- end -}}

{{- define "attune.secret" -}}{{ include "attune.name" . }}-webhook-cert{{- end -}}

{{- define "attune.image" -}}{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}{{- end -}}

{{/* What the webhooks are served by: pods of their own, or the controller's. */}}
{{- define "attune.webhookComponent" -}}{{ ternary "webhook" "controller" .Values.webhook.separate }}{{- end -}}

{{/* The ServiceAccount whose tokens kubelets are shown. */}}
{{- define "attune.scraper" -}}{{ include "attune.name" . }}-scraper{{- end -}}

{{/* The pods of one component, as (dict "root" $ "component" "webhook"); the chart's test pod is of none. */}}
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
