package sim

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/resize"
	"attune.io/attune/test/sim/api"
)

// lab is a scene of its own: a history is told to an invariant, which says what is wrong with it.
type lab struct {
	*scene
	time  time.Time
	wrong []string
}

var webRec = key2("shop", "deployment-web")

func newLab() *lab {
	l := &lab{time: beginning}
	l.scene = &scene{
		now:        func() time.Time { return l.time },
		workloadOf: func(string, types.NamespacedName) types.NamespacedName { return webRec },
		excused:    func() bool { return false },
		violate: func(invariant, _, format string, args ...any) {
			l.wrong = append(l.wrong, invariant+": "+fmt.Sprintf(format, args...))
		},
	}
	return l
}

func (l *lab) go_(d time.Duration) { l.time = l.time.Add(d) }

func (l *lab) write(verb, kind, body string, answer error) api.Write {
	return api.Write{At: l.time, Actor: "attune/workload", Verb: verb, Kind: kind, Key: "shop/web-1", UID: "uid-1", Body: body, Answer: answer, Changed: answer == nil}
}

// found: the invariant said so, once.
func (l *lab) found(t *testing.T, part string) {
	t.Helper()
	require.NotEmpty(t, l.wrong)
	assert.Contains(t, l.wrong[0], part)
}

func TestCalmSeesAStorm(t *testing.T) {
	l := newLab()
	c := newCalm(l.scene)
	for range 6 * 60 {
		c.wrote(l.write("update/status", "AttuneRecommendation", "", nil))
		l.go_(10 * time.Minute)
	}
	assert.Empty(t, l.wrong, "as often as may be")
	for range 24 * 60 {
		c.wrote(l.write("update/status", "AttuneRecommendation", "", nil))
		l.go_(time.Minute)
	}
	l.found(t, "calm: shop/deployment-web is written too often")
	assert.Len(t, l.wrong, 1)
}

func TestCalmPaysForResizes(t *testing.T) {
	l := newLab()
	c := newCalm(l.scene)
	for range 200 {
		c.wrote(l.write("patch/resize", "Pod", "{}", nil))
		for range 6 {
			c.wrote(l.write("update/status", "AttuneRecommendation", "", nil))
		}
	}
	assert.Empty(t, l.wrong)
}

func TestRepeatsSeesTheSamePatchAgain(t *testing.T) {
	invalid := apierrors.NewInvalid(corev1.SchemeGroupVersion.WithKind("Pod").GroupKind(), "web-1", nil)
	for name, c := range map[string]struct {
		answer error
		after  time.Duration
		wrong  bool
	}{
		"refused, at once":           {invalid, time.Second, true},
		"refused, much later":        {invalid, time.Hour, false},
		"not served, at once":        {apierrors.NewNotFound(corev1.Resource("pods"), "web-1"), time.Second, true},
		"not served, a minute later": {apierrors.NewNotFound(corev1.Resource("pods"), "web-1"), time.Minute, false},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab()
			r := newRepeats(l.scene)
			r.wrote(l.write("patch/resize", "Pod", `{"metadata":{"uid":"uid-1","resourceVersion":"7"},"spec":{}}`, c.answer))
			l.go_(c.after)
			r.wrote(l.write("patch/resize", "Pod", `{"metadata":{"uid":"uid-1","resourceVersion":"8"},"spec":{}}`, c.answer))
			assert.Equal(t, c.wrong, len(l.wrong) > 0, "%v", l.wrong)
		})
	}
}

