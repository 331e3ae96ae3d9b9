package workload

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/policy"
	"attune.io/attune/internal/workload"
	"attune.io/attune/recommender"
	"attune.io/attune/resize"
	"attune.io/attune/tuning"
)

func TestAChangeDuringAPassIsNotMissed(t *testing.T) {
	var x waiting
	began := x.now()
	x.wake(tuning.AboutNode("node-1"))
	assert.True(t, x.wait(named("a"), []tuning.Topic{tuning.AboutNode("node-1")}, began))
	assert.False(t, x.wait(named("a"), []tuning.Topic{tuning.AboutNode("node-1")}, x.now()), "it was looked at since")
	assert.False(t, x.wait(named("a"), []tuning.Topic{tuning.AboutNode("node-2")}, began), "another node's change")
	for i := range 2 * mostRecent {
		x.wake(tuning.AboutNode(fmt.Sprint(i)))
	}
	assert.Len(t, x.recent, mostRecent)
	assert.True(t, x.wait(named("a"), []tuning.Topic{tuning.AboutNode("node-2")}, began), "nobody knows any more")
}

func TestRoomIsPromisedOnce(t *testing.T) {
	var p reservations
	a := tuning.Reservation{UID: "a", Namespace: "shop", Node: "node-1", Needs: [2]recommender.Amount{1000, 1}, Growth: sizeOf(500, 0, 0, 0)}
	b := tuning.Reservation{UID: "b", Namespace: "bank", Node: "node-1", Needs: [2]recommender.Amount{2000, 2}, Growth: sizeOf(700, 0, 0, 0)}
	seen := p.read()
	assert.True(t, p.make(named("a"), []tuning.Reservation{a}, seen))
	assert.False(t, p.make(named("b"), []tuning.Reservation{b}, seen), "it was decided without knowing of a")
	seen = p.read()
	assert.True(t, p.make(named("b"), []tuning.Reservation{b}, seen))
	assert.True(t, p.make(named("a"), []tuning.Reservation{a}, tuning.Reservations{}), "what is promised already is no news")

	all := p.read()
	assert.Equal(t, map[types.UID][2]recommender.Amount{"a": a.Needs, "b": b.Needs}, all.OnNode("node-1"))
	assert.Empty(t, all.OnNode("node-2"))
	assert.Equal(t, sizeOf(500, 0, 0, 0), all.InNamespace("shop"))
	assert.True(t, p.make(named("a"), nil, tuning.Reservations{}), "giving back needs no consent")
	assert.Len(t, p.read().All, 1)
	assert.True(t, p.make(named("b"), nil, tuning.Reservations{}))
	assert.Empty(t, p.of)
}

func TestNodesAreRemembered(t *testing.T) {
	var m nodeMemory
	n := node("node-1", "4", "8Gi")
	n.Status.NodeInfo.BootID = "boot-1"
	assert.Equal(t, tuning.Node{Node: n}, m.see(n, now))
	record := recordOf(running("web-1", sizeOf(500, 0, 512, 0)), sizeOf(1000, 0, 512, 0))
	m.learn([]tuning.Lesson{{Namespace: "shop", Record: record, Reason: resize.ReasonInfeasible, Message: `alongside CPU Manager policy "static"`}}, now)
	assert.True(t, m.see(n.DeepCopy(), now).Facts.Policies.StaticCPU)
	assert.Zero(t, m.see(node("node-2", "4", "8Gi"), now).Facts, "another node")

	rebooted := n.DeepCopy()
	rebooted.Status.NodeInfo.BootID = "boot-2"
	later := now.Add(time.Minute)
	assert.Equal(t, tuning.Node{Node: rebooted, Booted: later}, m.see(rebooted, later), "and what its kubelet said is forgotten")
	assert.Equal(t, later, m.see(rebooted, later.Add(time.Minute)).Booted)

	m.learn([]tuning.Lesson{{Namespace: "shop", Record: record, Reason: resize.ReasonDeferred, Message: ""}}, now)
	m.Forget("node-1")
	assert.Zero(t, m.see(n, now).Facts)
	record.Node = "unseen"
	m.learn([]tuning.Lesson{{Namespace: "shop", Record: record, Reason: resize.ReasonDeferred, Message: ""}}, now)
	assert.Len(t, m.All(), 2, "a node that was never seen is not kept")
}

