package loops

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	prom "github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"attune.io/attune/api/v1alpha1"
	nodeloop "attune.io/attune/controller/node"
	policyloop "attune.io/attune/controller/policy"
	workloadloop "attune.io/attune/controller/workload"
	"attune.io/attune/internal/autoscale"
	"attune.io/attune/internal/board"
	"attune.io/attune/internal/event"
	"attune.io/attune/internal/lookup"
	"attune.io/attune/internal/policy"
	"attune.io/attune/internal/workload"
	"attune.io/attune/test/admit"
	"attune.io/attune/test/fault"
	"attune.io/attune/test/kubelet"
	"attune.io/attune/test/plane"
	"attune.io/attune/test/sim/api"
	"attune.io/attune/tuning/targets"
	webhook "attune.io/attune/webhook/pod"
)

// world is a namespace with the real loops, on a real API server, among nodes that are played. One
// goroutine runs everything in turns, so a test decides what has happened when.
//
// The loops read through no informers, whose lag would be chance, but from the server in memory, or through a memo of a
// real one: each sees at once what all others wrote. The indexes that a cache would answer from are worked out in memory.
type world struct {
	t         *testing.T
	namespace string
	told      *told
	moments
	nodesAndPods
	operator
	disturbances
}

// moments are what the world goes by.
type moments struct {
	clock *clocktesting.FakePassiveClock
	// beginning is when a story begins that is to go on as in every other world.
	beginning time.Time
	// ahead is how far the loops' clock, nodeAhead how far the nodes' is ahead of the one that the world goes by.
	ahead, nodeAhead time.Duration
	// down is how long the loops stay away after they were killed, deadUntil when they come back.
	down      time.Duration
	deadUntil time.Time
	// lateUntil is when calls that were held back reach the API server.
	lateUntil time.Time
}

// nodesAndPods are what the loops find: objects, nodes that are played, and what pods use.
type nodesAndPods struct {
	// client is the loops', direct every other writer's. What the loops do not read from memory goes by linked.
	client, direct, linked client.WithWatch
	// known is what was read of the API server: whoever writes past them has to say so.
	known memo
	// node is the one that pods start on, other a second one where a test has it.
	node, other *kubelet.Node
	plane       *plane.Plane
	// memory is what each container holds, in MiB, by name; or as a test's own function says.
	memory map[string]int64
	holds  func(pod *corev1.Pod, container string) (mib int64, ok bool)
	ready  func(pod *corev1.Pod) bool
	// seeded: new pods are sized at admission.
	seeded bool
	// deleted counts the policies that were deleted.
	deleted int
	// writes counts what the loops wrote, changes what anyone wrote.
	writes, changes int
}

// operator is what runs: its loops, and what they rest on beside the API server.
type operator struct {
	history   policyloop.History
	usage     *usages
	policies  *policyloop.Controller
	workloads *workloadloop.Controller
	nodes     *nodeloop.Controller
	// gauge, where set, measures pods; autoscalers are those of the namespace; rights those of the operator.
	gauge       workloadloop.Gauge
	autoscalers autoscale.Reader
	rights      *workloadloop.Rights
	// sources are the namespaces whose policies may name queries of their own; evictions: the operator may evict pods.
	sources   []string
	evictions bool
}

// disturbances are what a test puts between the loops and the API server.
type disturbances struct {
	// memoryServer is the API server in memory; nil: it is a real one.
	memoryServer *api.Server
	// link is the loops' way to the API server.
	link *fault.Link
	// resize, where set, stands between the loops and the API server's resize subresource.
	resize func(patch func() error) error
	// send, where set, sends the loops' resizes in another writer's name.
	send func(ctx context.Context, o client.Object, p client.Patch) error
	// cached, where set, is what the loops' cache has of a pod; it may be behind.
	cached func(corev1.Pod) corev1.Pod
	// seen, where set, changes what the loops see of an object.
	seen func(client.Object)
	// stumble, where set, takes an error of a loop; else there must be none.
	stumble func(error)
	// buried, where set, looks at what the loops left behind when they were killed.
	buried func()
	// passed, where set, looks at what each pass has made.
	passed func()
}

// scheme knows the kinds that worlds have.
var scheme = runtime.NewScheme()

