package workload

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/autoscale"
	"attune.io/attune/internal/board"
	"attune.io/attune/internal/effective"
	"attune.io/attune/internal/owners"
	"attune.io/attune/internal/policy"
	"attune.io/attune/internal/workload"
	"attune.io/attune/recommender"
	"attune.io/attune/resize"
)

// world is what one pass over a workload sees: values only.
type world struct {
	// part is how much of the pass is decided.
	part part
	// closed is why nothing new is begun, whatever the pods are like; nil: it may be.
	closed *resize.Refusal
	// full is how long nothing new is begun in any workload, since as much was begun as may be for now.
	full     time.Duration
	rec      *v1alpha1.AttuneRecommendation
	settings policy.Settings
	// usable: the policy is there, not being deleted, and its settings hold together. Otherwise open
	// records are finished and nothing new is begun.
	usable bool
	// policyGone: the policy is not there, or being deleted.
	policyGone bool
	workload   *workload.Workload
	pods       []*corev1.Pod
	nodes      map[string]nodeView
	limits     []corev1.LimitRange
	quotas     []corev1.ResourceQuota
	budgets    []policyv1.PodDisruptionBudget
	// autoscalers is what other autoscalers hold of the workload.
	autoscalers autoscale.Holds
	now         time.Time
	// serverVersion is that of the API server.
	serverVersion string
	// noResize: it serves no pods/resize all the same.
	noResize bool
	// confirmed is until when the targets are known to hold as they are stored; zero: that is not known.
	confirmed time.Time
	// measured are the signals of pods whose watch has ended, by uid.
	measured map[string]resize.Signals

	// granted is what the pods' nodes grant them (strategy Node).
	granted map[types.UID]board.Pod
	// waits is since when pods wait to be resized so.
	waits map[types.UID]time.Time

	// terminating: the namespace is being deleted.
	terminating bool
	// seeded: new pods of the namespace are sized at admission.
	seeded bool
	// mayEvict: the operator may evict pods. cluster holds its nodes, where that was asked (questions).
	mayEvict bool
	// operator is the namespace of this one.
	operator string
	cluster  []*corev1.Node
	// noRights says why no pod may be resized, noRightsUrgent why not even for harm's sake; empty: they may.
	noRights, noRightsUrgent string
	// tried is when pods were last asked to be put back.
	tried map[types.UID]time.Time
	// promised is what other resizes that are under way take.
	promised ledger
	// behind are pods that the API server has shown newer than they are here.
	behind map[types.UID]bool
	// rooms are what pods take of nodes, where that was looked at; seenLive the pods that were read past the cache;
	// memory what containers hold, by pod and name, where that was asked (questions).
	rooms    map[string]*resize.Room
	unread   unread
	seenLive map[types.UID]bool
	memory   map[types.UID]map[string]recommender.Amount
	// unweighed: what a pod's containers hold will be known within seconds.
	unweighed map[types.UID]bool
}

// observe reads everything a decision about the workload depends on, from the cache.
func (c *Controller) observe(ctx context.Context, rec *v1alpha1.AttuneRecommendation) (world, error) {
	w := world{
		rec: rec, now: c.Clock.Now(), nodes: map[string]nodeView{}, serverVersion: c.ServerVersion, noResize: c.Served.lacks(), mayEvict: c.Evictions, operator: c.Operator,
		noRights: c.Rights.lost(ctx, rec.Namespace), noRightsUrgent: c.Rights.lostUrgent(ctx, rec.Namespace), tried: c.lastAsked.read(rec.Status.Records),
		confirmed: c.Confirmed.Until(client.ObjectKeyFromObject(rec)),
		seenLive:  map[types.UID]bool{}, behind: map[types.UID]bool{}, memory: map[types.UID]map[string]recommender.Amount{}, unweighed: map[types.UID]bool{},
	}
	if err := c.observePolicy(ctx, &w); err != nil {
		return world{}, err
	}
	id := workload.IdentityOf(rec)
	if err := c.observeWorkload(ctx, &w, id); err != nil {
		return world{}, err
	}
	if err := c.observePods(ctx, &w, id); err != nil {
		return world{}, err
	}
	c.observeGrants(&w)
	if err := c.observeNamespace(ctx, &w); err != nil {
		w.close(notKnown(ctx, whatNamespace, err))
	}
	return w, nil
}

func (c *Controller) observePolicy(ctx context.Context, w *world) error {
	p := &v1alpha1.AttunePolicy{}
	err := c.Client.Get(ctx, types.NamespacedName{Namespace: w.rec.Namespace, Name: w.rec.Spec.Policy.Name}, p)
	if apierrors.IsNotFound(err) {
		w.settings, _ = policy.Resolve(nil, nil, nil)
		w.policyGone = true
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading policy %s: %w", w.rec.Spec.Policy.Name, err)
	}
	settings, err := c.Settings.Settings(ctx, p)
	if err != nil && effective.Invalid(err) == nil {
		return err
	}
	w.settings = settings
	w.policyGone = p.DeletionTimestamp != nil || p.UID != w.rec.Spec.Policy.UID
	w.usable = err == nil && !w.policyGone
	return nil
}

func (c *Controller) observeWorkload(ctx context.Context, w *world, id workload.Identity) error {
	object := workload.NewObject(id.Kind)
	if object == nil {
		return nil
	}
	err := c.Client.Get(ctx, types.NamespacedName{Namespace: id.Namespace, Name: id.Name}, object)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading %s: %w", id, err)
	}
	if found, ok := workload.From(object); ok {
		w.workload = &found
	}
	return nil
}

