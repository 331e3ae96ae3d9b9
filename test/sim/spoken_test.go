package sim

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/bridge"
	"attune.io/attune/internal/answers"
	"attune.io/attune/internal/policy"
	"attune.io/attune/internal/workload"
	"attune.io/attune/recommender"
	"attune.io/attune/test/sim/api"
	"attune.io/attune/webhook/pod"
)

// webWords are true words of a Deployment: one pod of 500m and 1Gi whose template says 1 and 1Gi, with the target 300m and
// 512Mi; memory is held. New pods get 400m, and CPU alone.
func webWords(t *testing.T, change func(*v1alpha1.AttuneRecommendation)) words {
	t.Helper()
	template := corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "app"}}}}
	template.Spec.Containers[0].Resources.Requests = amounts("1", "1Gi")
	running := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-1", UID: "uid-1"}, Spec: *template.Spec.DeepCopy(), Status: corev1.PodStatus{Phase: corev1.PodRunning}}
	running.Spec.Containers[0].Resources.Requests = amounts("500m", "1Gi")
	rec := recommendation(func(r *v1alpha1.AttuneRecommendation) {
		r.Spec.Workload = v1alpha1.WorkloadRef{Kind: v1alpha1.KindDeployment, Name: "web"}
		r.Spec.Mode = v1alpha1.UpdateAuto
		r.Spec.Containers = []v1alpha1.ContainerTarget{{
			Name: "app", Confidence: "1", Target: v1alpha1.Resources{CPURequest: ptr(resource.MustParse("300m")), MemoryRequest: ptr(resource.MustParse("512Mi"))},
			Holds: []v1alpha1.Hold{{Resource: "memory", Reason: "AllowDecrease"}},
		}}
		r.Spec.Seed = &v1alpha1.Seed{Revision: "1", ValidUntil: metav1.NewTime(beginning.Add(time.Hour)), Containers: []v1alpha1.ContainerSeed{{Name: "app", CPURequest: ptr(resource.MustParse("400m"))}}}
		if change != nil {
			change(r)
		}
	})
	settings, err := policy.Resolve(nil, nil, nil)
	require.NoError(t, err)
	of := words{rec: rec, stored: rec, view: answers.View{
		Recommendation: rec, Settings: &settings, Pods: []*corev1.Pod{running},
		Workload: workload.Workload{Identity: workload.IdentityOf(rec), Replicas: 1, Template: &template},
	}}
	for _, to := range []*answers.Explanation{&of.page, &of.program} {
		*to, err = answers.Explain(of.view, nil, beginning)
		require.NoError(t, err)
	}
	of.vpa, _ = bridge.Of(rec, bridge.View{Template: &template, Seeded: true, Now: beginning})
	of.next.comes = &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop"}, Spec: template.Spec}
	of.next.created = of.next.comes.DeepCopy()
	born, err := pod.PredictSeed(&template, pod.Read(rec), nil, beginning)
	require.NoError(t, err)
	for _, b := range born {
		of.next.created.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = *resource.NewMilliQuantity(int64(b.Requests[recommender.CPU]), resource.DecimalSI)
	}
	return of
}

// speak these words, at a moment at which they are looked at.
func speak(l *lab, of words, change func(*spoken)) {
	s := newSpoken(l.scene, func() []words { return []words{of} })
	s.sized["uid-1"] = true
	if change != nil {
		change(s)
	}
	for range spokenEvery {
		s.tick()
	}
}

