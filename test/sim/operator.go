package sim

import (
	"context"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"github.com/go-logr/logr"
	prom "github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"attune.io/attune/api/v1alpha1"
	nodeloop "attune.io/attune/controller/node"
	policyloop "attune.io/attune/controller/policy"
	workloadloop "attune.io/attune/controller/workload"
	"attune.io/attune/internal/board"
	"attune.io/attune/internal/event"
	"attune.io/attune/internal/lookup"
	"attune.io/attune/internal/loop"
	"attune.io/attune/internal/policy"
	"attune.io/attune/internal/trim"
	"attune.io/attune/internal/workload"
	"attune.io/attune/test/sim/api"
	"attune.io/attune/usage"
	"attune.io/attune/usage/history"
	"attune.io/attune/usage/recent"
	"attune.io/attune/webhook/pod"
)

// operatorNamespace is where the operator runs.
const operatorNamespace = "attune-system"

// How the operator is wired, as cmd/attune does by default.
const usageInterval, nodeInterval = time.Minute, 5 * time.Minute

// How long calls take.
const tookWrite, tookRead = 8 * time.Millisecond, 3 * time.Millisecond

// operator is one process: its caches, its loops, what they remember. All of it is lost with it.
type operator struct {
	w     *world
	name  string
	cache *cache
	seeds *pod.Handler
	// queues of the loops by name; a follower has none.
	queues map[string]*queue

	policies  *policyloop.Controller
	workloads *workloadloop.Controller
	nodes     *nodeloop.Controller
	histories *history.Store
	recent    *recent.Store

	// elapsed is how long the pass that runs has taken so far.
	elapsed time.Duration
	passing sync.Mutex
	// ahead is how far its clock is wrong.
	ahead time.Duration
	dead  bool
	// mayRetarget: it found the right to change targets of HPAs when it started.
	mayRetarget bool
	// left are the calls that it may still make before it is killed; negative: as many as it likes.
	left int
}

// Now is the operator's clock, which goes on within a pass.
func (o *operator) Now() time.Time {
	o.passing.Lock()
	defer o.passing.Unlock()
	return o.w.time.now.Add(o.elapsed + o.ahead)
}

// takes more time of the pass that runs. Questions of a pass may be asked at the same time.
func (o *operator) takes(more time.Duration) {
	o.passing.Lock()
	defer o.passing.Unlock()
	o.elapsed += more
}

func (o *operator) Since(t time.Time) time.Duration { return o.Now().Sub(t) }

// ticking is the operator's clock for what only asks for the time.
type ticking struct {
	clock.WithTicker
	of *operator
}

func (t ticking) Now() time.Time                  { return t.of.Now() }
func (t ticking) Since(x time.Time) time.Duration { return t.of.Since(x) }

// newOperator starts a process. A follower only seeds.
func newOperator(w *world, name string, leads bool) *operator {
	o := &operator{w: w, name: name, left: -1, queues: map[string]*queue{}, mayRetarget: w.plan.Retarget && !w.noTargets}
	o.cache = newCache(w.time, w.server, w.trimmed, w.lagOf)
	o.serve()
	if leads {
		o.lead(context.Background())
	}
	o.cache.start()
	return o
}

// trimmed is an object as the operator's caches keep it. They hold namespaces as metadata alone.
func (w *world) trimmed(o any) (any, error) {
	namespace, is := o.(*corev1.Namespace)
	if !is || !w.plan.Labelled {
		return trim.Object(o)
	}
	kept, err := trim.Object(&metav1.PartialObjectMetadata{ObjectMeta: namespace.ObjectMeta})
	if err != nil {
		return nil, err
	}
	return &corev1.Namespace{ObjectMeta: kept.(*metav1.PartialObjectMetadata).ObjectMeta}, nil
}

// serve is the webhook.
func (o *operator) serve() {
	index := pod.NewIndex()
	for _, kind := range []client.Object{&v1alpha1.AttuneRecommendation{}, &corev1.LimitRange{}, &corev1.ResourceQuota{}} {
		s := o.cache.of(kind)
		s.heard = append(s.heard, func(e api.Event) {
			if e.Type == watch.Deleted {
				index.Delete(e.Object)
			} else {
				index.Set(e.Object)
			}
		})
	}
	o.seeds = &pod.Handler{Known: index, Metrics: pod.NewMetrics(prom.NewRegistry()), Clock: o, Log: logr.Discard()}
}

