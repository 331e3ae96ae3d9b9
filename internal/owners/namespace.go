package owners

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
)

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
	return predicate.Funcs{
		CreateFunc:  func(e event.CreateEvent) bool { return e.Object.GetDeletionTimestamp() != nil },
		DeleteFunc:  func(event.DeleteEvent) bool { return false },
		GenericFunc: func(event.GenericEvent) bool { return false },
		UpdateFunc: func(e event.UpdateEvent) bool {
			return e.ObjectOld.GetDeletionTimestamp() == nil && e.ObjectNew.GetDeletionTimestamp() != nil
		},
	}
}
