package sim

import (
	"cmp"
	"context"
	"fmt"
	"runtime/debug"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/bridge"
	"attune.io/attune/internal/answers"
	"attune.io/attune/internal/lookup"
	"attune.io/attune/internal/policy"
	"attune.io/attune/internal/workload"
	"attune.io/attune/podview"
)

// words are what people and other programs are told of one workload at one moment.
type words struct {
	// rec as the operator's cache has it, stored as the API server has it; nil: that is another version.
	rec, stored *v1alpha1.AttuneRecommendation
	// page is the explanation on the web page, program that of kubectl attune explain; of stored alone.
	page, program answers.Explanation
	// view is what savings are computed from.
	view answers.View
	// vpa is what the bridge publishes; nil: nothing.
	vpa *bridge.VPA
	// next is a pod that would be created now.
	next next
	// failed is why something cannot be told; empty: all can.
	failed string
}

// next is the next pod of a workload, as the webhook gets it and as it returns it; nil: it is not known.
type next struct {
	comes, created *corev1.Pod
	// quota: the namespace has one, whose room is not foretold.
	quota bool
	// unseen: it is of a generation that the status does not know yet, and sizes of another one crashed.
	unseen bool
}

// words of all recommendations, from the caches of the operator that leads, as its pages and its bridge read them. Nothing
// is written and nothing drawn.
func (w *world) words() (all []words) {
	o := w.leader
	if o == nil || o.dead {
		return nil
	}
	recs := &v1alpha1.AttuneRecommendationList{}
	w.must(o.cache.List(context.Background(), recs, client.UnsafeDisableDeepCopy))
	for i := range recs.Items {
		all = append(all, spokenOf(&recs.Items[i], o.words))
	}
	return all
}

// spokenOf are the words of a recommendation, or why there are none.
func spokenOf(rec *v1alpha1.AttuneRecommendation, tell func(*words) error) (of words) {
	of.rec = rec
	defer func() {
		if p := recover(); p != nil {
			of.failed = fmt.Sprintf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	if err := tell(&of); err != nil {
		of.failed = err.Error()
	}
	return of
}

// words of one recommendation, put together as cmd/attune does for its pages, and package bridge for other programs.
func (o *operator) words(of *words) error {
	ctx, id := context.Background(), workload.IdentityOf(of.rec)
	stored, _ := o.w.server.Peek(of.rec, client.ObjectKeyFromObject(of.rec)).(*v1alpha1.AttuneRecommendation)
	if stored != nil && stored.ResourceVersion == of.rec.ResourceVersion {
		of.stored = stored
	}
	pods, err := lookup.Pods(ctx, o.cache, id)
	if err != nil {
		return err
	}
	of.view = answers.View{Recommendation: of.rec}
	known, object, err := lookup.Workload(ctx, o.cache, workload.Sized{}, id, client.UnsafeDisableDeepCopy)
	if client.IgnoreNotFound(err) != nil {
		return err
	}
	if err == nil {
		of.view.Workload = known
	}
	settings := lookup.Reader{Client: o.cache, Operator: policy.Operator{Namespace: operatorNamespace}, Clusterwide: true}
	if p, err := settings.Of(ctx, of.rec); err == nil {
		if resolved, err := settings.Settings(ctx, p); err == nil {
			of.view.Settings = &resolved
		}
	}
	of.view.Pods = slices.DeleteFunc(slices.Clone(pods), func(pod *corev1.Pod) bool { return !podview.Running(pod) })
	if err := o.explains(of); err != nil {
		return err
	}
	if err := o.publishes(of); err != nil {
		return err
	}
	if err == nil {
		of.next = o.next(of.rec, object, pods)
	}
	return nil
}

// explains a recommendation on the page, and as the program does, with the text for people.
func (o *operator) explains(of *words) (err error) {
	view := of.view
	if of.page, err = answers.Explain(view, nil, o.Now()); err != nil || of.stored == nil {
		return err
	}
	view.Recommendation = of.stored
	of.program, err = answers.Explain(view, nil, o.Now())
	return err
}

// publishes what the bridge does. Where pods come to the webhook, the namespaces say so.
func (o *operator) publishes(of *words) error {
	view := bridge.View{Template: of.view.Workload.Template, Seeded: o.w.plan.Seeds, Owner: metav1.OwnerReference{Kind: "ClusterRole", Name: "bridge"}, Now: o.Now()}
	limits := &corev1.LimitRangeList{}
	if err := o.cache.List(context.Background(), limits, client.InNamespace(of.rec.Namespace), client.UnsafeDisableDeepCopy); err != nil {
		return err
	}
	for i := range limits.Items {
		view.Limits = append(view.Limits, &limits.Items[i])
	}
	of.vpa, _ = bridge.Of(of.rec, view)
	return nil
}

// next pod of a workload: one like its newest, of the template that it has now, as the API server would take it. It is not
// known where the operator's cache has another version of the workload, nor where there is no pod.
func (o *operator) next(rec *v1alpha1.AttuneRecommendation, cached client.Object, pods []*corev1.Pod) (of next) {
	stored := o.w.server.Peek(cached, client.ObjectKeyFromObject(cached))
	if stored == nil || stored.GetResourceVersion() != cached.GetResourceVersion() || len(pods) == 0 {
		return of
	}
	known, _ := workload.From(stored)
	if known.Template == nil {
		return of
	}
	// The webhook does not know who adopted a ReplicaSet: new pods of it keep their template.
	pods = slices.DeleteFunc(slices.Clone(pods), func(pod *corev1.Pod) bool { return o.w.adopterOf(pod) != "" })
	if len(pods) == 0 {
		return of
	}
	newest := slices.MaxFunc(pods, func(a, b *corev1.Pod) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
	of.comes = &corev1.Pod{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}, ObjectMeta: *known.Template.ObjectMeta.DeepCopy(), Spec: *known.Template.Spec.DeepCopy()}
	of.comes.Namespace, of.comes.GenerateName, of.comes.OwnerReferences, of.comes.Labels = rec.Namespace, known.Name+"-", newest.OwnerReferences, newest.Labels
	o.w.server.Default(of.comes)
	of.created = of.comes.DeepCopy()
	o.w.admit(of.created)
	quotas := &corev1.ResourceQuotaList{}
	o.w.must(o.cache.List(context.Background(), quotas, client.InNamespace(rec.Namespace), client.UnsafeDisableDeepCopy))
	of.quota = len(quotas.Items) > 0
	if n := len(rec.Status.Originals); len(rec.Status.FailedStarts) > 0 {
		of.unseen = n == 0 || rec.Status.Originals[n-1].TemplateHash != podview.GenerationOf(newest.Labels)
	}
	return of
}

// entry is a row of the report.
func (of *words) entry(figures answers.SavingsFigures) answers.SavingsEntry {
	return answers.SavingsEntry{View: of.view, Figures: figures}
}
