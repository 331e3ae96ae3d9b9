package policy

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/policy"
	"attune.io/attune/internal/workload"
	"attune.io/attune/podview"
	"attune.io/attune/usage"
	"attune.io/attune/usage/history"
)

func (f *fleet) change(change func(*v1alpha1.AttunePolicySpec)) {
	p := f.policy().DeepCopy()
	p.Generation++
	change(&p.Spec)
	f.memory.put(p)
}

func (f *fleet) deployment(name string, change func(*appsv1.Deployment)) {
	d := f.memory.objects["Deployment/shop"][name].DeepCopyObject().(*appsv1.Deployment)
	change(d)
	f.memory.put(client.Object(d))
}

// Two reconciles of the same state write once: no status, spec or finalizer changes with each reconcile, or in five
// minutes without measurements.
func TestSecondReconcileWritesNothing(t *testing.T) {
	worlds := map[string]func(*fleet){
		"Auto":      func(*fleet) {},
		"Observe":   func(f *fleet) { f.change(mode(v1alpha1.UpdateObserve)) },
		"Recommend": func(f *fleet) { f.change(mode(v1alpha1.UpdateRecommend)) },
		"Initial":   func(f *fleet) { f.change(mode(v1alpha1.UpdateInitial)) },
		"Node": func(f *fleet) {
			f.change(func(s *v1alpha1.AttunePolicySpec) { s.Strategy = ptr.To(v1alpha1.StrategyNode) })
		},
		"Adaptive": func(f *fleet) {
			f.change(func(s *v1alpha1.AttunePolicySpec) { s.Strategy = ptr.To(v1alpha1.StrategyAdaptive) })
		},
		"paused": func(f *fleet) { f.change(func(s *v1alpha1.AttunePolicySpec) { s.Paused = ptr.To(true) }) },
		"invalid": func(f *fleet) {
			f.change(func(s *v1alpha1.AttunePolicySpec) { s.Strategy = ptr.To(v1alpha1.Strategy("Fleet")) })
		},
		"nothing matches": func(f *fleet) { f.change(func(s *v1alpha1.AttunePolicySpec) { s.TargetRef.Name = "no" }) },
		"skipped": func(f *fleet) {
			f.deployment("app-000001", func(d *appsv1.Deployment) { d.Annotations = map[string]string{v1alpha1.SkipAnnotation: "true"} })
		},
		"undone": func(f *fleet) {
			f.deployment("app-000001", func(d *appsv1.Deployment) { d.Annotations = map[string]string{v1alpha1.UndoAnnotation: "x"} })
		},
		"another policy wins": func(f *fleet) {
			other := f.policy().DeepCopy()
			other.Name, other.UID, other.Spec.Weight = "other", "other", ptr.To(int32(900))
			other.Spec.TargetRef.Name = "app-000001"
			f.memory.put(other)
		},
		"no data yet":   func(f *fleet) { f.History = unread{newPast()} },
		"idle":          func(f *fleet) { f.History = ended{newPast(), today.Add(-8 * time.Hour)} },
		"idle for days": func(f *fleet) { f.History = ended{newPast(), today.Add(-6*24*time.Hour - 20*time.Hour)} },
		"floors": func(f *fleet) {
			f.pass(t)
			rec := f.memory.recommendations("shop")[0].DeepCopy()
			rec.Status.Floors = []v1alpha1.Floor{kill(900 * mi)}
			rec.Status.Verified = []v1alpha1.VerifiedResources{{Name: "app", Size: v1alpha1.Resources{CPURequest: ptr.To(resource.MustParse("300m"))}}}
			f.memory.put(rec)
		},
		"open records": func(f *fleet) {
			f.pass(t)
			rec := f.memory.recommendations("shop")[0].DeepCopy()
			rec.Status.Records = []v1alpha1.ResizeRecord{{PodUID: "pod", PodName: "app"}}
			f.memory.put(rec)
		},
		"refused": func(f *fleet) {
			name := "deployment-app-000000"
			server := &refusing{memory: f.memory, answer: map[string]error{name: forbidden(name, "exceeded quota")}}
			f.Controller.Client, f.Controller.Settings.Client = server, server
		},
		"a step that is coarse": func(f *fleet) {
			f.change(func(s *v1alpha1.AttunePolicySpec) {
				hour := v1alpha1.Duration{}
				hour.Duration.Duration = time.Hour
				s.MetricsSource = &v1alpha1.MetricsSource{QueryStep: &hour}
			})
		},
	}
	for name, world := range worlds {
		t.Run(name, func(t *testing.T) {
			f := newFleet(t, 3)
			world(f)
			if _, still := f.History.(*past); still {
				f.History = ended{newPast(), today}
			}
			f.memory.written()
			f.pass(t)
			require.Positive(t, f.memory.written())
			for _, later := range []time.Duration{0, 0, 5 * time.Minute} {
				f.clock.SetTime(f.clock.Now().Add(later))
				f.pass(t)
				assert.Zero(t, f.memory.written(), "%s later", later)
			}
		})
	}
}

