{{/* Name prefix of all objects: attune if the release has this name. With the longest suffix it is shorter than 63 characters. */}}
{{- define "attune.name" -}}
{{- $chart := .Values.nameOverride | default .Chart.Name -}}
{{- $name := printf "%s-%s" .Release.Name $chart -}}
{{- if .Values.fullnameOverride -}}
{{- $name = .Values.fullnameOverride -}}
{{- else if contains $chart .Release.Name -}}
{{- $name = .Release.Name -}}
{{- end -}}
{{- $name | trunc 40 | trimSuffix "-" -}}
{{- end -}}

{{- define "attune.webhook" -}}{{ include "attune.name" . }}-webhook{{- end -}}

{{- define "attune.secret" -}}{{ include "attune.name" . }}-webhook-cert{{- end -}}

{{/* The self-signed authority and its key; cert-manager's is another one, of another type. */}}
{{- define "attune.authority" -}}{{ include "attune.name" . }}-webhook-ca{{- end -}}

{{/* The image of all pods. As container runtimes do, it takes the first part of the repository for a registry if it has a dot or a port, or is localhost. */}}
{{- define "attune.image" -}}
{{- $parts := splitList "/" .Values.image.repository -}}
{{- $qualified := and (gt (len $parts) 1) (or (regexMatch "[.:]" (first $parts)) (eq (first $parts) "localhost")) -}}
{{- if and .Values.image.registry (not $qualified) -}}{{ trimSuffix "/" .Values.image.registry }}/{{ end -}}
{{- .Values.image.repository -}}
{{- $digest := .Values.image.digest -}}
{{- /* A published chart has the digest in Chart.yaml: helm upgrade --reuse-values would keep one among the values. */ -}}
{{- if not (or $digest .Values.image.tag) -}}{{- $digest = index .Chart.Annotations "attune.io/image-digest" -}}{{- end -}}
{{- if $digest -}}@{{ $digest }}{{- else -}}:{{ .Values.image.tag | default .Chart.AppVersion }}{{- end -}}
{{- end -}}

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

{{/* A version as a label's value: Flux appends the digest of an OCI artefact with a +. */}}
{{- define "attune.labelValue" -}}
{{- regexReplaceAll "[^-_.a-zA-Z0-9]" . "_" | trunc 63 | trimAll "-_." -}}
{{- end -}}

{{/* Labels of all objects and more, as (dict "root" $ "more" $labels), each once: Flux and kustomize refuse a repeated key. */}}
{{- define "attune.labelsAnd" -}}
{{- merge (dict) (.more | default dict) (include "attune.labels" .root | fromYaml) | toYaml -}}
{{- end -}}

{{- define "attune.labels" -}}
app.kubernetes.io/name: attune
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/part-of: attune
app.kubernetes.io/version: {{ include "attune.labelValue" .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ include "attune.labelValue" (printf "%s-%s" .Chart.Name .Chart.Version) }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}
