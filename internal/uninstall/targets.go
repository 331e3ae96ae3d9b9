package uninstall

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/metadata"

	"attune.io/attune/internal/autoscale"
)

// retargeted are the resources whose targets the operator may have changed. ScaledObjects come first: KEDA copies their
// targets to HPAs.
var retargeted = []schema.GroupVersionResource{
	autoscale.ScaledObjectKind.GroupVersion().WithResource("scaledobjects"),
	{Group: "autoscaling", Version: "v2", Resource: "horizontalpodautoscalers"},
}

// restoreTargets gives HPAs and ScaledObjects the targets that the operator changed back. Pods that are still below their
// original requests then have more replicas; with the changed target, pods with their original requests would have too few.
// A target below the original one stays for the same reason: the pods may still have raised requests.
func restoreTargets(ctx context.Context, api metadata.Interface, namespaces []string, o Options) error {
	if !o.Retargeted {
		return nil
	}
	var failed []error
	for _, resource := range retargeted {
		for _, namespace := range namespaces {
			err := pages(ctx, api.Resource(resource).Namespace(namespace), func(items []metav1.PartialObjectMetadata) (bool, error) {
				for i := range items {
					if _, changed := items[i].Annotations[autoscale.OriginalTargetAnnotation]; !changed {
						continue
					}
					if err := restoreTarget(ctx, resource, items[i].Namespace, items[i].Name, o); err != nil && len(failed) < mostRefused {
						failed = append(failed, fmt.Errorf("restoring the target of %s %s/%s: %w", resource.Resource, items[i].Namespace, items[i].Name, err))
					}
				}
				return true, nil
			})
			if err != nil {
				failed = append(failed, fmt.Errorf("listing %s: %w", resource.Resource, err))
			}
		}
	}
	return errors.Join(failed...)
}

// restoreTarget restores the target of one object, again after a conflict, at most passes times.
func restoreTarget(ctx context.Context, resource schema.GroupVersionResource, namespace, name string, o Options) (err error) {
	for range passes {
		of := o.Objects.Resource(resource).Namespace(namespace)
		object, failed := of.Get(ctx, name, metav1.GetOptions{})
		if failed != nil {
			if apierrors.IsNotFound(failed) {
				return nil
			}
			return failed
		}
		change, failed := autoscale.Restore(object)
		if failed != nil || change == nil {
			return failed
		}
		if change.From < change.To {
			_, _ = fmt.Fprintf(o.Out, "%s %s/%s: the target stays %d %% (originally %d %%), because pods may still have raised requests. "+
				"Give them the resources of their template, then set %d %% and remove the annotation %s\n",
				object.GetKind(), namespace, name, change.From, change.To, change.To, autoscale.OriginalTargetAnnotation)
			return nil
		}
		_, err = of.Patch(ctx, name, types.JSONPatchType, change.Patch, metav1.PatchOptions{})
		if err == nil {
			_, _ = fmt.Fprintf(o.Out, "%s %s/%s: target %d %% -> %d %%\n", object.GetKind(), namespace, name, change.From, change.To)
		}
		if !apierrors.IsConflict(err) {
			break
		}
	}
	return err
}
