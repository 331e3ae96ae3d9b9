package node

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"attune.io/attune/internal/event"
)

// measured is the answer of a source about nodes; a missing node was not measured.
type measured struct {
	pressure, load1, usage map[string]float64
	err                    error
	asked                  []string
}

func (m *measured) of(what string, values map[string]float64) (map[string]float64, error) {
	m.asked = append(m.asked, what)
	return values, m.err
}

func (m *measured) Pressure(context.Context, time.Time) (map[string]float64, error) {
	return m.of("pressure", m.pressure)
}
func (m *measured) Load1(context.Context, time.Time) (map[string]float64, error) {
	return m.of("load1", m.load1)
}
func (m *measured) Usage(context.Context, time.Time) (map[string]float64, error) {
	return m.of("usage", m.usage)
}

type lines struct{ said []string }

func (l *lines) Eventf(about, _ runtime.Object, kind, reason, _, _ string, _ ...any) {
	l.said = append(l.said, about.(*corev1.Node).Name+" "+kind+" "+reason)
}

// loaded is a cluster of nodes with 2 CPUs each.
type loaded struct {
	*LoadLoop
	t       *testing.T
	clock   *clocktesting.FakeClock
	says    *measured
	told    *lines
	patches int
}

func loadLoop(t *testing.T, edit func(n *corev1.Node), names ...string) *loaded {
	t.Helper()
	l := &loaded{t: t, clock: clocktesting.NewFakeClock(noon), says: &measured{}, told: &lines{}}
	var objects []client.Object
	for _, name := range names {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
		two := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2")}
		n.Status.Capacity, n.Status.Allocatable = two, two
		n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
		if edit != nil {
			edit(n)
		}
		objects = append(objects, n)
	}
	c := fake.NewClientBuilder().WithObjects(objects...).WithInterceptorFuncs(interceptor.Funcs{
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
			l.patches++
			return c.Patch(ctx, o, p, opts...)
		},
	}).Build()
	l.LoadLoop = &LoadLoop{Client: c, Loads: l.says, Events: event.NewRecorder(l.told, l.clock), Clock: l.clock}
	return l
}

// run calls Look every half minute for a while.
func (l *loaded) run(d time.Duration) {
	l.t.Helper()
	for end := l.clock.Now().Add(d); ; l.clock.Step(LoadEvery) {
		require.NoError(l.t, l.Look(l.t.Context()))
		if !l.clock.Now().Before(end) {
			return
		}
	}
}

func (l *loaded) taints(name string) []corev1.Taint {
	l.t.Helper()
	n := &corev1.Node{}
	require.NoError(l.t, l.Client.Get(l.t.Context(), client.ObjectKey{Name: name}, n))
	return n.Spec.Taints
}

// change edits a node as another writer would.
func (l *loaded) change(name string, edit func(n *corev1.Node)) {
	l.t.Helper()
	n := &corev1.Node{}
	require.NoError(l.t, l.Client.Get(l.t.Context(), client.ObjectKey{Name: name}, n))
	edit(n)
	status := n.Status
	require.NoError(l.t, l.Client.Update(l.t.Context(), n))
	n.Status = status
	require.NoError(l.t, l.Client.Status().Update(l.t.Context(), n))
}

// carriers are the nodes with the taint.
func (l *loaded) carriers() (names []string) {
	l.t.Helper()
	list := &corev1.NodeList{}
	require.NoError(l.t, l.Client.List(l.t.Context(), list))
	for i := range list.Items {
		if tainted(&list.Items[i]) {
			names = append(names, list.Items[i].Name)
		}
	}
	return names
}

func unready(n *corev1.Node)  { n.Status.Conditions[0].Status = corev1.ConditionUnknown }
func cordoned(n *corev1.Node) { n.Spec.Unschedulable = true }

