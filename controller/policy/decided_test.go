package policy

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/workload"
	"attune.io/attune/recommender"
	"attune.io/attune/tuning/targets"
	"attune.io/attune/usage"
	"attune.io/attune/usage/history"
)

// A decision is reused while its inputs do not change: the history, the objects, the settings and the time.
func TestADecisionStandsWhileNothingIsNew(t *testing.T) {
	const workloads = 20
	f := newFleet(t, workloads)
	source := newUsual(workloads)
	history := history.New(history.Options{Dial: func(usage.SourceSettings) (usage.Source, error) { return source, nil }})
	f.History = history
	taken := 0
	f.Doubt = func(_ context.Context, name string, wouldWrite bool) {
		taken++
		assert.False(t, wouldWrite, "%s: a full look would write", name)
	}
	old := (&recommender.Settings{QueryStep: 5 * time.Minute}).StaleAfter()
	passes := func(n int) int {
		for range n {
			taken = 0
			f.pass(t)
		}
		return taken
	}
	refresh := func() {
		for history.Refresh(t.Context(), f.clock.Now()) {
		}
	}
	passes(1)
	refresh()
	passes(2)
	assert.Equal(t, workloads, passes(1), "nothing is new")

	f.clock.SetTime(f.clock.Now().Add(5 * time.Minute))
	assert.Equal(t, workloads, passes(1), "nothing is known yet")
	refresh()
	assert.Zero(t, passes(1), "there is a new step")
	passes(1)
	assert.Equal(t, workloads, passes(1))

	f.deployment("app-000003", func(d *appsv1.Deployment) { d.Annotations = map[string]string{v1alpha1.SkipAnnotation: "true"} })
	assert.Equal(t, workloads-1, passes(1), "an object has changed")
	assert.Equal(t, workloads, passes(3))

	p := f.policy()
	p.Generation++
	assert.NoError(t, f.memory.Update(t.Context(), p))
	assert.Zero(t, passes(1), "the policy has")
	assert.Equal(t, workloads, passes(3))

	f.clock.SetTime(f.clock.Now().Add(targets.DecisionLifetime))
	assert.Zero(t, passes(1), "its time is over, and the data is old by now")

	refresh()
	assert.Equal(t, workloads, passes(3))
	var last time.Time
	for _, of := range f.policies.decided.All() {
		for _, made := range of.made {
			last = made.DataUntil
		}
	}
	f.clock.SetTime(last.Add(old))
	passes(2)
	f.clock.SetTime(f.clock.Now().Add(time.Second))
	assert.Zero(t, passes(1), "the data is old from now on")

	_, err := f.releaseWorkloads(t.Context(), f.policy())
	assert.NoError(t, err)
	assert.Empty(t, f.policies.decided.All(), "it is forgotten with its policy")
}

// A decision about a Rollout depends on the template of the Deployment that it refers to.
func TestADecisionEndsWithTheTemplateOfAnother(t *testing.T) {
	const workloads = 5
	f := newFleet(t, workloads)
	f.Sized = workload.Sized{Rollouts: true}
	p := f.policy()
	p.Spec.TargetRef.Kind = v1alpha1.KindRollout
	assert.NoError(t, f.memory.Update(t.Context(), p))
	for i := range workloads {
		f.memory.put(&workload.ArgoRollout{
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: fleetName(i), UID: "uid", Generation: 1},
			Spec:       workload.ArgoRolloutSpec{WorkloadRef: &workload.WorkloadRef{APIVersion: "apps/v1", Kind: "Deployment", Name: "template"}},
		})
		delete(f.memory.objects["Deployment/shop"], fleetName(i))
	}
	f.memory.put(deployment("template"))
	source := newUsual(workloads)
	history := history.New(history.Options{Dial: func(usage.SourceSettings) (usage.Source, error) { return source, nil }})
	f.History = history
	taken := 0
	f.Doubt = func(context.Context, string, bool) { taken++ }
	passes := func(n int) int {
		for range n {
			taken = 0
			f.pass(t)
		}
		return taken
	}
	passes(1)
	for history.Refresh(t.Context(), f.clock.Now()) {
	}
	assert.Equal(t, workloads, passes(3), "nothing is new")
	f.deployment("template", func(d *appsv1.Deployment) { d.Spec.Template.Spec.PriorityClassName = "system-cluster-critical" })
	assert.Zero(t, passes(1), "its template has changed")
	assert.Equal(t, workloads, passes(3))
}
