// Package node is the loop keyed by Node: it shares the spike headroom of a node among the pods whose
// policies have the strategy Node. docs/node-strategy.md explains the strategy; the arithmetic is in
// recommender/node.
//
// One look at a node (Reconcile), in order:
//  1. observe reads the node, its pods, their recommendations and quotas from the cache into a scene
//     (ledger.go).
//  2. remembered.see compares the pods with the last look: when was each lowered or resized? (memory.go)
//  3. scene.share computes the demands, the shares and the grants (grants.go), and victims.chooser which
//     pods have to go.
//  4. The grants are published on the board (board.Grants.Publish), and the workload loop is woken.
//
// The loop never writes a pod and never evicts one: a grant is a value, and the workload loop carries it
// out behind all gates. What it remembers is in memory; after a restart it is derived from records and
// histories, and no pod is changed before the workload loop has looked at it.
//
// LoadLoop (load.go) is separate: it taints overloaded nodes, if that is switched on. Start reading with
// Reconcile, then scene.demand, then scene.share.
package node

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/answers"
	"attune.io/attune/internal/board"
	"attune.io/attune/internal/event"
	"attune.io/attune/internal/lookup"
	"attune.io/attune/internal/workload"
	"attune.io/attune/recommender"
	"attune.io/attune/recommender/node"
)

// Recent returns what containers used lately themselves, unlike the history, which is about a workload's
// replicas together.
type Recent interface {
	// Base returns the 75th percentile of the container's own recent window (10 minutes for CPU, 30 for
	// memory), in millicores or bytes; false: too little was measured in it.
	Base(namespace, pod, container string, r recommender.Resource, now time.Time) (recommender.Usage, bool)
}

// Controller reconciles nodes. Its exported fields are set before Register and not changed afterwards.
// mutex guards the map of; Reconcile runs in several goroutines, but never twice at a time for one node.
type Controller struct {
	// Client reads from the cache. This loop writes no object with it.
	Client client.Client
	// Recent is the own usage of containers; never nil.
	Recent Recent
	// Grants is the board on which this loop publishes, and from which it reads what holds pods; never
	// nil.
	Grants *board.Grants
	// Wake wakes the workload loop for recommendations whose pods' grants changed. It is also called with
	// none.
	Wake func([]types.NamespacedName)
	// Events sends events about nodes.
	Events *event.Recorder
	// Clock is the source of the time of a look; tests set a fake one.
	Clock clock.PassiveClock
	// Interval is the time between two looks at a node on which nothing happens. Evictions are budgeted
	// for each interval.
	Interval time.Duration

	// known has one entry for each node that was looked at; an entry is removed with its node. The maps inside are not changed
	// afterwards: each look makes new ones.
	known board.Table[string, remembered]
}

// Reconcile shares the headroom of one node anew. The package comment has the steps. The result always
// asks for another look, after Interval at the latest, because bases move without an event. A node that is
// gone loses its grants.
func (c *Controller) Reconcile(ctx context.Context, req ctrl.Request) (reconcile.Result, error) {
	found := &corev1.Node{}
	err := c.Client.Get(ctx, types.NamespacedName{Name: req.Name}, found, client.UnsafeDisableDeepCopy)
	if apierrors.IsNotFound(err) {
		c.known.Forget(req.Name)
		c.Wake(c.Grants.Publish(req.Name, nil))
		forgetGauges(req.Name)
		return reconcile.Result{}, nil
	}
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("reading node %s: %w", req.Name, err)
	}
	s, err := c.observe(ctx, found)
	if err != nil {
		return reconcile.Result{}, err
	}
	// The order matters: changed has to be known before the pods are shared (a pod that was resized a
	// moment ago is frozen), and the victims of the last look before new ones are chosen (they use up the
	// budget).
	known := c.known.Of(req.Name).see(s)
	s.changed = known.changed
	known.victims = known.victims.settle(s.pods, c.Interval, s.now)
	out := s.share(known.victims.chooser(s, len(known.seen)))
	var holders []node.Holder
	known.holding, holders = known.holding.settle(out.holders, s.now)
	known.last = s.look(out)
	c.known.Put(req.Name, known)
	// The metrics compare the new grants with those on the board, so that they are updated before Publish.
	c.tell(found, out)
	c.tellHolders(found, known.last, out, holders)
	c.Wake(c.Grants.Publish(req.Name, out.grants))
	return reconcile.Result{RequeueAfter: known.soon(s.now, c.Interval)}, nil
}

// observe reads everything that a look depends on from the cache. The pods are sorted by namespace and
// name, so that each look sees the same order. An error of any read ends the look: a pod that is missing
// would free its room for the others.
func (c *Controller) observe(ctx context.Context, node *corev1.Node) (*scene, error) {
	s := &scene{
		node: node, recommendations: map[types.UID]*v1alpha1.AttuneRecommendation{}, quotas: map[string][]corev1.ResourceQuota{}, held: c.Grants.Held, stays: c.Grants.Stays, now: c.Clock.Now(),
	}
	// The time is that of the whole look, so that all bases end at the same moment.
	s.base = func(pod *corev1.Pod, container string, r recommender.Resource) (recommender.Usage, bool) {
		return c.Recent.Base(pod.Namespace, pod.Name, container, r, s.now)
	}
	list := &corev1.PodList{}
	if err := c.Client.List(ctx, list, client.MatchingFields{workload.PodsByNode: node.Name}, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing pods of node %s: %w", node.Name, err)
	}
	for i := range list.Items {
		pod := &list.Items[i]
		s.pods = append(s.pods, pod)
		rec, err := lookup.Recommendation(ctx, c.Client, pod)
		if err != nil {
			return nil, err
		}
		if rec != nil {
			s.recommendations[pod.UID] = rec
		}
	}
	slices.SortFunc(s.pods, func(a, b *corev1.Pod) int {
		return strings.Compare(a.Namespace+"/"+a.Name, b.Namespace+"/"+b.Name)
	})
	return s, c.readQuotas(ctx, s)
}

// Decided returns how the pods of a node share it, as of the last look, for kubectl attune node; false: no
// node of that name was looked at. Only the inputs of the look are kept; each call computes the answer
// from them. It is safe for concurrent use.
func (c *Controller) Decided(node string) (answers.NodeAnswer, bool) {
	last := c.known.Of(node).last
	if last == nil {
		return answers.NodeAnswer{}, false
	}
	return last.answer(), true
}