func init() {
	utilruntime.Must(clientgoscheme.AddToScheme(scheme))
	utilruntime.Must(v1alpha1.AddToScheme(scheme))
	utilruntime.Must(workload.AddArgoToScheme(scheme))
}

func newWorld(t *testing.T, node kubelet.Options) *world {
	t.Helper()
	w := &world{
		t: t, told: &told{},
		moments:      moments{clock: clocktesting.NewFakePassiveClock(now()), beginning: theBeginning()},
		nodesAndPods: nodesAndPods{memory: map[string]int64{}, ready: func(*corev1.Pod) bool { return true }},
		operator:     operator{usage: newUsages()},
	}
	config, mapper, memory := backend(w.clock)
	w.memoryServer = memory
	options := client.Options{Scheme: scheme, Mapper: mapper}
	everything, err := client.NewWithWatch(config, options)
	require.NoError(t, err)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		w.link = fault.NewLink(next)
		return w.link
	})
	w.linked, err = client.NewWithWatch(config, options)
	require.NoError(t, err)
	w.known = memo{}
	everybody := w.counting(&w.changes, w.known)
	everybody.Get, everybody.List = w.known.get, w.known.list
	if memory != nil {
		reads := memoryReader{memory.As("test", nil)}
		everybody.Get, everybody.List = reads.get, reads.list
	}
	w.direct = interceptor.NewClient(everything, everybody)
	everybody.Get, everybody.List = nil, nil
	loops := w.counting(&w.writes, memo{})
	loops.Get, loops.List = w.get, w.listByIndex
	w.client = interceptor.NewClient(interceptor.NewClient(w.linked, everybody), loops)
	w.namespace = namespaceFor(w.beginning)
	require.NoError(t, w.direct.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: w.namespace}}))
	node.Usage = w.memoryOf
	node.Ready = func(pod *corev1.Pod) bool { return w.ready(pod) }
	w.node, err = kubelet.NewNode(t.Context(), w.direct, w.namespace, node)
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, client.IgnoreNotFound(everything.Delete(context.WithoutCancel(t.Context()), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: w.namespace}})))
	})
	w.plane = &plane.Plane{
		Client: w.direct, Namespaces: []string{w.namespace}, Nodes: []string{w.namespace}, Admit: w.admit,
		Without: plane.AllBut(plane.Collector, plane.Lifecycle, plane.Deployments, plane.ReplicaSets, plane.Stateful, plane.Daemons, plane.Scheduler),
	}
	w.history, w.autoscalers = w.usage, none{}
	w.wire()
	return w
}

// theBeginning of stories: steps of history end on whole minutes.
func theBeginning() time.Time { return now().Truncate(time.Hour).Add(7 * time.Minute) }

// namespaces counts the names that worlds thought of.
var namespaces atomic.Int64

// namespaceFor is a new name with which a recommendation's turns to be renewed come at the same times after every
// beginning.
func namespaceFor(beginning time.Time) string {
	const every = 48 * time.Minute // as often as targets are renewed; those that are none yet, twice as often
	began := beginning.Add(-20 * time.Minute)
	for {
		name := fmt.Sprintf("integration-%d", namespaces.Add(1))
		web := types.NamespacedName{Namespace: name, Name: "deployment-web"}
		if targets.Turn(web, began, every) > targets.Turn(web, began.Add(-time.Second), every) {
			return name
		}
	}
}

// secondNode is a second one that pods start on.
func (w *world) secondNode(options kubelet.Options) {
	w.t.Helper()
	name := w.namespace + "-2"
	options.Usage = w.memoryOf
	options.Ready = func(pod *corev1.Pod) bool { return w.ready(pod) }
	var err error
	w.other, err = kubelet.NewNode(w.t.Context(), w.direct, name, options)
	require.NoError(w.t, err)
	w.t.Cleanup(func() {
		require.NoError(w.t, client.IgnoreNotFound(w.direct.Delete(context.WithoutCancel(w.t.Context()), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}})))
	})
	w.plane.Nodes = append(w.plane.Nodes, name)
}