// autoscalersFor bounds what one pass waits for a list of autoscalers that was never read yet.
const autoscalersFor = 10 * time.Second

// observeAutoscalers comes after what is open. Where they cannot be listed, it returns why nothing new is begun but
// answers to OOM kills.
func (c *Controller) observeAutoscalers(ctx context.Context, w *world) *resize.Refusal {
	if w.workload == nil || c.Autoscalers == nil {
		return nil
	}
	bounded, cancel := context.WithTimeout(ctx, autoscalersFor)
	defer cancel()
	var err error
	if w.autoscalers, err = c.Autoscalers.Of(bounded, *w.workload); err != nil {
		return notKnown(ctx, whatAutoscalers, err)
	}
	return nil
}

// observePods lists the workload's pods by name, so that every pass sees the same order.
func (c *Controller) observePods(ctx context.Context, w *world, id workload.Identity) error {
	pods, err := owners.Pods(ctx, c.Client, id)
	if err != nil {
		return err
	}
	w.pods = pods
	slices.SortFunc(w.pods, func(a, b *corev1.Pod) int { return cmp.Compare(a.Name, b.Name) })
	for _, pod := range w.pods {
		w.behind[pod.UID] = c.newest.behind(pod)
		c.observeNode(ctx, w, pod.Spec.NodeName)
	}
	return nil
}

func (c *Controller) observeNode(ctx context.Context, w *world, name string) {
	if _, known := w.nodes[name]; known || name == "" || w.unread.nodes[name] != nil {
		return
	}
	node := &corev1.Node{}
	err := c.Client.Get(ctx, types.NamespacedName{Name: name}, node, client.UnsafeDisableDeepCopy)
	switch {
	case apierrors.IsNotFound(err):
		c.nodes.forget(name)
	case err != nil:
		w.unread.node(name, notKnown(ctx, whatNode, fmt.Errorf("reading node %s: %w", name, err)))
	default:
		w.nodes[name] = c.nodes.see(node, w.now)
	}
}

func (c *Controller) observeNamespace(ctx context.Context, w *world) error {
	namespace := owners.Namespace()
	if err := c.Client.Get(ctx, types.NamespacedName{Name: w.rec.Namespace}, namespace, client.UnsafeDisableDeepCopy); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("reading the namespace: %w", err)
	}
	w.terminating = namespace.DeletionTimestamp != nil
	w.seeded = namespace.Labels[v1alpha1.InjectLabel] == v1alpha1.InjectEnabled
	limits := &corev1.LimitRangeList{}
	if err := c.Client.List(ctx, limits, client.InNamespace(w.rec.Namespace), client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("listing limit ranges: %w", err)
	}
	quotas := &corev1.ResourceQuotaList{}
	if err := c.Client.List(ctx, quotas, client.InNamespace(w.rec.Namespace), client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("listing quotas: %w", err)
	}
	budgets := &policyv1.PodDisruptionBudgetList{}
	if err := c.Client.List(ctx, budgets, client.InNamespace(w.rec.Namespace), client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("listing disruption budgets: %w", err)
	}
	w.limits, w.quotas, w.budgets = limits.Items, quotas.Items, budgets.Items
	return nil
}

// pod is the live pod of a record, nil where it is gone.
func (w world) pod(uid types.UID) *corev1.Pod {
	for _, p := range w.pods {
		if p.UID == uid {
			return p
		}
	}
	return nil
}

// owner is the workload as it is, the zero value where it is gone: records outlive it.
func (w world) owner() workload.Workload {
	if w.workload == nil {
		return workload.Workload{}
	}
	return *w.workload
}

// dataUntil is the newest usage sample by which the targets hold: that of when they were stored, or what was found
// since and gave no reason to store them again. Zero: there is none.
func (w world) dataUntil() time.Time {
	stored := w.rec.Spec.DataUntil
	switch {
	case stored == nil:
		return time.Time{}
	case w.confirmed.After(stored.Time):
		return w.confirmed
	}
	return stored.Time
}

// capabilities are what a pod's node can do; an unknown node's are none.
func (w world) capabilities(pod *corev1.Pod) resize.Capabilities {
	return w.capabilitiesOn(pod.Spec.NodeName)
}

func (w world) capabilitiesOn(name string) resize.Capabilities {
	node := w.nodes[name]
	caps := resize.CapabilitiesOf(node.Node, w.serverVersion).With(node.facts)
	caps.Resizable = caps.Resizable && !w.noResize
	return caps
}

// signals are what was measured of a record's pod, and what is known of its workload.
func (w world) signals(record v1alpha1.ResizeRecord) resize.Signals {
	signals := w.measured[string(record.PodUID)]
	signals.Rollout = w.owner().Rollout.InProgress
	signals.NodeBooted = w.nodes[record.Node].booted
	signals.NodeNotReady = w.nodeNotReady(record.Node)
	if pod := w.pod(record.PodUID); pod != nil && (suffered(pod) || !isReady(pod)) {
		signals.SiblingsUnready = resize.SiblingsUnready(w.pods, record, w.rec.Status.Records, w.nodeNotReady)
	}
	return signals
}

// nodeNotReady: a node that could not be read is taken for ready.
func (w world) nodeNotReady(name string) bool {
	view, known := w.nodes[name]
	return known && !resize.NodeReady(view.Node)
}