// In the mode Observe, the progress of the data is stored and shown, and no targets.
func TestObserveShowsNoTargets(t *testing.T) {
	f := newFleet(t, 2)
	f.change(mode(v1alpha1.UpdateObserve))
	f.pass(t)
	for _, rec := range f.memory.recommendations("shop") {
		assert.False(t, podview.HasTarget(rec.Spec))
		assert.Empty(t, rec.Spec.Containers[0].Steps)
		assert.Positive(t, rec.Spec.Containers[0].DataPoints)
	}
	assert.Zero(t, f.policy().Status.Workloads.WithRecommendations)
	assert.Nil(t, f.policy().Status.Savings)
}

// A recommendation that is never applied counts neither as saved nor as recommended.
func TestOnlyWhatMayBeAppliedCounts(t *testing.T) {
	f := newFleet(t, 3)
	f.pass(t)
	all := f.policy().Status.DeepCopy()
	assert.True(t, all.Savings.MemoryRequestReduction.Sign() <= 0, "memory is not lowered without allowDecrease")
	f.deployment("app-000001", func(d *appsv1.Deployment) { d.Annotations = map[string]string{v1alpha1.SkipAnnotation: "true"} })
	f.pass(t)
	assert.EqualValues(t, 3, all.Workloads.WithRecommendations)
	assert.EqualValues(t, 3, f.policy().Status.Workloads.Discovered)
	assert.EqualValues(t, 2, f.policy().Status.Workloads.WithRecommendations)
	assert.Negative(t, f.policy().Status.Savings.CPURequestReduction.Cmp(all.Savings.CPURequestReduction))
}

func TestCoarseStepIsReported(t *testing.T) {
	r := report{settings: initialSettings(t)}
	assert.Empty(t, remarks{r}.coarse())
	r.settings.Recommender.QueryStep = time.Hour
	assert.Equal(t, "; confidence cannot exceed 0.38 with metricsSource.queryStep 1h0m0s. Set a shorter queryStep for a smaller margin", remarks{r}.coarse())
}

func TestHistoryShorterThanAWeekIsReported(t *testing.T) {
	r := report{settings: initialSettings(t)}
	r.settings.Source.HistoryWindow = 24 * time.Hour
	assert.Empty(t, remarks{r}.shortPast())
	r.settings.Strategy = v1alpha1.StrategyNode
	assert.Equal(t, "; strategy Node searches 7 days of history for bursts, but metricsSource.historyWindow is 24h0m0s: rarer bursts are missed. Set historyWindow to 168h", remarks{r}.shortPast())
	r.settings.Source.HistoryWindow = 168 * time.Hour
	assert.Empty(t, remarks{r}.shortPast())
}

// Policies of the strategy Node report containers beyond the limit of followed containers.
func TestUnfollowedContainersAreReported(t *testing.T) {
	f := newFleet(t, 1)
	f.pass(t)
	r := report{settings: initialSettings(t), policy: f.policy(), matched: matched{won: make([]workload.Workload, 1)}}
	assert.NotContains(t, readiness{r}.condition().Message, "keep their resources")
	r.usage.unfollowed = true
	assert.Contains(t, readiness{r}.condition().Message, "some containers of namespace "+r.policy.Namespace+" keep their resources")
	assert.Equal(t, metav1.ConditionTrue, readiness{r}.condition().Status)
}

