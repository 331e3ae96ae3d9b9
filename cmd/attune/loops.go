package main

import (
	"context"
	"fmt"

	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"

	nodeloop "attune.io/attune/controller/node"
	policyloop "attune.io/attune/controller/policy"
	usageloop "attune.io/attune/controller/usage"
	workloadloop "attune.io/attune/controller/workload"
	"attune.io/attune/internal/autoscale/lookup"
	events "attune.io/attune/internal/event"
	"attune.io/attune/internal/policy"
	settingslookup "attune.io/attune/internal/policy/lookup"
	"attune.io/attune/usage/embedded/cluster"
	"attune.io/attune/usage/history"
	"attune.io/attune/usage/recent"
)

// addLoops adds what the leader of the controller does. Each loop is whole when it is added: what it shares with others
// is made before.
func addLoops(mgr ctrl.Manager, c Config, m meters) error {
	b := newBoards()
	usages, err := newSources(mgr, c, m)
	if err != nil {
		return err
	}
	histories := history.New(history.Options{
		Dial: usages.dial, Changed: b.newData.tellOne, MaxBytes: c.historyBytes,
		Forgets: usages.embeds,
	})
	followed := newRecent(mgr, c, usages)
	of, err := newShared(mgr, c, b)
	if err != nil {
		return err
	}
	loads, err := addLoadLoop(mgr, c, usages, of.events)
	if err != nil {
		return err
	}
	if err := addPolicyLoop(mgr, of, b, histories, followed); err != nil {
		return fmt.Errorf("setting up the policy loop: %w", err)
	}
	if err := addWorkloadLoop(mgr, c, of, b, measuring{gauge: usages.gauge, lately: usages.known(followed, loads)}); err != nil {
		return fmt.Errorf("setting up the workload loop: %w", err)
	}
	if err := addNodeLoop(mgr, c, of, b, followed); err != nil {
		return fmt.Errorf("setting up the node loop: %w", err)
	}
	if err := mgr.Add(&usageloop.RecentLoop{Recent: followed, Interval: c.usage.interval, Clock: clock.RealClock{}}); err != nil {
		return err
	}
	return mgr.Add(&usageloop.Loop{Store: histories, Interval: c.usage.interval, Clock: clock.RealClock{}})
}

// shared is what the loops read and tell alike.
type shared struct {
	// operator is the operator's own namespace.
	operator    string
	settings    settingslookup.Reader
	autoscalers *lookup.Lookup
	events      *events.Recorder
}

func newShared(mgr ctrl.Manager, c Config, b boards) (shared, error) {
	autoscalers, err := addAutoscalers(mgr, b.newData.tellOne)
	return shared{
		operator: c.process.namespace, settings: settingslookup.Reader{Client: mgr.GetClient(), Operator: c.operator()},
		autoscalers: autoscalers, events: events.NewRecorder(mgr.GetEventRecorder("attune"), clock.RealClock{}),
	}, err
}

// addAutoscalers follows the cluster's HPAs and, where there are any, VPAs.
func addAutoscalers(mgr ctrl.Manager, changed func(namespace string)) (*lookup.Lookup, error) {
	served, err := discovery.NewDiscoveryClientForConfig(mgr.GetConfig())
	if err != nil {
		return nil, err
	}
	autoscalers, err := lookup.New(context.Background(), lookup.Options{Cache: mgr.GetCache(), Served: served, Changed: changed, Clock: clock.RealClock{}})
	if err != nil {
		return nil, err
	}
	return autoscalers, mgr.Add(autoscalers)
}

// newRecent keeps what pods used lately, of those pods that are there.
func newRecent(mgr ctrl.Manager, c Config, usages *sources) *recent.Store {
	followed := recent.New(usages.dial)
	followed.There = cluster.Reader{Cache: mgr.GetClient(), Cached: c.watched.has}.There
	return followed
}

func addPolicyLoop(mgr ctrl.Manager, of shared, b boards, histories *history.Store, followed *recent.Store) error {
	loop := &policyloop.Controller{
		Operator: of.operator, Client: mgr.GetClient(), Clock: clock.RealClock{}, Settings: of.settings, Autoscalers: of.autoscalers, Events: of.events,
		History: histories, Checkpoints: histories, Recent: followed,
		Confirmed: b.confirmed, Reconfirmed: b.look.tellOne,
	}
	return loop.Register(mgr, b.newData)
}

// measuring is what the workload loop asks about running pods, and what it knows of them without asking.
type measuring struct {
	gauge  func(policy.Settings) (workloadloop.Gauge, error)
	lately workloadloop.Lately
}

func addWorkloadLoop(mgr ctrl.Manager, c Config, of shared, b boards, m measuring) error {
	version, err := serverVersion(mgr.GetConfig())
	if err != nil {
		return err
	}
	rights, err := addRights(mgr, c.watched)
	if err != nil {
		return err
	}
	served, err := addServed(mgr)
	if err != nil {
		return err
	}
	loop := &workloadloop.Controller{
		Operator: of.operator, Client: mgr.GetClient(), Clock: clock.RealClock{}, Settings: of.settings, Autoscalers: of.autoscalers, Events: of.events,
		Live: mgr.GetAPIReader(), ServerVersion: version, Evictions: c.loops.eviction, Rights: rights, Served: served,
		Gauges: m.gauge, Lately: m.lately,
		Grants: b.grants, Confirmed: b.confirmed, HeldChanged: b.held.tellOne,
	}
	return loop.Register(mgr, b.look)
}

// addNodeLoop adds the loop that shares nodes, and what it decided for those who ask. The process that does not see all
// pods of a node cannot share it among them (policy.Operator).
func addNodeLoop(mgr ctrl.Manager, c Config, of shared, b boards, followed *recent.Store) error {
	loop := &nodeloop.Controller{
		Client: mgr.GetClient(), Recent: followed, Grants: b.grants, Events: of.events, Clock: clock.RealClock{},
		Interval: c.loops.nodeInterval, Wake: b.look.tell,
	}
	if len(c.watched) == 0 {
		if err := loop.Register(mgr, b.held); err != nil {
			return err
		}
	}
	return addDecisions(mgr, &c.Options, loop.Decided)
}

// addLoadLoop adds the loop that taints overloaded nodes, where that is switched on; else it is nil.
func addLoadLoop(mgr ctrl.Manager, c Config, usages *sources, recorder *events.Recorder) (*nodeloop.LoadLoop, error) {
	if !c.loops.nodeLoadTaint {
		return nil, nil
	}
	loads, err := usages.loads(c.usage.interval)
	if err != nil {
		return nil, fmt.Errorf("setting up the load taint: %w", err)
	}
	loop := &nodeloop.LoadLoop{Client: mgr.GetClient(), Loads: loads, Events: recorder, Clock: clock.RealClock{}}
	return loop, mgr.Add(loop)
}

func serverVersion(config *rest.Config) (string, error) {
	d, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return "", err
	}
	info, err := d.ServerVersion()
	if err != nil {
		return "", fmt.Errorf("asking the API server for its version: %w", err)
	}
	return info.GitVersion, nil
}
