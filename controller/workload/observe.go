package workload

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/autoscale"
	"attune.io/attune/internal/effective"
	"attune.io/attune/internal/grant"
	"attune.io/attune/internal/policy"
	"attune.io/attune/internal/workload"
	"attune.io/attune/recommender"
	"attune.io/attune/resize"
)

// world is what one pass over a workload sees: values only.
type world struct {
	rec      *v1alpha1.AttuneRecommendation
	settings policy.Settings
	// usable: the policy is there, not being deleted, and its settings hold together. Otherwise open
	// records are finished and nothing new is begun.
	usable   bool
	workload *workload.Workload
	pods     []*corev1.Pod
	nodes    map[string]nodeView
	limits   []corev1.LimitRange
	quotas   []corev1.ResourceQuota
	// autoscalers is what other autoscalers hold of the workload.
	autoscalers autoscale.Holds
	now         time.Time
	// serverVersion is that of the API server.
	serverVersion string
	// confirmed is until when the targets are known to hold as they are stored; zero: that is not known.
	confirmed time.Time
	// measured are the signals of pods whose watch has ended, by uid.
	measured map[string]resize.Signals

	// granted is what the pods' nodes grant them (strategy Node).
	granted map[types.UID]grant.Pod

	// terminating: the namespace is being deleted.
	terminating bool
	// seeded: new pods of the namespace are sized at admission.
	seeded bool
	// mayEvict: the operator may evict pods. cluster holds its nodes, where that was asked (questions).
	mayEvict bool
	// operator is the namespace of this one.
	operator string
	cluster  []*corev1.Node
	// noRights says why no pod may be resized; empty: they may.
	noRights string
	// tried is when pods were last asked to be put back.
	tried map[types.UID]time.Time
	// declined is what the API server did not take lately.
	declined []resize.Declined
	// promised is what other resizes that are under way take.
	promised ledger
	// behind are pods that the API server has shown newer than they are here.
	behind map[types.UID]bool
	// rooms are what pods take of nodes, where that was looked at; seenLive the pods that were read past the cache;
	// memory what containers hold, by pod and name, where that was asked (questions).
	rooms    map[string]*resize.Room
	seenLive map[types.UID]bool
	memory   map[types.UID]map[string]recommender.Amount
}

// observe reads everything a decision about the workload depends on, from the cache.
func (c *Controller) observe(ctx context.Context, rec *v1alpha1.AttuneRecommendation) (world, error) {
	w := world{
		rec: rec, now: c.Clock.Now(), nodes: map[string]nodeView{}, serverVersion: c.ServerVersion, mayEvict: c.Evictions, operator: c.Operator,
		declined: c.declined.read(client.ObjectKeyFromObject(rec)), noRights: c.Rights.lost(ctx), tried: c.tries.read(rec.Status.Records),
		confirmed: c.Fresh.Until(client.ObjectKeyFromObject(rec)),
		seenLive:  map[types.UID]bool{}, behind: map[types.UID]bool{}, memory: map[types.UID]map[string]recommender.Amount{},
	}
	if err := c.observePolicy(ctx, &w); err != nil {
		return world{}, err
	}
	id := workload.IdentityOf(rec)
	if err := c.observeWorkload(ctx, &w, id); err != nil {
		return world{}, err
	}
	if err := c.observeAutoscalers(ctx, &w); err != nil {
		return world{}, err
	}
	if err := c.observePods(ctx, &w, id); err != nil {
		return world{}, err
	}
	c.observeGrants(&w)
	return w, c.observeNamespace(ctx, &w)
}

func (c *Controller) observePolicy(ctx context.Context, w *world) error {
	p := &v1alpha1.AttunePolicy{}
	err := c.Client.Get(ctx, types.NamespacedName{Namespace: w.rec.Namespace, Name: w.rec.Spec.Policy.Name}, p)
	if apierrors.IsNotFound(err) {
		w.settings, _ = policy.Resolve(nil, nil, nil)
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
	w.usable = err == nil && p.DeletionTimestamp == nil && p.UID == w.rec.Spec.Policy.UID
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

func (c *Controller) observeAutoscalers(ctx context.Context, w *world) error {
	if w.workload == nil || c.Autoscalers == nil {
		return nil
	}
	var err error
	w.autoscalers, err = c.Autoscalers.Of(ctx, *w.workload)
	return err
}

// observePods lists the workload's pods by name, so that every pass sees the same order.
func (c *Controller) observePods(ctx context.Context, w *world, id workload.Identity) error {
	pods := &corev1.PodList{}
	err := c.Client.List(ctx, pods, client.InNamespace(id.Namespace), client.MatchingFields{byWorkload: id.String()}, client.UnsafeDisableDeepCopy)
	if err != nil {
		return fmt.Errorf("listing pods of %s: %w", id, err)
	}
	for i := range pods.Items {
		w.pods = append(w.pods, &pods.Items[i])
	}
	slices.SortFunc(w.pods, func(a, b *corev1.Pod) int { return cmp.Compare(a.Name, b.Name) })
	for _, pod := range w.pods {
		w.behind[pod.UID] = c.newest.behind(pod)
		if err := c.observeNode(ctx, w, pod.Spec.NodeName); err != nil {
			return err
		}
	}
	return nil
}

func (c *Controller) observeNode(ctx context.Context, w *world, name string) error {
	if _, known := w.nodes[name]; known || name == "" {
		return nil
	}
	node := &corev1.Node{}
	err := c.Client.Get(ctx, types.NamespacedName{Name: name}, node, client.UnsafeDisableDeepCopy)
	switch {
	case apierrors.IsNotFound(err):
		c.nodes.forget(name)
		return nil
	case err != nil:
		return fmt.Errorf("reading node %s: %w", name, err)
	}
	w.nodes[name] = c.nodes.see(node, w.now)
	return nil
}

func (c *Controller) observeNamespace(ctx context.Context, w *world) error {
	namespace := &metav1.PartialObjectMetadata{}
	namespace.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
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
	w.limits, w.quotas = limits.Items, quotas.Items
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
	node := w.nodes[pod.Spec.NodeName]
	return resize.CapabilitiesOf(node.Node, w.serverVersion).With(node.facts)
}

// signals are what was measured of a record's pod, and what is known of its workload.
func (w world) signals(record v1alpha1.ResizeRecord) resize.Signals {
	signals := w.measured[string(record.PodUID)]
	signals.Rollout = w.workload != nil && w.workload.Rollout.InProgress
	signals.NodeBooted = w.nodes[record.Node].booted
	return signals
}
