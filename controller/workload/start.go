package workload

import (
	"context"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/board"
	"attune.io/attune/internal/lookup"
	"attune.io/attune/internal/workload"
	"attune.io/attune/podview"
	"attune.io/attune/resize/withdraw"
	"attune.io/attune/tuning"
)

// rejections are the newest answers of the API server to controllers that could not create a pod, by recommendation.
// They may be lost: events last an hour and are listed again after a restart, and a controller that still fails
// writes new ones. The number of recommendations limits theirs, and the cache limits the length of an answer.
type rejections struct {
	board.Table[types.NamespacedName, withdraw.Rejection]
}

func (x *rejections) record(name types.NamespacedName, r withdraw.Rejection) {
	x.Change(name, func(last withdraw.Rejection) withdraw.Rejection {
		if r.At.After(last.At) {
			return r
		}
		return last
	})
}

// rejected records an event of a controller that could not create a pod, and returns its recommendation; nil: it has
// none. The ReplicaSet of a Deployment or of an Argo Rollout is not cached: its name is the owner's with a hash.
func (c wakers) rejected(ctx context.Context, o client.Object) []reconcile.Request {
	e := o.(*corev1.Event)
	if e.Reason != workload.FailedCreate || e.InvolvedObject.Namespace != e.Namespace {
		return nil
	}
	for _, id := range c.rejectedOwners(e) {
		name := types.NamespacedName{Namespace: id.Namespace, Name: id.RecommendationName()}
		rec := &v1alpha1.AttuneRecommendation{}
		if c.client.Get(ctx, name, rec, client.UnsafeDisableDeepCopy) != nil || workload.IdentityOf(rec) != id {
			continue
		}
		at := timeOf(e)
		if now := c.clock.Now(); at.After(now) { // users who may write events choose their times
			at = now
		}
		c.rejections.record(name, withdraw.Rejection{At: at, Message: e.Message}) // the cache bounds it (trim)
		return []reconcile.Request{{NamespacedName: name}}
	}
	return nil
}

// rejectedOwners returns the workloads that an event may be about, the most likely first.
func (c wakers) rejectedOwners(e *corev1.Event) (ids []workload.Identity) {
	of := e.InvolvedObject
	reference := func(labels map[string]string) {
		pod := &metav1.ObjectMeta{Labels: labels, OwnerReferences: []metav1.OwnerReference{{APIVersion: of.APIVersion, Kind: of.Kind, Name: of.Name, Controller: ptr.To(true)}}}
		if id, ok := workload.OwnerOf(pod, e.Namespace, lookup.Owners{Reader: c.client}); ok {
			ids = append(ids, id)
		}
	}
	reference(nil)
	if at := strings.LastIndex(of.Name, "-"); at > 0 && schema.FromAPIVersionAndKind(of.APIVersion, of.Kind).GroupKind() == workload.GroupKindOf(v1alpha1.KindReplicaSet) {
		for _, label := range []string{appsv1.DefaultDeploymentUniqueLabelKey, workload.ArgoHashLabel} {
			reference(map[string]string{label: of.Name[at+1:]})
		}
	}
	return ids
}

// timeOf returns when an event last happened.
func timeOf(e *corev1.Event) time.Time {
	switch {
	case e.Series != nil:
		return e.Series.LastObservedTime.Time
	case !e.LastTimestamp.IsZero():
		return e.LastTimestamp.Time
	case !e.EventTime.IsZero():
		return e.EventTime.Time
	}
	return e.CreationTimestamp.Time
}

// observeRejections adds the newest rejection of a pod: the condition of the workload shows that it continues, an
// event when it was last repeated.
func (c *Controller) observeRejections(w *tuning.View) {
	w.Past.Deletions = c.memory.deletions.Of(client.ObjectKeyFromObject(w.Rec))
	if last, known := c.memory.rejections.Find(client.ObjectKeyFromObject(w.Rec)); known {
		w.Past.Rejected = &last
	}
	if w.Workload == nil || w.Workload.Rejected.Since.IsZero() {
		return
	}
	lasts := w.Workload.Rejected
	if w.Past.Rejected == nil || lasts.Since.After(w.Past.Rejected.At) {
		w.Past.Rejected = &withdraw.Rejection{At: lasts.Since, Message: lasts.Message}
	}
	w.Past.Rejected.Lasts = true
}

const (
	// reportLasts is how long the events of a pod are not read again.
	reportLasts = 15 * time.Second
	// mostEvents bounds how many events of a pod are read.
	mostEvents = 50
)

// startReasons are the reasons of kubelet events that a memory limit can explain.
var startReasons = map[string]bool{"FailedMount": true, "FailedCreatePodSandBox": true, "Failed": true}

// readStartEvents reads the events of pods that do not start. A failed read counts as no event, and a later pass reads
// again.
func (c looker) readStartEvents(ctx context.Context, w *tuning.View, pods []types.UID) {
	for _, uid := range pods {
		words, known := c.answers.stalled.read(uid, reportLasts, w.Now)
		if !known {
			words = c.readStalled(ctx, w, uid)
			c.answers.stalled.record(uid, words, reportLasts, w.Now)
		}
		podview.SetIn(&w.Looked.Stalled, uid, words)
	}
}

// readStalled returns the newest kubelet message about a pod that resources may explain; empty: there is none.
func (c looker) readStalled(ctx context.Context, w *tuning.View, uid types.UID) (words string) {
	pod := w.Pod(uid)
	if pod == nil {
		return ""
	}
	list := &corev1.EventList{}
	if err := c.live.List(ctx, list, client.InNamespace(pod.Namespace), client.MatchingFields{"involvedObject.uid": string(uid)}, client.Limit(mostEvents)); err != nil {
		log.FromContext(ctx).V(1).Info("Cannot read the events of a pod that does not start", "pod", pod.Name, "error", err.Error())
		return ""
	}
	var newest time.Time
	for i := range list.Items {
		e := &list.Items[i]
		if startReasons[e.Reason] && withdraw.MayStall(e.Message) && timeOf(e).After(newest) && w.Now.Sub(timeOf(e)) < eventsLately {
			newest, words = timeOf(e), e.Reason+": "+withdraw.Words(e.Message)
		}
	}
	return words
}

// eventsLately is longer than a kubelet waits between two attempts to mount a volume (2m2s).
const eventsLately = 3 * time.Minute
