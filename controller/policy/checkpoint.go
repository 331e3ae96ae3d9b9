package policy

import (
	"bytes"
	"context"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/workload"
	"attune.io/attune/usage/history"
)

// resume puts the checkpoints of a workload's history under what has been read of it. The store takes each
// once, so that this costs next to nothing later.
func (c *Controller) resume(ctx context.Context, pass pass, rec *v1alpha1.AttuneRecommendation, w workload.Workload) {
	if c.Checkpoints == nil {
		return
	}
	for _, checkpoint := range rec.Spec.Checkpoints {
		if err := c.Checkpoints.Restore(pass.key(w, checkpoint.Name), checkpoint.Data, pass.now); err != nil {
			log.FromContext(ctx).Error(err, "history is not restored", "recommendation", rec.Name)
		}
	}
}

func (p pass) key(w workload.Workload, container string) history.Key {
	return history.Key{Source: p.source, Namespace: w.Namespace, Kind: w.Kind, Workload: w.Name, Container: container}
}

// checkpointsBytes is what the checkpoints of a workload's containers take at most: where there are many containers, each
// is coarser.
const checkpointsBytes = 12 << 10

// checkpoints of a workload's containers: new ones where the history has changed, and those that are stored
// where there is none, until all of them is older than what is looked at.
func (c *Controller) checkpoints(pass pass, w workload.Workload, stored []v1alpha1.Checkpoint) []v1alpha1.Checkpoint {
	if c.Checkpoints == nil {
		return stored
	}
	var out []v1alpha1.Checkpoint
	containers := sized(w.Template, pass.settings)
	most := min(history.MaxCheckpoint, checkpointsBytes/max(1, len(containers)))
	for _, container := range containers {
		i := slices.IndexFunc(stored, func(s v1alpha1.Checkpoint) bool { return s.Name == container.Name })
		var kept []byte
		if i >= 0 {
			kept = stored[i].Data
		}
		data := c.Checkpoints.Checkpoint(pass.key(w, container.Name), most, kept)
		switch {
		case data != nil && (i < 0 || !bytes.Equal(data, stored[i].Data)):
			at := metav1.Time{Time: pass.now.UTC().Truncate(time.Second)}
			out = append(out, v1alpha1.Checkpoint{Name: container.Name, At: at, Data: data})
		case i >= 0 && (data != nil || stored[i].At.After(pass.now.Add(-pass.settings.Source.HistoryWindow))):
			out = append(out, stored[i])
		}
	}
	return out
}

// checkpointDue: there is none of a container that has been measured although one is needed, and it was not looked for
// within the hour; or it is older than one whose recommendation is renewed can be: its newest sample stands still, while
// more of the past may have been read.
func (c *Controller) checkpointDue(pass pass, rec *v1alpha1.AttuneRecommendation) bool {
	if c.Checkpoints == nil {
		return false
	}
	if c.Checkpoints.Forgets(pass.settings.Source) && lacksCheckpoint(rec.Spec, pass.now.Add(-renewEvery)) {
		return true
	}
	old := pass.now.Add(-2 * renewEvery)
	return slices.ContainsFunc(rec.Spec.Checkpoints, func(c v1alpha1.Checkpoint) bool { return c.At.Time.Before(old) })
}

// lacksCheckpoint: a container has been measured and has none, and no other one's is newer than a time.
func lacksCheckpoint(spec v1alpha1.AttuneRecommendationSpec, since time.Time) bool {
	lacks := false
	for _, container := range spec.Containers {
		i := slices.IndexFunc(spec.Checkpoints, func(c v1alpha1.Checkpoint) bool { return c.Name == container.Name })
		if i >= 0 && spec.Checkpoints[i].At.After(since) {
			return false
		}
		lacks = lacks || i < 0 && container.DataPoints > 0
	}
	return lacks
}

func sameCheckpoints(a, b []v1alpha1.Checkpoint) bool {
	return slices.EqualFunc(a, b, func(a, b v1alpha1.Checkpoint) bool { return a.Name == b.Name && bytes.Equal(a.Data, b.Data) })
}
