// Package autoscale answers: which requests of a workload does another
// autoscaler rely on or write? It is pure: it reads HorizontalPodAutoscalers and
// VerticalPodAutoscalers that it is given and holds no client.
package autoscale

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/workload"
	"attune.io/attune/recommender"
	"attune.io/attune/resize"
)

// Autoscalers are some of one namespace: those that may concern a workload, or all of them.
type Autoscalers struct {
	HPAs []autoscalingv2.HorizontalPodAutoscaler
	VPAs []unstructured.Unstructured
}

// Of are the holds that they put on a workload.
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

// Holds are what autoscalers keep attune from changing in one workload. The zero value holds nothing.
type Holds struct {
	// bindings in the order of the HPAs' names.
	bindings []Binding
	vpa      string
}

// On is the hold on a container's resource, or nil. That of a VPA comes first: it holds everything.
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

// Equal holds hold the same.
func (h Holds) Equal(other Holds) bool {
	return h.vpa == other.vpa && slices.Equal(h.bindings, other.bindings)
}

// VPA is the name of the VerticalPodAutoscaler that sizes the workload; empty: none.
func (h Holds) VPA() string { return h.vpa }

// Refusal says why nothing at all is applied to the workload, or is nil.
func (h Holds) Refusal() *resize.Refusal {
	if h.vpa == "" {
		return nil
	}
	return &resize.Refusal{Reason: resize.ReasonVPA, PodWide: true, Message: fmt.Sprintf(
		"VerticalPodAutoscaler %s sizes the workload too: nothing is applied until its updateMode is Off or it is gone", h.vpa)}
}

// Gate is what the gate of HPAs looks at (resize.World.HPA), for the containers of a recommendation. It
// lets pass what OOMFloor does.
func (h Holds) Gate(targets []v1alpha1.ContainerTarget, floors []v1alpha1.Floor, now time.Time) map[string]resize.Held {
	gate := map[string]resize.Held{}
	for _, t := range targets {
		var held resize.Held
		for _, b := range h.bindings {
			passes := b.Resource == recommender.Memory && OOMFloor(t, floors, now) > 0
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
