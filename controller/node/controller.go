// Package node is the loop keyed by Node: it divides the headroom for spikes of a node between the pods whose
// policies have the strategy Node. docs/node-strategy.md explains the strategy; recommender/node has the arithmetic.
//
// Reconcile handles one node, in this order:
//  1. observe reads the node, its pods, their recommendations and quotas from the cache into a scene
//     (ledger.go).
//  2. remembered.see compares the pods with the last reconcile: when was each lowered or resized? (memory.go)
//  3. scene.share computes the demands, the shares and the grants (grants.go), and victims.chooser chooses the
//     pods to evict.
//  4. The grants are published on the board (board.Grants.Publish), and the workload loop is woken.
//
// The loop never writes a pod and never evicts one: a grant is a value, and the workload loop applies it after all
// its gates. The loop's state is in memory. After a restart it is derived from records and histories, and no pod is
// changed before the workload loop has reconciled it.
//
// LoadLoop (load.go) is separate: it taints overloaded nodes, if that is enabled. Start reading with Reconcile, then
// scene.demand, then scene.share.
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
	"attune.io/attune/recommender"
	"attune.io/attune/recommender/node"
)

// Recent returns the recent usage of single containers. The usage history, in contrast, is about all replicas of a
// workload together.
type Recent interface {
	// Base returns the 75th percentile of the container's own recent window (10 minutes for CPU, 30 for
	// memory), in millicores or bytes; false: too little was measured in it.
	Base(namespace, pod, container string, r recommender.Resource, now time.Time) (recommender.Usage, bool)
}

// Controller reconciles nodes. Its exported fields are set before Register and not changed afterwards. Reconcile runs
// in several goroutines, but never twice at a time for one node.
type Controller struct {
	// Client reads from the cache. This loop writes no object with it.
	Client client.Client
	// Recent is the own usage of containers; never nil.
	Recent Recent
	// Grants is the board on which this loop publishes grants, and from which it reads why pods are blocked; never
	// nil.
	Grants *board.Grants
	// Wake wakes the workload loop for recommendations whose pods' grants changed. The list may be empty.
	Wake func([]types.NamespacedName)
	// Events sends events about nodes.
	Events *event.Recorder
	// Clock is the source of the time of a reconcile; tests set a fake one.
	Clock clock.PassiveClock
	// Interval is the time between two reconciles of a node without events. Each interval has a budget of evictions.
	Interval time.Duration

	// known has one entry for each node that was reconciled; an entry is removed with its node. The maps inside are
	// immutable: each reconcile creates new ones.
	known board.Table[string, remembered]
}

// Reconcile divides the headroom of one node. The package comment has the steps. The result always requests another
// reconcile, after Interval at the latest, because bases change without an event. A deleted node loses its grants.
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
	// The order matters. changed must be set before the pods share, because a pod that was just resized is frozen.
	// The last victims must be settled before new ones are chosen, because they use up the budget.
	known := c.known.Of(req.Name).see(s)
	s.changed = known.changed
	known.victims = known.victims.settle(s.pods, c.Interval, s.now)
	out := s.share(known.victims.chooser(s, len(known.seen)))
	var holders []node.Holder
	known.holding, holders = known.holding.settle(out.holders, s.now)
	known.last = s.look(out)
	c.known.Put(req.Name, known)
	// The metrics compare the new grants with those on the board. So they are updated before Publish.
	c.reportReconcile(found, out)
	c.reportHolders(found, known.last, out, holders)
	c.Wake(c.Grants.Publish(req.Name, out.grants))
	return reconcile.Result{RequeueAfter: known.soon(s.now, c.Interval)}, nil
}

// observe reads all inputs of a reconcile from the cache. It sorts the pods by namespace and name, so that each
// reconcile sees the same order. Any read error ends the reconcile: a missing pod would free its room for the others.
func (c *Controller) observe(ctx context.Context, node *corev1.Node) (*scene, error) {
	s := &scene{
		node: node, recommendations: map[types.UID]*v1alpha1.AttuneRecommendation{}, quotas: map[string][]corev1.ResourceQuota{}, held: c.Grants.Held, stays: c.Grants.Stays, now: c.Clock.Now(),
	}
	// All bases end at the same moment, the time of this reconcile.
	s.base = func(pod *corev1.Pod, container string, r recommender.Resource) (recommender.Usage, bool) {
		return c.Recent.Base(pod.Namespace, pod.Name, container, r, s.now)
	}
	var err error
	if s.pods, err = lookup.PodsOnNode(ctx, c.Client, node.Name); err != nil {
		return nil, fmt.Errorf("listing pods of node %s: %w", node.Name, err)
	}
	for _, pod := range s.pods {
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

// Decided returns how the pods of a node share it, as of the last reconcile, for kubectl attune node; false: no node
// of that name was reconciled. Only the inputs are stored; each call computes the answer from them. It is safe for
// concurrent use.
func (c *Controller) Decided(node string) (answers.NodeAnswer, bool) {
	last := c.known.Of(node).last
	if last == nil {
		return answers.NodeAnswer{}, false
	}
	return last.answer(), true
}