func TestRepeatsOfConflictsCatchUpAFewTimes(t *testing.T) {
	conflict := apierrors.NewConflict(corev1.Resource("pods"), "web-1", errors.New("changed"))
	for name, c := range map[string]struct {
		versions []string
		after    time.Duration
		wrong    bool
	}{
		"for the newest version":          {[]string{"7", "8", "9", "10"}, 0, false},
		"once too often":                  {[]string{"7", "8", "9", "10", "11"}, 0, true},
		"for the same version":            {[]string{"7", "7"}, time.Second, true},
		"for no version":                  {[]string{"", ""}, time.Second, true},
		"the same, after a back-off":      {[]string{"7", "7"}, 5 * time.Second, false},
		"for ever, but after a back-off ": {[]string{"7", "8", "9", "10", "11", "12", "13"}, 5 * time.Second, false},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab()
			r := newRepeats(l.scene)
			for _, version := range c.versions {
				r.wrote(l.write("patch/resize", "Pod", `{"metadata":{"uid":"uid-1","resourceVersion":"`+version+`"},"spec":{}}`, conflict))
				l.go_(c.after)
			}
			assert.Equal(t, c.wrong, len(l.wrong) > 0, "%v", l.wrong)
		})
	}
}

func TestRepeatsOfWhatIsNotFoundBecomeRarer(t *testing.T) {
	l := newLab()
	r := newRepeats(l.scene)
	for range 3 {
		r.wrote(l.write("patch/resize", "Pod", `{"metadata":{"uid":"uid-1"},"spec":{}}`, apierrors.NewNotFound(corev1.Resource("pods"), "web-1")))
		l.go_(time.Minute)
	}
	l.found(t, "no repeats: the same resize of shop/web-1 is sent again after 1m0s")
}

func TestRepeatsOfADenialByAQuota(t *testing.T) {
	for message, wait := range map[string]time.Duration{"exceeded quota: compute": 4 * time.Second, "status unknown for quota: compute": 4 * time.Second, "no": 9 * time.Minute} {
		l := newLab()
		r := newRepeats(l.scene)
		for range 2 {
			r.wrote(l.write("patch/resize", "Pod", `{"metadata":{"uid":"uid-1"},"spec":{}}`, apierrors.NewForbidden(corev1.Resource("pods"), "web-1", errors.New(message))))
			l.go_(5 * time.Second)
		}
		if wait < 5*time.Second && len(l.wrong) > 0 {
			t.Fatal(message, l.wrong)
		} else if wait > 5*time.Second {
			l.found(t, "no repeats: the same resize of shop/web-1 is sent again after 5s")
		}
	}
}

func TestStartsSeesAContainerThatAResizeKeepsFromStarting(t *testing.T) {
	for actor, wrong := range map[string]bool{"attune/workload": true, "people": false} {
		t.Run(actor, func(t *testing.T) {
			l := newLab()
			s := newStarts(l.scene)
			w := l.write("patch/resize", "Pod", `{}`, nil)
			w.Actor = actor
			s.wrote(w)
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-1", UID: types.UID(w.UID)}}
			pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "app", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}}}}
			s.changed(api.Event{Type: watch.Modified, Object: pod})
			assert.Empty(t, l.wrong)
			pod.Status.ContainerStatuses[0].State.Waiting.Reason = "RunContainerError"
			s.changed(api.Event{Type: watch.Modified, Object: pod})
			assert.Equal(t, wrong, len(l.wrong) > 0, "%v", l.wrong)
		})
	}
}

func TestAwakeSeesALivelock(t *testing.T) {
	l := newLab()
	a := newAwake(l.scene)
	look := pass{loop: "workload", request: reconcile.Request{NamespacedName: webRec}, result: reconcile.Result{RequeueAfter: 100 * time.Millisecond}}
	for range 5990 {
		a.passed(look)
		l.go_(100 * time.Millisecond)
	}
	assert.Empty(t, l.wrong, "not yet 10 minutes")
	for range 100 {
		a.passed(look)
		l.go_(100 * time.Millisecond)
	}
	l.found(t, "decided in time: shop/deployment-web is not decided")
}

func TestAwakeIsContentWithDecisions(t *testing.T) {
	l := newLab()
	a := newAwake(l.scene)
	for range 1000 {
		a.passed(pass{loop: "workload", request: reconcile.Request{NamespacedName: webRec}, err: errors.New("conflict")})
		l.go_(time.Second)
		a.passed(pass{loop: "workload", request: reconcile.Request{NamespacedName: webRec}, result: reconcile.Result{RequeueAfter: 10 * time.Minute}})
	}
	assert.Empty(t, l.wrong)
}

