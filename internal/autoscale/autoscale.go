// Package autoscale finds out which requests of a workload another autoscaler writes or scales on. attune does not
// change these, or only within a range: with the setting Keep one that keeps the number of replicas, with Retarget one
// that the target of the HPA can follow. The package is pure: callers pass in the autoscalers.
//
// target.go compares the target of an autoscaler with a workload and reports whether a VPA sizes the workload (Sizes).
// horizontal.go reads which requests an HPA scales on (Bindings), keda.go which ones a ScaledObject scales on.
// stored.go adds the HPAs that went away less than a day ago. bounds.go remembers the bounds of HPAs. keep.go finds the range of requests that keep the number of
// replicas (Keep), threshold.go the one that a target can follow (Follower), and retarget.go the change of that target.
// autoscale.go recognizes the VPAs that attune writes (Ours), and combines all into Holds, for the recommender (On) and
// for the resize gates (Gate). Memory after an OOM kill is an exception (resize.OOMFloor).
//
// The package never changes an autoscaler. Start reading with Autoscalers.Of.
package autoscale

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/workload"
	"attune.io/attune/podview"
	"attune.io/attune/recommender"
	"attune.io/attune/recommender/replicas"
	"attune.io/attune/resize"
)

// Reader reads which resources of a workload autoscalers block (lookup.Autoscalers).
type Reader interface {
	// Of returns the holds of HPAs and VPAs on a workload; the zero value if there are no holds. An error means that
	// they could not be listed.
	Of(ctx context.Context, w workload.Workload) (Holds, error)
}

// Autoscalers has the autoscalers of one namespace: all of them, or at least the ones that may target the workload. The
// zero value holds nothing.
type Autoscalers struct {
	// HPAs are the HorizontalPodAutoscalers.
	HPAs []autoscalingv2.HorizontalPodAutoscaler
	// VPAs are the VerticalPodAutoscalers, unstructured (VPAKind).
	VPAs []unstructured.Unstructured
	// ScaledObjects are KEDA's ScaledObjects, unstructured (ScaledObjectKind).
	ScaledObjects []unstructured.Unstructured
	// Tolerance of HPAs that set none; 0 means replicas.DefaultTolerance.
	Tolerance float64
	// MayRetarget reports that the operator may change the targets of HPAs (flag --hpa-retarget).
	MayRetarget bool
}

// Of returns the holds of the autoscalers on a workload. The order of the result depends on names only, so equal
// autoscalers give equal holds.
func (a Autoscalers) Of(w workload.Workload) Holds {
	h := Holds{mayRetarget: a.MayRetarget, workload: w.Identity}
	for i := range a.HPAs {
		h.bindings = append(h.bindings, a.originals(&a.HPAs[i], w)...)
		if ofHPA(&a.HPAs[i]).names(w) && !fixed(&a.HPAs[i]) {
			if h.scaling == nil {
				h.scaling = map[string]replicas.Scaler{}
			}
			if through := throughOwner(&a.HPAs[i], w); through != "" {
				podview.SetIn(&h.through, a.HPAs[i].Name, through)
			}
			h.scaling[a.HPAs[i].Name] = scalerOf(&a.HPAs[i], cmp.Or(a.Tolerance, replicas.DefaultTolerance))
		}
	}
	for i := range a.ScaledObjects {
		for _, b := range ScaledObjectBindings(&a.ScaledObjects[i], w) {
			if !slices.ContainsFunc(h.bindings, b.same) {
				b.addScaledObject(&a.ScaledObjects[i], b.Percent)
				b.refused = fmt.Sprintf("ScaledObject %s has no HorizontalPodAutoscaler %s with this target", b.ScaledObject, b.HPA)
				h.bindings = append(h.bindings, b)
			}
		}
	}
	slices.SortStableFunc(h.bindings, func(a, b Binding) int { return cmp.Compare(a.HPA, b.HPA) })
	for i := range a.VPAs {
		if name := a.VPAs[i].GetName(); Sizes(&a.VPAs[i], w) && (h.vpa == "" || name < h.vpa) {
			h.vpa = name
		}
	}
	return h
}

