package main

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/workload"
)

// newObject is an empty object of a kind that attune sizes.
func newObject(kind v1alpha1.WorkloadKind) client.Object {
	switch kind {
	case v1alpha1.KindStatefulSet:
		return &appsv1.StatefulSet{}
	case v1alpha1.KindDaemonSet:
		return &appsv1.DaemonSet{}
	case v1alpha1.KindReplicaSet:
		return &appsv1.ReplicaSet{}
	case v1alpha1.KindJob:
		return &batchv1.Job{}
	case v1alpha1.KindCronJob:
		return &batchv1.CronJob{}
	default:
		return &appsv1.Deployment{}
	}
}

func newObjectList(kind v1alpha1.WorkloadKind) client.ObjectList {
	switch kind {
	case v1alpha1.KindStatefulSet:
		return &appsv1.StatefulSetList{}
	case v1alpha1.KindDaemonSet:
		return &appsv1.DaemonSetList{}
	case v1alpha1.KindReplicaSet:
		return &appsv1.ReplicaSetList{}
	case v1alpha1.KindJob:
		return &batchv1.JobList{}
	case v1alpha1.KindCronJob:
		return &batchv1.CronJobList{}
	default:
		return &appsv1.DeploymentList{}
	}
}

// getWorkload reads one workload and its object.
func getWorkload(ctx context.Context, c client.Client, id workload.Identity) (workload.Workload, client.Object, error) {
	object := newObject(id.Kind)
	err := c.Get(ctx, client.ObjectKey{Namespace: id.Namespace, Name: id.Name}, object)
	if apierrors.IsNotFound(err) {
		return workload.Workload{}, nil, fmt.Errorf("%s does not exist in namespace %s: check the name, or choose the namespace with -n", id, id.Namespace)
	}
	if err != nil {
		return workload.Workload{}, nil, fmt.Errorf("reading %s: %w", id, err)
	}
	found, _ := workload.From(object)
	return found, object, nil
}

// listWorkloads of one kind, by identity; an empty namespace is all of them, a nil selector any labels.
func listWorkloads(ctx context.Context, c client.Client, kind v1alpha1.WorkloadKind, namespace string, selector labels.Selector) (map[workload.Identity]workload.Workload, error) {
	list := newObjectList(kind)
	if err := c.List(ctx, list, within(namespace, selector)...); err != nil {
		return nil, fmt.Errorf("listing the %ss: %w", kind, err)
	}
	objects, err := meta.ExtractList(list)
	if err != nil {
		return nil, err
	}
	found := map[workload.Identity]workload.Workload{}
	for _, object := range objects {
		if w, ok := workload.From(object); ok {
			found[w.Identity] = w
		}
	}
	return found, nil
}
