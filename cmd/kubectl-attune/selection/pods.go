package selection

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/owners"
	"attune.io/attune/internal/workload"
)

// PodQuery says which pods are looked for.
type PodQuery struct {
	// Namespace is empty for all of them.
	Namespace string
	// Kinds of the workloads. Jobs are listed where Jobs or CronJobs are among them.
	Kinds []v1alpha1.WorkloadKind
	// Keep is true for a pod that counts.
	Keep func(pod *corev1.Pod) bool
	// Every is told of each pod, also of one that does not count; nil: nobody is.
	Every func(pod *corev1.Pod)
	// Note takes what the user may not read, in a sentence.
	Note func(sentence string, args ...any)
	// Unknown begins the sentence for who may not list pods.
	Unknown string
}

// FindPods returns the pods by their workloads. known is false where the user may not list pods.
func FindPods(ctx context.Context, reader client.Reader, q PodQuery) (of map[workload.Identity][]*corev1.Pod, known bool, err error) {
	var pods corev1.PodList
	err = reader.List(ctx, &pods, client.InNamespace(q.Namespace))
	if apierrors.IsForbidden(err) {
		q.Note(q.Unknown+": %v", err)
		return nil, false, nil
	}
	if err != nil {
		return nil, false, fmt.Errorf("listing the pods: %w", err)
	}
	jobs, err := q.jobs(ctx, reader)
	if err != nil {
		return nil, false, err
	}
	of = map[workload.Identity][]*corev1.Pod{}
	for i := range pods.Items {
		pod := &pods.Items[i]
		if q.Every != nil {
			q.Every(pod)
		}
		if id, owned := workload.OwnerOf(pod, pod.Namespace, jobs); owned && q.Keep(pod) {
			of[id] = append(of[id], pod)
		}
	}
	return of, true, nil
}

// jobs tells whose the Jobs are. Who may not list them gets what their names tell, and a note.
func (q PodQuery) jobs(ctx context.Context, reader client.Reader) (owners.Listed, error) {
	if !slices.ContainsFunc(q.Kinds, workload.Batch) {
		return nil, nil
	}
	jobs, err := owners.ListJobs(ctx, reader, q.Namespace)
	if apierrors.IsForbidden(err) {
		q.Note("whose pod a Job's is was told by the Job's name, so that those of a Job that was made of a CronJob by hand are not the CronJob's: %v", err)
		return nil, nil
	}
	return jobs, err
}
