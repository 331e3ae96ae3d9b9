package policy

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"attune.io/attune/internal/workload"
	"attune.io/attune/usage/history"
)

// full are histories that take as much as they may.
type full struct{ History }

func (full) Checkpoint(_ history.Key, most int, _ []byte) []byte { return make([]byte, most) }

// With many containers, the history of each is stored more coarsely, and all of them have one.
func TestCheckpointsOfManyContainersAreCoarse(t *testing.T) {
	for n, most := range map[int]int{1: 2048, 6: 2048, 12: 1024, 48: 256} {
		w := workload.Workload{Template: &corev1.PodTemplateSpec{}}
		for i := range n {
			w.Template.Spec.Containers = append(w.Template.Spec.Containers, corev1.Container{Name: fmt.Sprint("container-", i)})
		}
		checkpoints := reader{history: full{}}.renewed(pass{settings: initialSettings(t), now: now}, w, nil)
		require.Len(t, checkpoints, n)
		for _, checkpoint := range checkpoints {
			assert.Len(t, checkpoint.Data, most)
		}
	}
}
