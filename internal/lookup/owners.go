package lookup

import (
	"context"
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/workload"
	"attune.io/attune/podview"
)

// Owners finds the CronJob or identity of a Job and the Deployment of an adopted ReplicaSet in a cache. It implements
// workload.Lookup.
type Owners struct{ Reader client.Reader }

// JobOwner returns the name of the CronJob that owns a Job, or of its identity; empty for a standalone Job. known is
// false if the cache does not have the Job.
func (j Owners) JobOwner(namespace, job string) (owner string, known bool) {
	found := &batchv1.Job{}
	err := j.Reader.Get(context.Background(), client.ObjectKey{Namespace: namespace, Name: job}, found, client.UnsafeDisableDeepCopy)
	if err != nil {
		return "", false
	}
	return ownerOfJob(found), true
}

// ReplicaSetOwner returns the Deployment that adopted a ReplicaSet without a template hash (workload.Whole).
func (j Owners) ReplicaSetOwner(namespace, replicaSet string) (workload.Identity, bool) {
	found := &appsv1.ReplicaSet{}
	if j.Reader.Get(context.Background(), client.ObjectKey{Namespace: namespace, Name: replicaSet}, found, client.UnsafeDisableDeepCopy) != nil {
		return workload.Identity{}, false
	}
	return workload.AdopterOf(found)
}

// Listed has the CronJob or identity of each Job, from one list, for callers without a cache. It implements workload.Lookup.
type Listed map[client.ObjectKey]string

// ListJobs lists the Jobs of a namespace; empty means all namespaces.
func ListJobs(ctx context.Context, reader client.Reader, namespace string) (Listed, error) {
	jobs := &batchv1.JobList{}
	if err := reader.List(ctx, jobs, client.InNamespace(namespace)); err != nil {
		return nil, fmt.Errorf("listing the jobs: %w", err)
	}
	listed := Listed{}
	for i := range jobs.Items {
		listed[client.ObjectKeyFromObject(&jobs.Items[i])] = ownerOfJob(&jobs.Items[i])
	}
	return listed, nil
}

// ReplicaSetOwner knows no ReplicaSets: their pods are shown without a workload.
func (l Listed) ReplicaSetOwner(string, string) (workload.Identity, bool) {
	return workload.Identity{}, false
}

// JobOwner is like Owners.JobOwner.
func (l Listed) JobOwner(namespace, job string) (owner string, known bool) {
	owner, known = l[client.ObjectKey{Namespace: namespace, Name: job}]
	return owner, known
}

func ownerOfJob(job *batchv1.Job) string {
	for _, name := range workload.IndexOfJob(job) {
		return name
	}
	return ""
}

// Workload reads a workload and its object. If another workload has its template, it reads that one too. The error
// names the object that could not be read. Jobs of one identity are read as one workload (workload.Shared).
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
		return workload.Workload{}, nil, fmt.Errorf("%s is not a supported kind of workload", id)
	}
	if id.IsShared() {
		return shared(ctx, reader, id)
	}
	if err := reader.Get(ctx, client.ObjectKey{Namespace: id.Namespace, Name: id.Name}, object, options...); err != nil {
		return workload.Workload{}, nil, fmt.Errorf("reading %s: %w", id, err)
	}
	found, _ := workload.From(object)
	return found, object, nil
}

// shared returns the Jobs of an identity as one workload, and the newest of them. Without a Job, it is not found.
func shared(ctx context.Context, reader client.Reader, id workload.Identity) (workload.Workload, client.Object, error) {
	jobs := &batchv1.JobList{}
	if err := reader.List(ctx, jobs, client.InNamespace(id.Namespace), client.UnsafeDisableDeepCopy); err != nil {
		return workload.Workload{}, nil, fmt.Errorf("listing jobs of %s: %w", id, err)
	}
	var newest *batchv1.Job
	for i := range jobs.Items {
		job := &jobs.Items[i]
		if slices.Contains(workload.IndexOfJob(job), id.Name) && (newest == nil || workload.NewerJob(job, newest)) {
			newest = job
		}
	}
	if newest == nil {
		gone := apierrors.NewNotFound(batchv1.Resource("jobs"), id.Name)
		return workload.Workload{}, nil, fmt.Errorf("reading %s: %w", id, gone)
	}
	found, _ := workload.From(newest)
	return found.AsShared(), newest, nil
}

