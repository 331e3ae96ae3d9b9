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
	"attune.io/attune/tuning/targets"
	"attune.io/attune/usage/history"
)

// checkpoints reads and makes the checkpoints of the history, which are stored in the spec of each
// recommendation. They let an operator that restarts know the past of a source that does not keep it.
// store nil: there are none.
type checkpoints struct{ store Checkpoints }

// due reports that the stored checkpoints of a recommendation have to be compared with the history again.
func (c checkpoints) due(pass pass, rec *v1alpha1.AttuneRecommendation) bool {
	return c.store != nil && targets.CheckpointDue(rec.Spec, c.store.Forgets(pass.settings.Source), pass.now)
}

// restore puts the checkpoints of a workload under what has been read of its history. The store takes each
// once, so that later calls cost almost nothing. A checkpoint that cannot be used is logged and skipped: a
// damaged one must not stop the recommendation.
func (c checkpoints) restore(ctx context.Context, pass pass, rec *v1alpha1.AttuneRecommendation, w workload.Workload) {
	if c.store == nil {
		return
	}
	for _, checkpoint := range rec.Spec.Checkpoints {
		if err := c.store.Restore(pass.key(w, checkpoint.Name), checkpoint.Data, pass.now); err != nil {
			log.FromContext(ctx).Error(err, "history is not restored", "recommendation", rec.Name)
		}
	}
}

// checkpointsBytes is how many bytes the checkpoints of one workload take at most. With many containers
// each is coarser, so that the object stays small.
const checkpointsBytes = 12 << 10

// renewed returns the checkpoints to be stored: new ones where the history has changed, the stored ones
// where there is no newer one, until all of their data is older than the history window.
func (c checkpoints) renewed(pass pass, w workload.Workload, stored []v1alpha1.Checkpoint) []v1alpha1.Checkpoint {
	if c.store == nil {
		return stored
	}
	var out []v1alpha1.Checkpoint
	containers := targets.Sized(w.Template, pass.settings)
	most := min(history.MaxCheckpoint, checkpointsBytes/max(1, len(containers)))
	for _, container := range containers {
		i := slices.IndexFunc(stored, func(s v1alpha1.Checkpoint) bool { return s.Name == container.Name })
		var kept []byte
		if i >= 0 {
			kept = stored[i].Data
		}
		data := c.store.Checkpoint(pass.key(w, container.Name), most, kept)
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
