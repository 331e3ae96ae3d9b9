package autoscale

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/workload"
)

// VPAs of the operator's own (package bridge) say for other programs how large attune makes pods. All of these signs
// together tell them from other ones: the label, the recommender, the name that belongs to the target, and a mode that
// is written. They can be forged by who may write VPAs in the namespace; what that gains is in docs/vpa-bridge.md.
const (
	// ManagedByLabel of a VPA of the operator's own has the value ManagedBy.
	ManagedByLabel = "app.kubernetes.io/managed-by"
	ManagedBy      = "attune"
	// Recommender is the one name in spec.recommenders: VPA's own recommender, whose name is "default", leaves it alone.
	Recommender = "attune"
	// VPAWebhook is the MutatingWebhookConfiguration by which VPA's admission controller registers itself, a constant of its
	// code. Whoever has rights in namespaces alone cannot make one. It stays behind when VPA is uninstalled.
	VPAWebhook = "vpa-webhook-config"
	// VPAModeInitial sizes new pods only.
	VPAModeInitial = "Initial"
)

// VPAName returns the name of the operator's own VPA of a workload: attune-<kind>-<workload>, cut as the name of an
// AttuneRecommendation is.
func VPAName(of workload.Identity) string {
	return workload.RecommendationName(v1alpha1.WorkloadKind(ManagedBy+"-"+string(of.Kind)), of.Name)
}

// Ours reports whether a VPA is one of the operator's own. One in a mode that the operator never writes was taken over
// by who set the mode.
func Ours(vpa *unstructured.Unstructured) bool {
	of := ofVPA(vpa)
	written := Off(vpa) || field(vpa, "updatePolicy", "updateMode") == VPAModeInitial
	return vpa.GetLabels()[ManagedByLabel] == ManagedBy && RecommendedBy(vpa) == Recommender && written &&
		vpa.GetName() == VPAName(workload.Identity{Kind: v1alpha1.WorkloadKind(of.kind), Name: of.name})
}

// Off reports whether a VPA changes nothing by its mode.
func Off(vpa *unstructured.Unstructured) bool {
	return field(vpa, "updatePolicy", "updateMode") == VPAModeOff
}

// Recommends reports whether a VPA has a recommendation for a container.
func Recommends(vpa *unstructured.Unstructured) bool {
	of, _, _ := unstructured.NestedFieldNoCopy(vpa.Object, "status", "recommendation", "containerRecommendations")
	list, ok := of.([]any)
	return ok && len(list) > 0
}

// RecommendedBy returns the name of a VPA's only recommender; empty where it has none, several, or an unreadable one.
func RecommendedBy(vpa *unstructured.Unstructured) string {
	recommenders, _, _ := unstructured.NestedFieldNoCopy(vpa.Object, "spec", "recommenders")
	list, ok := recommenders.([]any)
	if !ok || len(list) != 1 {
		return ""
	}
	only, _ := list[0].(map[string]any)
	name, _ := only["name"].(string)
	return name
}