// A namespace reports gaps in its own history only.
func TestFullHistoryIsReported(t *testing.T) {
	f := newFleet(t, 1)
	f.pass(t)
	r := report{settings: initialSettings(t), policy: f.policy(), usage: usageState{State: history.State{Last: usage.Report{Dropped: map[usage.Drop]int{usage.DropFull: 7}}}}}
	assert.Empty(t, remarks{r}.crowded()+remarks{r}.leftOut(), "of another namespace")
	assert.Empty(t, remarks{r}.tooMuch())
	r.usage.unanswered = fmt.Errorf("reading the past usage of Deployment web: %w", usage.ErrTooMuch)
	assert.Contains(t, remarks{r}.tooMuch(), "usage queries for namespace "+r.policy.Namespace+" are too large for the usage source, and some usage is missing: reading the past usage of Deployment web")
	r.usage.lost = 7
	assert.Contains(t, remarks{r}.crowded(), "the usage history of namespace "+r.policy.Namespace+" has gaps")
	assert.Contains(t, remarks{r}.crowded(), "Set a shorter metricsSource.historyWindow")
}

// The times of conditions are those of the loop's clock, like all other times of the status.
func TestConditionsHaveTheTimeOfTheClock(t *testing.T) {
	f := newFleet(t, 1)
	f.pass(t)
	conditions := f.policy().Status.Conditions
	require.Len(t, conditions, 4)
	for _, c := range conditions {
		assert.True(t, c.LastTransitionTime.Time.Equal(today), "%s: %s", c.Type, c.LastTransitionTime)
	}

	ready := unready(f.policy(), f.policy().Status, v1alpha1.ReasonInvalidConfig, "", now).Conditions
	assert.True(t, meta.FindStatusCondition(ready, v1alpha1.ConditionReady).LastTransitionTime.Time.Equal(now))
	assert.True(t, meta.FindStatusCondition(ready, v1alpha1.ConditionDegraded).LastTransitionTime.Time.Equal(today), "it did not change")
}

// An entry for a container that no workload has may have a misspelled name.
func TestEntriesWithoutAContainerAreReported(t *testing.T) {
	always := corev1.ContainerRestartPolicyAlways
	template := &corev1.PodTemplateSpec{Spec: corev1.PodSpec{
		Containers:     []corev1.Container{{Name: "app"}},
		InitContainers: []corev1.Container{{Name: "proxy", RestartPolicy: &always}, {Name: "migrate"}},
	}}
	for entries, want := range map[string]string{
		"app proxy *": "",
		"istio-proxy": "containerPolicies[istio-proxy]: no effect, because no pod template of the workloads has a container or sidecar of this name. Correct the name, or remove the entry",
		"migrate ap": "containerPolicies[ap]: no effect, because no pod template of the workloads has a container or sidecar of this name. Correct the name, or remove the entry; " +
			"containerPolicies[migrate]: no effect, because it is an init container that ends before the other containers start, and attune sizes none of those. Set its resources in the pod template, and remove the entry",
		"Off:istio app": "",
	} {
		p := &v1alpha1.AttunePolicy{}
		for _, name := range strings.Fields(entries) {
			entry := v1alpha1.ContainerPolicy{ContainerName: v1alpha1.ContainerName(name)}
			if off, is := strings.CutPrefix(name, "Off:"); is {
				entry.ContainerName, entry.Mode = v1alpha1.ContainerName(off), new(v1alpha1.ContainerOff)
			}
			p.Spec.ContainerPolicies = append(p.Spec.ContainerPolicies, entry)
		}
		p.Spec.TargetRef = v1alpha1.TargetRef{Kind: v1alpha1.KindDeployment}
		settings, err := policy.Resolve(nil, nil, p)
		require.NoError(t, err)
		r := report{settings: settings, policy: p, matched: matched{won: []workload.Workload{{Template: template}}}}
		assert.True(t, (want == "") == (remarks{r}.unused() == ""), entries)
		assert.Contains(t, readiness{r}.condition().Message, want)
		r.matched.won = append(r.matched.won, workload.Workload{})
		assert.Empty(t, remarks{r}.unused(), "a template that is not known may have it")
	}
}
