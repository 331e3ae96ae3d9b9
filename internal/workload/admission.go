package workload

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	labelsets "k8s.io/apimachinery/pkg/labels"

	"attune.io/attune/api/v1alpha1"
)

// Flags of the operator with inputs of Admission. The chart sets them from the values that its webhook's
// namespaceSelector comes from.
const (
	FlagExcluded   = "webhook-excluded-namespaces"
	FlagWatched    = "watch-namespaces"
	FlagNamespaces = "webhook-namespaces"
	FlagSelector   = "webhook-namespace-selector"
)

// Values of FlagNamespaces, and of the chart's webhook.namespaces.
const (
	// InLabelled namespaces have the label v1alpha1.InjectLabel with the value v1alpha1.InjectEnabled.
	InLabelled = "Labelled"
	// InAllButDisabled namespaces do not have the value v1alpha1.InjectDisabled.
	InAllButDisabled = "AllButDisabled"
)

// Admission decides in which namespaces the webhook sizes new pods. A test of the chart compares it with the
// namespaceSelector of the webhook.
type Admission struct {
	// Operator is attune's own namespace. The webhook never sizes pods there, and never in kube-system and kube-node-lease.
	Operator string
	// Excluded has the chart's webhook.excludedNamespaces.
	Excluded []string
	// Watched has the chart's watchNamespaces; empty: all namespaces.
	Watched []string
	// AllButDisabled is true if the chart's webhook.namespaces has that value: a namespace needs no label.
	AllButDisabled bool
	// Selector has the chart's webhook.namespaceSelector; nil: all namespaces.
	Selector labelsets.Selector
}

// AdmissionOf returns the Admission of an operator in a namespace that runs with these arguments.
func AdmissionOf(operator string, args []string) Admission {
	a := Admission{Operator: operator}
	for _, arg := range args {
		switch flag, value, _ := strings.Cut(arg, "="); flag {
		case "--" + FlagExcluded:
			a.Excluded = strings.Split(value, ",")
		case "--" + FlagWatched:
			a.Watched = strings.Split(value, ",")
		case "--" + FlagNamespaces:
			a.AllButDisabled = value == InAllButDisabled
		case "--" + FlagSelector:
			a.Selector, _ = labelsets.Parse(value) // the operator does not start with a selector that is none
		}
	}
	return a
}

// Reasons why new pods of a namespace are not sized.
const (
	notLabelled = "the namespace does not have the label " + v1alpha1.InjectLabel + "=" + v1alpha1.InjectEnabled
	disabled    = "the namespace has the label " + v1alpha1.InjectLabel + "=" + v1alpha1.InjectDisabled
	builtin     = "the webhook excludes kube-system, kube-node-lease and attune's own namespace"
	excluded    = "the chart's webhook.excludedNamespaces contains the namespace"
	notWatched  = "the chart's watchNamespaces does not contain the namespace"
	notSelected = "the chart's webhook.namespaceSelector does not match the namespace"
)

// NotSized returns why the webhook does not size new pods of a namespace, as a clause; empty: it sizes them. It does
// not check whether the webhook is available.
func (a Admission) NotSized(namespace string, labels map[string]string) string {
	switch of := labels[v1alpha1.InjectLabel]; {
	case a.AllButDisabled && of == v1alpha1.InjectDisabled:
		return disabled
	case !a.AllButDisabled && of != v1alpha1.InjectEnabled:
		return notLabelled
	}
	return a.Excludes(namespace, labels)
}

// Lacks reports whether the webhook would size new pods of a namespace if it had the label. A namespace with the value
// v1alpha1.InjectDisabled lacks nothing: a user decided so.
func (a Admission) Lacks(namespace string, labels map[string]string) bool {
	return a.NotSized(namespace, labels) == notLabelled && labels[v1alpha1.InjectLabel] != v1alpha1.InjectDisabled && a.Excludes(namespace, labels) == ""
}

// Excludes returns why the webhook does not size new pods of a namespace even if it has the label of attune; empty: it
// sizes them.
func (a Admission) Excludes(namespace string, labels map[string]string) string {
	switch {
	case namespace == metav1.NamespaceSystem, namespace == corev1.NamespaceNodeLease, namespace == a.Operator:
		return builtin
	case slices.Contains(a.Excluded, namespace):
		return excluded
	case len(a.Watched) > 0 && !slices.Contains(a.Watched, namespace):
		return notWatched
	case a.Selector != nil && !a.Selector.Matches(labelsets.Merge(labels, labelsets.Set{corev1.LabelMetadataName: namespace})):
		return notSelected
	}
	return ""
}
