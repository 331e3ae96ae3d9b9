package workload_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"attune.io/attune/api/v1alpha1"
	. "attune.io/attune/internal/workload"
)

func TestAdmissionSizesNewPodsOfANamespace(t *testing.T) {
	label := func(value string) map[string]string { return map[string]string{v1alpha1.InjectLabel: value} }
	const missing = "the namespace does not have the label attune.io/inject=enabled"
	for name, c := range map[string]struct {
		of        Admission
		namespace string
		labels    map[string]string
		want      string
	}{
		"labelled":                   {namespace: "shop", labels: label("enabled")},
		"no label":                   {namespace: "shop", want: missing},
		"another value":              {namespace: "shop", labels: label("true"), want: missing},
		"kube-system":                {namespace: "kube-system", labels: label("enabled"), want: "the webhook excludes kube-system, kube-node-lease and attune's own namespace"},
		"attune's own":               {of: Admission{Operator: "attune-system"}, namespace: "attune-system", labels: label("enabled"), want: "the webhook excludes kube-system, kube-node-lease and attune's own namespace"},
		"attune's own, and watched":  {of: Admission{Operator: "attune-system", Watched: []string{"attune-system"}}, namespace: "attune-system", labels: label("enabled"), want: "the webhook excludes kube-system, kube-node-lease and attune's own namespace"},
		"excluded":                   {of: Admission{Excluded: []string{"bank", "shop"}}, namespace: "shop", labels: label("enabled"), want: "the chart's webhook.excludedNamespaces contains the namespace"},
		"excluded, and no label":     {of: Admission{Excluded: []string{"shop"}}, namespace: "shop", want: missing},
		"excluded, and watched":      {of: Admission{Excluded: []string{"shop"}, Watched: []string{"shop"}}, namespace: "shop", labels: label("enabled"), want: "the chart's webhook.excludedNamespaces contains the namespace"},
		"another one is excluded":    {of: Admission{Excluded: []string{"bank"}}, namespace: "shop", labels: label("enabled")},
		"watched":                    {of: Admission{Watched: []string{"bank", "shop"}}, namespace: "shop", labels: label("enabled")},
		"another one is watched":     {of: Admission{Watched: []string{"bank"}}, namespace: "shop", labels: label("enabled"), want: "the chart's watchNamespaces does not contain the namespace"},
		"the operator's is unknown":  {namespace: "attune-system", labels: label("enabled")},
		"all: no label":              {of: Admission{AllButDisabled: true}, namespace: "shop"},
		"all: labelled":              {of: Admission{AllButDisabled: true}, namespace: "shop", labels: label("enabled")},
		"all: disabled":              {of: Admission{AllButDisabled: true}, namespace: "shop", labels: label("disabled"), want: "the namespace has the label attune.io/inject=disabled"},
		"all: another value":         {of: Admission{AllButDisabled: true}, namespace: "shop", labels: label("Disabled")},
		"all: kube-system":           {of: Admission{AllButDisabled: true}, namespace: "kube-system", want: "the webhook excludes kube-system, kube-node-lease and attune's own namespace"},
		"all: excluded":              {of: Admission{AllButDisabled: true, Excluded: []string{"shop"}}, namespace: "shop", want: "the chart's webhook.excludedNamespaces contains the namespace"},
		"all: another one, watched":  {of: Admission{AllButDisabled: true, Watched: []string{"bank"}}, namespace: "shop", want: "the chart's watchNamespaces does not contain the namespace"},
		"selected":                   {of: AdmissionOf("attune-system", []string{"--webhook-namespace-selector=!managedby,kubernetes.io/metadata.name notin (bank)"}), namespace: "shop", labels: label("enabled")},
		"not selected by its name":   {of: AdmissionOf("attune-system", []string{"--webhook-namespace-selector=kubernetes.io/metadata.name notin (bank)"}), namespace: "bank", labels: label("enabled"), want: "the chart's webhook.namespaceSelector does not match the namespace"},
		"neither excluded nor owned": {of: Admission{Operator: "attune-system", Excluded: []string{"bank"}, Watched: []string{"shop"}}, namespace: "shop", labels: label("enabled")},
	} {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, c.want, c.of.NotSized(c.namespace, c.labels))
		})
	}
}

func TestNamespaceLacksTheLabel(t *testing.T) {
	label := func(value string) map[string]string { return map[string]string{v1alpha1.InjectLabel: value} }
	of := Admission{Operator: "attune-system", Excluded: []string{"vault"}}
	assert.True(t, of.Lacks("shop", nil))
	assert.False(t, AdmissionOf("attune-system", []string{"--webhook-namespace-selector=team=shop"}).Lacks("shop", nil), "the label would not help")
	assert.True(t, of.Lacks("shop", label("true")))
	assert.False(t, of.Lacks("shop", label("enabled")))
	assert.False(t, of.Lacks("shop", label("disabled")), "a user decided so")
	for _, excluded := range []string{"vault", "kube-system", "attune-system"} {
		assert.False(t, of.Lacks(excluded, nil), "a label would change nothing")
	}
	of.AllButDisabled = true
	assert.False(t, of.Lacks("shop", nil))
}

func TestAdmissionOfArguments(t *testing.T) {
	assert.Equal(t, Admission{Operator: "attune-system", AllButDisabled: true}, AdmissionOf("attune-system", []string{"--webhook-namespaces=AllButDisabled"}))
	assert.Equal(t, Admission{Operator: "attune-system"}, AdmissionOf("attune-system", []string{"--webhook-namespaces=Labelled"}))
	assert.Equal(t, Admission{Operator: "attune-system"}, AdmissionOf("attune-system", []string{"controller", "--eviction", "--usage-source=embedded"}))
	assert.Equal(t, Admission{Operator: "attune-system", Excluded: []string{"bank", "legacy"}, Watched: []string{"shop"}},
		AdmissionOf("attune-system", []string{"--watch-namespaces=shop", "--webhook-excluded-namespaces=bank,legacy"}))
}
