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

// checkpoints reads and makes those of the history; without a store there are none.
type checkpoints struct{ store Checkpoints }

// due: the stored ones of a recommendation are to be looked at again.
func (c checkpoints) due(pass pass, rec *v1alpha1.AttuneRecommendation) bool {
	return c.store != nil && targets.CheckpointDue(rec.Spec, c.store.Forgets(pass.settings.Source), pass.now)
}

// restore puts the checkpoints of a workload's history under what has been read of it. The store takes each
// once, so that this costs next to nothing later.
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

// checkpointsBytes is what the checkpoints of a workload's containers take at most: where there are many containers, each
// is coarser.
const checkpointsBytes = 12 << 10

// renewed are the checkpoints of a workload's containers: new ones where the history has changed, and those that are stored
// where there is none, until all of them is older than what is looked at.
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
