package workload

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/podview"
	"attune.io/attune/recommender"
	"attune.io/attune/tuning"
)

// This loop's own writes wake no pass; any other change of a recommendation does.
func TestOwnWritesWakeNoPass(t *testing.T) {
	l := newLab(t, heading(seen(t, small), sizeOf(250, 0, 512, 0)).Rec, deploymentOf(small, 1), running("web-1", small))
	before := l.rec()
	l.pass()
	after := l.rec()
	passes := recommendationChanged(&l.c.memory.stored).Update
	update := func(edit func(*v1alpha1.AttuneRecommendation)) event.UpdateEvent {
		edited := after.DeepCopy()
		edit(edited)
		return event.UpdateEvent{ObjectOld: before, ObjectNew: edited}
	}
	assert.NotEqual(t, before.Status, after.Status)
	assert.False(t, passes(update(func(*v1alpha1.AttuneRecommendation) {})), "its own write")
	assert.False(t, passes(update(func(r *v1alpha1.AttuneRecommendation) { r.Finalizers = nil; r.Labels = map[string]string{"a": "b"} })), "nothing that it reads")
	for name, edit := range map[string]func(*v1alpha1.AttuneRecommendation){
		"a target":                     func(r *v1alpha1.AttuneRecommendation) { r.Generation++ },
		"a deletion":                   func(r *v1alpha1.AttuneRecommendation) { r.DeletionTimestamp = &metav1.Time{Time: now} },
		"another one of the same name": func(r *v1alpha1.AttuneRecommendation) { r.UID = "another" },
		"a status of another writer":   func(r *v1alpha1.AttuneRecommendation) { r.Status.Floors = []v1alpha1.Floor{{Container: "app"}} },
	} {
		assert.True(t, passes(update(edit)), name)
	}
	assert.True(t, recommendationChanged(&l.c.memory.stored).Create(event.CreateEvent{Object: after}))
}

// No decision is based on a cache that does not show this loop's last write yet, unless it never does.
func TestACacheBehindItsOwnWriteIsWaitedFor(t *testing.T) {
	l := newLab(t, heading(seen(t, small), sizeOf(250, 0, 512, 0)).Rec, deploymentOf(small, 1), running("web-1", small))
	l.pass()
	l.c.memory.stored.Change(l.key, func(w wrote) wrote { return wrote4(w, "999999") })
	assert.Equal(t, echoEvery, l.pass().RequeueAfter)
	l.clock.Step(echoFor)
	assert.NotEqual(t, echoEvery, l.pass().RequeueAfter)
}

func wrote4(w wrote, version string) wrote { w.version = version; return w }

// After a conflict, the write is sent again once the cache shows the newer version, and after a minute whatever it
// shows.
func TestAConflictWaitsForTheCache(t *testing.T) {
	var x stored
	rec := &v1alpha1.AttuneRecommendation{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "deployment-web", ResourceVersion: "41"}}
	newest := rec.DeepCopy()
	newest.ResourceVersion = "44"
	x.reached(newest, refusedFor, now)
	assert.Equal(t, echoEvery, x.behind(rec, now))
	assert.Equal(t, 10*time.Second, x.behind(rec, now.Add(40*time.Second)))
	assert.Zero(t, x.behind(rec, now.Add(refusedFor)), "a watch that is behind for longer")
	assert.Zero(t, x.behind(newest, now.Add(time.Second)), "the cache shows it")
	x.reached(newest, echoFor, now.Add(time.Second))
	assert.Zero(t, x.behind(rec, now.Add(time.Second).Add(echoFor)), "an own write is waited for for a shorter time")
}

// The writes of a workload whose status would change with each pass become rarer; a revert does not wait for that.
func TestPassesThatWriteKeepADistance(t *testing.T) {
	var x pace
	at, waits := now, []time.Duration{}
	for range 9 {
		x.wrote(named("web"), v1alpha1.PhaseIdle, at)
		left := x.waitBeforeWrite(named("web"), 0, at)
		waits, at = append(waits, left), at.Add(left)
		assert.Zero(t, x.waitBeforeWrite(named("web"), 0, at))
	}
	assert.Equal(t, []time.Duration{1e9, 2e9, 4e9, 8e9, 16e9, 32e9, 60e9, 60e9, 60e9}, waits)
	x.wrote(named("web"), v1alpha1.PhaseResizing, at)
	assert.Equal(t, time.Second, x.waitBeforeWrite(named("web"), 0, at), "another phase")
	assert.Zero(t, x.waitBeforeWrite(named("db"), 0, at), "another workload")
	x.wrote(named("web"), v1alpha1.PhaseResizing, at.Add(2*paceLast))
	assert.Equal(t, time.Second, x.waitBeforeWrite(named("web"), 0, at.Add(2*paceLast)), "it was calm for a while")

	l := hurt(t)
	l.c.memory.pace.wrote(l.key, v1alpha1.PhaseReverting, l.clock.Now())
	l.pass()
	assert.Equal(t, 1, l.patches, "a revert does not wait")
}

