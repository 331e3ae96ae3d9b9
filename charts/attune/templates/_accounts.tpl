{{/* User names and Deployments of the operator. Only this file defines them. */}}

{{/* User names that may write recommendations, as a JSON list. */}}
{{- define "attune.writers" -}}
{{- concat (list (include "attune.controllerUser" .)) (.Values.rbac.recommendationWriters | default list) | toJson -}}
{{- end -}}

{{/* User name of the controller. */}}
{{- define "attune.controllerUser" -}}system:serviceaccount:{{ .Release.Namespace }}:{{ include "attune.name" . }}{{- end -}}

{{/* User names of all programs, as a list in CEL. */}}
{{- define "attune.programUsers" -}}
{{- $users := list -}}
{{- range include "attune.programs" . | fromJsonArray -}}
{{- $users = append $users (printf "'system:serviceaccount:%s:%s'" $.Release.Namespace .name) -}}
{{- end -}}
[{{ join ", " $users }}]
{{- end -}}

{{/* CEL: an update changes no metadata except the fields that the API server writes. */}}
{{- define "attune.metadataUnchanged" -}}
variables.new.metadata.all(k, k in variables.bookkeeping || (k in variables.old.metadata && variables.new.metadata[k] == variables.old.metadata[k]))
&& variables.old.metadata.all(k, k in variables.bookkeeping || k in variables.new.metadata)
{{- end -}}

{{/* What the API server would add to matchConstraints: Argo CD shows it as a difference. */}}
{{- define "attune.matchDefaults" -}}
matchPolicy: Equivalent
namespaceSelector: {}
objectSelector: {}
{{- end -}}

{{/* Variables of attune.metadataUnchanged. */}}
{{- define "attune.metadataVariables" -}}
- {name: new, expression: dyn(object)}
- {name: old, expression: dyn(oldObject)}
# Fields that the API server writes.
- {name: bookkeeping, expression: "['generation', 'managedFields', 'resourceVersion']"}
{{- end -}}

{{/* Not empty if the API server certainly has no ValidatingAdmissionPolicies. */}}
{{- define "attune.withoutPolicies" -}}
{{- if and (lookup "v1" "Namespace" "" "kube-system") (not (.Capabilities.APIVersions.Has "admissionregistration.k8s.io/v1/ValidatingAdmissionPolicy")) }}yes{{ end -}}
{{- end -}}
