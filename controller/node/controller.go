// Package node is the loop keyed by Node: it shares a node's spike headroom among the pods whose policies have
// the strategy Node. It writes no pod: its grants are values, which the workload loop carries out.
package node

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/board"
	"attune.io/attune/internal/decision"
	"attune.io/attune/internal/event"
	"attune.io/attune/internal/owners"
	"attune.io/attune/internal/workload"
	"attune.io/attune/recommender"
	"attune.io/attune/recommender/node"
)

// Recent knows what containers used lately themselves.
type Recent interface {
	// Base is the 75th percentile of the container's own window; false: nothing was measured in it.
	Base(namespace, pod, container string, r recommender.Resource, now time.Time) (recommender.Usage, bool)
}

// Controller reconciles nodes.
type Controller struct {
	Client client.Client
	Recent Recent
	Grants *board.Grants
	// Wake tells the workload loop of recommendations whose pods' grants changed.
	Wake   func([]types.NamespacedName)
	Events *event.Recorder
	Clock  clock.PassiveClock
	// Interval between two looks at a node where nothing happens.
	Interval time.Duration

	mutex sync.Mutex
	of    map[string]remembered
}

// Reconcile shares the headroom of one node anew.
func (c *Controller) Reconcile(ctx context.Context, req ctrl.Request) (reconcile.Result, error) {
	found := &corev1.Node{}
	err := c.Client.Get(ctx, types.NamespacedName{Name: req.Name}, found, client.UnsafeDisableDeepCopy)
	if apierrors.IsNotFound(err) {
		c.forget(req.Name)
		return reconcile.Result{}, nil
	}
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("reading node %s: %w", req.Name, err)
	}
	s, err := c.observe(ctx, found)
	if err != nil {
		return reconcile.Result{}, err
	}
	known := c.recall(req.Name).see(s)
	s.changed = known.changed
	known.victims = known.victims.settle(s.pods, c.Interval, s.now)
	out := s.share(known.victims.chooser(s, len(known.seen)))
	var holders []node.Holder
	known.holding, holders = known.holding.settle(out.holders, s.now)
	known.last = s.look(out)
	c.remember(req.Name, known)
	c.tell(found, out)
	c.tellHolders(found, known.last, out, holders)
	c.Wake(c.Grants.Publish(req.Name, out.grants))
	return reconcile.Result{RequeueAfter: c.after(known, s.now)}, nil
}

// after is when to look again if nothing happens before: bases move without an event.
func (c *Controller) after(known remembered, now time.Time) time.Duration {
	if soon := known.soon(now); soon > 0 {
		return min(soon, c.Interval)
	}
	return c.Interval
}

func (c *Controller) observe(ctx context.Context, node *corev1.Node) (*scene, error) {
	s := &scene{
		node: node, recommendations: map[types.UID]*v1alpha1.AttuneRecommendation{}, quotas: map[string][]corev1.ResourceQuota{}, held: c.Grants.Held, stays: c.Grants.Stays, now: c.Clock.Now(),
	}
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
		rec, err := c.recommendation(ctx, pod)
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

// recommendation of a pod's workload, or nil.
func (c *Controller) recommendation(ctx context.Context, pod *corev1.Pod) (*v1alpha1.AttuneRecommendation, error) {
	id, ok := workload.OwnerOf(pod, pod.Namespace, owners.Jobs{Reader: c.Client})
	if !ok {
		return nil, nil
	}
	rec := &v1alpha1.AttuneRecommendation{}
	err := c.Client.Get(ctx, types.NamespacedName{Namespace: id.Namespace, Name: id.RecommendationName()}, rec, client.UnsafeDisableDeepCopy)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the AttuneRecommendation of %s: %w", id, err)
	}
	return rec, nil
}

// Decided is how the pods of a node share it, as of the last look; false: no node of the name was looked at.
func (c *Controller) Decided(node string) (decision.Node, bool) {
	last := c.recall(node).last
	if last == nil {
		return decision.Node{}, false
	}
	return last.answer(), true
}

func (c *Controller) recall(node string) remembered {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return c.of[node]
}

func (c *Controller) remember(node string, known remembered) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if c.of == nil {
		c.of = map[string]remembered{}
	}
	c.of[node] = known
}

func (c *Controller) forget(node string) {
	c.mutex.Lock()
	delete(c.of, node)
	c.mutex.Unlock()
	c.Wake(c.Grants.Publish(node, nil))
	forgetGauges(node)
}