func TestSpinsSeesAHotLoop(t *testing.T) {
	l := newLab()
	s := newSpins(l.scene)
	for range mostPasses {
		s.passed(pass{loop: "policy", request: reconcile.Request{NamespacedName: key2("shop", "all")}})
		l.go_(100 * time.Millisecond)
	}
	l.found(t, "no spinning: the policy loop")
}

// limited is a pod whose container runs with a memory limit, and was killed so many times.
func limited(limit string, kills int32, generation int64) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-1", UID: "uid-1", Generation: generation}}
	resources := corev1.ResourceRequirements{Limits: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse(limit)}}
	pod.Spec.Containers = []corev1.Container{{Name: "app", Resources: resources}}
	status := corev1.ContainerStatus{Name: "app", RestartCount: kills, Resources: &resources}
	if kills > 0 {
		status.LastTerminationState.Terminated = &corev1.ContainerStateTerminated{Reason: "OOMKilled", ExitCode: 137}
	}
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{status}
	return pod
}

func modified(before, after client.Object) api.Event {
	return api.Event{Type: watch.Modified, Old: before, Object: after}
}

func recommendation(change func(*v1alpha1.AttuneRecommendation)) *v1alpha1.AttuneRecommendation {
	rec := &v1alpha1.AttuneRecommendation{ObjectMeta: metav1.ObjectMeta{Namespace: webRec.Namespace, Name: webRec.Name}}
	if change != nil {
		change(rec)
	}
	return rec
}

func TestFloorsSeesAKillThatIsForgotten(t *testing.T) {
	for name, stored := range map[string]string{"nothing": "", "too little": "100Mi", "enough": "120Mi"} {
		t.Run(name, func(t *testing.T) {
			l := newLab()
			f := newFloors(l.scene)
			f.changed(api.Event{Type: watch.Added, Object: recommendation(nil)})
			f.changed(modified(limited("100Mi", 0, 1), limited("100Mi", 1, 1)))
			if stored != "" {
				f.changed(modified(recommendation(nil), recommendation(func(rec *v1alpha1.AttuneRecommendation) {
					rec.Status.Floors = []v1alpha1.Floor{{Container: "app", Resource: "memory", Amount: resource.MustParse(stored)}}
				})))
			}
			l.go_(learnsWithin + time.Second)
			f.tick()
			assert.Equal(t, name != "enough", len(l.wrong) > 0, "%v", l.wrong)
		})
	}
}

func TestHarmlessSeesTheSizeThatKilledAgain(t *testing.T) {
	l := newLab()
	h := newHarmless(l.scene)
	h.changed(modified(limited("100Mi", 0, 1), limited("100Mi", 1, 1)))
	h.changed(modified(limited("100Mi", 1, 1), limited("200Mi", 1, 2)))
	assert.Empty(t, l.wrong, "put back")
	h.changed(modified(limited("200Mi", 1, 2), limited("90Mi", 1, 3)))
	l.found(t, "harmless: container app of pod web-1 gets a memory limit")
}

func TestHarmlessSeesASeedThatKilled(t *testing.T) {
	l := newLab()
	h := newHarmless(l.scene)
	h.changed(modified(limited("100Mi", 0, 1), limited("100Mi", 1, 1)))
	seeded, err := json.Marshal(v1alpha1.Seeded{Original: []v1alpha1.ContainerResources{{Name: "app", Resources: v1alpha1.Resources{MemoryLimit: ptr(resource.MustParse("1Gi"))}}}})
	require.NoError(t, err)
	born := limited("100Mi", 0, 1)
	born.Annotations = map[string]string{v1alpha1.SeededAnnotation: string(seeded)}
	h.changed(api.Event{Type: watch.Added, Object: born})
	l.found(t, "harmless")
}