// lead makes the loops as cmd/attune does.
func (o *operator) lead(ctx context.Context) {
	dial := func(usage.SourceSettings) (usage.Source, error) { return source{of: o}, nil }
	o.histories = history.New(history.Options{Dial: dial, Parallel: 1, Changed: func(namespace string) { o.freshUsage(ctx, namespace) }})
	o.recent = recent.New(dial)
	o.recent.There = func(namespace, name string) bool { return o.w.pod(namespace, name) != nil }
	as := func(actor string) client.Client {
		return &cachedClient{o.w.server.As(actor, o.link()), o.cache}
	}
	settings := lookup.Reader{Client: as("attune/settings"), Operator: policy.Operator{Namespace: operatorNamespace}, Clusterwide: true}
	grants, freshness := &board.Grants{}, &board.Confirmed{}
	recorder := event.NewRecorder(o.w.told, o)
	o.policies = &policyloop.Controller{
		Operator: operatorNamespace, Client: as("attune/policy"), History: o.histories, Recent: o.recent, Autoscalers: autoscalers{o},
		Clock: o, Settings: settings, Confirmed: freshness, Reconfirmed: o.look, Events: recorder,
		Nodes: policyloop.Nodes{Reader: as("attune/policy"), Largest: &board.Largest{}},
		Doubt: func(_ context.Context, recommendation string, wouldWrite bool) {
			o.w.doubted++
			if wouldWrite {
				o.w.violate("a decision that stands", "the last pass decided about %s, nothing is new, and a full look would write", recommendation)
			}
		},
	}
	o.workloads = &workloadloop.Controller{
		Client: as("attune/workload"), Live: o.w.server.As("attune/live", o.link()),
		Clock: o, Settings: settings, Autoscalers: autoscalers{o},
		Gauges:    func(policy.Settings) (workloadloop.Gauge, error) { return gauge{o}, nil },
		Recently:  func(policy.Settings) (usage.Source, error) { return source{o, true}, nil },
		RecentCPU: lately{o},
		Access: workloadloop.Access{
			Admission: workload.Admission{Operator: operatorNamespace}, Evictions: true, ControlPlane: workloadloop.ControlPlane{Version: fmt.Sprintf("v1.%d.2", o.w.server.Minor)},
			Rights: &workloadloop.Rights{Ask: func(context.Context) (bool, error) { return !o.w.noRights, nil }, Clock: ticking{of: o}},
		},
		Events: recorder, Grants: grants, Confirmed: freshness,
		HeldChanged: func(name types.NamespacedName) { o.nodes.Held(ctx, name, o.queues["node"]) },
	}
	if o.w.plan.NoRecent {
		o.workloads.Recently = nil
	}
	if o.w.plan.Climbs {
		o.workloads.Climbs = func(policy.Settings) (workloadloop.Climbs, error) { return traces{o}, nil }
		o.w.time.every(climbsEvery, func() bool {
			o.wakeClimbing()
			return !o.dead
		})
	}
	o.nodes = &nodeloop.Controller{
		Client: as("attune/node"), Recent: o.recent, Grants: grants, Events: recorder, Clock: o, Interval: nodeInterval,
		Wake: func(names []types.NamespacedName) {
			for _, name := range names {
				o.look(name)
			}
		},
	}
	o.run(ctx)
}

// look wakes the workload loop.
func (o *operator) look(name types.NamespacedName) {
	o.queues["workload"].Add(reconcile.Request{NamespacedName: name})
}

// freshUsage wakes the policies of a namespace whose usage is known further.
func (o *operator) freshUsage(ctx context.Context, namespace string) {
	for _, request := range o.policies.InNamespace(ctx, namespace) {
		o.queues["policy"].Add(request)
	}
}

// run wires the loops to their queues, and the usage loop to its tick.
func (o *operator) run(ctx context.Context) {
	o.cache.indexed(workloadloop.Indexes())
	for _, kind := range []client.Object{&corev1.Namespace{}, &corev1.Pod{}} {
		o.cache.of(kind)
	}
	o.loop(ctx, "policy", o.policies, o.policies.Watches(), controller.Options{})
	o.loop(ctx, "workload", o.workloads, o.workloads.Watches(), workloadloop.Options())
	o.loop(ctx, "node", o.nodes, o.nodes.Watches(), nodeloop.Options())
	o.w.time.every(usageInterval, func() bool {
		o.refresh(ctx)
		return !o.dead
	})
}

// refresh is one tick of the usage loops.
func (o *operator) refresh(ctx context.Context) {
	for more := !o.dead; more; {
		more = o.histories.Refresh(ctx, o.Now()) && !o.dead
	}
	if !o.dead {
		_ = o.recent.Refresh(ctx, o.Now()) // asked again at the next tick
	}
	o.elapsed = 0
}

// loop gives a loop its queue and wakes it by its watches.
func (o *operator) loop(ctx context.Context, name string, r reconcile.Reconciler, watches []loop.Watch, options controller.Options) {
	q := newQueue(o.w.time, options, func(req reconcile.Request) (reconcile.Result, error, time.Duration) {
		o.elapsed = 0
		result, err := o.reconcile(ctx, name, r, req)
		took := o.elapsed
		o.elapsed = 0
		o.w.watching.passed(pass{o, name, req, result, err, took})
		if o.left == 0 && !o.dead {
			o.w.bury(o)
		}
		return result, err, took
	})
	o.cache.watched(ctx, watches, q)
	o.queues[name] = q
}

// reconcile recovers from panics as controller-runtime does, and tells of them.
func (o *operator) reconcile(ctx context.Context, name string, r reconcile.Reconciler, req reconcile.Request) (result reconcile.Result, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
			o.w.violate("no panic", "%s loop, %s: %v\n%s", name, req, p, debug.Stack())
		}
	}()
	return r.Reconcile(ctx, req)
}

// errKilled is what calls of a killed process end with.
var errKilled = fmt.Errorf("the process was killed: %w", api.ErrLost)

// link is the operator's way to the API server: calls take time, fail as the seed has it, and end with the process.
func (o *operator) link() *api.Link {
	return &api.Link{
		Before: func(_ context.Context, c api.Call) error {
			if o.dead || o.left == 0 {
				return errKilled
			}
			if o.left > 0 {
				o.left--
			}
			o.takes(took(c))
			if o.w.before != nil {
				o.w.before(c)
			}
			if err := o.w.missed(c, false); err != nil {
				return err
			}
			return o.w.faults.before(o, c)
		},
		After: func(c api.Call, answer error) error {
			if o.left == 0 {
				return errKilled
			}
			if err := o.w.missed(c, true); err != nil {
				return err
			}
			return o.w.faults.after(o, c, answer)
		},
	}
}

func took(c api.Call) time.Duration {
	if c.Write {
		return tookWrite
	}
	return tookRead
}

// kill the process: what it has not sent is never sent, and all that it knew is lost.
func (o *operator) kill() {
	o.dead, o.cache.dead = true, true
	for _, q := range o.queues {
		q.dead = true
	}
}