// However fast a status would change, it is written only a few times a minute.
func TestAStatusThatNeverRestsIsWrittenRarely(t *testing.T) {
	l := newLab(t, seen(t, small).Rec, deploymentOf(small, 1), running("web-0", small))
	end := l.clock.Now().Add(2 * time.Minute)
	for i := 0; l.clock.Now().Before(end); i++ {
		change(l, "web-0", &corev1.Pod{}, func(p *corev1.Pod) {
			p.Labels["pod-template-hash"] = fmt.Sprint(i)
		})
		l.pass()
		l.clock.Step(time.Second)
	}
	assert.LessOrEqual(t, l.status, 6+2)
}

// Many workloads that start at once take turns; responses to regressions take no turn.
func TestResizesBeginAtALimitedRate(t *testing.T) {
	var x limit
	at, sent := now, 0
	for range 10 { // workloads with 50 pods each
		for wait := x.take(50, at); wait > 0; wait = x.take(50, at) {
			at = at.Add(wait)
		}
		sent += 50
		assert.LessOrEqual(t, float64(sent), mostAtOnce+50+newPerSecond*at.Sub(now).Seconds())
	}
	assert.LessOrEqual(t, at.Sub(now), 15*time.Second)
	assert.Zero(t, x.take(0, at), "nothing needs nothing")

	// Thousands of workloads that find no token come back one after the other, not all at once.
	var many limit
	many.take(mostAtOnce, now)
	soonest := map[time.Duration]int{}
	for range 5000 {
		wait := many.take(1, now)
		assert.GreaterOrEqual(t, wait, leastWait)
		soonest[wait.Truncate(time.Second)]++
	}
	for second, n := range soonest {
		assert.LessOrEqual(t, n, 2*newPerSecond, "in second %s", second)
	}

	to := sizeOf(250, 0, 512, 0)
	l := newLab(t, heading(seen(t, small), to).Rec, deploymentOf(small, 1), running("web-1", small))
	l.c.memory.limit.take(mostAtOnce+newPerSecond, l.clock.Now())
	wait := l.pass().RequeueAfter
	assert.Zero(t, l.patches)
	assert.InDelta(t, time.Second, wait, float64(50*time.Millisecond))
	assert.Empty(t, blocked(tuning.Decision{Status: withBlocked(l.rec().Status)}), "that is no reason worth telling")
	l.clock.Step(wait)
	l.pass()
	assert.Equal(t, 1, l.patches)

	h := hurt(t)
	h.c.memory.limit.take(1000, h.clock.Now())
	h.pass()
	assert.Equal(t, 1, h.patches, "a revert takes no turn")
}

// withBlocked adds the condition that does not exist before a first pass.
func withBlocked(status v1alpha1.AttuneRecommendationStatus) v1alpha1.AttuneRecommendationStatus {
	status.Conditions = append(status.Conditions, metav1.Condition{Type: v1alpha1.ConditionResizeBlocked, Status: metav1.ConditionFalse})
	return status
}

func TestPodsInTroubleGoFirst(t *testing.T) {
	pending := func(reason string) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: corev1.PodResizePending, Status: corev1.ConditionTrue, Reason: reason})
		}
	}
	for name, tc := range map[string]struct {
		edit    func(*corev1.Pod)
		trouble bool
	}{
		"killed":                  {func(p *corev1.Pod) { endedBefore(p, "OOMKilled", 1, time.Second) }, true},
		"restarted":               {func(p *corev1.Pod) { endedBefore(p, "Error", 1, time.Second) }, true},
		"not ready":               {func(p *corev1.Pod) { p.Status.Conditions[0].Status = corev1.ConditionFalse }, true},
		"the node cannot":         {pending(corev1.PodReasonInfeasible), true},
		"the resize is under way": {pending(""), false},
		"resized":                 {func(p *corev1.Pod) { p.Generation++ }, false},
	} {
		before := running("web-1", small)
		after := before.DeepCopy()
		tc.edit(after)
		assert.Equal(t, tc.trouble, podInTrouble(before, after), name)
		assert.False(t, podInTrouble(after, after), name)
	}
}

