package main

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/workload"
)

// getWorkload reads one workload, and returns its object too, for a patch.
// A workload that does not exist is an error with advice.
func getWorkload(ctx context.Context, c client.Client, id workload.Identity) (workload.Workload, client.Object, error) {
	object := workload.NewObject(id.Kind)
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

// listWorkloads lists the workloads of one kind by identity. An empty namespace means all of them, a nil selector
// any labels.
// Parts of other workloads, such as a Deployment's ReplicaSets, are among them.
func listWorkloads(ctx context.Context, c client.Client, kind v1alpha1.WorkloadKind, namespace string, selector labels.Selector) (map[workload.Identity]workload.Workload, error) {
	list := workload.NewList(kind)
	if err := c.List(ctx, list, within(namespace, selector)...); err != nil {
		return nil, fmt.Errorf("listing the %ss: %w", kind, err)
	}
	objects, err := meta.ExtractList(list)
	if err != nil {
		return nil, err
	}
	found := map[workload.Identity]workload.Workload{}
	for _, object := range objects {
		// Every object of the list is a workload; ok guards against kinds that package workload does not know.
		if w, ok := workload.From(object); ok {
			found[w.Identity] = w
		}
	}
	return found, nil
}
