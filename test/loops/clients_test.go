package loops

import (
	"context"
	"fmt"
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/workload"
)

// counting counts writes and lets a test come between the loops and resizes.
func (w *world) counting(n *int, known memo) interceptor.Funcs {
	written := func(o client.Object) {
		*n++
		known.forget(o)
	}
	return interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			defer written(o)
			return c.Create(ctx, o, opts...)
		},
		Update: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.UpdateOption) error {
			defer written(o)
			return c.Update(ctx, o, opts...)
		},
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
			defer written(o)
			return c.Patch(ctx, o, p, opts...)
		},
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
			defer written(o)
			return c.Delete(ctx, o, opts...)
		},
		SubResourceCreate: func(ctx context.Context, c client.Client, sub string, o, subObject client.Object, opts ...client.SubResourceCreateOption) error {
			defer written(o)
			return c.SubResource(sub).Create(ctx, o, subObject, opts...)
		},
		SubResourceUpdate: func(ctx context.Context, c client.Client, sub string, o client.Object, opts ...client.SubResourceUpdateOption) error {
			defer written(o)
			return c.SubResource(sub).Update(ctx, o, opts...)
		},
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
			defer written(o)
			patch := func() error { return c.SubResource(sub).Patch(ctx, o, p, opts...) }
			switch ours := n == &w.writes && sub == "resize"; {
			case ours && w.send != nil:
				defer w.known.forget(o)
				return w.send(ctx, o, p)
			case ours && w.resize != nil:
				return w.resize(patch)
			}
			return patch()
		},
	}
}

// indexes are those that the loops register with a cache.
var indexes = map[string]func(client.Object) string{
	"attune.policy":         func(o client.Object) string { return o.(*v1alpha1.AttuneRecommendation).Spec.Policy.Name },
	"attune.node":           func(o client.Object) string { return o.(*corev1.Pod).Spec.NodeName },
	workload.PodsByWorkload: func(o client.Object) string { return first(workload.IndexOf(o)) },
	workload.JobsByCronJob:  func(o client.Object) string { return first(workload.IndexOfJob(o)) },
}

// first of the values of an object in an index; empty: it has none.
func first(values []string) string {
	if len(values) == 0 {
		return ""
	}
	return values[0]
}

// get is a cache's: it never fails.
func (w *world) get(ctx context.Context, _ client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
	err := w.direct.Get(ctx, key, o, opts...)
	if err == nil && w.seen != nil {
		w.seen(o)
	}
	return err
}

func (w *world) listByIndex(ctx context.Context, _ client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
	c := w.direct
	options := (&client.ListOptions{}).ApplyOptions(opts)
	if options.FieldSelector == nil {
		return c.List(ctx, list, opts...)
	}
	requirement := options.FieldSelector.Requirements()[0]
	index := indexes[requirement.Field]
	if index == nil {
		return fmt.Errorf("no index %q", requirement.Field)
	}
	options.FieldSelector = nil
	read := func() error {
		if err := c.List(ctx, list, options); err != nil {
			return err
		}
		return keepOnly(list, func(o client.Object) bool { return index(o) == requirement.Value })
	}
	var err error
	if w.memoryServer != nil {
		err = read()
	} else {
		err = w.known.read(fmt.Sprint(options.Namespace, requirement), list, read)
	}
	if pods, ok := list.(*corev1.PodList); ok && w.cached != nil {
		for i := range pods.Items {
			pods.Items[i] = w.cached(*pods.Items[i].DeepCopy()) // the list may share its pods with the server
		}
	}
	return err
}

// keepOnly drops the other objects of a list.
func keepOnly(list client.ObjectList, keep func(client.Object) bool) error {
	switch l := list.(type) {
	case *corev1.PodList:
		l.Items = slices.DeleteFunc(l.Items, func(p corev1.Pod) bool { return !keep(&p) })
	case *batchv1.JobList:
		l.Items = slices.DeleteFunc(l.Items, func(j batchv1.Job) bool { return !keep(&j) })
	case *v1alpha1.AttuneRecommendationList:
		l.Items = slices.DeleteFunc(l.Items, func(r v1alpha1.AttuneRecommendation) bool { return !keep(&r) })
	default:
		return fmt.Errorf("no index of %T", list)
	}
	return nil
}