// Holds are the resources of one workload that attune must not change because of autoscalers. The zero value holds
// nothing.
type Holds struct {
	// bindings are ordered by the names of the HPAs.
	bindings []Binding
	// vpa is the name of the VPA that sizes the workload, the first one by name; empty if there is no such VPA.
	vpa string
	// scaling are the HPAs that scale the workload and are not fixed, on whatever metric, by name, without a target.
	scaling map[string]replicas.Scaler
	// through has why it is not known which pods an HPA counts, by name.
	through map[string]string
	// bounds are those of HPAs with stored ones, by name.
	bounds knownBounds
	// kept are the requests for which a range was searched (Keep).
	kept map[request]verdict
	// workload is the one that is held.
	workload workload.Identity
	// mayRetarget is Autoscalers.MayRetarget. follower is the target that follows the requests (Follower).
	mayRetarget bool
	// tried is the follower, also if all ranges are for a target that does not change.
	follower, tried *Follower
	// waits is why requests that the follower counts do not change at present (Await); empty: they may.
	waits string
}

// On returns the hold on a resource of a container, or nil. A VPA takes precedence: it holds every resource.
func (h Holds) On(container string, r recommender.Resource) *recommender.Hold {
	if refusal := h.Refusal(); refusal != nil {
		return &recommender.Hold{Resource: r, Reason: recommender.Reason(refusal.Reason), Message: refusal.Message}
	}
	kept := h.kept[request{container, r}]
	for _, b := range h.on(request{container, r}) {
		if kept.proof == nil {
			return &recommender.Hold{Resource: r, Reason: resize.ReasonHPA, Message: b.because(kept.why) + kept.fix(r) + leftover(&h, b, kept.paired)}
		}
	}
	return nil
}

// ScaledOn returns the requests on which HPAs scale, or did within the last day.
func (h Holds) ScaledOn() (all resize.ScaledRequests) {
	for _, b := range h.bindings {
		all.Add(b.Container, b.Resource)
	}
	return all
}

// fix names what lifts the block.
func (v verdict) fix(r recommender.Resource) string {
	const fix = ". Use averageValue in the HPA"
	switch {
	case v.retarget: // why says it
		return ""
	case v.why != "" && r == recommender.CPU:
		return fix + ", or cpu.hpa: Retarget in the policy"
	case v.why != "":
		return fix
	}
	return fmt.Sprintf(fix+", or %s.hpa: Keep in the policy (not with strategy Node)", r)
}

// Equal reports whether both have the same holds for the same reasons, and the same HPAs. Ranges do not count.
func (h Holds) Equal(other Holds) bool {
	return h.vpa == other.vpa && h.mayRetarget == other.mayRetarget && slices.Equal(h.bindings, other.bindings) && maps.Equal(h.scaling, other.scaling) && maps.Equal(h.bounds, other.bounds) && maps.Equal(h.through, other.through)
}

// Retargeted reports whether attune has changed the target of an HPA of the workload.
func (h Holds) Retargeted() bool {
	return slices.ContainsFunc(h.bindings, func(b Binding) bool { return b.object.rewritten })
}

// VPA returns the name of the VerticalPodAutoscaler that sizes the workload; empty if there is no such VPA.
func (h Holds) VPA() string { return h.vpa }

// Refusal returns why attune applies nothing to the workload, or nil.
func (h Holds) Refusal() *resize.Refusal {
	if h.vpa == "" {
		return nil
	}
	return resize.Refuse(resize.ReasonVPA, "VerticalPodAutoscaler %s sizes the workload too. Set its updateMode to Off and remove its startupBoost, or delete it", h.vpa)
}

// Gate returns the holds that the HPA gate checks (resize.WorkloadInput.HPA), for the containers of a recommendation.
// Memory passes if OOMFloor allows it: such a plan does not change the request.
func (h Holds) Gate(targets []v1alpha1.ContainerTarget, floors []v1alpha1.Floor, now time.Time) map[string]resize.Held {
	gate := map[string]resize.Held{}
	for _, t := range targets {
		var held resize.Held
		for _, b := range h.bindings {
			passes := b.Resource == recommender.Memory && resize.OOMFloor(t, floors, now) > 0 && h.Kept(t.Name, b.Resource) == nil
			if !b.binds(t.Name, b.Resource) || passes {
				continue
			}
			held.By = cmp.Or(held.By, b.name())
			held.Of[b.Resource] = true
			if kept := h.Kept(t.Name, b.Resource); kept != nil {
				held.Kept[b.Resource] = &kept.Kept
			}
			if h.follower != nil && b.same(h.follower.Binding) {
				held.Waits[b.Resource] = h.waits
			}
		}
		gate[t.Name] = held
	}
	return gate
}

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

// Off reports whether the mode of a VPA is Off, so that it changes nothing but startup boosts (Boosts).
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
