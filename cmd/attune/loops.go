package main

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"attune.io/attune/bridge"
	nodeloop "attune.io/attune/controller/node"
	policyloop "attune.io/attune/controller/policy"
	usageloop "attune.io/attune/controller/usage"
	workloadloop "attune.io/attune/controller/workload"
	"attune.io/attune/internal/board"
	events "attune.io/attune/internal/event"
	"attune.io/attune/internal/lookup"
	"attune.io/attune/usage/history"
	"attune.io/attune/usage/recent"
)

// addLoops adds the runnables of the controller's leader. It creates shared dependencies first, so that each loop is
// complete when it is added. A manager may start runnables in any order.
//
// The runnables, in the order of the data:
//
//	runnable        reads                        writes
//	usage loop      sources                      the history store
//	recent loop     sources                      the store of recent usage
//	policy loop     the history store, workloads AttuneRecommendation, status of policies
//	workload loop   recommendations, pods        pods/resize, status of recommendations
//	node loop       recent usage, pods of nodes  board.Grants
//	load loop       the load of nodes            taints
//	sampler         recommendations, pods        the trails of the web page
//	bridge          recommendations              VerticalPodAutoscalers
//
// All of them run on the leader only.
func addLoops(mgr ctrl.Manager, c Config, m meters) error {
	b := newBoards()
	usages, err := newSources(mgr, c, m, b)
	if err != nil {
		return err
	}
	// The policy loop reads from the history store, so the store comes first. The store wakes that loop through
	// newData.
	histories := history.New(history.Options{
		Dial: usages.dial, Changed: b.newData.tellOne, MaxBytes: c.historyBytes,
		Forgets: usages.forgets, Scraped: usages.scraped, Most: usages.most, Dropped: usages.dropped,
	})
	followed := recent.New(usages.dial)
	followed.There = scrapedPods{mgr.GetClient(), c.watched.has}.There
	of, err := newShared(mgr, c, b)
	if err != nil {
		return err
	}
	// The load loop is nil if the taint is off. It comes before the workload loop, which reads the load of nodes from
	// it.
	loads, err := addLoadLoop(mgr, c, usages, of.events)
	if err != nil {
		return err
	}
	if err := newPolicyLoop(mgr, c, of, b, histories, followed).Register(mgr, b.newData); err != nil {
		return fmt.Errorf("setting up the policy loop: %w", err)
	}
	if err := addWorkloadLoop(mgr, c, of, b, usages, usages.known(followed, loads)); err != nil {
		return fmt.Errorf("setting up the workload loop: %w", err)
	}
	shown := pages{client: mgr.GetClient(), live: mgr.GetAPIReader(), settings: of.settings, history: histories, kept: of.kept, clock: clock.RealClock{}, sized: c.kinds.Sized}
	if err := addNodeLoop(mgr, c, of, b, followed, shown); err != nil {
		return fmt.Errorf("setting up the node loop: %w", err)
	}
	if err := addBridge(mgr, c, of); err != nil {
		return fmt.Errorf("setting up the bridge: %w", err)
	}
	if err := mgr.Add(&usageloop.RecentLoop{Recent: followed, Interval: c.usage.interval, Clock: clock.RealClock{}}); err != nil {
		return err
	}
	return mgr.Add(&usageloop.Loop{Store: histories, Interval: c.usage.interval, Clock: clock.RealClock{}})
}

// shared has the dependencies that several loops use.
type shared struct {
	// operator is the operator's own namespace.
	operator string
	// settings resolves the settings of a policy from its four layers.
	settings lookup.Reader
	// autoscalers knows which workloads an HPA or a VPA scales.
	autoscalers *lookup.Autoscalers
	// events records Kubernetes events.
	events *events.Recorder
	// kept has the records of this process that the web page shows.
	kept kept
}

// newShared creates the shared dependencies. A change of an HPA or a VPA wakes the policy loop for its namespace.
func newShared(mgr ctrl.Manager, c Config, b boards) (shared, error) {
	clusterwide, err := addClusterwide(mgr, c)
	if err != nil {
		return shared{}, err
	}
	autoscalers, err := lookup.NewAutoscalers(context.Background(), lookup.AutoscalerOptions{
		Cache: mgr.GetCache(), Served: c.api.served, Changed: b.newData.tellOne, Clock: clock.RealClock{}, Tolerance: c.loops.hpaTolerance,
		MayRetarget: c.loops.hpaRetarget && mayRetarget(context.Background(), c),
	})
	if err != nil {
		return shared{}, err
	}
	seen, admission := newKept(&c.Options), c.admission()
	return shared{
		operator: c.process.namespace, settings: lookup.Reader{Client: mgr.GetClient(), Operator: c.operator(), Clusterwide: clusterwide, Admission: &admission},
		autoscalers: autoscalers, events: events.NewRecorder(seen.told.Keep(mgr.GetEventRecorder("attune")), clock.RealClock{}), kept: seen,
	}, mgr.Add(autoscalers)
}

// newPolicyLoop returns the loop that writes recommendations. It is a function of its own so that a test can check
// that every field is set.
func newPolicyLoop(mgr ctrl.Manager, c Config, of shared, b boards, histories *history.Store, followed *recent.Store) *policyloop.Controller {
	return &policyloop.Controller{
		Client: mgr.GetClient(), Clock: clock.RealClock{}, Settings: of.settings, Autoscalers: of.autoscalers, Events: of.events,
		History: histories, Recent: followed, Operator: of.operator, Sized: c.kinds.Sized,
		Confirmed: b.confirmed, Reconfirmed: b.look.tellOne,
		Nodes: policyloop.Nodes{Reader: mgr.GetClient(), AtLeast: c.loops.largest(), Largest: b.largest},
	}
}

