package autoscale

import (
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/podview"
	"attune.io/attune/recommender"
)

// blockedFor is how long an HPA that is gone, or whose minReplicas and maxReplicas became equal, still blocks. Most come
// back: KEDA deletes or fixes the HPA of a paused ScaledObject, and tools that deploy delete and create. An HPA that
// comes back to smaller requests sees a higher utilization, and starts more replicas at once.
const blockedFor = 24 * time.Hour

// WithStored adds the stored bindings of HPAs that are gone or fixed for less than blockedFor. Not added are those of an
// HPA that still scales the workload on other metrics: a user changed the metrics on purpose.
func (h Holds) WithStored(stored []v1alpha1.HPABinding, now time.Time) Holds {
	h.bindings, h.bounds = slices.Clone(h.bindings), knownBounds{}
	for _, s := range stored {
		h.bounds.recall(s, h.scaling, now)
		r, ok := resourceOf(s.Resource)
		b := Binding{HPA: s.HPA, Container: s.Container, Resource: r, Percent: s.Percent, Original: s.OriginalPercent, Gone: now.UTC().Truncate(time.Second)}
		if s.Gone != nil && s.Gone.Time.Before(b.Gone) { // a time ahead is of a clock that was wrong
			b.Gone = s.Gone.UTC().Truncate(time.Second)
		}
		b.object.note.Request = int64(podview.FromPointer(recommender.CPU, s.OriginalRequest))
		h.recall(b)
		// A binding to the same request is enough, also of another HPA: one may have been renamed.
		covered := func(o Binding) bool { return o.Gone.IsZero() && o.Container == b.Container && o.Resource == b.Resource }
		_, scales := h.scaling[b.HPA]
		if ok && now.Before(b.Gone.Add(blockedFor)) && !scales && !slices.ContainsFunc(h.bindings, covered) {
			h.bindings = append(h.bindings, b)
		}
	}
	return h
}

// recall adds the original target of a stored binding if only the annotation was removed, and the target that attune wrote
// stayed.
func (h Holds) recall(stored Binding) {
	for i := range h.bindings {
		if b := &h.bindings[i]; b.same(stored) && !b.object.rewritten && stored.Original > 0 && b.object.live > 0 && b.object.live == stored.Percent {
			b.Original, b.object.rewritten, b.object.noteLost = stored.Original, true, true
			b.object.note = Rewritten{b.metric(), stored.Original, stored.Percent, stored.object.note.Request}
		}
	}
}

// Stored returns the bindings to store for the next WithStored: at most v1alpha1.MaxHPABindings, those that still scale
// first. For unchanged autoscalers the result is equal in every reconcile.
func (h Holds) Stored() (out []v1alpha1.HPABinding) {
	for _, b := range h.bindings {
		if len(out) == v1alpha1.MaxHPABindings {
			break
		}
		s := v1alpha1.HPABinding{HPA: b.HPA, Container: b.Container, Resource: b.Resource.String(), Percent: b.Percent}
		// Until KEDA copies a target that a user changed, the two differ although attune has changed neither.
		if b.Original != b.Percent && (b.object.rewritten && !b.object.renewed || !b.Gone.IsZero()) {
			s.OriginalPercent, s.OriginalRequest = b.Original, podview.ToPointer(recommender.CPU, recommender.Amount(b.object.note.Request))
		}
		if !b.Gone.IsZero() {
			s.Gone = &metav1.Time{Time: b.Gone}
		}
		h.bounds.store(&s, h.scaling, searched(h.kept, b))
		out = append(out, s)
	}
	return out
}

// same reports whether both are bindings of one HPA to one request.
func (b Binding) same(o Binding) bool {
	return b.HPA == o.HPA && b.Container == o.Container && b.Resource == o.Resource
}
