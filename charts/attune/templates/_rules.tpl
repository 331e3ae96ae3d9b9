{{/* Rights of a program in the watched namespaces, as (dict "root" $ "program" $program). */}}
{{- define "attune.rules.namespaced" -}}
- {apiGroups: [""], resources: [limitranges, resourcequotas], verbs: [list, watch]}
- {apiGroups: [attune.io], resources: [attunenamespacedefaults], verbs: [list, watch]}
{{- if not .program.controls }}
- {apiGroups: [attune.io], resources: [attunerecommendations], verbs: [list, watch]}
{{- else }}
- {apiGroups: [""], resources: [pods], verbs: [get, list, watch]}
- {apiGroups: [""], resources: [pods/resize], verbs: [patch]}
{{- if .root.Values.node.eviction.enabled }}
- {apiGroups: [""], resources: [pods/eviction], verbs: [create]}
{{- end }}
- {apiGroups: [apps], resources: [deployments, statefulsets, daemonsets, replicasets], verbs: [list, watch]}
- {apiGroups: [batch], resources: [jobs, cronjobs], verbs: [list, watch]}
- {apiGroups: [argoproj.io], resources: [rollouts], verbs: [list, watch]}
{{- range .root.Values.scaledKinds }}
{{- $of := splitn "." 3 . }}
- {apiGroups: [{{ $of._2 }}], resources: [{{ $of._0 }}], verbs: [list, watch]}
{{- end }}
- {apiGroups: [policy], resources: [poddisruptionbudgets], verbs: [list, watch]}
{{- $scalers := ternary "get, list, watch, patch" "list, watch" (default false (.root.Values.hpa).retarget) }}
- {apiGroups: [autoscaling], resources: [horizontalpodautoscalers], verbs: [{{ $scalers }}]}
- {apiGroups: [autoscaling.k8s.io], resources: [verticalpodautoscalers], verbs: [list, watch]}
- {apiGroups: [keda.sh], resources: [scaledobjects], verbs: [{{ $scalers }}]}
- {apiGroups: [events.k8s.io], resources: [events], verbs: [create, patch]}
- {apiGroups: [""], resources: [events], verbs: [list, watch]}
- {apiGroups: [attune.io], resources: [attunepolicies], verbs: [list, watch, patch]}
- {apiGroups: [attune.io], resources: [attunepolicies/status], verbs: [patch]}
- {apiGroups: [attune.io], resources: [attunerecommendations], verbs: [get, list, watch, create, patch, delete]}
- {apiGroups: [attune.io], resources: [attunerecommendations/status], verbs: [update]}
{{- end }}
{{- end -}}
