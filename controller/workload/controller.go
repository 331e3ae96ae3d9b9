// Package workload is the loop keyed by AttuneRecommendation: the resize state
// machine of one workload's pods, and the only writer of a pod. It assesses open
// records, decides in data, stores the decision, and only then acts on it.
package workload

import (
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/autoscale"
	"attune.io/attune/internal/board"
	"attune.io/attune/internal/event"
	"attune.io/attune/internal/policy"
	"attune.io/attune/internal/policy/lookup"
	"attune.io/attune/internal/workload"
	"attune.io/attune/resize"
	"attune.io/attune/tuning"
)

// Autoscalers knows what autoscalers hold of a workload.
type Autoscalers interface {
	Of(ctx context.Context, w workload.Workload) (autoscale.Holds, error)
}

// Controller reconciles AttuneRecommendation objects.
type Controller struct {
	Client client.Client
	// Live reads from the API server, not from a cache.
	Live     client.Reader
	Clock    clock.PassiveClock
	Settings lookup.Reader
	// Autoscalers are read anew for every decision: the holds in the spec may be older than an HPA. nil: a
	// cluster that has none.
	Autoscalers Autoscalers
	Events      *event.Recorder
	// Gauges is the gauge of a policy's usage source; nil: nothing is measured, and the judge says so.
	Gauges func(policy.Settings) (Gauge, error)
	// Lately is what is known of CPU without asking; nil: nothing is, and the judge says so.
	Lately Lately
	// ServerVersion is that of the API server, such as v1.36.3.
	ServerVersion string
	// Operator is the namespace of this operator, by which it is told from another one; empty: there is none.
	Operator string
	// Evictions: the operator was granted the right to evict pods.
	Evictions bool
	// Rights to resize pods; nil: they are taken for granted.
	Rights *Rights
	// Served knows whether the API server serves pods/resize; nil: it does where its version may.
	Served *Served

	// Grants of the nodes (strategy Node), and whom to tell that pods are held otherwise than before. nil: no node
	// grants anything.
	Grants      *board.Grants
	HeldChanged func(types.NamespacedName)

	// Confirmed knows until when targets hold that are stored; nil: as long as is stored with them.
	Confirmed *board.Confirmed

	memory
}