// Nodes that take no pods are not counted, and get no taint: it would have no effect.
func TestAThirdOfTheNodesThatTakePods(t *testing.T) {
	edits := map[string]func(n *corev1.Node){
		"control-1": func(n *corev1.Node) { n.Labels = map[string]string{"node-role.kubernetes.io/control-plane": ""} },
		"control-2": func(n *corev1.Node) {
			n.Spec.Taints = []corev1.Taint{{Key: "node-role.kubernetes.io/control-plane", Effect: corev1.TaintEffectNoSchedule}}
		},
		"cordoned-1": cordoned, "cordoned-2": cordoned,
		"unready-1": unready, "unready-2": func(n *corev1.Node) { n.Status.Conditions = nil },
	}
	names := slices.AppendSeq([]string{"worker-1", "worker-2", "worker-3"}, maps.Keys(edits))
	l := loadLoop(t, func(n *corev1.Node) {
		if edit := edits[n.Name]; edit != nil {
			edit(n)
		}
	}, names...)
	l.says.load1 = map[string]float64{}
	for _, name := range names {
		l.says.load1[name] = 9
	}
	l.says.load1["worker-2"] = 3
	l.says.load1["worker-1"] = 3
	l.run(10 * time.Minute)
	assert.Equal(t, []string{"worker-3"}, l.carriers())
}

// The taint of a node that takes no pods any more is removed like any other, and no other node waits for it.
func TestALoadTaintOnANodeThatTakesNoPodsAnyMore(t *testing.T) {
	for name, edit := range map[string]func(n *corev1.Node){"cordoned": cordoned, "not ready": unready} {
		t.Run(name, func(t *testing.T) {
			l := loadLoop(t, nil, "a", "b", "c", "d")
			l.says.load1 = map[string]float64{"a": 9}
			l.run(3 * time.Minute)
			require.Equal(t, []string{"a"}, l.carriers())
			l.change("a", edit)
			l.says.load1["b"] = 9
			l.run(3 * time.Minute)
			assert.Equal(t, []string{"a", "b"}, l.carriers(), "one of the three that are left")
			l.says.load1["a"] = 1
			l.run(3 * time.Minute)
			assert.Equal(t, []string{"b"}, l.carriers())
			l.says.load1["a"] = 9
			l.run(5 * time.Minute)
			assert.Equal(t, []string{"b"}, l.carriers(), "not anew")
		})
	}
}

// One throttled container does not make others wait: the node is overloaded only if its CPU is in use as well.
func TestPressureOnAnIdleNode(t *testing.T) {
	l := loadLoop(t, nil, "idle-1", "idle-2", "idle-3")
	l.says.pressure = map[string]float64{"idle-1": 0.9}
	l.says.load1 = map[string]float64{"idle-1": 9}
	l.says.usage = map[string]float64{"idle-1": 0.1}
	l.run(10 * time.Minute)
	assert.Empty(t, l.carriers(), "whatever the load average")
	l.says.usage["idle-1"] = 1.6
	l.run(5 * time.Minute)
	assert.Empty(t, l.carriers(), "0.8 is not above")
	l.says.usage["idle-1"] = 1.65
	l.run(3 * time.Minute)
	assert.Equal(t, []string{"idle-1"}, l.carriers())
	l.says.usage["idle-1"] = 1.5
	l.run(5 * time.Minute)
	assert.Equal(t, []string{"idle-1"}, l.carriers(), "not below 0.9 of 0.8")
	l.says.usage["idle-1"] = 1.4
	l.run(3 * time.Minute)
	assert.Empty(t, l.carriers(), "nobody waits for what is not in use")
}

// If pressure is known, only usage completes it.
func TestPressureWithoutUsage(t *testing.T) {
	l := loadLoop(t, nil, "half-1", "half-2", "half-3")
	l.says.pressure = map[string]float64{"half-1": 0.9}
	l.says.load1 = map[string]float64{"half-1": 9}
	l.run(10 * time.Minute)
	assert.Empty(t, l.carriers())
	l.says.usage = map[string]float64{"half-1": 2}
	l.run(3 * time.Minute)
	require.Equal(t, []string{"half-1"}, l.carriers())
	l.says.usage, l.says.load1["half-1"], l.says.pressure["half-1"] = nil, 0, 0
	l.run(10 * time.Minute)
	assert.Equal(t, []string{"half-1"}, l.carriers())
}

// An old measurement taints no node, even if other nodes have recovered.
func TestOldMeasurementTaintsNoNode(t *testing.T) {
	l := loadLoop(t, nil, "old-1", "old-2", "old-3")
	l.says.load1 = map[string]float64{"old-1": 9, "old-2": 4}
	l.run(3 * time.Minute)
	require.Equal(t, []string{"old-1"}, l.carriers())
	l.says.load1 = map[string]float64{"old-1": 0}
	l.run(3 * time.Minute)
	assert.Empty(t, l.carriers())
	l.says.load1["old-2"] = 4
	l.run(0)
	assert.Equal(t, []string{"old-2"}, l.carriers())
}

