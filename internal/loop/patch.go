package loop

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
)

// Locked is the change of an object since before as a patch that fails with a conflict if the object was changed meanwhile.
func Locked(before client.Object) client.Patch {
	return client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
}

// Guard adds a finalizer to an object, or removes it, by a patch that fails with a conflict if the object was changed
// meanwhile. It reports whether there was something to do. An object that is gone is no error.
func Guard(ctx context.Context, to client.Writer, o client.Object, finalizer string, wanted bool) (changed bool, err error) {
	if controllerutil.ContainsFinalizer(o, finalizer) == wanted {
		return false, nil
	}
	before := o.DeepCopyObject().(client.Object)
	if wanted {
		controllerutil.AddFinalizer(o, finalizer)
	} else {
		controllerutil.RemoveFinalizer(o, finalizer)
	}
	return true, client.IgnoreNotFound(to.Patch(ctx, o, Locked(before)))
}
