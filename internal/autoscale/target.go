package autoscale

import (
	"slices"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"attune.io/attune/internal/workload"
)

// target is the object that an autoscaler scales or sizes.
type target struct{ apiVersion, kind, name string }

// key is equal for all targets that may be the same object. An index uses it; names then compares exactly.
func (t target) key() string { return t.kind + "/" + t.name }

// TargetKey returns the index key of a HorizontalPodAutoscaler, VerticalPodAutoscaler or ScaledObject; empty for other
// objects.
func TargetKey(o runtime.Object) string {
	switch o := o.(type) {
	case *autoscalingv2.HorizontalPodAutoscaler:
		return ofHPA(o).key()
	case *unstructured.Unstructured:
		if o.GetKind() == ScaledObjectKind.Kind {
			return ofScaledObject(o).key()
		}
		return ofVPA(o).key()
	}
	return ""
}

// TargetKeys returns the index keys of autoscalers that may target the workload.
func TargetKeys(w workload.Workload) []string {
	keys := []string{target{kind: workload.GroupKindOf(w.Kind).Kind, name: w.Name}.key()}
	if w.OwnedBy.Name != "" {
		keys = append(keys, target{kind: w.OwnedBy.Kind, name: w.OwnedBy.Name}.key())
	}
	return keys
}

func ofHPA(hpa *autoscalingv2.HorizontalPodAutoscaler) target {
	of := hpa.Spec.ScaleTargetRef
	return target{of.APIVersion, of.Kind, of.Name}
}

func ofVPA(vpa *unstructured.Unstructured) target {
	return target{field(vpa, "targetRef", "apiVersion"), field(vpa, "targetRef", "kind"), field(vpa, "targetRef", "name")}
}

// names reports whether the target is the workload, or the custom object that owns the workload: its scale is then the
// scale of the workload.
func (t target) names(w workload.Workload) bool {
	return t.is(workload.GroupKindOf(w.Kind), w.Name) ||
		w.OwnedBy.Name != "" && t.is(w.OwnedBy.GroupKind, w.OwnedBy.Name)
}

// is compares group, kind and name, without the version. An empty apiVersion and the former group of Deployments
// (extensions) match too: not every autoscaler checks the group, and an unnecessary hold is harmless.
func (t target) is(kind schema.GroupKind, name string) bool {
	const formerGroup = "extensions"
	if t.kind != kind.Kind || t.name != name {
		return false
	}
	group := schema.FromAPIVersionAndKind(t.apiVersion, t.kind).Group
	return t.apiVersion == "" || group == kind.Group || group == formerGroup
}

// VPAKind is the kind of VerticalPodAutoscalers. They are unstructured, because not every cluster has the CRD.
var VPAKind = schema.GroupVersionKind{Group: "autoscaling.k8s.io", Version: "v1", Kind: "VerticalPodAutoscaler"}

// VPAModeOff is the only mode in which a VPA changes nothing, unless it boosts (Boosts).
const VPAModeOff = "Off"

// Sizes reports whether a VPA sizes the workload: it targets the workload, and its mode is not Off, or it boosts. A VPA
// without a mode changes pods; an unreadable mode counts as not set. attune's own VPAs do not count.
func Sizes(vpa *unstructured.Unstructured, w workload.Workload) bool {
	return ofVPA(vpa).names(w) && (!Off(vpa) || Boosts(vpa)) && !Ours(vpa)
}

// Boosts reports whether a VPA has a CPU startup boost, for its pods or for a container. VPA boosts in any mode: its
// webhook raises new pods, and its updater resizes them in place when they are ready (kubernetes/autoscaler#8175).
func Boosts(vpa *unstructured.Unstructured) bool {
	boost := func(of map[string]any, path ...string) bool {
		_, found, err := unstructured.NestedFieldNoCopy(of, append(path, "startupBoost", "cpu")...)
		return found && err == nil
	}
	list, _, _ := unstructured.NestedFieldNoCopy(vpa.Object, "spec", "resourcePolicy", "containerPolicies")
	policies, _ := list.([]any)
	return boost(vpa.Object, "spec") || slices.ContainsFunc(policies, func(of any) bool {
		policy, _ := of.(map[string]any)
		return boost(policy)
	})
}

// field returns a string below spec; empty if it is not set or has another type.
func field(vpa *unstructured.Unstructured, path ...string) string {
	value, _, _ := unstructured.NestedString(vpa.Object, append([]string{"spec"}, path...)...)
	return value
}