// Reconcile takes a workload's pods one step: reads, decides, stores, acts, notes the answers.
func (c *Controller) Reconcile(ctx context.Context, req ctrl.Request) (reconcile.Result, error) {
	rec := &v1alpha1.AttuneRecommendation{}
	if err := c.Client.Get(ctx, req.NamespacedName, rec); err != nil {
		if apierrors.IsNotFound(err) {
			c.forget(req.NamespacedName)
			c.Grants.Forget(req.NamespacedName)
			c.Confirmed.Forget(req.NamespacedName)
		}
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if left := c.stored.behind(rec, c.Clock.Now()); left > 0 {
		return reconcile.Result{RequeueAfter: left}, nil
	}
	c.steps.recall(rec)
	since := c.waiting.now()
	w, err := observer{c}.observe(ctx, rec)
	if err != nil {
		return reconcile.Result{}, err
	}
	if d, presses := c.first(ctx, &w); presses {
		if err := c.act(ctx, rec, w, &d); err != nil {
			return c.again(req.NamespacedName, err)
		}
		return reconcile.Result{RequeueAfter: atOnce}, nil
	}
	measurer{c}.measure(ctx, &w)
	d := c.decide(ctx, &w)
	if left := c.early(w, d.Decision); left > 0 {
		c.steps.note(req.NamespacedName, d.Status.Records)
		return reconcile.Result{RequeueAfter: left, Priority: ptr.To(0)}, nil
	}
	if err := c.act(ctx, rec, w, &d); err != nil {
		return c.again(req.NamespacedName, err)
	}
	c.conflicts.over(req.NamespacedName)
	if w.Begin.Closed == nil && w.Begin.Wait == 0 {
		c.tellNodes(w, d.Decision)
		c.queue.keep(req.NamespacedName, d.ByNode.WaitingSince)
		if c.waiting.wait(req.NamespacedName, d.Topics, since) {
			d.Wake(time.Second)
		}
	}
	if w.Begin.Closed != nil || w.Looked.Unread.Any() {
		d.Wake(c.retries.after(req.NamespacedName, afterIncomplete))
	} else {
		c.retries.over(req.NamespacedName)
	}
	return c.rest(ctx, rec, w, d.Decision)
}

// early is how long a pass waits with what it would write: nothing that is due, and too soon after the last one. Pods
// that share a node are not put off at first: they are held, let go and changed together, or each is shared out anew
// beside what the others still hold. Their node keeps the distance, and where it never settles, the workload does.
func (c *Controller) early(w tuning.View, d tuning.Decision) time.Duration {
	if d.Due || noNews(w.Rec.Status, d.Status) {
		return 0
	}
	free := 0
	if w.ByNode() {
		free = freeOfPace
	}
	return c.pace.left(client.ObjectKeyFromObject(w.Rec), free, w.Now)
}

// atOnce is when a pass follows one that did only what could not wait.
const atOnce = time.Millisecond

// act stores a decision, tells of it, and carries it out.
func (c *Controller) act(ctx context.Context, rec *v1alpha1.AttuneRecommendation, w tuning.View, d *decided) error {
	begun := 0
	defer func() { c.limit.giveBack(d.turns - begun) }()
	news := !noNews(rec.Status, d.Status)
	if err := (storer{c}).store(ctx, rec, d.Status); err != nil {
		return err
	}
	if news { // what was not stored is tried again soon: another writer was first
		c.pace.wrote(client.ObjectKeyFromObject(rec), d.Status.Phase, w.Now)
	}
	c.nodes.learn(d.Lessons, w.Now)
	c.tell(rec, d.Decision)
	answered, sent := sender{c}.send(ctx, rec, w, d.Decision)
	begun = sent
	if !samePhases(answered.Records, d.Status.Records) {
		d.Wake(time.Second) // what was not taken is decided about anew
	}
	if slices.ContainsFunc(answered.Records, tuning.IsNew) {
		d.Wake(resize.SyncPeriod) // an answer that is lost wakes nothing
	}
	return storer{c}.store(ctx, rec, answered)
}

// samePhases: the answers closed no record and began to take none back. That a resize was accepted is for its pod to
// tell.
func samePhases(answered, decided []v1alpha1.ResizeRecord) bool {
	return slices.EqualFunc(answered, decided, func(a, b v1alpha1.ResizeRecord) bool {
		return a.PodUID == b.PodUID && resize.PuttingBack(a) == resize.PuttingBack(b)
	})
}

// again reads and decides anew where another writer was first.
func (c *Controller) again(name types.NamespacedName, err error) (reconcile.Result, error) {
	if apierrors.IsConflict(err) {
		return reconcile.Result{RequeueAfter: c.conflicts.after(name, afterConflict)}, nil
	}
	return reconcile.Result{}, err
}

// sendEvent sends an event on the pod that it is about, where a person looks first, with the recommendation as the
// related object; on the recommendation where it is about the workload.
func (c *Controller) sendEvent(rec *v1alpha1.AttuneRecommendation, e tuning.Event) {
	if e.Pod == "" {
		c.Events.Send(rec, nil, e.Event)
		return
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: rec.Namespace, Name: e.Name, UID: e.Pod}}
	c.Events.Send(pod, rec, e.Event)
}

func (c *Controller) tell(rec *v1alpha1.AttuneRecommendation, d tuning.Decision) {
	for _, e := range d.Events {
		c.sendEvent(rec, e)
	}
	c.counted.note(rec)
	for _, n := range d.Counts {
		add(n, rec)
	}
	setPending(rec, len(d.Pending))
	for _, outcome := range d.EvictionOutcomes {
		countEviction(rec, outcome)
	}
}