func TestSpokenSeesFalseMessages(t *testing.T) {
	counting := func(wrong answers.SavedAmounts, of func(answers.View) bool) func(*words, *spoken) {
		return func(_ *words, s *spoken) {
			s.compute = func(v answers.View) answers.SavingsFigures {
				figures := v.Compute()
				if of(v) {
					figures.Available = figures.Available.Plus(wrong)
				}
				return figures
			}
		}
	}
	one := answers.SavedAmounts{1, 1}
	always := func(answers.View) bool { return true }
	gone := func(_ *words, s *spoken) {
		s.changed(api.Event{Type: watch.Deleted, Object: &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}}})
	}
	for name, c := range map[string]struct {
		rec   func(*v1alpha1.AttuneRecommendation)
		spoil func(*words, *spoken)
		says  string
	}{
		"all is so":           {nil, func(*words, *spoken) {}, ""},
		"it is not told":      {nil, func(of *words, _ *spoken) { of.failed = "panic" }, "told: what is told of shop/deployment-web cannot be computed: panic"},
		"the page lies":       {nil, func(of *words, _ *spoken) { of.page.Containers[0].Target.CPURequest = ptr("301m") }, "explained: shop/deployment-web: container app has the target 300m, and 301m is shown"},
		"the program lies":    {nil, func(of *words, _ *spoken) { of.program.Containers[0].Target.MemoryRequest = nil }, "explained: shop/deployment-web: container app has the target 512Mi, and 0 is shown"},
		"they differ":         {nil, func(of *words, _ *spoken) { of.program.Containers[0].DataPoints = 7 }, "explained: shop/deployment-web: the page says of container app what the program does not"},
		"a container less":    {nil, func(of *words, _ *spoken) { of.page.Containers = nil }, "explained: shop/deployment-web: not all containers are explained"},
		"the cache is behind": {nil, func(of *words, _ *spoken) { of.stored, of.program = nil, answers.Explanation{} }, ""},

		"other metrics": {nil, func(_ *words, s *spoken) {
			s.compute = func(v answers.View) (f answers.SavingsFigures) { f.Available = v.Compute().Available; return f }
		}, "saved: shop/deployment-web: the metrics have other savings"},
		"what is held is counted": {nil, counting(one, func(v answers.View) bool {
			return v.Recommendation.Spec.Containers[0].Target.MemoryRequest.Cmp(resource.MustParse("512Mi")) == 0
		}), "saved: shop/deployment-web: what is held would save something"},
		"a paused workload is counted": {func(r *v1alpha1.AttuneRecommendation) { r.Status.Paused = &v1alpha1.PausedState{Reason: "test"} }, counting(one, always), "the whole workload is blocked, and would save something"},
		"a skipped workload is counted": {nil, func(of *words, s *spoken) {
			of.view.Workload.Annotations = map[string]string{v1alpha1.SkipAnnotation: "true"}
			counting(one, always)(of, s)
		}, "the workload is left alone or gone, and saves something"},
		"a workload that is gone is counted": {nil, func(of *words, s *spoken) {
			of.view.Workload = workload.Workload{}
			counting(one, always)(of, s)
		}, "the workload is left alone or gone, and saves something"},
		"a skipped pod is counted": {nil, func(of *words, s *spoken) {
			of.view.Pods[0].Annotations = map[string]string{v1alpha1.SkipAnnotation: "true"}
			counting(one, always)(of, s)
		}, "pod web-1 is left alone, and saves something"},
		"never resized": {nil, func(_ *words, s *spoken) { clear(s.sized) }, "pod web-1 was never resized, and has saved CPU 500m, memory 0"},
		"pods do not add up": {nil, func(of *words, s *spoken) {
			s.compute = func(v answers.View) answers.SavingsFigures {
				figures := v.Compute()
				if v.Workload.Replicas == 0 {
					figures.Saved = answers.SavedAmounts{}
				}
				return figures
			}
		}, "the pods have saved other amounts than their workload"},

		"below its bounds": {nil, func(of *words, _ *spoken) { of.said().LowerBound[corev1.ResourceCPU] = resource.MustParse("500m") }, "published: shop/deployment-web: the cpu of container app is 400m, not within 500m and 400m"},
		"above its bounds": {nil, func(of *words, _ *spoken) { of.said().UpperBound[corev1.ResourceCPU] = resource.MustParse("350m") }, "not within 300m and 350m"},
		"gone":             {nil, gone, ""},
		"gone for long":    {nil, func(of *words, s *spoken) { gone(of, s); goOn(s, unpublishedWithin+time.Minute) }, "published: shop/deployment-web: its workload is gone since"},
		"it is back": {nil, func(of *words, s *spoken) {
			gone(of, s)
			s.changed(api.Event{Type: watch.Added, Object: &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}}})
			goOn(s, unpublishedWithin+time.Minute)
		}, ""},

		"another seed":               {nil, func(of *words, _ *spoken) { of.bears("350m") }, "predicted: shop/deployment-web: the next pod's cpu of container app is said to be 400m, the webhook would give 350m in place of 1"},
		"no room in the quota":       {nil, func(of *words, _ *spoken) { of.bears("1"); of.next.quota = true }, ""},
		"another than the quota has": {nil, func(of *words, _ *spoken) { of.bears("350m"); of.next.quota = true }, "predicted"},
		"a boost that is not said":   {nil, func(of *words, _ *spoken) { of.bears("800m") }, "said to be 400m, the webhook would give 800m"},
		"a boost": {nil, func(of *words, _ *spoken) {
			of.bears("800m")
			of.vpa.Spec.ResourcePolicy.ContainerPolicies[0].StartupBoost = &bridge.StartupBoost{CPU: bridge.Boost{Type: "Quantity", Quantity: "400m"}}
		}, ""},
		"nothing is said":     {nil, func(of *words, _ *spoken) { of.vpa.Spec.UpdatePolicy.UpdateMode = "Off" }, "of the next pod's cpu of container app nothing is said, the webhook would give 400m in place of 1"},
		"a generation unseen": {nil, func(of *words, _ *spoken) { of.bears("1"); of.next.unseen = true }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab()
			of := webWords(t, c.rec)
			speak(l, of, func(s *spoken) { c.spoil(&of, s); s.words = func() []words { return []words{of} } })
			if c.says == "" {
				assert.Empty(t, l.wrong)
				return
			}
			l.found(t, c.says)
		})
	}
}