// Recommendation returns the recommendation of a pod's workload. The object belongs to the cache: do not change it. nil
// means that the pod has no workload or that no policy sizes it. Kinds of custom resources may differ only in case, and
// recommendation names ignore case: so the identity is compared too.
func Recommendation(ctx context.Context, reader client.Reader, pod *corev1.Pod) (*v1alpha1.AttuneRecommendation, error) {
	id, owned := workload.OwnerOf(pod, pod.Namespace, Owners{Reader: reader})
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

// Pods returns the pods of a workload from the indexes workload.PodsByWorkload and workload.JobsByCronJob: thousands of
// Jobs in a namespace must not make each reconcile of its CronJobs slower. The objects belong to the cache: do not
// change them.
func Pods(ctx context.Context, reader client.Reader, id workload.Identity) ([]*corev1.Pod, error) {
	switch {
	case id.Kind == v1alpha1.KindCronJob, id.IsShared():
	case id.Kind == v1alpha1.KindDeployment, id.Kind == v1alpha1.KindRollout:
		return podsOfReplicaSets(ctx, reader, id)
	default:
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

// whole selects the ReplicaSets without a template hash.
var whole = client.MatchingLabelsSelector{Selector: workload.Whole()}

// podsOfReplicaSets returns the pods of a Deployment or Argo Rollout, with those of the ReplicaSets that it adopted. The
// cache has only ReplicaSets without a template hash, so the list is short.
func podsOfReplicaSets(ctx context.Context, reader client.Reader, id workload.Identity) ([]*corev1.Pod, error) {
	all, err := pods(ctx, reader, id)
	if err != nil {
		return nil, err
	}
	sets := &appsv1.ReplicaSetList{}
	if err := reader.List(ctx, sets, client.InNamespace(id.Namespace), whole, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing the replica sets of %s: %w", id, err)
	}
	for i := range sets.Items {
		if of, adopted := workload.AdopterOf(&sets.Items[i]); !adopted || of != id {
			continue
		}
		some, err := pods(ctx, reader, workload.Identity{Kind: v1alpha1.KindReplicaSet, Namespace: id.Namespace, Name: sets.Items[i].Name})
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
	return podview.Pointers(list.Items), nil
}

// Strangers finds pods that the selector of a workload matches although they are not its pods. For many workloads of a
// namespace it lists the pods once: a list for each would grow with the square. Use it in one pass of one goroutine.
type Strangers struct {
	Reader client.Reader
	// Now is the time of the pass.
	Now time.Time
	// asked counts the workloads of a namespace, labelled are its pods by each of their labels, once there are several.
	asked    map[string]int
	labelled map[string]map[[2]string][]*corev1.Pod
}

// Of returns the name of a pod that the selector of a workload matches although it is not one of its pods; empty: there is
// none. An HPA of the workload counts such a pod too, unless it failed or is being deleted. Pods of the last minute do not
// count: a cache may know a pod of the workload before its owner.
func (s *Strangers) Of(ctx context.Context, w workload.Workload, own []*corev1.Pod) (string, error) {
	if w.Selector == nil {
		return "", nil
	}
	selector, err := metav1.LabelSelectorAsSelector(w.Selector)
	if err != nil {
		return "", fmt.Errorf("the selector of %s: %w", w.Identity, err)
	}
	pods, err := s.candidates(ctx, w, selector)
	if err != nil {
		return "", fmt.Errorf("listing the pods that an HPA of %s counts: %w", w.Identity, err)
	}
	known := make(map[string]bool, len(own))
	for _, pod := range own {
		known[pod.Name] = true
	}
	first := ""
	for _, pod := range pods {
		counts := pod.DeletionTimestamp == nil && pod.Status.Phase != corev1.PodFailed
		if young := pod.CreationTimestamp.After(s.Now.Add(-time.Minute)); young || !counts || known[pod.Name] || first != "" && pod.Name > first || !selector.Matches(labels.Set(pod.Labels)) {
			continue
		}
		// The list may be older than that of the workload's own pods.
		switch err := s.Reader.Get(ctx, client.ObjectKeyFromObject(pod), &corev1.Pod{}, client.UnsafeDisableDeepCopy); {
		case apierrors.IsNotFound(err):
		case err != nil:
			return "", fmt.Errorf("reading pod %s: %w", pod.Name, err)
		default:
			first = pod.Name
		}
	}
	return first, nil
}

// candidates returns pods of a workload's namespace, at least those that its selector matches.
func (s *Strangers) candidates(ctx context.Context, w workload.Workload, selector labels.Selector) ([]*corev1.Pod, error) {
	if s.asked == nil {
		s.asked, s.labelled = map[string]int{}, map[string]map[[2]string][]*corev1.Pod{}
	}
	list, options := &corev1.PodList{}, []client.ListOption{client.InNamespace(w.Namespace), client.UnsafeDisableDeepCopy}
	if s.asked[w.Namespace]++; s.asked[w.Namespace] == 1 || len(w.Selector.MatchLabels) == 0 {
		err := s.Reader.List(ctx, list, append(options, client.MatchingLabelsSelector{Selector: selector})...)
		return podview.Pointers(list.Items), err
	}
	by := s.labelled[w.Namespace]
	if by == nil {
		if err := s.Reader.List(ctx, list, options...); err != nil {
			return nil, err
		}
		by = map[[2]string][]*corev1.Pod{}
		for _, pod := range podview.Pointers(list.Items) {
			for key, value := range pod.Labels {
				by[[2]string{key, value}] = append(by[[2]string{key, value}], pod)
			}
		}
		s.labelled[w.Namespace] = by
	}
	var fewest []*corev1.Pod
	some := false
	for key, value := range w.Selector.MatchLabels {
		if of := by[[2]string{key, value}]; !some || len(of) < len(fewest) {
			fewest, some = of, true
		}
	}
	return fewest, nil
}

// PodsOnNode returns the pods of a node (index workload.PodsByNode).
func PodsOnNode(ctx context.Context, reader client.Reader, node string) ([]*corev1.Pod, error) {
	list := &corev1.PodList{}
	err := reader.List(ctx, list, client.MatchingFields{workload.PodsByNode: node}, client.UnsafeDisableDeepCopy)
	return podview.Pointers(list.Items), err
}

// Constraints lists the LimitRanges and ResourceQuotas of a namespace.
func Constraints(ctx context.Context, reader client.Reader, namespace string, options ...client.ListOption) ([]corev1.LimitRange, []corev1.ResourceQuota, error) {
	limits, quotas := &corev1.LimitRangeList{}, &corev1.ResourceQuotaList{}
	options = append(slices.Clone(options), client.InNamespace(namespace))
	if err := reader.List(ctx, limits, options...); err != nil {
		return nil, nil, fmt.Errorf("listing limit ranges: %w", err)
	}
	if err := reader.List(ctx, quotas, options...); err != nil {
		return nil, nil, fmt.Errorf("listing quotas: %w", err)
	}
	return limits.Items, quotas.Items, nil
}

// Namespace returns an empty object for a namespace as the cache has it: metadata only.
func Namespace() *metav1.PartialObjectMetadata {
	of := &metav1.PartialObjectMetadata{}
	of.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
	return of
}

// Terminating reports whether a namespace is being deleted. A finalizer must not block that: its pods are deleted too,
// and the permission to remove finalizers may disappear.
func Terminating(ctx context.Context, reader client.Reader, name string) (bool, error) {
	of := Namespace()
	err := reader.Get(ctx, client.ObjectKey{Name: name}, of, client.UnsafeDisableDeepCopy)
	if client.IgnoreNotFound(err) != nil {
		return false, fmt.Errorf("reading namespace %s: %w", name, err)
	}
	return err == nil && of.DeletionTimestamp != nil, nil
}

// BecomesTerminating passes only the event in which a namespace begins to terminate.
func BecomesTerminating() predicate.Predicate {
	p := predicate.NewPredicateFuncs(func(client.Object) bool { return false })
	p.CreateFunc = func(e event.CreateEvent) bool { return e.Object.GetDeletionTimestamp() != nil }
	p.UpdateFunc = func(e event.UpdateEvent) bool {
		return e.ObjectOld.GetDeletionTimestamp() == nil && e.ObjectNew.GetDeletionTimestamp() != nil
	}
	return p
}