// Nodes that come and go leave no state.
func TestNodesThatAreGoneAreForgotten(t *testing.T) {
	l := loadLoop(t, nil, "stays")
	l.says.load1 = map[string]float64{"stays": 1}
	l.run(0)
	shown := testutil.CollectAndCount(loadRatio)
	for i := range 50 {
		name := fmt.Sprint("spot-", i)
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
		n.Status.Capacity = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2")}
		require.NoError(t, l.Client.Create(t.Context(), n))
		l.says.load1[name] = 9
		l.run(0)
		l.says.err = errors.New("connection refused")
		require.NoError(t, l.Client.Delete(t.Context(), n))
		require.Error(t, l.Look(t.Context()), "not even while nobody answers")
		l.says.err = nil
	}
	assert.Len(t, l.of, 1)
	assert.Len(t, l.inUse.All(), 1)
	assert.Equal(t, shown, testutil.CollectAndCount(loadRatio))
}

// The taint is set after two minutes of overload, stays in the band, and is removed after two minutes without
// overload. Other taints are not changed, and the loop writes nothing in between.
func TestALoadTaintComesAndGoes(t *testing.T) {
	theirs := []corev1.Taint{{Key: "dedicated", Value: "db", Effect: corev1.TaintEffectNoExecute}, {Key: overloaded.Key, Effect: corev1.TaintEffectPreferNoSchedule}}
	l := loadLoop(t, func(n *corev1.Node) { n.Spec.Taints = theirs }, "load-1", "load-2", "load-3")
	l.says.pressure = map[string]float64{"load-1": 0.15, "load-2": 0.01}
	l.says.usage = map[string]float64{"load-1": 2, "load-2": 2}
	l.run(90 * time.Second)
	assert.Equal(t, theirs, l.taints("load-1"), "not yet")
	assert.InDelta(t, 1.25, testutil.ToFloat64(loadRatio.WithLabelValues("load-1")), 1e-9, "of the two what is least beyond its threshold")
	l.clock.Step(LoadEvery)
	l.run(5 * time.Minute)
	assert.Equal(t, append(theirs[:2:2], overloaded), l.taints("load-1"))
	assert.Equal(t, theirs, l.taints("load-2"))
	assert.Equal(t, 1, l.patches)

	l.says.pressure["load-1"] = 0.095
	l.run(10 * time.Minute)
	l.says.pressure, l.says.usage = nil, nil
	l.run(10 * time.Minute)
	assert.Contains(t, l.taints("load-1"), overloaded, "neither the band nor missing data changes anything")
	l.says.pressure, l.says.usage = map[string]float64{"load-1": 0.05}, map[string]float64{"load-1": 2}
	l.run(3 * time.Minute)
	assert.Equal(t, theirs, l.taints("load-1"))
	assert.Equal(t, 2, l.patches)
	assert.Equal(t, []string{"load-1 Warning NodeTainted", "load-1 Normal NodeTaintRemoved"}, l.told.said)
}

// A new leader finds the taint and removes it in time; a deleted node is dropped.
func TestALoadTaintThatWasFoundGoes(t *testing.T) {
	l := loadLoop(t, func(n *corev1.Node) { n.Spec.Taints = []corev1.Taint{overloaded} }, "found-1")
	l.says.usage = map[string]float64{"found-1": 0.5}
	l.run(time.Minute)
	assert.Empty(t, l.taints("found-1"), "the only node is never tainted")

	l = loadLoop(t, nil, "found-1", "found-2")
	l.says.load1 = map[string]float64{"found-1": 3, "found-2": 4}
	l.run(5 * time.Minute)
	assert.Empty(t, l.taints("found-1"), "one of two")
	assert.Contains(t, l.taints("found-2"), overloaded)
	again := &LoadLoop{Client: l.Client, Loads: l.says, Events: l.Events, Clock: l.clock}
	l.LoadLoop = again
	l.says.load1["found-2"] = 1
	l.run(3 * time.Minute)
	assert.Empty(t, l.taints("found-2"))
	assert.Contains(t, l.taints("found-1"), overloaded, "there is room for the other one now")
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "found-2"}}
	require.NoError(t, l.Client.Delete(t.Context(), n))
	l.run(0)
	assert.NotContains(t, l.of, "found-2")
}

