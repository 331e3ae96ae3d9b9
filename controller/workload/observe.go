package workload

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/autoscale"
	"attune.io/attune/internal/board"
	"attune.io/attune/internal/lookup"
	"attune.io/attune/internal/policy"
	"attune.io/attune/internal/workload"
	"attune.io/attune/podview"
	"attune.io/attune/recommender"
	"attune.io/attune/resize"
	"attune.io/attune/resize/lifecycle"
	"attune.io/attune/tuning"
	"attune.io/attune/tuning/targets"
)

// observe reads all inputs of the first decision from the cache. It writes nothing. It fails if the policy, the
// workload or the pods cannot be read: without them no decision is possible, not even a revert. If the namespace or a
// node cannot be read, open records continue, and nothing new starts.
func (c *Controller) observe(ctx context.Context, rec *v1alpha1.AttuneRecommendation) (tuning.View, error) {
	w := tuning.View{
		Now: c.Clock.Now(), Rec: rec, Nodes: map[string]tuning.Node{},
		Operator: tuning.OperatorView{
			Namespace: c.Admission.Operator, MayEvict: c.Evictions, ServerVersion: c.ControlPlane.Version, NoResize: c.Served.lacks(),
			HPASync:  cmp.Or(c.ControlPlane.HPASync, lifecycle.HPASyncPeriod),
			NoRights: c.Rights.lost(ctx, rec.Namespace), NoRightsUrgent: c.Rights.lostUrgent(ctx, rec.Namespace),
		},
		Usage: tuning.UsageView{
			Confirmed: c.Confirmed.Of(client.ObjectKeyFromObject(rec)),
			Memory:    map[types.UID]map[string]recommender.Amount{}, MemorySoon: map[types.UID]bool{},
			NoRecent: c.Recently == nil,
		},
		Past: tuning.PastView{
			AskedAt: c.askedAt(rec.Status.Records, c.Clock.Now()), TookOver: c.memory.stored.Of(client.ObjectKeyFromObject(rec)).tookOver,
		},
		Looked: tuning.LookedView{
			Live: map[types.UID]bool{}, CacheLags: map[types.UID]bool{},
			Unread: tuning.Unread{Pods: map[types.UID]*resize.Refusal{}, Nodes: map[string]*resize.Refusal{}},
		},
	}
	if err := c.observePolicy(ctx, &w); err != nil {
		return tuning.View{}, err
	}
	id := workload.IdentityOf(rec)
	if err := c.observeWorkload(ctx, &w, id); err != nil {
		return tuning.View{}, err
	}
	c.observeRejections(&w)
	if err := c.observePods(ctx, &w, id); err != nil {
		return tuning.View{}, err
	}
	c.observeGrants(&w)
	if err := c.observeNamespace(ctx, &w); err != nil {
		w.Close(notKnown(ctx, "namespace", err))
	}
	return w, nil
}

// observePolicy reads the policy and its settings. For a deleted policy it uses the settings of the namespace's and
// the cluster's defaults, to complete open records and to restore originals. Invalid settings make the policy
// unusable. Other read errors are returned.
func (c *Controller) observePolicy(ctx context.Context, w *tuning.View) error {
	p, err := c.Settings.Of(ctx, w.Rec)
	if apierrors.IsNotFound(err) {
		gone := &v1alpha1.AttunePolicy{}
		gone.Namespace = w.Rec.Namespace
		w.Policy.Gone = true
		if w.Policy.Settings, err = c.Settings.Settings(ctx, gone); err != nil && lookup.Invalid(err) == nil {
			return err
		}
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading policy %s: %w", policy.NameOf(w.Rec.Spec.Policy), err)
	}
	settings, err := c.Settings.Settings(ctx, p)
	if err != nil && lookup.Invalid(err) == nil {
		return err
	}
	w.Policy.Settings = settings
	w.Policy.Gone = p.DeletionTimestamp != nil || p.UID != w.Rec.Spec.Policy.UID
	w.Policy.Usable = err == nil && !w.Policy.Gone
	return nil
}

