package node

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"

	"attune.io/attune/internal/event"
	"attune.io/attune/podview"
	"attune.io/attune/recommender/node"
)

// sentences are the messages of events.
type sentences []string

func (s *sentences) Eventf(_, _ runtime.Object, _, _, _, note string, args ...any) {
	*s = append(*s, fmt.Sprintf(note, args...))
}

// A pod that keeps others below their bases is reported after 15 minutes, and then once an hour.
func TestHoldersAreReportedRarely(t *testing.T) {
	var h holding
	holders := []node.Holder{{Name: "shop/a", Resource: cpu, Above: 500}, {Name: "shop/b", Resource: cpu, Above: 100}}
	var told []time.Duration
	for at := time.Duration(0); at <= 3*time.Hour; at += 5 * time.Minute {
		now := holders
		if at == 10*time.Minute {
			now = nil // it was over for a moment
		}
		next, tell := h.settle(now, noon.Add(at))
		if h = next; len(tell) > 0 {
			require.Equal(t, holders[:1], tell, "the one that keeps most")
			told = append(told, at)
		}
	}
	assert.Equal(t, []time.Duration{30 * time.Minute, 90 * time.Minute, 150 * time.Minute}, told)
}

func TestHoldersAreNamed(t *testing.T) {
	look := func(edit func(*scene)) string {
		// a has 7 of 8 and is to have less; b needs 3 and has 1.
		a, b := member("a", size(7000, 64, 128)), member("b", size(1000, 64, 128))
		s := sceneOf("8", 3000, a, b)
		s.uses(a, 1000)
		edit(s)
		out := s.share(always)
		var said sentences
		c := &Controller{Events: event.NewRecorder(&said, clocktesting.NewFakePassiveClock(noon))}
		_, tell := (holding{cpu: {since: noon.Add(-heldFor)}}).settle(out.holders, noon)
		c.reportHolders(s.node, s.look(out), out, tell)
		return strings.Join(said, "; ")
	}
	assert.Empty(t, look(func(*scene) {}), "it is lowered")
	frozen := look(func(s *scene) {
		s.held = func(_ types.NamespacedName, uid types.UID) string {
			return map[types.UID]string{"a": "WorkloadPaused"}[uid]
		}
	})
	assert.Contains(t, frozen, "cpu: pods on this node have had less than their base demand for 15m0s or longer: pod shop/a keeps ")
	assert.Contains(t, frozen, "more than its share, because the pod cannot be resized now: WorkloadPaused")
	restarts := look(func(s *scene) {
		s.pods[0].Spec.Containers[0].ResizePolicy = []corev1.ContainerResizePolicy{{ResourceName: corev1.ResourceCPU, RestartPolicy: corev1.RestartContainer}}
	})
	assert.Contains(t, restarts, "because its resizePolicy restarts the container")
	least := look(func(s *scene) {
		s.recommendations["a"].Spec.Containers[0].Demand.Least = podview.ToResources(size(7000, 0, 0))
	})
	assert.Contains(t, least, "because the policy allows no less")
	unready := look(func(s *scene) { s.pods[0].Status.Conditions = nil })
	assert.Contains(t, unready, "because the pod is not ready, or restarted recently")
}