// The loop queries only what it needs to judge all nodes: usage if it completes pressure or no better signal exists;
// load averages only without pressure. Each query is about all nodes at once.
func TestQueriesAboutNodes(t *testing.T) {
	of := func(value float64) map[string]float64 { return map[string]float64{"n": value} }
	for name, c := range map[string]struct {
		says  measured
		asked []string
		load  float64
	}{
		"pressure": {measured{pressure: of(0.2), load1: of(9), usage: of(1.2)}, []string{"pressure", "usage"}, 0.75},
		"load":     {measured{load1: of(1), usage: of(2)}, []string{"pressure", "load1"}, 0.5},
		"usage":    {measured{usage: of(1.52)}, []string{"pressure", "load1", "usage"}, 0.8},
	} {
		t.Run(name, func(t *testing.T) {
			l := loadLoop(t, nil, "n")
			*l.says = c.says
			l.run(0)
			assert.Equal(t, c.asked, l.says.asked)
			assert.InDelta(t, c.load, testutil.ToFloat64(loadRatio.WithLabelValues("n")), 1e-9)
		})
	}
}

// Each node is judged by its best signal, with three queries for all nodes.
func TestNodesWithDifferentSignals(t *testing.T) {
	var names []string
	for i := range 500 {
		names = append(names, fmt.Sprint("n", i))
	}
	l := loadLoop(t, nil, names...)
	l.says.pressure = map[string]float64{"n0": 0.05}
	l.says.load1 = map[string]float64{"n0": 9, "n1": 1}
	l.says.usage = map[string]float64{"n0": 2, "n1": 2, "n2": 1.52}
	l.run(0)
	assert.Equal(t, []string{"pressure", "load1", "usage"}, l.says.asked)
	for name, load := range map[string]float64{"n0": 0.5, "n1": 0.5, "n2": 0.8} {
		assert.InDelta(t, load, testutil.ToFloat64(loadRatio.WithLabelValues(name)), 1e-9, name)
	}
}

// While the source does not answer, nothing changes, and no state of a node is lost.
func TestLoadWithoutAnAnswer(t *testing.T) {
	l := loadLoop(t, nil, "a", "b", "c")
	l.says.pressure, l.says.usage = map[string]float64{"b": 0.5}, map[string]float64{"b": 2}
	l.run(3 * time.Minute)
	require.Contains(t, l.taints("b"), overloaded)
	l.says.err, l.says.asked = errors.New("connection refused"), nil
	for range 10 {
		assert.ErrorContains(t, l.Look(t.Context()), "measuring the load of nodes: connection refused")
		l.clock.Step(LoadEvery)
	}
	assert.Len(t, l.says.asked, 10, "one question a look")
	assert.Contains(t, l.taints("b"), overloaded)
	assert.Equal(t, 1, l.patches)
}

// Busy has a measurement as long as it is new enough, and needs no further query.
func TestSignalsOfBusyNodes(t *testing.T) {
	l := loadLoop(t, nil, "loaded", "used", "waiting", "pressed", "gone")
	l.says.load1 = map[string]float64{"loaded": 1.9}
	l.says.usage = map[string]float64{"used": 1.5, "pressed": 0.2, "gone": 1}
	l.says.pressure = map[string]float64{"waiting": 0.95, "pressed": 0.95}
	measured := l.clock.Now()
	l.run(0)
	asked := l.says.asked
	for name, want := range map[string]float64{"loaded": 0.95, "used": 0.75, "pressed": 0.1, "gone": 0.5} {
		used, known := l.Busy(name, measured)
		assert.True(t, known, name)
		assert.InDelta(t, want, used, 1e-9, name)
		_, known = l.Busy(name, measured.Add(time.Nanosecond))
		assert.False(t, known, "%s was not measured since", name)
	}
	_, known := l.Busy("waiting", measured)
	assert.False(t, known, "how many wait does not say how much is used")
	assert.Equal(t, asked, l.says.asked)

	l.says.load1 = nil
	require.NoError(t, l.Client.Delete(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "gone"}}))
	l.run(0)
	_, known = l.Busy("loaded", measured)
	assert.True(t, known, "missing data changes nothing")
	_, known = l.Busy("gone", measured)
	assert.False(t, known)
}