// observeWorkload reads the workload. It stays nil if the workload is deleted, or if this version does not know or
// the API server does not serve its kind.
func (c *Controller) observeWorkload(ctx context.Context, w *tuning.View, id workload.Identity) error {
	if !c.Access.Sized.Has(id.Kind) {
		return nil
	}
	found, _, err := lookup.Workload(ctx, c.Client, c.Access.Sized, id)
	if err != nil {
		return client.IgnoreNotFound(err)
	}
	w.Workload = &found
	return nil
}

// observeAutoscalers runs after open records are handled. If the autoscalers cannot be listed, it returns why nothing
// new starts except responses to OOM kills.
func (c *Controller) observeAutoscalers(ctx context.Context, w *tuning.View) *resize.Refusal {
	if w.Workload == nil || c.Autoscalers == nil {
		return nil
	}
	var err error
	if w.Autoscalers, err = c.Autoscalers.Of(ctx, *w.Workload); err != nil {
		return notKnown(ctx, "autoscalers", err)
	}
	settings := w.Policy.Settings
	original := targets.OriginalRequests(targets.View{Workload: *w.Workload, Settings: settings, Status: w.Rec.Status})
	if len(w.Rec.Spec.Containers) == 0 { // not sized any more, but pods may still have other requests
		original = func(container string, of recommender.Resource) recommender.Amount {
			size, _ := podview.TemplateSize(w.Workload.Template, container)
			return size[of].Request
		}
	}
	w.Autoscalers = w.Autoscalers.WithStored(w.Rec.Spec.HPABindings, w.Now).WithKept(w.Rec.Spec.Containers, autoscale.Fleet{
		Keeps: settings.KeepsReplicas, Retargets: settings.Retargets, Pods: w.Pods, Tries: w.Rec.Status.Tries, Now: w.Now,
		Original: original, Template: targets.TemplateRequests(*w.Workload), Before: func(pod *corev1.Pod, container string, of recommender.Resource) recommender.Amount {
			size, _ := podview.TemplateSize(w.Workload.Template, container)
			return cmp.Or(requestBefore(pod, container, of, w.Rec.Status.Originals), size[of].Request)
		},
	})
	return nil
}

// requestBefore returns the request of a container of a pod without attune: its own unless attune changed it. 0: not known.
func requestBefore(pod *corev1.Pod, container string, of recommender.Resource, stored []v1alpha1.Originals) recommender.Amount {
	request := func(sizes []v1alpha1.ContainerResources) recommender.Amount {
		return podview.SizesOf(sizes)[container][of].Request
	}
	raw, seeded := pod.Annotations[v1alpha1.SeededAnnotation]
	if !seeded && podview.ResizedByAttune(pod).IsZero() {
		c := podview.First(podview.Resizable(pod), func(c *corev1.Container) bool { return c.Name == container })
		return podview.AmountIn(of, c.Resources.Requests)
	}
	hash := podview.TemplateHash(pod)
	for _, o := range slices.Backward(stored) {
		if o.TemplateHash == hash && request(o.Containers) > 0 {
			return request(o.Containers)
		}
	}
	var at v1alpha1.Seeded
	if workload.UnmarshalBounded([]byte(raw), &at) != nil {
		return 0
	}
	return request(at.Original)
}

// observePods lists the workload's pods, sorted by name so that every pass sees the same order, and reads their
// nodes.
func (c *Controller) observePods(ctx context.Context, w *tuning.View, id workload.Identity) error {
	pods, err := lookup.Pods(ctx, c.Client, id)
	if err != nil {
		return err
	}
	w.Pods = pods
	slices.SortFunc(w.Pods, func(a, b *corev1.Pod) int { return cmp.Compare(a.Name, b.Name) })
	for _, pod := range w.Pods {
		w.Looked.CacheLags[pod.UID] = c.memory.seenGenerations.behind(pod)
		c.observeNode(ctx, w, pod.Spec.NodeName)
	}
	return nil
}