// goOn makes the time of what looks at words later.
func goOn(s *spoken, d time.Duration) {
	was := s.now
	s.now = func() time.Time { return was().Add(d) }
}

func (of *words) said() *bridge.ContainerRecommendation {
	return &of.vpa.Status.Recommendation.ContainerRecommendations[0]
}

func (of *words) bears(cpu string) {
	of.next.created.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = resource.MustParse(cpu)
}

func TestSpokenKnowsWhoseSizesWereChanged(t *testing.T) {
	before, after := limited("1Gi", 0, 1), limited("2Gi", 0, 2)
	seeded := limited("1Gi", 0, 1)
	seeded.Annotations = map[string]string{v1alpha1.SeededAnnotation: "{}"}
	for name, c := range map[string]struct {
		events []api.Event
		sized  bool
	}{
		"as it was made":    {[]api.Event{{Type: watch.Added, Object: before}}, false},
		"seeded":            {[]api.Event{{Type: watch.Added, Object: seeded}}, true},
		"resized":           {[]api.Event{modified(before, after)}, true},
		"changed else":      {[]api.Event{modified(before, limited("1Gi", 1, 2))}, false},
		"resized, and gone": {[]api.Event{modified(before, after), {Type: watch.Deleted, Object: after}}, true},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSpoken(newLab().scene, nil)
			for _, e := range c.events {
				s.changed(e)
			}
			assert.Equal(t, c.sized, s.sized["uid-1"])
		})
	}
}

func TestSumsThatDoNotAgreeAreSeen(t *testing.T) {
	settings := policy.Settings{Pricing: policy.Pricing{CPUPerCoreHour: 0.03, Currency: "$"}}
	entry := func(namespace string, cpu recommender.Amount) answers.SavingsEntry {
		rec := &v1alpha1.AttuneRecommendation{ObjectMeta: metav1.ObjectMeta{Namespace: namespace}}
		return answers.SavingsEntry{View: answers.View{Recommendation: rec, Settings: &settings}, Figures: answers.SavingsFigures{
			Saved: answers.SavedAmounts{cpu, -3}, Available: answers.SavedAmounts{1, cpu}, NotCounted: []answers.NotCounted{{Reason: answers.ReasonSkipped}, {Container: "app", Reason: "NoData"}},
		}}
	}
	entries := []answers.SavingsEntry{entry("shop", 1500), entry("shop", 3), entry("bank", 77)}
	assert.Empty(t, summed(entries))
	of := answers.NewSavingsReport(entries, true)
	parts := []answers.SavingsSum{of.Namespaces[0].SavingsSum, of.Namespaces[1].SavingsSum}
	require.Empty(t, addUp(of.Total, parts))
	for name, spoil := range map[string]func(*answers.SavingsSum){
		"saved CPU":         func(s *answers.SavingsSum) { s.Saved.CPU = "2" },
		"available memory":  func(s *answers.SavingsSum) { s.Available.Memory = "1Ki" },
		"saved $":           func(s *answers.SavingsSum) { s.Saved.Monthly[0].Amount = "34.62" },
		"workloads":         func(s *answers.SavingsSum) { s.Workloads++ },
		"skipped":           func(s *answers.SavingsSum) { s.NotCounted.SkippedWorkloads = 0 },
		"blocked resources": func(s *answers.SavingsSum) { s.NotCounted.BlockedResources++ },
	} {
		total := answers.NewSavingsReport(entries, true).Total
		spoil(&total)
		assert.Contains(t, addUp(total, parts), name+" of all is")
	}
}

func TestWordsThatPanicAreSeen(t *testing.T) {
	of := spokenOf(recommendation(nil), func(*words) error { panic("index out of range") })
	assert.Contains(t, of.failed, "panic: index out of range")
	of = spokenOf(recommendation(nil), func(*words) error { return errors.New("of another version") })
	assert.Equal(t, "of another version", of.failed)
}

// What is told is looked at in a world of each kind of words, so that none of the invariants holds for want of words.
func TestWordsAreSpoken(t *testing.T) {
	t.Parallel()
	w := play(t, 3, drawn(3))
	for _, what := range []string{"explained", "explained twice", "saving", "would save", "left out", "published", "next pod", "predicted"} {
		assert.Positive(t, w.watching.spoken[what], what)
	}
}