func TestHarmlessSeesAKillingSizeThatStays(t *testing.T) {
	l := newLab()
	h := newHarmless(l.scene)
	h.changed(modified(limited("100Mi", 0, 1), limited("100Mi", 1, 1)))
	kept := recommendation(func(rec *v1alpha1.AttuneRecommendation) {
		rec.Status.Verified = []v1alpha1.VerifiedResources{{Name: "app", Size: v1alpha1.Resources{MemoryLimit: ptr(resource.MustParse("100Mi"))}}}
	})
	h.changed(modified(kept, kept))
	l.go_(unkeptWithin + time.Minute)
	h.tick()
	l.found(t, "that size is kept")
}

func TestEndsSeesARecordThatStaysOpen(t *testing.T) {
	l := newLab()
	n := newEnds(l.scene)
	open := recommendation(func(rec *v1alpha1.AttuneRecommendation) {
		rec.Status.Records = []v1alpha1.ResizeRecord{{PodUID: "uid-1", PodName: "web-1", Phase: v1alpha1.RecordReverting}}
	})
	n.changed(modified(recommendation(nil), open))
	l.go_(endsWithin)
	n.tick()
	assert.Empty(t, l.wrong)
	l.go_(time.Minute)
	n.tick()
	l.found(t, "records end: the record of pod web-1, Reverting")
}

func TestUnaskedSeesEvictions(t *testing.T) {
	for _, asked := range []bool{false, true} {
		l := newLab()
		u := &unasked{scene: l.scene, asks: func(string) bool { return asked }}
		u.wrote(l.write("create/eviction", "Pod", "", nil))
		assert.Equal(t, asked, len(l.wrong) == 0)
		u.wrote(l.write("delete", "Pod", "", nil))
		assert.NotEmpty(t, l.wrong, "nobody asks for a deletion")
	}
}

func TestBoundedSeesWhatGrows(t *testing.T) {
	type table struct {
		known map[string]*struct{ at []time.Time }
	}
	grows := &table{map[string]*struct{ at []time.Time }{}}
	l := newLab()
	b := &bounded{scene: l.scene, objects: func() []client.Object { return nil }, remembers: func() []any { return []any{grows} }, there: func() int { return 3 }}
	for i := range 5000 {
		if i < 1300 {
			grows.known[fmt.Sprint(i)] = &struct{ at []time.Time }{}
		}
		b.tick()
	}
	assert.Empty(t, l.wrong)
	for i := range 1400 {
		grows.known[fmt.Sprint(i)] = &struct{ at []time.Time }{}
	}
	for range 60 {
		b.tick()
	}
	l.found(t, "bounded: the process remembers 1400 entries")
}

func TestBoundedSeesALargeObject(t *testing.T) {
	l := newLab()
	large := recommendation(func(rec *v1alpha1.AttuneRecommendation) {
		rec.Annotations = map[string]string{"a": strings.Repeat("x", mostBytes)}
	})
	b := &bounded{scene: l.scene, objects: func() []client.Object { return []client.Object{large} }, remembers: func() []any { return nil }, there: func() int { return 1 }}
	for range 60 {
		b.tick()
	}
	l.found(t, "bytes")
}

func TestAdmissionsSeesAnUnverifiedSeed(t *testing.T) {
	seeded, err := json.Marshal(v1alpha1.Seeded{Original: []v1alpha1.ContainerResources{{Name: "app", Resources: v1alpha1.Resources{CPURequest: ptr(resource.MustParse("2"))}}}})
	require.NoError(t, err)
	pod := limited("1Gi", 0, 1)
	pod.Annotations = map[string]string{v1alpha1.SeededAnnotation: string(seeded)}
	pod.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m")}
	for name, c := range map[string]struct {
		rec   v1alpha1.AttuneRecommendation
		wrong bool
	}{
		"not tried":     {v1alpha1.AttuneRecommendation{Spec: v1alpha1.AttuneRecommendationSpec{Mode: v1alpha1.UpdateAuto}}, true},
		"tried":         {v1alpha1.AttuneRecommendation{Spec: v1alpha1.AttuneRecommendationSpec{Mode: v1alpha1.UpdateAuto}, Status: v1alpha1.AttuneRecommendationStatus{Verified: []v1alpha1.VerifiedResources{{Name: "app"}}}}, false},
		"mode Initial":  {v1alpha1.AttuneRecommendation{Spec: v1alpha1.AttuneRecommendationSpec{Mode: v1alpha1.UpdateInitial}}, false},
		"strategy Node": {v1alpha1.AttuneRecommendation{Spec: v1alpha1.AttuneRecommendationSpec{Mode: v1alpha1.UpdateAuto, Strategy: v1alpha1.StrategyNode}}, false},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab()
			b := newAdmissions(l.scene)
			c.rec.Namespace, c.rec.Name = webRec.Namespace, webRec.Name
			b.changed(api.Event{Type: watch.Added, Object: &c.rec})
			b.changed(api.Event{Type: watch.Added, Object: pod})
			assert.Equal(t, c.wrong, len(l.wrong) > 0, "%v", l.wrong)
		})
	}
}