// Decided again at the same moment, without a change, a decision writes nothing and has the same status.
func TestADecisionIsAFixedPoint(t *testing.T) {
	worlds := map[string]func(t *testing.T) tuning.View{
		"nothing to do": func(t *testing.T) tuning.View { return heading(seen(t, small, podsAt(3, small)...), small) },
		"lowering": func(t *testing.T) tuning.View {
			return eager(heading(seen(t, small, podsAt(3, small)...), sizeOf(250, 0, 256, 0)))
		},
		"growing": func(t *testing.T) tuning.View { return eager(heading(seen(t, small, podsAt(60, small)...), big)) },
		"a limit in two": func(t *testing.T) tuning.View {
			return eager(heading(seen(t, small, podsAt(2, sizeOf(500, 0, 512, 1024))...), sizeOf(250, 0, 256, 512)))
		},
		"killed": func(t *testing.T) tuning.View {
			return heading(seen(t, small, endedBefore(running("web-1", sizeOf(500, 0, 512, 512)), "OOMKilled", 1, time.Minute)), sizeOf(500, 0, 700, 700))
		},
		"gone": func(t *testing.T) tuning.View { w := seen(t, small); w.Workload = nil; return w },
		"an undo": func(t *testing.T) tuning.View {
			w := eager(seen(t, small, podsAt(3, sizeOf(250, 0, 256, 0))...))
			w.Rec.Status.Originals = []v1alpha1.Originals{{TemplateHash: "abc", Containers: []v1alpha1.ContainerResources{{Name: "app", Resources: podview.ToResources(small)}}}}
			w.Workload.Annotations[v1alpha1.UndoAnnotation] = now.Format(time.RFC3339)
			return w
		},
	}
	for harm, suffer := range harms {
		worlds[string(harm)] = func(t *testing.T) tuning.View { w := judged(t); suffer(&w); return w }
	}
	for _, phase := range []v1alpha1.RecordPhase{
		v1alpha1.RecordWritten, v1alpha1.RecordApplied, v1alpha1.RecordWatching, v1alpha1.RecordReverting, v1alpha1.RecordWithdrawing, v1alpha1.RecordEvicting,
	} {
		for name, has := range map[string]recommender.Size{"as desired": sizeOf(300, 0, 512, 0), "as before": sizeOf(500, 0, 512, 0), "as another wants": sizeOf(800, 0, 512, 0)} {
			worlds[fmt.Sprintf("%s, %s", phase, name)] = func(t *testing.T) tuning.View { return resized(t, phase, has) }
		}
	}
	for name, build := range worlds {
		t.Run(name, func(t *testing.T) {
			w := build(t)
			if len(w.Rec.Status.Records) > 0 { // the originals are stored before anything is resized
				before := v1alpha1.ContainerResources{Name: "app", Resources: w.Rec.Status.Records[0].Prior[0].Resources}
				w.Rec.Status.Originals = []v1alpha1.Originals{{TemplateHash: "abc", Containers: []v1alpha1.ContainerResources{before}}}
			}
			r := &reader{pods: map[string][]corev1.Pod{}, live: map[string]*corev1.Pod{}}
			for _, pod := range w.Pods {
				r.live[pod.Name], r.pods["node-1"] = pod, append(r.pods["node-1"], *pod)
			}
			c := &Controller{Client: r.client(), Live: r.client()}
			first := c.decide(t.Context(), &w)
			w.Rec = w.Rec.DeepCopy()
			w.Rec.Status = first.Status
			w.Past.AskedAt = map[types.UID]time.Time{}
			for _, sent := range first.Writes {
				w.Past.AskedAt[sent.Plan.PodUID] = w.Now
			}
			second := c.decide(t.Context(), &w)
			assert.Empty(t, begun(second.Decision))
			assert.Empty(t, second.Evictions)
			assert.Equal(t, first.Status, second.Status)
		})
	}
}
