package autoscale

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/workload"
)

// attune's own VPAs (package bridge) publish its targets to other programs. A VPA is attune's own if all of these
// match: the label, the recommender, the name that belongs to the target, and a mode that attune writes. A user with
// write access to VPAs in the namespace can forge them; docs/vpa-bridge.md says what a forgery can do.
const (
	// ManagedByLabel has the value ManagedBy on attune's own VPAs.
	ManagedByLabel = "app.kubernetes.io/managed-by"
	ManagedBy      = "attune"
	// Recommender is the only name in spec.recommenders. VPA's own recommender, named "default", ignores such a VPA.
	Recommender = "attune"
	// VPAWebhook is the MutatingWebhookConfiguration of VPA's admission controller, a constant in VPA's code. Rights in
	// a namespace do not suffice to create it. Uninstalling VPA leaves it behind.
	VPAWebhook = "vpa-webhook-config"
	// VPAModeInitial sizes new pods only.
	VPAModeInitial = "Initial"
)

// VPAName returns the name of attune's own VPA for a workload: attune-<kind>-<workload>, shortened like the name of an
// AttuneRecommendation.
func VPAName(of workload.Identity) string {
	return workload.RecommendationName(v1alpha1.WorkloadKind(ManagedBy+"-"+string(of.Kind)), of.Name)
}

// Ours reports whether attune wrote a VPA. If a user set a mode that attune never writes, the user has taken the VPA
// over.
func Ours(vpa *unstructured.Unstructured) bool {
	of := ofVPA(vpa)
	written := Off(vpa) || field(vpa, "updatePolicy", "updateMode") == VPAModeInitial
	return vpa.GetLabels()[ManagedByLabel] == ManagedBy && RecommendedBy(vpa) == Recommender && written &&
		vpa.GetName() == VPAName(workload.Identity{Kind: v1alpha1.WorkloadKind(of.kind), Name: of.name})
}

// Off reports whether the mode of a VPA is Off, so that it changes nothing.
func Off(vpa *unstructured.Unstructured) bool {
	return field(vpa, "updatePolicy", "updateMode") == VPAModeOff
}

// Recommends reports whether a VPA has a recommendation for at least one container.
func Recommends(vpa *unstructured.Unstructured) bool {
	of, _, _ := unstructured.NestedFieldNoCopy(vpa.Object, "status", "recommendation", "containerRecommendations")
	list, ok := of.([]any)
	return ok && len(list) > 0
}

// RecommendedBy returns the name of a VPA's only recommender; empty if it has no recommender, several, or an unreadable
// one.
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
