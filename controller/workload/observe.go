package workload

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/autoscale"
	"attune.io/attune/internal/effective"
	"attune.io/attune/internal/policy"
	"attune.io/attune/internal/workload"
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
	nodes    map[string]*corev1.Node
	limits   []corev1.LimitRange
	quotas   []corev1.ResourceQuota
	// autoscalers is what other autoscalers hold of the workload.
	autoscalers autoscale.Holds
	now         time.Time
	// serverVersion is that of the API server.
	serverVersion string
	// measured are the signals of pods whose watch has ended, by uid.
	measured map[string]resize.Signals
}

// observe reads everything a decision about the workload depends on, from the cache.
func (c *Controller) observe(ctx context.Context, rec *v1alpha1.AttuneRecommendation) (world, error) {
	w := world{rec: rec, now: c.Clock.Now(), nodes: map[string]*corev1.Node{}, serverVersion: c.ServerVersion}
	if err := c.observePolicy(ctx, &w); err != nil {
		return world{}, err
	}
	id := workload.Identity{Kind: rec.Spec.Workload.Kind, Namespace: rec.Namespace, Name: rec.Spec.Workload.Name}
	if err := c.observeWorkload(ctx, &w, id); err != nil {
		return world{}, err
	}
	if err := c.observeAutoscalers(ctx, &w); err != nil {
		return world{}, err
	}
	if err := c.observePods(ctx, &w, id); err != nil {
		return world{}, err
	}
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
	found, err := c.Autoscalers.In(ctx, w.rec.Namespace)
	if err != nil {
		return err
	}
	w.autoscalers = found.Of(*w.workload)
	return nil
}

// observePods lists the workload's pods by name, so that every pass sees the same order.
func (c *Controller) observePods(ctx context.Context, w *world, id workload.Identity) error {
	pods := &corev1.PodList{}
	err := c.Client.List(ctx, pods, client.InNamespace(id.Namespace), client.MatchingFields{byWorkload: id.String()})
	if err != nil {
		return fmt.Errorf("listing pods of %s: %w", id, err)
	}
	for i := range pods.Items {
		w.pods = append(w.pods, &pods.Items[i])
	}
	slices.SortFunc(w.pods, func(a, b *corev1.Pod) int { return cmp.Compare(a.Name, b.Name) })
	for _, pod := range w.pods {
		if err := c.observeNode(ctx, w, pod.Spec.NodeName); err != nil {
			return err
		}
	}
	return nil
}

func (c *Controller) observeNode(ctx context.Context, w *world, name string) error {
	if name == "" || w.nodes[name] != nil {
		return nil
	}
	node := &corev1.Node{}
	if err := c.Client.Get(ctx, types.NamespacedName{Name: name}, node); err != nil {
		if apierrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("reading node %s: %w", name, err)
	}
	w.nodes[name] = node
	return nil
}

func (c *Controller) observeNamespace(ctx context.Context, w *world) error {
	limits := &corev1.LimitRangeList{}
	if err := c.Client.List(ctx, limits, client.InNamespace(w.rec.Namespace)); err != nil {
		return fmt.Errorf("listing limit ranges: %w", err)
	}
	quotas := &corev1.ResourceQuotaList{}
	if err := c.Client.List(ctx, quotas, client.InNamespace(w.rec.Namespace)); err != nil {
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

// capabilities are what a pod's node can do; an unknown node's are none.
func (w world) capabilities(pod *corev1.Pod) resize.Capabilities {
	return resize.CapabilitiesOf(w.nodes[pod.Spec.NodeName], w.serverVersion)
}

// signals are what was measured of a record's pod, and what is known of its workload.
func (w world) signals(record v1alpha1.ResizeRecord) resize.Signals {
	signals := w.measured[string(record.PodUID)]
	signals.Rollout = w.workload != nil && w.workload.Rollout.InProgress
	return signals
}
