package resize_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"k8s.io/apimachinery/pkg/types"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/recommender"
	. "attune.io/attune/resize"
)

func sharePlan(name string, from, to recommender.Amount) Plan {
	of := func(amount recommender.Amount) recommender.Size {
		return recommender.Size{recommender.CPU: {Request: amount}}
	}
	return Plan{PodUID: types.UID(name), PodName: name, Moves: []Move{{Container: "app", From: of(from), To: of(to)}}}
}

func namesOf(plans []Plan) (names []string) {
	for _, p := range plans {
		names = append(names, p.PodName)
	}
	return names
}

func TestOrderOfPlans(t *testing.T) {
	at := func(ago time.Duration) time.Time { return noon.Add(-ago) }
	urgent, restarts := sharePlan("urgent", 1, 2), sharePlan("restarts", 1, 2)
	urgent.Urgent, urgent.Restarts, restarts.Restarts = true, true, true
	plans := []Plan{sharePlan("lowering", 2, 1), sharePlan("newcomer", 1, 2), sharePlan("raise", 1, 2), sharePlan("old", 2, 1), sharePlan("older", 2, 1), urgent}
	since := map[types.UID]time.Time{"lowering": at(time.Minute), "raise": at(2 * time.Minute), "old": at(61 * time.Minute), "older": at(3 * time.Hour)}
	assert.Equal(t, []string{"urgent", "older", "raise", "old", "lowering", "newcomer"}, namesOf(Together(plans, since, 0, 50)))
	assert.Equal(t, []string{"urgent", "older"}, namesOf(Together(plans, since, 48, 50)))
	assert.Empty(t, Together(plans, since, 50, 50))
	assert.Equal(t, []string{"restarts"}, namesOf(Together([]Plan{sharePlan("a", 1, 2), restarts}, nil, 0, 50)))
	assert.Equal(t, []string{"a"}, namesOf(Together([]Plan{sharePlan("a", 1, 2), restarts}, nil, 1, 50)), "while something is open nothing restarts")
}

// Each of the 1,000 pods of a workload, such as a DaemonSet, needs an increase or a decrease in 6 of 10 reconciles.
// Each resize is open for 5 m 20 s, and 50 are open at once: every pod is resized within a day.
func TestEveryPodOfALargeWorkloadHasItsTurn(t *testing.T) {
	const pods, step, open = 1000, 80 * time.Second, 320 * time.Second
	random := rand.New(rand.NewPCG(1, 2))
	now, since := noon, map[types.UID]time.Time{}
	until, resized := map[string]time.Time{}, map[string]int{}
	for ; now.Before(noon.Add(24 * time.Hour)); now = now.Add(step) {
		var plans []Plan
		for i := range pods {
			name := fmt.Sprintf("web-%03d", i)
			if until[name].After(now) || random.IntN(10) >= 6 {
				continue
			}
			to := recommender.Amount(100 + 100*(random.IntN(2)*2-1)/2)
			plans = append(plans, sharePlan(name, 100, to))
			if _, waits := since[types.UID(name)]; !waits {
				since[types.UID(name)] = now
			}
		}
		busy := 0
		for _, end := range until {
			if end.After(now) {
				busy++
			}
		}
		for _, p := range Together(plans, since, busy, 50) {
			until[p.PodName] = now.Add(open)
			resized[p.PodName]++
			delete(since, p.PodUID)
		}
	}
	assert.Len(t, resized, pods, "nobody is left out")
	least := 1 << 30
	for _, n := range resized {
		least = min(least, n)
	}
	assert.GreaterOrEqual(t, least, 5, "nor served much less than the others")
}

// A full queue for records does not block a pod: its grant from the node is still computed.
func TestFullQueueBlocksNoPod(t *testing.T) {
	full := world(func(w *GateInput) {
		for i := range 50 {
			w.Status.Records = append(w.Status.Records, v1alpha1.ResizeRecord{PodUID: types.UID(fmt.Sprint(i)), Phase: v1alpha1.RecordWatching})
		}
	})
	pod := running(size(500, 1000, 512, 1024))
	assert.Nil(t, Blocked(pod, full))
	assert.Equal(t, ReasonRecordsFull, RecordsFull(pod, PlanOf(pod), full).Reason)
	full.Status.Records[0].PodUID = pod.UID
	assert.Equal(t, ReasonResizeUnderway, Blocked(pod, full).Reason)
}
