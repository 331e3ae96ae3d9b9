package workload

import (
	"context"
	"slices"

	"attune.io/attune/tuning"
)

// first decides what does not wait for the rest of a pass; false: there is no such thing now. The pass
// ends with that decision, and the next one follows at once.
//
// The order: first what is open, from the pods alone; then the autoscalers are read (up to 10 seconds);
// then answers to OOM kills. If the autoscalers cannot be listed, the rest of the pass begins nothing new,
// but kills are answered all the same.
func (c *Controller) first(ctx context.Context, w *tuning.View) (decided, bool) {
	kills := slices.ContainsFunc(w.Pods, tuning.Killed)
	if kills || len(w.Rec.Status.Records) > 0 {
		w.Part = tuning.OpenPart
		if d := c.decide(ctx, w); d.Presses(*w) {
			return d, true
		}
	}
	unlisted := observer{c}.observeAutoscalers(ctx, w)
	if kills {
		w.Part = tuning.UrgentPart
		if d := c.decide(ctx, w); len(d.Writes) > 0 {
			return d, true
		}
	}
	if unlisted != nil {
		w.Close(unlisted)
	}
	w.Part = tuning.WholePass
	return decided{}, false
}
