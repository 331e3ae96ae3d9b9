package policy

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/clip"
	"attune.io/attune/podview"
)

// An AttuneClusterPolicy acts as one AttunePolicy in each namespace that it selects: its instance there (Instance).
// Instances exist only in memory. Matching, settings and recommendations treat them like any AttunePolicy.

// MostClusterPolicies is the number of AttuneClusterPolicies that attune uses. attune evaluates each one after every
// change in each namespace that it selects.
const MostClusterPolicies = 16

// instances is the name prefix of each instance. Object names have no slash, so no AttunePolicy has such a name.
const instances = string(v1alpha1.PolicyKindCluster) + "/"

// excluded are the namespaces that a cluster policy selects only by name, in addition to the operator's namespace.
var excluded = []string{metav1.NamespaceSystem, metav1.NamespacePublic, corev1.NamespaceNodeLease}

// InstanceName is the name of a cluster policy's instances. Messages use it for the cluster policy too.
func InstanceName(clusterPolicy string) string { return instances + clusterPolicy }

// ClusterName returns the cluster policy from the name of an instance; false for the name of an AttunePolicy.
func ClusterName(name string) (clusterPolicy string, ok bool) {
	return strings.CutPrefix(name, instances)
}

// OfCluster reports whether a policy is the instance of a cluster policy.
func OfCluster(p *v1alpha1.AttunePolicy) bool { return strings.HasPrefix(p.Name, instances) }

// RefOf returns the reference to a policy in a recommendation.
func RefOf(p *v1alpha1.AttunePolicy) v1alpha1.PolicyRef {
	ref := v1alpha1.PolicyRef{Name: p.Name, UID: p.UID, Generation: p.Generation}
	if name, ok := ClusterName(p.Name); ok {
		ref.Kind, ref.Name = v1alpha1.PolicyKindCluster, name
	}
	return ref
}

// RecommendationsByPolicy is the index of recommendations by the NameOf of their policy.
const RecommendationsByPolicy = "attune.policy"

// NameOf returns the name of the policy of a recommendation; for a cluster policy, the name of its instance.
func NameOf(ref v1alpha1.PolicyRef) string {
	if ref.Kind == v1alpha1.PolicyKindCluster {
		return InstanceName(ref.Name)
	}
	return ref.Name
}

// Instance returns the instance of a cluster policy in a namespace. If the namespace is not selected, or the cluster
// policy is not used, the instance has a deletion timestamp: in-flight resizes finish with its settings, and no resize
// starts. The instance shares its settings with the cluster policy, which must not change.
func Instance(of *v1alpha1.AttuneClusterPolicy, namespace string, selected bool) *v1alpha1.AttunePolicy {
	p := &v1alpha1.AttunePolicy{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: InstanceName(of.Name), UID: of.UID, Generation: of.Generation,
			CreationTimestamp: of.CreationTimestamp, DeletionTimestamp: of.DeletionTimestamp,
		},
		Spec: v1alpha1.AttunePolicySpec{PolicySettings: of.Spec.PolicySettings, Weight: of.Spec.Weight},
	}
	if target := of.Spec.TargetRef; target != nil {
		p.Spec.TargetRef = v1alpha1.TargetRef{Kind: target.Kind, Selector: target.Selector}
	}
	if !selected && p.DeletionTimestamp == nil {
		p.DeletionTimestamp = &p.CreationTimestamp
	}
	return p
}

// AsPolicy returns a cluster policy with its status, for reports about policies. It has no namespace.
func AsPolicy(of *v1alpha1.AttuneClusterPolicy) *v1alpha1.AttunePolicy {
	p := Instance(of, "", true)
	p.Status = v1alpha1.AttunePolicyStatus{
		ObservedGeneration: of.Status.ObservedGeneration, Mode: of.Status.Mode, Conditions: of.Status.Conditions,
		Workloads: of.Status.Workloads, Savings: of.Status.Savings,
	}
	return p
}

