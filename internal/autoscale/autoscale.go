// Package autoscale finds out which requests of a workload another autoscaler relies on or writes, so that attune
// does not change these. It is pure: it reads HorizontalPodAutoscalers and VerticalPodAutoscalers that it is
// given, and holds no client.
//
// target.go compares the target of an autoscaler with a workload, and reads whether a VPA sizes the workload (Sizes);
// ours.go knows the VPAs that the operator itself writes (Ours).
// horizontal.go reads on which requests an HPA scales (Bindings). autoscale.go combines both into Holds,
// which the recommender (On) and the gates of resizes (Gate) ask. resize.OOMFloor is the one exception: memory
// after an OOM kill. The package never changes an autoscaler. Start reading with Autoscalers.Of.
package autoscale

import (
	"cmp"
	"context"
	"slices"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/workload"
	"attune.io/attune/recommender"
	"attune.io/attune/resize"
)

// Reader finds out what autoscalers hold of a workload (lookup.Autoscalers).
type Reader interface {
	// Of returns the holds of HPAs and VPAs on a workload; the zero value: none. An error means that they could not be
	// listed.
	Of(ctx context.Context, w workload.Workload) (Holds, error)
}

// Autoscalers are those of one namespace: all of them, or at least those that may concern the workload. The zero
// value holds nothing.
type Autoscalers struct {
	// HPAs are the HorizontalPodAutoscalers.
	HPAs []autoscalingv2.HorizontalPodAutoscaler
	// VPAs are the VerticalPodAutoscalers, without Go types (VPAKind).
	VPAs []unstructured.Unstructured
}

// Of returns what the autoscalers hold of a workload. The order of the result depends on names only, so that equal
// autoscalers give equal holds.
func (a Autoscalers) Of(w workload.Workload) Holds {
	var h Holds
	for i := range a.HPAs {
		h.bindings = append(h.bindings, Bindings(&a.HPAs[i], w)...)
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
	// vpa is the name of the VPA that sizes the workload, the first one by name; empty: none.
	vpa string
}

// On returns the hold on a resource of a container, or nil. A VPA comes first, since it holds everything.
func (h Holds) On(container string, r recommender.Resource) *recommender.Hold {
	if refusal := h.Refusal(); refusal != nil {
		return &recommender.Hold{Resource: r, Reason: recommender.Reason(refusal.Reason), Message: refusal.Message}
	}
	for _, b := range h.bindings {
		if b.binds(container, r) {
			return &recommender.Hold{Resource: r, Reason: resize.ReasonHPA, Message: b.String()}
		}
	}
	return nil
}

// Equal reports whether both hold the same, for the same reasons.
func (h Holds) Equal(other Holds) bool {
	return h.vpa == other.vpa && slices.Equal(h.bindings, other.bindings)
}

// VPA returns the name of the VerticalPodAutoscaler that sizes the workload; empty: none.
func (h Holds) VPA() string { return h.vpa }

// Refusal returns why nothing at all is applied to the workload, or nil.
func (h Holds) Refusal() *resize.Refusal {
	if h.vpa == "" {
		return nil
	}
	return resize.Refuse(resize.ReasonVPA, "VerticalPodAutoscaler %s sizes the workload too: nothing is applied until its updateMode is Off or it is gone", h.vpa)
}

// Gate returns what the gate of HPAs checks (resize.WorkloadInput.HPA), for the containers of a recommendation. Memory
// passes where OOMFloor allows it: what is planned then leaves the request as it is.
func (h Holds) Gate(targets []v1alpha1.ContainerTarget, floors []v1alpha1.Floor, now time.Time) map[string]resize.Held {
	gate := map[string]resize.Held{}
	for _, t := range targets {
		var held resize.Held
		for _, b := range h.bindings {
			passes := b.Resource == recommender.Memory && resize.OOMFloor(t, floors, now) > 0
			if !b.binds(t.Name, b.Resource) || passes {
				continue
			}
			held.By = cmp.Or(held.By, b.HPA)
			held.Of[b.Resource] = true
		}
		gate[t.Name] = held
	}
	return gate
}