// observeNode reads a pod's node once in a pass. A deleted node is dropped from memory and is not in the view; a node
// that cannot be read is marked as unread.
func (c *Controller) observeNode(ctx context.Context, w *tuning.View, name string) {
	if _, known := w.Nodes[name]; known || name == "" || w.Looked.Unread.Nodes[name] != nil {
		return
	}
	node := &corev1.Node{}
	err := c.Client.Get(ctx, types.NamespacedName{Name: name}, node, client.UnsafeDisableDeepCopy)
	switch {
	case apierrors.IsNotFound(err):
		c.memory.nodes.Forget(name)
	case err != nil:
		w.Looked.Unread.Nodes[name] = notKnown(ctx, "node", fmt.Errorf("reading node %s: %w", name, err))
	default:
		w.Nodes[name] = c.memory.nodes.see(node, w.Now)
	}
}

// observeNamespace reads the namespace, its LimitRanges, quotas and disruption budgets. The lists belong to the
// cache: do not change them.
func (c *Controller) observeNamespace(ctx context.Context, w *tuning.View) error {
	namespace := lookup.Namespace()
	if err := c.Client.Get(ctx, types.NamespacedName{Name: w.Rec.Namespace}, namespace, client.UnsafeDisableDeepCopy); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("reading the namespace: %w", err)
	}
	w.Namespace.Terminating = namespace.DeletionTimestamp != nil
	w.Namespace.NotSized = c.Admission.NotSized(w.Rec.Namespace, namespace.Labels)
	limits, quotas, budgets := &corev1.LimitRangeList{}, &corev1.ResourceQuotaList{}, &policyv1.PodDisruptionBudgetList{}
	for _, of := range []struct {
		what string
		list client.ObjectList
	}{{"limit ranges", limits}, {"quotas", quotas}, {"disruption budgets", budgets}} {
		if err := c.Client.List(ctx, of.list, client.InNamespace(w.Rec.Namespace), client.UnsafeDisableDeepCopy); err != nil {
			return fmt.Errorf("listing %s: %w", of.what, err)
		}
	}
	w.Namespace.Limits, w.Namespace.Quotas, w.Namespace.Budgets = limits.Items, quotas.Items, budgets.Items
	return nil
}

// notKnown counts and logs a failed read (what: a value of the metric's label), and returns it as the refusal of
// everything that depends on it. It is transient: the next pass reads again.
func notKnown(ctx context.Context, what string, err error) *resize.Refusal {
	incomplete.WithLabelValues(what).Inc()
	log.FromContext(ctx).Error(err, "Cannot read an input of a reconcile; starting nothing that depends on it", "what", what)
	return resize.RefuseForNow(resize.ReasonNotKnown, "the operator could not read an input of the decision, and tries again: %v", err)
}

// observeGrants adds the grants of the pods' nodes to the view, and since when pods wait for their turn.
func (c *Controller) observeGrants(w *tuning.View) {
	w.Grants, w.Past.WaitingSince = map[types.UID]board.Pod{}, c.memory.queue.Of(client.ObjectKeyFromObject(w.Rec))
	for _, pod := range w.Pods {
		if granted, ok := c.Grants.Of(pod.UID); ok && w.ByNode() {
			w.Grants[pod.UID] = granted
		}
	}
}

// publishBlocked publishes which pods are blocked, and wakes the node loop if that changed. It runs only after a complete
// pass: a pass that could not read the namespace does not know why its pods are blocked.
func (c *Controller) publishBlocked(w tuning.View, d tuning.Decision) {
	key, news := client.ObjectKeyFromObject(w.Rec), false
	if w.ByNode() {
		news = c.Grants.Hold(key, d.ByNode.Held, d.ByNode.NotEvictable)
	} else {
		news = c.Grants.Forget(key)
	}
	if news && c.HeldChanged != nil {
		c.HeldChanged(key)
	}
}
