package main

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"attune.io/attune/internal/owners"
	"attune.io/attune/internal/workload"
)

// pods returns the pods of the recommendations' workloads that keep accepts, by workload, and all pods of the namespace. A
// user who may not list pods gets nil, and a note that begins with unknown.
func (r reach) pods(ctx context.Context, keep func(*corev1.Pod) bool, unknown string) (of map[workload.Identity][]*corev1.Pod, all []*corev1.Pod, err error) {
	var list corev1.PodList
	err = r.List(ctx, &list, client.InNamespace(r.namespace))
	if apierrors.IsForbidden(err) {
		r.env.note(unknown+": %v", err)
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, fmt.Errorf("listing the pods: %w", err)
	}
	jobs, err := r.jobs(ctx)
	if err != nil {
		return nil, nil, err
	}
	of = map[workload.Identity][]*corev1.Pod{}
	for i := range list.Items {
		pod := &list.Items[i]
		all = append(all, pod)
		if id, owned := workload.OwnerOf(pod, pod.Namespace, jobs); owned && keep(pod) {
			of[id] = append(of[id], pod)
		}
	}
	return of, all, nil
}

// jobs returns which workloads own the Jobs, where Jobs or CronJobs have recommendations. Without the right to list Jobs
// their names tell, which a note says.
func (r reach) jobs(ctx context.Context) (owners.Listed, error) {
	if !slices.ContainsFunc(kindsOf(r.recs), workload.Batch) {
		return nil, nil
	}
	jobs, err := owners.ListJobs(ctx, r, r.namespace)
	if apierrors.IsForbidden(err) {
		r.env.note("whose pod a Job's is was told by the Job's name, so that those of a Job that was made of a CronJob by hand are not the CronJob's: %v", err)
		return nil, nil
	}
	return jobs, err
}
