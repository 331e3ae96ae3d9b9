package policy

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/trim"
	"attune.io/attune/recommender"
)

// A pass reads the cache's own objects and changes none of them: it writes copies.
func TestAPassLeavesTheCacheAsItIs(t *testing.T) {
	f := newFleet(t, 30)
	f.pass(t)
	require.Len(t, f.memory.recommendations("shop"), 30)
	cached, before := map[string]client.Object{}, map[string]client.Object{}
	for shelf, objects := range f.memory.objects {
		for name, o := range objects {
			cached[shelf+name], before[shelf+name] = o, o.DeepCopyObject().(client.Object)
		}
	}
	for i := range 10 {
		delete(f.memory.objects["Deployment/shop"], fmt.Sprintf("app-%06d", i))
	}
	f.clock.SetTime(f.clock.Now().Add(13 * time.Hour))
	f.memory.written()
	f.pass(t)

	assert.Equal(t, 30, f.memory.writes["patch AttuneRecommendation"], "20 renewed, 10 released")
	for name := range cached {
		assert.Equal(t, before[name], cached[name], name)
	}
	released := f.memory.recommendations("shop")[:10]
	for _, rec := range released {
		assert.Equal(t, "PolicyNoLongerMatches", rec.Spec.SeedBlocked)
		assert.Empty(t, rec.Spec.Containers)
	}
	f.memory.written()
	f.pass(t)
	assert.Zero(t, f.memory.written(), "what is released stays so")
}

func TestThePolicysHistoryIsTheNewestOfAll(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6))
	var r report
	var all []v1alpha1.HistoryEntry
	for i := range 40 {
		var rec v1alpha1.AttuneRecommendation
		for j := range random.IntN(20) {
			at := metav1.Time{Time: today.Add(time.Duration(random.IntN(30)) * time.Minute)}
			rec.Status.History = append(rec.Status.History, v1alpha1.HistoryEntry{Timestamp: at, Workload: fmt.Sprint(i), Pod: fmt.Sprint(j)})
		}
		r.recommendations = append(r.recommendations, rec)
		all = append(all, rec.Status.History...)
	}
	slices.SortStableFunc(all, func(a, b v1alpha1.HistoryEntry) int { return b.Timestamp.Compare(a.Timestamp.Time) })
	assert.Equal(t, all[:maxHistory], r.history())
	assert.Empty(t, report{}.history())
}

func TestSavingsAreThoseOfEachWorkloadsReplicas(t *testing.T) {
	f := newFleet(t, 2)
	f.pass(t)
	p := f.memory.objects["AttunePolicy/shop"]["all"].(*v1alpha1.AttunePolicy)
	var want recommender.Amount
	for _, rec := range f.memory.recommendations("shop") {
		want += 3 * (500 - recommender.Amount(rec.Spec.Containers[0].Target.CPURequest.MilliValue()))
	}
	require.NotNil(t, p.Status.Savings)
	assert.EqualValues(t, want, p.Status.Savings.CPURequestReduction.MilliValue())
	assert.Equal(t, "500m", p.Status.Recommendations[0].Containers[0].Current.CPURequest.String())
}

// The cache stores no steps. Recommendations are written with them, and other writes do not remove them.
func TestTracesAreWrittenAndNotRemoved(t *testing.T) {
	f := newFleet(t, 1)
	f.pass(t)
	stored := f.memory.recommendations("shop")[0]
	require.NotEmpty(t, stored.Spec.Containers[0].Steps)
	cached, err := trim.Object(stored.DeepCopy())
	require.NoError(t, err)
	f.memory.put(cached.(client.Object))
	f.memory.written()
	f.pass(t)
	assert.Zero(t, f.memory.written(), "they are no news")

	change := func(history History, generation int64) map[string]any {
		f.memory.put(cached.(client.Object))
		f.memory.patches, f.History = nil, history
		f.memory.objects["AttunePolicy/shop"]["all"].SetGeneration(generation)
		f.pass(t)
		require.Len(t, f.memory.patches, 1)
		var patch struct{ Spec map[string]any }
		require.NoError(t, json.Unmarshal(f.memory.patches[0], &patch))
		return patch.Spec
	}
	renewed := change(newPast(), 2)
	require.Contains(t, renewed, "containers")
	assert.NotEmpty(t, renewed["containers"].([]any)[0].(map[string]any)["steps"])
	carried := change(unread{newPast()}, 3)
	assert.Contains(t, carried, "policy", "it is of another generation")
	assert.NotContains(t, carried, "containers")
}
