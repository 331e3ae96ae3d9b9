package plane

import (
	"cmp"
	"context"
	"fmt"
	"reflect"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// view is the cluster as it was listed at the beginning of a Sync, and what the parts have changed since. Nothing
// that was listed is ever written into: a change is made on a copy.
type view struct {
	now         time.Time
	pods        []*corev1.Pod
	owned       map[types.UID][]*corev1.Pod
	nodes       []*corev1.Node
	deployments []*appsv1.Deployment
	replicaSets []*appsv1.ReplicaSet
	stateful    []*appsv1.StatefulSet
	daemons     []*appsv1.DaemonSet
	jobs        []*batchv1.Job
	cronJobs    []*batchv1.CronJob
	autoscalers []*autoscalingv2.HorizontalPodAutoscaler
	quotas      []*corev1.ResourceQuota
	budgets     []*policyv1.PodDisruptionBudget
	namespaces  []*corev1.Namespace
	// refusals are what the API server said of pods of Jobs in this step.
	refusals map[like]error
}

// look lists what the parts that run need.
func (p *Plane) look(ctx context.Context, now time.Time) (v *view, err error) {
	v = &view{now: now, owned: map[types.UID][]*corev1.Pod{}, refusals: map[like]error{}}
	for _, l := range []struct {
		of   []Part
		into func() error
	}{
		{nil, func() error { v.pods, err = all[*corev1.Pod](ctx, p, &corev1.PodList{}); return err }},
		{[]Part{Collector, Lifecycle, Daemons, Scheduler, Drains}, func() error { v.nodes, err = all[*corev1.Node](ctx, p, &corev1.NodeList{}); return err }},
		{nil, func() error {
			v.deployments, err = all[*appsv1.Deployment](ctx, p, &appsv1.DeploymentList{})
			return err
		}},
		{nil, func() error {
			v.replicaSets, err = all[*appsv1.ReplicaSet](ctx, p, &appsv1.ReplicaSetList{})
			return err
		}},
		{nil, func() error {
			v.stateful, err = all[*appsv1.StatefulSet](ctx, p, &appsv1.StatefulSetList{})
			return err
		}},
		{[]Part{Daemons}, func() error { v.daemons, err = all[*appsv1.DaemonSet](ctx, p, &appsv1.DaemonSetList{}); return err }},
		{[]Part{Jobs, CronJobs}, func() error { v.jobs, err = all[*batchv1.Job](ctx, p, &batchv1.JobList{}); return err }},
		{[]Part{CronJobs}, func() error { v.cronJobs, err = all[*batchv1.CronJob](ctx, p, &batchv1.CronJobList{}); return err }},
		{[]Part{Autoscalers}, func() error {
			v.autoscalers, err = all[*autoscalingv2.HorizontalPodAutoscaler](ctx, p, &autoscalingv2.HorizontalPodAutoscalerList{})
			return err
		}},
		{[]Part{Quotas}, func() error {
			v.quotas, err = all[*corev1.ResourceQuota](ctx, p, &corev1.ResourceQuotaList{})
			return err
		}},
		{[]Part{Budgets}, func() error {
			v.budgets, err = all[*policyv1.PodDisruptionBudget](ctx, p, &policyv1.PodDisruptionBudgetList{})
			return err
		}},
		{[]Part{Namespaces}, func() error { v.namespaces, err = all[*corev1.Namespace](ctx, p, &corev1.NamespaceList{}); return err }},
	} {
		if p.runsAny(l.of) {
			if err := l.into(); err != nil {
				return nil, err
			}
		}
	}
	for _, pod := range v.pods {
		v.own(pod)
	}
	v.nodes = slices.DeleteFunc(v.nodes, func(node *corev1.Node) bool {
		return len(p.Nodes) > 0 && !slices.Contains(p.Nodes, node.Name)
	})
	return v, nil
}

// runsAny: one of the parts runs; of none, always.
func (p *Plane) runsAny(parts []Part) bool {
	return len(parts) == 0 || slices.ContainsFunc(parts, func(part Part) bool { return !p.Without[part] })
}

// all lists a kind in the namespaces that are played, by namespace and name.
func all[O client.Object](ctx context.Context, p *Plane, kind client.ObjectList) ([]O, error) {
	namespaces := p.Namespaces
	var sample O
	if _, clusterWide := wide[fmt.Sprintf("%T", sample)]; len(namespaces) == 0 || clusterWide {
		namespaces = []string{""}
	}
	var found []O
	if p.Stored != nil {
		for _, o := range p.Stored(newOf[O]()) {
			if namespaces[0] == "" || slices.Contains(namespaces, o.GetNamespace()) {
				found = append(found, o.(O))
			}
		}
		return found, nil
	}
	for _, namespace := range namespaces {
		list := kind.DeepCopyObject().(client.ObjectList)
		if err := p.Client.List(ctx, list, client.InNamespace(namespace), client.UnsafeDisableDeepCopy); err != nil {
			return nil, err
		}
		found = slices.Grow(found, meta.LenList(list))
		err := meta.EachListItem(list, func(o runtime.Object) error { found = append(found, o.(O)); return nil })
		if err != nil {
			return nil, err
		}
	}
	slices.SortFunc(found, byName)
	return found, nil
}

// newOf is an empty object of a pointer type.
func newOf[O client.Object]() O {
	return reflect.New(reflect.TypeFor[O]().Elem()).Interface().(O)
}

// wide are the kinds that are in no namespace.
var wide = map[string]struct{}{"*v1.Node": {}, "*v1.Namespace": {}}

// byName orders by namespace and name.
func byName[O client.Object](a, b O) int {
	return cmp.Or(cmp.Compare(a.GetNamespace(), b.GetNamespace()), cmp.Compare(a.GetName(), b.GetName()))
}

// own files a pod under its controller.
func (v *view) own(pod *corev1.Pod) {
	if owner := metav1.GetControllerOfNoCopy(pod); owner != nil {
		v.owned[owner.UID] = append(v.owned[owner.UID], pod)
	}
}

// add puts in a pod that was just made.
func (v *view) add(pod *corev1.Pod) {
	v.pods = append(v.pods, pod)
	v.own(pod)
}

// drop takes a pod out that was just deleted.
func (v *view) drop(pod *corev1.Pod) {
	same := func(other *corev1.Pod) bool { return other.UID == pod.UID }
	v.pods = slices.DeleteFunc(v.pods, same)
	if owner := metav1.GetControllerOfNoCopy(pod); owner != nil {
		v.owned[owner.UID] = slices.DeleteFunc(v.owned[owner.UID], same)
	}
}

// swap puts in what became of an object.
func swap[O client.Object](list []O, changed O) {
	for i := range list {
		if list[i].GetUID() == changed.GetUID() {
			list[i] = changed
		}
	}
}
