package lifecycle_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/recommender"
	. "attune.io/attune/resize"
	. "attune.io/attune/resize/lifecycle"
)

func seedFor(cpu string) *v1alpha1.Seed {
	q := resource.MustParse(cpu)
	return &v1alpha1.Seed{Containers: []v1alpha1.ContainerSeed{{Name: "app", CPURequest: &q}}}
}

// A pod that has to leave is not changed; its record has the size with which its successor is created.
func TestLeavePlanNamesEveryContainer(t *testing.T) {
	for name, c := range map[string]struct {
		seed *v1alpha1.Seed
		cpu  recommender.Amount
	}{"its peak": {seedFor("2"), 2000}, "what it has": {seedFor("500m"), 500}, "no seed": {nil, 500}} {
		t.Run(name, func(t *testing.T) {
			pod := ofDeployment("web-1")
			plan := LeavePlan(pod, c.seed)
			require.Len(t, plan.Moves, 1)
			assert.True(t, plan.Elsewhere)
			assert.Equal(t, c.cpu, plan.Moves[0].To[recommender.CPU].Request)
			assert.Equal(t, c.cpu, plan.Needs(pod)[recommender.CPU], "another node has to hold that")

			record := GivenUp(NewRecord(plan, pod, noon, Rules{}))
			assert.True(t, Leaving(record))
			assert.NotNil(t, record.Prior, "the schema wants a list")
			assert.Equal(t, v1alpha1.RecordLeaving, record.Phase)
			state := Assess(pod, record, able(), noon)
			require.Equal(t, Applied, state.Kind, state.Message)

			allowed, forbidden := Rules{NodeEviction: true}, Rules{Method: v1alpha1.ResizeInPlaceOrRecreate}
			assert.Equal(t, Evict, Next(state, record, allowed, Circumstances{}, noon).Kind)
			closed := Next(state, record, forbidden, Circumstances{}, noon)
			assert.Equal(t, Forget, closed.Kind, "resizeMethod has no say in it")
			assert.Empty(t, closed.Result, "nothing was tried")
			closed = Next(state, record, allowed, Circumstances{}, noon.Add(EvictFor))
			assert.Equal(t, Forget, closed.Kind)
			assert.Empty(t, HistoryRows("web", record, closed.Result, closed.Reason, noon))

			asked := Advance(record, Action{Kind: Evict}, noon)
			assert.True(t, Leaving(asked))
			assert.Equal(t, Wait, Next(state, asked, allowed, Circumstances{}, noon.Add(time.Second)).Kind, "it is asked for again after a while")
			pod = with(pod, func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: noon} })
			gone := Next(Assess(pod, asked, able(), noon), asked, allowed, Circumstances{}, noon)
			assert.Equal(t, ResultEvicted, gone.Result)
			rows := HistoryRows("web", asked, gone.Result, gone.Reason, noon)
			require.Len(t, rows, 1)
			assert.Equal(t, "cpu", rows[0].Resource)
			assert.Equal(t, MethodEviction, rows[0].Method)
			assert.Equal(t, ReasonDoesNotFit, rows[0].Reason)
		})
	}
}

func TestWithoutLeaving(t *testing.T) {
	leaving := GivenUp(NewRecord(LeavePlan(ofDeployment("web-1"), nil), ofDeployment("web-1"), noon, Rules{}))
	other := v1alpha1.ResizeRecord{PodUID: "web-2", Phase: v1alpha1.RecordWatching}
	assert.Equal(t, []v1alpha1.ResizeRecord{other}, WithoutLeaving([]v1alpha1.ResizeRecord{leaving, other}))
	assert.False(t, Leaving(GivenUp(other)), "a node that is too small is another matter")
}

// A reason that lifts by itself does not make another pod leave instead.
func TestStaysIsForGood(t *testing.T) {
	pod := ofDeployment("web-1")
	e := evictable(t, pod)
	assert.Nil(t, Stays(pod, e))
	e.Rollout = "1 of 2 replicas are updated"
	assert.Nil(t, Stays(pod, e))
	e.Seed = nil
	assert.Nil(t, Stays(pod, e), "there may be a seed in a moment")
	e = evictable(t, pod)
	e.Replicas = 1
	assert.Equal(t, ReasonLastReplica, Stays(pod, e).Reason)
	e.Allowed = false
	assert.Equal(t, ReasonEvictionOff, Stays(pod, e).Reason)
}