// reverts is a recommendation whose back-off counts so many.
func reverts(n int32) *v1alpha1.AttuneRecommendation {
	return recommendation(func(rec *v1alpha1.AttuneRecommendation) {
		rec.Status.Backoff = &v1alpha1.Backoff{ConsecutiveReverts: n}
	})
}

func TestOneWaveSeesPodsCountedOneByOne(t *testing.T) {
	for name, c := range map[string]struct {
		to    []int32
		apart time.Duration
		wrong bool
	}{
		"six at once":            {[]int32{6}, 0, true},
		"one after the other":    {[]int32{1, 2, 3}, time.Second, true},
		"waves with a cool-down": {[]int32{1, 2, 3}, time.Hour, false},
		"forgotten":              {[]int32{1, 0}, time.Second, false},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab()
			o := newOneWave(l.scene)
			was := reverts(0)
			for _, n := range c.to {
				l.go_(c.apart)
				o.changed(modified(was, reverts(n)))
				was = reverts(n)
			}
			assert.Equal(t, c.wrong, len(l.wrong) > 0, "%v", l.wrong)
		})
	}
}

func TestRecommendedSeesAWorkloadWithout(t *testing.T) {
	for name, c := range map[string]struct {
		tell  func(*recommended, *lab)
		wrong bool
	}{
		"never written": {func(*recommended, *lab) {}, true},
		"there":         {func(r *recommended, _ *lab) { r.changed(api.Event{Type: watch.Added, Object: recommendation(nil)}) }, false},
		"gone again": {func(r *recommended, _ *lab) {
			r.changed(api.Event{Type: watch.Added, Object: recommendation(nil)})
			r.changed(api.Event{Type: watch.Deleted, Object: recommendation(nil)})
		}, true},
		"refused": {func(r *recommended, l *lab) {
			w := l.write("create", "AttuneRecommendation", "", errors.New("denied"))
			w.Key = webRec.String()
			r.wrote(w)
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab()
			r := newRecommended(l.scene, func() []types.NamespacedName { return []types.NamespacedName{webRec} })
			c.tell(r, l)
			for range 13 {
				r.tick()
				l.go_(time.Minute)
			}
			assert.Equal(t, c.wrong, len(l.wrong) > 0, "%v", l.wrong)
		})
	}
}

// panics is a loop that does.
type panics struct{}

func (panics) Reconcile(context.Context, reconcile.Request) (reconcile.Result, error) {
	panic("index out of range")
}

func TestAPanicIsSeen(t *testing.T) {
	w := newWorld(0, roomy(time.Hour))
	_, err := w.leader.reconcile(t.Context(), "workload", panics{}, reconcile.Request{NamespacedName: webRec})
	require.ErrorContains(t, err, "index out of range")
	require.Len(t, w.violations, 1)
	assert.Contains(t, w.violations[0], "no panic: workload loop, shop/deployment-web: index out of range")
}