// LevelOf returns the level of a policy's own settings.
func LevelOf(p *v1alpha1.AttunePolicy) Level {
	if name, ok := ClusterName(p.Name); ok {
		return Level(v1alpha1.PolicyKindCluster) + " " + Level(name)
	}
	return Policy
}

// ofCluster reports whether the level is an AttuneClusterPolicy.
func (l Level) ofCluster() bool {
	return strings.HasPrefix(string(l), string(v1alpha1.PolicyKindCluster)+" ")
}

// OfPolicy reports whether the level is an AttunePolicy or an AttuneClusterPolicy, the highest level.
func (l Level) OfPolicy() bool { return l.base() == Policy || l.ofCluster() }

// Scope has the namespaces that a cluster policy selects. The zero value selects no namespace.
type Scope struct {
	// names is nil if all namespaces other than the excluded ones take part.
	names    []v1alpha1.NamespaceName
	selector labels.Selector
	// operator is the operator's namespace.
	operator string
}

// ScopeOf reads the scope of a cluster policy. operator is the operator's namespace. An error is one sentence about an
// invalid selector; the scope is then empty.
func ScopeOf(of *v1alpha1.AttuneClusterPolicy, operator string) (Scope, error) {
	selector, err := selectorOf("namespaceSelector", of.Spec.NamespaceSelector, "select every namespace", "{stage: production}")
	if err != nil {
		return Scope{}, err
	}
	return Scope{names: of.Spec.Namespaces, selector: selector, operator: operator}, nil
}

// Selects reports whether a namespace is in the scope. It must be in the list of names; without a list it must not be
// excluded. The selector must match its labels. A namespace whose labels the cache dropped can be selected only without
// a label selector.
func (s Scope) Selects(namespace string, of map[string]string) bool {
	switch {
	case s.selector == nil:
		return false
	case s.names != nil && !slices.Contains(s.names, v1alpha1.NamespaceName(namespace)):
		return false
	case s.names == nil && (namespace == s.operator || slices.Contains(excluded, namespace)):
		return false
	case s.selector.Empty():
		return true
	}
	_, left := of[clip.LabelsLeftOut]
	return !left && s.selector.Matches(labels.Set(of))
}

// UsedClusterPolicies sorts cluster policies and returns the oldest, which are used, and the ones beyond the limit. A
// policy that is being deleted does not count. UsedClusterPolicies sorts the given slice, and both results share its
// array.
func UsedClusterPolicies(policies []v1alpha1.AttuneClusterPolicy) (used, beyond []v1alpha1.AttuneClusterPolicy) {
	return oldest(policies, MostClusterPolicies, func(p *v1alpha1.AttuneClusterPolicy) *metav1.ObjectMeta { return &p.ObjectMeta })
}

// TooManyClusterPolicies is the message of a cluster policy beyond the limit.
func TooManyClusterPolicies() string {
	return fmt.Sprintf("the cluster has more than %d AttuneClusterPolicies: attune uses the oldest and ignores this one. "+
		"Delete some of them, or select more namespaces with one of them", MostClusterPolicies)
}

// Spared says which pods a cluster policy never lowers: no user of their namespace has asked for it.
type Spared string

const (
	// SpareNone is the value for an AttunePolicy.
	SpareNone Spared = ""
	// SpareCritical spares pods that Kubernetes itself depends on.
	SpareCritical Spared = "critical"
	// SpareAll spares all pods: the namespace is the operator's own.
	SpareAll Spared = "all"
)

// spared returns which pods of a policy are spared.
func spared(p *v1alpha1.AttunePolicy, operator string) Spared {
	switch {
	case p == nil || !OfCluster(p):
		return SpareNone
	case operator != "" && p.Namespace == operator:
		return SpareAll
	}
	return SpareCritical
}

// Spares reports whether these settings never lower a pod, or the pods of a template.
func (s Spared) Spares(spec *corev1.PodSpec) bool {
	if s != SpareCritical {
		return s == SpareAll
	}
	return podview.Critical(spec.PriorityClassName, spec.Priority)
}