// addWorkloadLoop adds the loop that resizes pods. Live reads from the API server, because a cached pod may be older
// than the last write.
func addWorkloadLoop(mgr ctrl.Manager, c Config, of shared, b boards, usages *sources, recentCPU workloadloop.RecentCPU) error {
	// The loop needs the version before its first reconcile.
	version, err := c.api.served.ServerVersion()
	if err != nil {
		return fmt.Errorf("reading the version of the API server: %w", err)
	}
	rights, err := addRights(mgr, c)
	if err != nil {
		return err
	}
	served := &workloadloop.Served{Clock: clock.RealClock{}, Ask: func(context.Context) (bool, error) { return servesResize(c.api.served) }}
	if err := mgr.Add(served); err != nil {
		return err
	}
	loop := &workloadloop.Controller{
		Client: mgr.GetClient(), Clock: clock.RealClock{}, Settings: of.settings, Autoscalers: of.autoscalers, Events: of.events,
		Live: mgr.GetAPIReader(), Gauges: usages.gauge, Climbs: usages.climbs, RecentCPU: recentCPU, Recently: usages.recently,
		Access: workloadloop.Access{Sized: c.kinds.Sized, Evictions: c.loops.eviction, ControlPlane: workloadloop.ControlPlane{Version: version.GitVersion, HPASync: c.loops.hpaSyncPeriod}, Admission: c.admission(), Rights: rights, Served: served},
		Grants: b.grants, Confirmed: b.confirmed, HeldChanged: b.held.tellOne,
	}
	return loop.Register(mgr, b.look)
}

// addNodeLoop adds the loop that shares the capacity of nodes, and the port that serves its decisions and the pages.
// If the operator watches only some namespaces, the loop does not start: it would not see all pods of a node, and
// would share resources that other pods use.
func addNodeLoop(mgr ctrl.Manager, c Config, of shared, b boards, followed *recent.Store, shown pages) error {
	loop := &nodeloop.Controller{
		Client: mgr.GetClient(), Recent: followed, Grants: b.grants, Events: of.events, Clock: clock.RealClock{},
		Interval: c.loops.nodeInterval, Wake: b.look.tell,
	}
	// The decisions are served in both cases. Without the loop, every node is unknown.
	if len(c.watched) == 0 {
		if err := loop.Register(mgr, b.held); err != nil {
			return err
		}
		shown.decided = loop.Decided
	}
	return addDecisions(mgr, &c.Options, loop.Decided, shown)
}

// addLoadLoop adds the loop that taints overloaded nodes; nil without --node-load-taint.
func addLoadLoop(mgr ctrl.Manager, c Config, usages *sources, recorder *events.Recorder) (*nodeloop.LoadLoop, error) {
	if !c.loops.nodeLoadTaint {
		return nil, nil
	}
	loads, err := usages.own.loads(c.usage.interval)
	if err != nil {
		return nil, fmt.Errorf("setting up the load taint: %w", err)
	}
	loop := &nodeloop.LoadLoop{Client: mgr.GetClient(), Loads: loads, Events: recorder, Clock: clock.RealClock{}}
	return loop, mgr.Add(loop)
}

// addBridge adds the loop that publishes recommendations as VerticalPodAutoscalers; nothing without
// --bridge-vpa-role.
func addBridge(mgr ctrl.Manager, c Config, of shared) error {
	if c.loops.vpaRole == "" {
		return nil
	}
	return mgr.Add(bridge.New(bridge.Options{
		Client: mgr.GetClient(), VPAs: mgr.GetCache(), Live: mgr.GetAPIReader(), HasVPAs: of.autoscalers.HasVPAs,
		Role: c.loops.vpaRole, Admission: c.admission(), Events: of.events, Clock: clock.RealClock{},
	}))
}

// boards connect the loops: values that one loop publishes and another reads, and queues by which loops wake each
// other. With them, no loop imports another.
type boards struct {
	// grants is written by the node loop and read by the workload loop.
	grants *board.Grants
	// confirmed says until when the stored targets are valid. The policy loop writes it, the workload loop reads it.
	confirmed *board.Confirmed
	// largest is the largest known node. The policy loop writes it, and sources drop samples that exceed it.
	largest *board.Largest
	// newData wakes the policy loop for a namespace; "" means all namespaces.
	newData news[string]
	// look wakes the workload loop for a recommendation. held wakes the node loop for the nodes of a recommendation.
	look, held news[types.NamespacedName]
}

// newBoards returns the boards of one operator.
func newBoards() boards {
	return boards{
		grants: &board.Grants{}, confirmed: &board.Confirmed{}, largest: &board.Largest{},
		newData: newNews[string](), look: newNews[types.NamespacedName](), held: newNews[types.NamespacedName](),
	}
}

// news is a queue of names from one loop to another. A sender blocks while the queue is full (1024 names).
type news[T any] chan event.TypedGenericEvent[T]

// newNews returns a queue for 1024 names.
func newNews[T any]() news[T] { return make(news[T], 1024) }

// tell sends several names.
func (n news[T]) tell(names []T) {
	for _, name := range names {
		n.tellOne(name)
	}
}

// tellIfRoom sends a name, and drops it if the queue is full. The sender finds a dropped name again later.
func (n news[T]) tellIfRoom(name T) {
	select {
	case n <- event.TypedGenericEvent[T]{Object: name}:
	default:
	}
}

// tellOne sends a name. It blocks while the queue is full.
func (n news[T]) tellOne(name T) { n <- event.TypedGenericEvent[T]{Object: name} }
