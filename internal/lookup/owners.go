package lookup

import (
	"context"
	"fmt"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/workload"
)

// Jobs finds the CronJob of a Job in a cache of Jobs. It is a workload.Lookup.
type Jobs struct{ Reader client.Reader }

// JobOwner is the name of the CronJob that a Job belongs to, empty for a Job that stands alone. known is false where
// the Job is not in the cache.
func (j Jobs) JobOwner(namespace, job string) (cronJob string, known bool) {
	found := &batchv1.Job{}
	err := j.Reader.Get(context.Background(), client.ObjectKey{Namespace: namespace, Name: job}, found, client.UnsafeDisableDeepCopy)
	if err != nil {
		return "", false
	}
	return cronJobOf(found), true
}

// Listed are Jobs that were listed once, for who has no cache: the CronJob of each. It is a workload.Lookup.
type Listed map[client.ObjectKey]string

// ListJobs lists the Jobs of a namespace; empty: of all.
func ListJobs(ctx context.Context, reader client.Reader, namespace string) (Listed, error) {
	jobs := &batchv1.JobList{}
	if err := reader.List(ctx, jobs, client.InNamespace(namespace)); err != nil {
		return nil, fmt.Errorf("listing the jobs: %w", err)
	}
	listed := Listed{}
	for i := range jobs.Items {
		listed[client.ObjectKeyFromObject(&jobs.Items[i])] = cronJobOf(&jobs.Items[i])
	}
	return listed, nil
}

// JobOwner is as that of Jobs.
func (l Listed) JobOwner(namespace, job string) (cronJob string, known bool) {
	cronJob, known = l[client.ObjectKey{Namespace: namespace, Name: job}]
	return cronJob, known
}

func cronJobOf(job *batchv1.Job) string {
	for _, name := range workload.IndexOfJob(job) {
		return name
	}
	return ""
}

// Workload reads a workload, with its template where another workload has that, and returns its object too. The error
// says which object could not be read.
func Workload(ctx context.Context, reader client.Reader, sized workload.Sized, id workload.Identity, options ...client.GetOption) (workload.Workload, client.Object, error) {
	found, object, err := get(ctx, reader, sized, id, options)
	if err != nil || found.TemplateOf == (workload.Identity{}) {
		return found, object, err
	}
	of, _, err := get(ctx, reader, sized, found.TemplateOf, options)
	switch {
	case apierrors.IsNotFound(err):
		return found, object, nil
	case err != nil:
		return workload.Workload{}, nil, err
	}
	return found.With(of), object, nil
}

func get(ctx context.Context, reader client.Reader, sized workload.Sized, id workload.Identity, options []client.GetOption) (workload.Workload, client.Object, error) {
	object, ok := sized.NewObject(id.Kind).(client.Object)
	if !ok {
		return workload.Workload{}, nil, fmt.Errorf("%s is of no kind that is sized", id)
	}
	if err := reader.Get(ctx, client.ObjectKey{Namespace: id.Namespace, Name: id.Name}, object, options...); err != nil {
		return workload.Workload{}, nil, fmt.Errorf("reading %s: %w", id, err)
	}
	found, _ := workload.From(object)
	return found, object, nil
}

// Recommendation returns that of a pod's workload, as a cache keeps it: it is only read. nil: the pod has no workload, or no
// policy sizes it. Kinds of custom resources may differ in case alone, which the names of recommendations do not tell.
func Recommendation(ctx context.Context, reader client.Reader, pod *corev1.Pod) (*v1alpha1.AttuneRecommendation, error) {
	id, owned := workload.OwnerOf(pod, pod.Namespace, Jobs{Reader: reader})
	if !owned {
		return nil, nil
	}
	rec := &v1alpha1.AttuneRecommendation{}
	err := reader.Get(ctx, client.ObjectKey{Namespace: id.Namespace, Name: id.RecommendationName()}, rec, client.UnsafeDisableDeepCopy)
	switch {
	case apierrors.IsNotFound(err) || err == nil && workload.IdentityOf(rec) != id:
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("reading the AttuneRecommendation of %s: %w", id, err)
	}
	return rec, nil
}

// Pods of a workload, by the indexes workload.PodsByWorkload and workload.JobsByCronJob: who makes thousands of Jobs in a
// namespace must not make each look at each of its CronJobs cost more. They are the cache's own: they are only read.
func Pods(ctx context.Context, reader client.Reader, id workload.Identity) ([]*corev1.Pod, error) {
	if id.Kind != v1alpha1.KindCronJob {
		return pods(ctx, reader, id)
	}
	jobs := &batchv1.JobList{}
	err := reader.List(ctx, jobs, client.InNamespace(id.Namespace), client.MatchingFields{workload.JobsByCronJob: id.Name}, client.UnsafeDisableDeepCopy)
	if err != nil {
		return nil, fmt.Errorf("listing jobs of %s: %w", id, err)
	}
	var all []*corev1.Pod
	for i := range jobs.Items {
		some, err := pods(ctx, reader, workload.Identity{Kind: v1alpha1.KindJob, Namespace: id.Namespace, Name: jobs.Items[i].Name})
		if err != nil {
			return nil, err
		}
		all = append(all, some...)
	}
	return all, nil
}

func pods(ctx context.Context, reader client.Reader, id workload.Identity) ([]*corev1.Pod, error) {
	list := &corev1.PodList{}
	err := reader.List(ctx, list, client.InNamespace(id.Namespace), client.MatchingFields{workload.PodsByWorkload: id.String()}, client.UnsafeDisableDeepCopy)
	if err != nil {
		return nil, fmt.Errorf("listing pods of %s: %w", id, err)
	}
	out := make([]*corev1.Pod, 0, len(list.Items))
	for i := range list.Items {
		out = append(out, &list.Items[i])
	}
	return out, nil
}

// Namespace is what of a namespace is in a cache: its metadata.
func Namespace() *metav1.PartialObjectMetadata {
	of := &metav1.PartialObjectMetadata{}
	of.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
	return of
}

// Terminating reports whether a namespace is being deleted: no finalizer is to hold it up. Its pods go with it, and
// so may the right to take finalizers off.
func Terminating(ctx context.Context, reader client.Reader, name string) (bool, error) {
	of := Namespace()
	err := reader.Get(ctx, client.ObjectKey{Name: name}, of, client.UnsafeDisableDeepCopy)
	if client.IgnoreNotFound(err) != nil {
		return false, fmt.Errorf("reading namespace %s: %w", name, err)
	}
	return err == nil && of.DeletionTimestamp != nil, nil
}

// BecomesTerminating passes the moment in which a namespace begins to be deleted.
func BecomesTerminating() predicate.Predicate {
	p := predicate.NewPredicateFuncs(func(client.Object) bool { return false })
	p.CreateFunc = func(e event.CreateEvent) bool { return e.Object.GetDeletionTimestamp() != nil }
	p.UpdateFunc = func(e event.UpdateEvent) bool {
		return e.ObjectOld.GetDeletionTimestamp() == nil && e.ObjectNew.GetDeletionTimestamp() != nil
	}
	return p
}