func TestRestSeesWritesThatNothingCauses(t *testing.T) {
	status := func(l *lab) api.Write {
		w := l.write("update/status", "AttuneRecommendation", "", nil)
		w.Key = webRec.String()
		return w
	}
	for name, c := range map[string]struct {
		every time.Duration
		cause func(*rest)
		wrong bool
	}{
		"each quarter of an hour": {15 * time.Minute, func(*rest) {}, true},
		"each half hour":          {30 * time.Minute, func(*rest) {}, false},
		"pods come": {15 * time.Minute, func(r *rest) {
			r.changed(api.Event{Type: watch.Added, Object: limited("1Gi", 0, 1)})
		}, false},
		"targets move": {15 * time.Minute, func(r *rest) {
			r.changed(modified(recommendation(nil), recommendation(func(rec *v1alpha1.AttuneRecommendation) { rec.Generation = 2 })))
		}, false},
		"pods are looked at": {15 * time.Minute, func(r *rest) { r.changed(modified(limited("1Gi", 0, 1), limited("1Gi", 0, 1))) }, true},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab()
			r := newRest(l.scene)
			for range 24 {
				c.cause(r)
				l.go_(c.every)
				r.wrote(status(l))
			}
			assert.Equal(t, c.wrong, len(l.wrong) > 0, "%v", l.wrong)
		})
	}
}

func TestReachedSeesSilence(t *testing.T) {
	pod := limited("1Gi", 0, 1)
	pod.Spec.Containers[0].Resources.Requests = amounts("1", "1Gi")
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	rec := func(target string, change func(*v1alpha1.AttuneRecommendation)) *v1alpha1.AttuneRecommendation {
		return recommendation(func(rec *v1alpha1.AttuneRecommendation) {
			rec.Spec.Mode = v1alpha1.UpdateAuto
			rec.Spec.Containers = []v1alpha1.ContainerTarget{{Name: "app", Target: v1alpha1.Resources{CPURequest: ptr(resource.MustParse(target))}}}
			rec.Status.Phase = v1alpha1.PhaseIdle
			rec.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionResizeBlocked, Status: metav1.ConditionFalse}}
			change(rec)
		})
	}
	same := func(*v1alpha1.AttuneRecommendation) {}
	for name, c := range map[string]struct {
		rec   *v1alpha1.AttuneRecommendation
		wrong bool
	}{
		"too much, in silence":   {rec("500m", same), true},
		"too little, in silence": {rec("2", same), true},
		"near":                   {rec("900m", same), false},
		"with a reason": {rec("500m", func(rec *v1alpha1.AttuneRecommendation) {
			rec.Status.Conditions[0].Status = metav1.ConditionTrue
		}), false},
		"a cool-down": {rec("500m", func(rec *v1alpha1.AttuneRecommendation) { rec.Status.Phase = v1alpha1.PhaseCooldown }), false},
		"held": {rec("500m", func(rec *v1alpha1.AttuneRecommendation) {
			rec.Spec.Containers[0].Holds = []v1alpha1.Hold{{Resource: "cpu", Reason: "HPA"}}
		}), false},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab()
			r := newReached(l.scene, func(types.NamespacedName) []*corev1.Pod { return []*corev1.Pod{pod} })
			r.changed(api.Event{Type: watch.Added, Object: c.rec})
			for range 6 * 60 {
				r.tick()
				l.go_(time.Minute)
			}
			assert.Equal(t, c.wrong, len(l.wrong) > 0, "%v", l.wrong)
		})
	}
}