// wire makes the loops anew, as a restart does: nothing in their memory survives.
func (w *world) wire() {
	settings := lookup.Reader{Client: w.client, Operator: policy.Operator{SourceNamespaces: w.sources}}
	clock := skewed{w.clock, w.ahead}
	w.policies = &policyloop.Controller{Confirmed: &board.Confirmed{}, Client: w.client, History: w.history, Autoscalers: w.autoscalers, Clock: clock, Settings: settings, Events: event.NewRecorder(w.told, clock)}
	w.workloads = &workloadloop.Controller{
		Confirmed: &board.Confirmed{},
		Client:    w.client, Live: w.linked, Clock: clock, Settings: settings, Autoscalers: w.autoscalers, RecentCPU: w.usage,
		Access: workloadloop.Access{ControlPlane: workloadloop.ControlPlane{Version: "v1.37.1"}, Rights: w.rights, Evictions: w.evictions},
		Events: event.NewRecorder(w.told, clock), Grants: &board.Grants{}, HeldChanged: func(types.NamespacedName) { w.changes++ },
	}
	if w.gauge != nil {
		w.workloads.Gauges = func(policy.Settings) (workloadloop.Gauge, error) { return w.gauge, nil }
	}
	w.policies.Confirmed, w.policies.Reconfirmed = &board.Confirmed{}, func(types.NamespacedName) { w.changes++ }
	w.workloads.Confirmed = w.policies.Confirmed
	w.nodes = &nodeloop.Controller{
		Client: w.client, Recent: w.usage, Grants: w.workloads.Grants, Events: w.workloads.Events, Clock: clock, Interval: 5 * time.Minute,
		Wake: func(names []types.NamespacedName) { w.changes += len(names) },
	}
}

// skewed is a clock that goes as another does, and is wrong.
type skewed struct {
	clock.PassiveClock
	ahead time.Duration
}

func (s skewed) Now() time.Time                  { return s.PassiveClock.Now().Add(s.ahead) }
func (s skewed) Since(t time.Time) time.Duration { return s.Now().Sub(t) }

// none is a namespace without HPAs and VPAs.
type none struct{}

func (none) Of(context.Context, workload.Workload) (autoscale.Holds, error) {
	return autoscale.Holds{}, nil
}

// memoryOf is what a container's cgroup holds, in bytes.
func (w *world) memoryOf(pod *corev1.Pod, container string) int64 {
	if w.holds != nil {
		if mib, ok := w.holds(pod, container); ok {
			return mib << 20
		}
	}
	return w.memory[container] << 20
}

// admit is the real admission of pods, where it is wanted.
func (w *world) admit(pod *corev1.Pod) error {
	if !w.seeded {
		return nil
	}
	index := webhook.NewIndex()
	for _, rec := range w.recommendations() {
		index.Set(&rec)
	}
	return admit.Pod(&webhook.Handler{Known: index, Metrics: webhook.NewMetrics(prom.NewRegistry()), Clock: w.clock, Log: logr.Discard()}, pod)
}

// told keeps events as lines.
type told struct {
	sync.Mutex
	lines []string
}

func (e *told) Eventf(_, _ runtime.Object, kind, reason, _, note string, args ...any) {
	e.Lock()
	defer e.Unlock()
	e.lines = append(e.lines, kind+" "+reason+" "+fmt.Sprintf(note, args...))
}

func (e *told) has(part string) bool {
	return slices.ContainsFunc(e.lines, func(line string) bool { return strings.Contains(line, part) })
}

// pass has everybody look once, and reports when the loops want to look again.
func (w *world) pass() (wake time.Duration) {
	w.t.Helper()
	if w.passed != nil {
		defer w.passed()
	}
	ctx := w.t.Context()
	require.NoError(w.t, w.plane.Sync(ctx, w.clock.Now()))
	require.NoError(w.t, w.node.Sync(ctx, w.nodeNow()))
	if w.other != nil {
		require.NoError(w.t, w.other.Sync(ctx, w.nodeNow()))
	}
	if left := w.deadUntil.Sub(w.clock.Now()); left > 0 {
		return left
	}
	policies := &v1alpha1.AttunePolicyList{}
	require.NoError(w.t, w.direct.List(ctx, policies, client.InNamespace(w.namespace)))
	for i := range policies.Items {
		_, err := w.policies.Reconcile(ctx, ctrl.Request{NamespacedName: client.ObjectKeyFromObject(&policies.Items[i])})
		if w.link.Severed() {
			return w.bury()
		}
		wake = sooner(wake, w.failed(err))
	}
	if w.sharesNodes() {
		result, err := w.nodes.Reconcile(ctx, ctrl.Request{NamespacedName: types.NamespacedName{Name: w.namespace}})
		if w.link.Severed() {
			return w.bury()
		}
		wake = sooner(wake, w.failed(err))
		wake = sooner(wake, result.RequeueAfter)
	}
	for _, rec := range w.recommendations() {
		result, err := w.workloads.Reconcile(ctx, ctrl.Request{NamespacedName: client.ObjectKeyFromObject(&rec)})
		if w.link.Severed() {
			return w.bury()
		}
		wake = sooner(wake, w.failed(err))
		wake = sooner(wake, result.RequeueAfter)
	}
	return wake
}

