{{/*
Issuer of the webhooks' certificate: cert-manager or self-signed. With certs.provider=auto, an upgrade keeps what the release
has, so that a cert-manager that is installed later changes nothing.
*/}}
{{- define "attune.provider" -}}
{{- $provider := (.Values.certs).provider | default "auto" -}}
{{- if eq $provider "auto" -}}
{{- $provider = ternary "cert-manager" "self-signed" (.Capabilities.APIVersions.Has "cert-manager.io/v1") -}}
{{- with lookup "apps/v1" "Deployment" .Release.Namespace (include "attune.name" .) -}}
{{- range (first .spec.template.spec.containers).args -}}
{{- if hasPrefix "--certs-provider=" . -}}{{- $provider = trimPrefix "--certs-provider=" . -}}{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- $provider -}}
{{- end -}}
