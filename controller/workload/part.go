package workload

import (
	"context"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/resize"
)

// part is how much of a pass is decided. What is open comes first, and growth after an OOM kill before anything else
// that is new: neither waits for a source that is asked for the rest.
type part string

const (
	// wholePass: all there is.
	wholePass part = ""
	// openPart: records, floors and what else follows from the pods alone. Watches that end are judged in the whole pass.
	openPart part = "open"
	// urgentPart: the open part, and growth after OOM kills. Where autoscalers cannot be listed, what they held when the
	// targets were stored is believed.
	urgentPart part = "urgent"
)

// first decides what does not wait for the rest of a pass; false: there is no such thing now. Its pass ends with that,
// and the next one follows at once.
func (c *Controller) first(ctx context.Context, w *world) (decision, bool) {
	kills := slices.ContainsFunc(w.pods, killed)
	if kills || len(w.rec.Status.Records) > 0 {
		w.part = openPart
		if d := c.decide(ctx, w); d.presses(*w) {
			return d, true
		}
	}
	unlisted := c.observeAutoscalers(ctx, w)
	if kills {
		w.part = urgentPart
		if d := c.decide(ctx, w); len(d.writes) > 0 {
			return d, true
		}
	}
	if unlisted != nil {
		w.close(unlisted)
	}
	w.part = wholePass
	return decision{}, false
}

// presses: something is put back or completed on a pod, or a kill has taught something.
func (d *decision) presses(w world) bool {
	before := w.rec.Status
	return len(d.writes) > 0 || !equality.Semantic.DeepEqual(d.status.Floors, before.Floors) || !slices.Equal(d.status.BadSeeds, before.BadSeeds) ||
		!equality.Semantic.DeepEqual(d.status.BirthCrashes, before.BirthCrashes)
}

// leftForLater: the end of a record's watch is judged in the whole pass, by what a source measured of the pod.
func (w world) leftForLater(record v1alpha1.ResizeRecord, state resize.State) bool {
	judged := state.Kind == resize.Settled || state.Kind == resize.Watching
	return w.part != wholePass && judged && w.watchEnded(record)
}
