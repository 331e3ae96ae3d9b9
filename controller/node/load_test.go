package node

import (
	"context"
	"errors"
	"fmt"
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

// measured is what a source says of nodes; what it does not say was not measured.
type measured struct {
	pressure, load1, usage map[string]float64
	err                    error
	asked                  int
}

func (m *measured) of(values map[string]float64) (map[string]float64, error) {
	m.asked++
	return values, m.err
}

func (m *measured) Pressure(context.Context, time.Time) (map[string]float64, error) {
	return m.of(m.pressure)
}
func (m *measured) Load1(context.Context, time.Time) (map[string]float64, error) {
	return m.of(m.load1)
}
func (m *measured) Usage(context.Context, time.Time) (map[string]float64, error) {
	return m.of(m.usage)
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

// run looks every half minute for a while.
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

// The taint comes after two minutes of overload, stays in the band, and goes after two minutes that are well. Nobody
// else's taints are touched, and nothing is written in between.
func TestALoadTaintComesAndGoes(t *testing.T) {
	theirs := []corev1.Taint{{Key: "dedicated", Value: "db", Effect: corev1.TaintEffectNoExecute}, {Key: overloaded.Key, Effect: corev1.TaintEffectPreferNoSchedule}}
	l := loadLoop(t, func(n *corev1.Node) { n.Spec.Taints = theirs }, "load-1", "load-2", "load-3")
	l.says.pressure = map[string]float64{"load-1": 0.5, "load-2": 0.01}
	l.run(90 * time.Second)
	assert.Equal(t, theirs, l.taints("load-1"), "not yet")
	assert.InDelta(t, 0.5, testutil.ToFloat64(loadRatio.WithLabelValues("load-1")), 0)
	l.clock.Step(LoadEvery)
	l.run(5 * time.Minute)
	assert.Equal(t, append(theirs[:2:2], overloaded), l.taints("load-1"))
	assert.Equal(t, theirs, l.taints("load-2"))
	assert.Equal(t, 1, l.patches)

	l.says.pressure["load-1"] = 0.095
	l.run(10 * time.Minute)
	l.says.pressure = nil
	l.run(10 * time.Minute)
	assert.Contains(t, l.taints("load-1"), overloaded, "neither the band nor missing data changes anything")
	l.says.pressure = map[string]float64{"load-1": 0.05}
	l.run(3 * time.Minute)
	assert.Equal(t, theirs, l.taints("load-1"))
	assert.Equal(t, 2, l.patches)
	assert.Equal(t, []string{"load-1 Warning NodeTainted", "load-1 Normal NodeTaintRemoved"}, l.told.said)
}

// A new leader finds the taint and takes it away in its time; a node that is gone is forgotten.
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

// Signals are asked for in their order, each only where the better ones are missing.
func TestTheBestSignalIsAskedForAlone(t *testing.T) {
	for name, c := range map[string]struct {
		says  measured
		asked int
		ratio float64
	}{
		"pressure": {measured{pressure: map[string]float64{"n": 0.2}, load1: map[string]float64{"n": 9}}, 1, 0.2},
		"load":     {measured{load1: map[string]float64{"n": 1}, usage: map[string]float64{"n": 2}}, 2, 0.5},
		"usage":    {measured{usage: map[string]float64{"n": 1.5}}, 3, 0.75},
	} {
		t.Run(name, func(t *testing.T) {
			l := loadLoop(t, nil, "n")
			*l.says = c.says
			l.run(0)
			assert.Equal(t, c.asked, l.says.asked, "whatever the number of nodes")
			assert.InDelta(t, c.ratio, testutil.ToFloat64(loadRatio.WithLabelValues("n")), 1e-9)
		})
	}
}

// Each node has the best signal that there is of it, and all of them cost three questions.
func TestNodesWithDifferentSignals(t *testing.T) {
	var names []string
	for i := range 500 {
		names = append(names, fmt.Sprint("n", i))
	}
	l := loadLoop(t, nil, names...)
	l.says.pressure = map[string]float64{"n0": 0.2}
	l.says.load1 = map[string]float64{"n0": 9, "n1": 1}
	l.says.usage = map[string]float64{"n0": 2, "n1": 2, "n2": 1.5}
	l.run(0)
	assert.Equal(t, 3, l.says.asked)
	for name, ratio := range map[string]float64{"n0": 0.2, "n1": 0.5, "n2": 0.75} {
		assert.InDelta(t, ratio, testutil.ToFloat64(loadRatio.WithLabelValues(name)), 1e-9, name)
	}
}

// While the source does not answer nothing changes, and every node is kept.
func TestLoadWithoutAnAnswer(t *testing.T) {
	l := loadLoop(t, nil, "a", "b", "c")
	l.says.pressure = map[string]float64{"b": 0.5}
	l.run(3 * time.Minute)
	require.Contains(t, l.taints("b"), overloaded)
	l.says.err, l.says.asked = errors.New("connection refused"), 0
	for range 10 {
		assert.ErrorContains(t, l.Look(t.Context()), "measuring the load of nodes: connection refused")
		l.clock.Step(LoadEvery)
	}
	assert.Equal(t, 10, l.says.asked, "one question a look")
	assert.Contains(t, l.taints("b"), overloaded)
	assert.Equal(t, 1, l.patches)
}

// What was measured of nodes is there for others to know for as long as it is news to them, and costs no question more.
func TestWhatIsKnownOfNodesThatAreBusy(t *testing.T) {
	l := loadLoop(t, nil, "loaded", "used", "waiting", "gone")
	l.says.load1 = map[string]float64{"loaded": 1.9}
	l.says.usage = map[string]float64{"used": 1.5, "gone": 1}
	l.says.pressure = map[string]float64{"waiting": 0.95}
	measured := l.clock.Now()
	l.run(0)
	asked := l.says.asked
	for name, want := range map[string]float64{"loaded": 0.95, "used": 0.75, "gone": 0.5} {
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