// State by the name of a recommendation is dropped with it, and state of others stays.
func TestDeletedRecommendationIsDroppedFromMemory(t *testing.T) {
	var m memory
	for _, name := range []types.NamespacedName{named("gone"), named("stays")} {
		rec := &v1alpha1.AttuneRecommendation{}
		rec.Namespace, rec.Name, rec.ResourceVersion = name.Namespace, name.Name, "7"
		m.meters.counted.pending(rec, 1)
		require.True(t, m.reservations.make(name, []tuning.Reservation{{UID: types.UID(name.Name), Namespace: name.Namespace, Node: "node-1"}}, m.reservations.read()))
		m.waiting.wait(name, []tuning.Topic{tuning.AboutNode("node-1")}, m.waiting.now())
		m.queue.Put(name, map[types.UID]time.Time{"pod": now})
		m.retries.after(name, often{first: time.Second})
		m.conflicts.after(name, often{first: time.Second})
		m.stored.reached(rec, time.Minute, now)
		m.steps.record(name, []v1alpha1.ResizeRecord{{PodUID: "pod"}})
		m.pace.wrote(name, v1alpha1.PhaseIdle, now)
		v := tuning.View{Rec: rec, Workload: &workload.Workload{}}
		v.Policy.Usable = true
		m.meters.fleet.storeFigures(v, rec.Status)
	}
	m.forget(named("gone"))
	for what, known := range map[string][]types.NamespacedName{
		"counted": slices.Collect(maps.Keys(m.meters.counted.All())), "reservations": slices.Collect(maps.Keys(m.reservations.of)), "waiting": slices.Collect(maps.Keys(m.waiting.by)),
		"queue": slices.Collect(maps.Keys(m.queue.All())), "retries": slices.Collect(maps.Keys(m.retries.All())), "conflicts": slices.Collect(maps.Keys(m.conflicts.All())),
		"stored": slices.Collect(maps.Keys(m.stored.All())), "steps": slices.Collect(maps.Keys(m.steps.All())), "pace": slices.Collect(maps.Keys(m.pace.All())),
		"fleet": slices.Collect(maps.Keys(m.meters.fleet.All())),
	} {
		assert.Equal(t, []types.NamespacedName{named("stays")}, known, what)
	}
}

// Nodes of a cluster that scales come and go: the state is limited by the nodes that exist.
func TestNodesThatAreGoneAreForgotten(t *testing.T) {
	var m nodeMemory
	changed := nodeChanged(m.Forget)
	for i := range 1000 {
		n := node(fmt.Sprintf("spot-%d", i), "4", "8Gi")
		m.see(n, now)
		require.True(t, changed.Delete(event.DeleteEvent{Object: n}), "whoever waits for the node is woken")
	}
	assert.Empty(t, m.All(), "by their deletion")

	// A node that is read just after its deletion is recorded once more.
	for hour := range 1000 {
		m.see(node(fmt.Sprintf("spot-%d", hour), "4", "8Gi"), now.Add(time.Duration(hour)*time.Hour))
		require.LessOrEqual(t, len(m.All()), 48, "two days of an hour each")
	}
}