// nodeNow is the time on the nodes.
func (w *world) nodeNow() time.Time { return w.clock.Now().Add(w.nodeAhead) }

// bury loops that were killed: nothing that they still did reached the API server, and nothing of their
// memory is left. Others take their place a while later.
func (w *world) bury() time.Duration {
	w.t.Helper()
	w.deadUntil = w.clock.Now().Add(w.down)
	w.link.Repair()
	w.wire()
	if w.buried != nil {
		w.buried()
	}
	return w.down
}

// failed is when a loop is to try again after an error; none is expected but where the test makes some.
func (w *world) failed(err error) time.Duration {
	w.t.Helper()
	if err == nil {
		return 0
	}
	require.NotNil(w.t, w.stumble, "%v", err)
	w.stumble(err)
	return time.Second
}

// sooner of two waits, where 0 is none.
func sooner(a, b time.Duration) time.Duration {
	if a == 0 || b > 0 && b < a {
		return b
	}
	return a
}

// sharesNodes: some policy has the strategy Node.
func (w *world) sharesNodes() bool {
	return slices.ContainsFunc(w.recommendations(), func(r v1alpha1.AttuneRecommendation) bool {
		return r.Spec.Strategy == v1alpha1.StrategyNode
	})
}

// settle passes until nobody writes any more at this time; it fails where that never comes.
func (w *world) settle() (wake time.Duration) {
	w.t.Helper()
	const most = 40
	for range most {
		before := w.changes
		if wake = w.pass(); w.changes == before {
			return wake
		}
	}
	require.Fail(w.t, "the loops write for ever although no time passes", "%s", w.describe())
	return 0
}

// startNewPods lets new pods start and run for a while.
func (w *world) startNewPods() {
	w.t.Helper()
	w.run(time.Minute, time.Minute)
}

// run lets time go by, in steps no longer than the given one; whenever somebody wants to look earlier,
// all do. observe, where there is any, is called after each settling and ends the run with false.
func (w *world) run(d, step time.Duration, observe ...func() bool) {
	w.t.Helper()
	end := w.clock.Now().Add(d)
	for {
		wake := w.settle()
		for _, o := range observe {
			if !o() {
				return
			}
		}
		now := w.clock.Now()
		if !now.Before(end) {
			return
		}
		next := now.Add(step)
		if wake > 0 && now.Add(wake).Before(next) {
			next = now.Add(wake)
		}
		for _, node := range []*kubelet.Node{w.node, w.other} {
			if node == nil {
				continue
			}
			if at := node.Next(w.nodeNow()); !at.IsZero() && at.Add(-w.nodeAhead).Before(next) {
				next = at.Add(-w.nodeAhead)
			}
		}
		if next.After(end) {
			next = end
		}
		w.clock.SetTime(next)
	}
}

// until runs until something holds, and fails where it never does.
func (w *world) until(within time.Duration, what string, holds func() bool) {
	w.t.Helper()
	reached := false
	w.run(within, time.Minute, func() bool {
		reached = holds()
		return !reached
	})
	require.True(w.t, reached, "%s within %s\n%s", what, within, w.describe())
}

// describe is what a person wants to know of a failed test.
func (w *world) describe() string {
	out := []string{w.clock.Now().String()}
	for _, rec := range w.recommendations() {
		raw, err := json.MarshalIndent(rec.Status, "", " ")
		out = append(out, rec.Name, string(raw), fmt.Sprint(err))
	}
	return strings.Join(append(out, w.told.lines...), "\n")
}