func TestStarvedSeesARaiseThatWaitsForTheCooldown(t *testing.T) {
	pod := &corev1.Pod{}
	pod.Name = "web-1"
	pod.Spec.Containers = []corev1.Container{{Name: "app"}}
	pod.Spec.Containers[0].Resources.Requests = amounts("10m", "1Gi")
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	for name, c := range map[string]struct {
		needs  float64
		change func(*v1alpha1.AttuneRecommendation)
		wrong  bool
	}{
		"needs more": {0.033, func(*v1alpha1.AttuneRecommendation) {}, true},
		"needs less": {0.009, func(*v1alpha1.AttuneRecommendation) {}, false},
		"after a regression": {0.033, func(rec *v1alpha1.AttuneRecommendation) {
			rec.Status.Backoff = &v1alpha1.Backoff{ConsecutiveReverts: 1}
		}, false},
		"another reason as well": {0.033, func(rec *v1alpha1.AttuneRecommendation) {
			rec.Status.Conditions[0].Message = "1 pods: Cooldown: cooldown until noon; 1 pods: NoRoom: node-1 is full"
		}, false},
		"the target is near": {0.033, func(rec *v1alpha1.AttuneRecommendation) {
			rec.Spec.Containers[0].Target.CPURequest = ptr(resource.MustParse("11m"))
		}, false},
		"held": {0.033, func(rec *v1alpha1.AttuneRecommendation) {
			rec.Spec.Containers[0].Holds = []v1alpha1.Hold{{Resource: "cpu", Reason: "HPA"}}
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab()
			s := newStarved(l.scene, func(types.NamespacedName) []*corev1.Pod { return []*corev1.Pod{pod} },
				func(*corev1.Pod, string) float64 { return c.needs }, func() bool { return true })
			s.changed(api.Event{Type: watch.Added, Object: recommendation(func(rec *v1alpha1.AttuneRecommendation) {
				rec.Spec.Containers = []v1alpha1.ContainerTarget{{Name: "app", Target: v1alpha1.Resources{CPURequest: ptr(resource.MustParse("38m"))}}}
				rec.Status.Phase = v1alpha1.PhaseCooldown
				rec.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionResizeBlocked, Status: metav1.ConditionTrue, Reason: resize.ReasonCooldown, Message: "cooldown until noon"}}
				c.change(rec)
			})})
			for range 10 {
				s.tick()
				l.go_(time.Minute)
			}
			assert.Equal(t, c.wrong, len(l.wrong) > 0, "%v", l.wrong)
		})
	}
}

func TestRevertedSeesAKillThatIsNotAnswered(t *testing.T) {
	watched := recommendation(func(r *v1alpha1.AttuneRecommendation) {
		size := func(memory string) []v1alpha1.ContainerResources {
			return []v1alpha1.ContainerResources{{Name: "app", Resources: v1alpha1.Resources{MemoryLimit: ptr(resource.MustParse(memory))}}}
		}
		r.Status.Records = []v1alpha1.ResizeRecord{{PodUID: "uid-1", PodName: "web-1", Phase: v1alpha1.RecordWatching, Prior: size("2Gi"), Desired: size("1Gi")}}
	})
	sent := func(r *reverted, l *lab) { r.wrote(l.write("patch/resize", "Pod", "{}", nil)) }
	for name, c := range map[string]struct {
		reverts bool
		limit   string
		then    func(*reverted, *lab)
		wrong   bool
	}{
		"nothing is sent":         {true, "1Gi", func(*reverted, *lab) {}, true},
		"it is put back":          {true, "1Gi", sent, false},
		"autoRevert is off":       {false, "1Gi", func(*reverted, *lab) {}, false},
		"killed at another limit": {true, "3Gi", func(*reverted, *lab) {}, false},
		"the pod is gone":         {true, "1Gi", func(r *reverted, _ *lab) { r.changed(api.Event{Type: watch.Deleted, Object: limited("1Gi", 1, 1)}) }, false},
		"the record is closed":    {true, "1Gi", func(r *reverted, _ *lab) { r.changed(modified(watched, recommendation(nil))) }, false},
		"a resize of another pod": {true, "1Gi", func(r *reverted, l *lab) {
			w := l.write("patch/resize", "Pod", "{}", nil)
			w.Key = "shop/web-2"
			r.wrote(w)
		}, true},
		"a person resizes it by hand": {true, "1Gi", func(r *reverted, l *lab) {
			w := l.write("patch/resize", "Pod", "{}", nil)
			w.Actor = "people"
			r.wrote(w)
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab()
			r := newReverted(l.scene, func(types.NamespacedName) bool { return c.reverts })
			r.changed(api.Event{Type: watch.Added, Object: watched})
			r.changed(modified(limited(c.limit, 0, 1), limited(c.limit, 1, 1)))
			c.then(r, l)
			for range 3 {
				l.go_(time.Minute)
				r.tick()
			}
			assert.Equal(t, c.wrong, len(l.wrong) > 0, "%v", l.wrong)
		})
	}
}