func TestRightsAreAskedFor(t *testing.T) {
	clock := clocktesting.NewFakeClock(now)
	asked, granted := 0, false
	var failure error
	r := &Rights{Clock: clock, Ask: func(context.Context) (bool, error) {
		asked++
		return granted, failure
	}}
	assert.Empty(t, r.lost(t.Context(), "shop"))
	assert.NoError(t, r.Ready(nil))
	r.recordDenied(t.Context(), "shop", `cannot patch resource "pods/resize"`)
	for _, namespace := range []string{"shop", "bank"} {
		assert.Equal(t, `cannot patch resource "pods/resize"`, r.lost(t.Context(), namespace))
	}
	assert.Equal(t, 1, asked, "whether that is so everywhere")
	assert.ErrorIs(t, r.Ready(nil), errNoRights)
	asked = 0

	clock.Step(rightsLost)
	for range 3 {
		assert.NotEmpty(t, r.lost(t.Context(), "shop"))
	}
	assert.Equal(t, 1, asked, "once for all workloads")
	clock.Step(rightsLost)
	granted, failure = true, errors.New("the server is down")
	assert.NotEmpty(t, r.lost(t.Context(), "shop"), "no answer is none")
	clock.Step(rightsLost)
	failure = nil
	assert.Empty(t, r.lost(t.Context(), "shop"))
	assert.NoError(t, r.Ready(nil))
	assert.Equal(t, 3, asked)

	granted = false
	assert.NotEmpty(t, r.look(t.Context()), "it was looked before anything was refused")
	assert.ErrorIs(t, r.Ready(nil), errNoRights)

	var none *Rights
	none.recordDenied(t.Context(), "shop", "?")
	none.recordAccepted("shop")
	assert.Empty(t, none.lost(t.Context(), "shop"))
}

// A rejection in one namespace, or a token that has just expired, stops no other namespace.
func TestOneNamespaceStopsNoOther(t *testing.T) {
	managed := resize.Classify(apierrors.NewForbidden(schema.GroupResource{Resource: "pods/resize"}, "x", errors.New(
		`User "system:serviceaccount:attune-system:attune" cannot patch resource "pods/resize" in API group "" in the namespace "managed": GKE Warden authz [denied by managed-namespaces-limitation]`)))
	require.Equal(t, resize.OutcomeRBAC, managed.Kind)
	for _, tc := range []struct {
		name   string
		answer error
		waits  []time.Duration
	}{
		{"the rights are there", nil, []time.Duration{600e9, 1200e9, 1800e9, 1800e9, 1800e9, 1800e9, 1800e9, 1800e9, 1800e9}},
		{"no answer", apierrors.NewUnauthorized("expired"), []time.Duration{15e9, 30e9, 60e9, 120e9, 240e9, 480e9, 960e9, 1800e9, 1800e9}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			clock := clocktesting.NewFakeClock(now)
			r := &Rights{Clock: clock, Ask: func(context.Context) (bool, error) { return tc.answer == nil, tc.answer }}
			var waits []time.Duration
			for range 9 {
				r.recordDenied(t.Context(), "managed", managed.Message)
				assert.Contains(t, r.lost(t.Context(), "managed"), "in namespace managed: ")
				assert.Empty(t, r.lost(t.Context(), "shop"))
				assert.NoError(t, r.Ready(nil), "the leader is ready")
				wait := r.denied["managed"].until.Sub(clock.Now())
				clock.Step(wait)
				assert.Empty(t, r.lost(t.Context(), "managed"), "it is tried again")
				waits = append(waits, wait)
			}
			assert.Equal(t, tc.waits, waits)
			r.recordAccepted("managed")
			r.recordDenied(t.Context(), "managed", managed.Message)
			assert.Equal(t, tc.waits[0], r.denied["managed"].wait, "after one was taken")
			clock.Step(24 * time.Hour)
			r.recordDenied(t.Context(), "other", "?")
			assert.NotContains(t, r.denied, "managed", "old ones go")
		})
	}

	l := newLab(t, heading(seen(t, small), sizeOf(250, 0, 512, 0)).Rec, deploymentOf(small, 3), running("web-1", small), running("web-2", small))
	l.c.Rights = &Rights{Clock: clocktesting.NewFakeClock(now), Ask: func(context.Context) (bool, error) { return true, nil }}
	l.resize = func(client.Object) error {
		return apierrors.NewForbidden(schema.GroupResource{Resource: "pods/resize"}, "x", errors.New(`User "attune" cannot patch resource "pods/resize"`))
	}
	l.live(time.Minute)
	assert.Equal(t, 1, l.patches, "nothing more is asked for in the namespace")
	blocked := meta.FindStatusCondition(l.rec().Status.Conditions, v1alpha1.ConditionResizeBlocked)
	assert.Equal(t, resize.ReasonNoRights, blocked.Reason)
	assert.Contains(t, blocked.Message, "in namespace shop")
}

