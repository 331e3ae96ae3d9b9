package main

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	nodeloop "attune.io/attune/controller/node"
	policyloop "attune.io/attune/controller/policy"
	usageloop "attune.io/attune/controller/usage"
	workloadloop "attune.io/attune/controller/workload"
	events "attune.io/attune/internal/event"
	"attune.io/attune/internal/fresh"
	"attune.io/attune/internal/grant"
	"attune.io/attune/usage"
	"attune.io/attune/usage/recent"
)

// news names recommendations that another loop has news of.
type news chan event.TypedGenericEvent[types.NamespacedName]

func newNews() news { return make(news, 1024) }

func (n news) tell(names ...types.NamespacedName) {
	for _, name := range names {
		n <- event.TypedGenericEvent[types.NamespacedName]{Object: name}
	}
}

// sharing is what the loops need of each other.
type sharing struct {
	grants *grant.Table
	recent *recent.Store
	fresh  *fresh.Table
	// look names recommendations that the workload loop is to look at, held those whose nodes are.
	look, held news
}

func (o *options) sharing(dial usage.Dialer) *sharing {
	return &sharing{grants: &grant.Table{}, recent: recent.New(dial), fresh: &fresh.Table{}, look: newNews(), held: newNews()}
}

// connect gives the other loops their ends.
func (s *sharing) connect(policies *policyloop.Controller, workloads *workloadloop.Controller) {
	policies.Recent, policies.Fresh = s.recent, s.fresh
	policies.Renewed = func(name types.NamespacedName) { s.look.tell(name) }
	workloads.Grants, workloads.Fresh = s.grants, s.fresh
	workloads.HeldChanged = func(name types.NamespacedName) { s.held.tell(name) }
}

// isThere looks for a pod in the cache. Where the cache does not know, it is.
func isThere(pods client.Reader, watched namespaces) func(namespace, name string) bool {
	return func(namespace, name string) bool {
		if !watched.has(namespace) {
			return false
		}
		err := pods.Get(context.Background(), types.NamespacedName{Namespace: namespace, Name: name}, &corev1.Pod{})
		return !apierrors.IsNotFound(err)
	}
}

// start adds the node loop, and what follows pods' own usage.
func (s *sharing) start(mgr ctrl.Manager, o *options, recorder *events.Recorder) error {
	nodes := &nodeloop.Controller{
		Client: mgr.GetClient(), Recent: s.recent, Grants: s.grants, Events: recorder, Clock: clock.RealClock{},
		Interval: o.nodeInterval, Wake: func(names []types.NamespacedName) { s.look.tell(names...) },
	}
	s.recent.There = isThere(mgr.GetClient(), o.watched)
	// Who does not see all pods of a node cannot share it among them (policy.Operator).
	if len(o.watched) == 0 {
		if err := nodes.Register(mgr, s.held); err != nil {
			return fmt.Errorf("setting up the node loop: %w", err)
		}
	}
	if err := o.answerDecisions(mgr, nodes.Decided); err != nil {
		return err
	}
	return mgr.Add(&usageloop.RecentLoop{Recent: s.recent, Interval: o.usageInterval, Clock: clock.RealClock{}})
}