func TestMemoryIsQueriedOncePerScrape(t *testing.T) {
	from := sizeOf(500, 0, 512, 1024)
	gauge := &source{held: map[string]float64{"app": 300 * mi}}
	c := &Controller{Gauges: func(policy.Settings) (Gauge, error) { return gauge, nil }}
	pods := []*corev1.Pod{running("a", from), running("b", from)}
	for _, after := range []time.Duration{0, memoryLasts - time.Second, memoryLasts} {
		w := eager(seen(t, from, pods...))
		w.Now = now.Add(after)
		c.looker().queryMemory(t.Context(), &w, []types.UID{"a", "b"})
		assert.Equal(t, map[string]recommender.Amount{"app": 300 * mi}, w.Usage.Memory["b"])
	}
	assert.Equal(t, []int{2, 2}, gauge.weighed, "one question for all pods, and none before the next scrape")
	c.memory.memoryHeld.record("c", heldNow{}, memoryLasts, now.Add(3*memoryLasts))
	assert.Len(t, c.memory.memoryHeld.All(), 1, "old ones go")
}

func TestAPodIsNotResizedByAnOldPictureOfIt(t *testing.T) {
	// Case 24.
	var x seenGenerations
	pod := running("web-1", sizeOf(500, 0, 512, 0))
	assert.False(t, x.behind(pod), "nothing newer was shown")
	newer := pod.DeepCopy()
	newer.Generation = 3
	x.record(newer, now)
	x.record(pod, now)
	assert.True(t, x.behind(pod))
	assert.False(t, x.behind(newer))
	other := running("web-2", sizeOf(500, 0, 512, 0))
	x.record(other, now.Add(generationsLast+1))
	assert.False(t, x.behind(pod), "nobody remembers")

	w := eager(heading(seen(t, small, pod, other), big))
	w.Looked.CacheLags = map[types.UID]bool{pod.UID: true}
	d := tuning.Decide(w)
	assert.Equal(t, []string{"web-2"}, begun(d))
	assert.Equal(t, resize.ReasonResizeUnderway, blocked(d))
}

func named(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: "shop", Name: name}
}

func TestWaitingWorkloadsAreWokenByTheirCause(t *testing.T) {
	var x waiting
	assert.Empty(t, x.wake(tuning.AboutNode("node-1")), "nobody waits")
	assert.False(t, x.wait(named("a"), []tuning.Topic{tuning.AboutNode("node-1"), tuning.AboutQuotas("shop")}, x.now()))
	x.wait(named("b"), []tuning.Topic{tuning.AboutNode("node-1")}, x.now())
	assert.ElementsMatch(t, []reconcile.Request{{NamespacedName: named("a")}, {NamespacedName: named("b")}}, x.wake(tuning.AboutNode("node-1")))
	assert.Equal(t, []reconcile.Request{{NamespacedName: named("a")}}, x.wake(tuning.AboutQuotas("shop")))
	assert.Empty(t, x.wake(tuning.AboutQuotas("bank")))
	assert.Empty(t, x.wake(tuning.AboutNode("node-2")))

	x.wait(named("a"), nil, x.now())
	assert.Empty(t, x.wake(tuning.AboutQuotas("shop")), "it waits no longer")
	x.wait(named("b"), nil, x.now())
	assert.Empty(t, x.on, "nothing is kept of who waits for nothing")
	assert.Empty(t, x.by)
}
