package api

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func labelsOf(o client.Object) labels.Set { return labels.Set(o.GetLabels()) }

// create stores a new object and fills o with it.
func (s *Server) create(o client.Object) error {
	k := s.kindOf(o)
	key := client.ObjectKeyFromObject(o)
	if s.stored[k].objects[key] != nil {
		return apierrors.NewAlreadyExists(k.group(), o.GetName())
	}
	if err := s.admitsInto(k, o); err != nil {
		return err
	}
	made := wire(o)
	made.SetUID(s.newUID())
	made.SetCreationTimestamp(s.stamp())
	made.SetGeneration(0)
	if k.generation {
		made.SetGeneration(1)
	}
	if k.status {
		half(made, "Status").SetZero()
	}
	if err := s.prepare(made); err != nil {
		return err
	}
	s.commit(k, made)
	fill(o, copied(made))
	return nil
}

// prepare does for some kinds what defaults and admission do.
func (s *Server) prepare(o client.Object) error {
	switch o := o.(type) {
	case *corev1.Namespace:
		o.Spec.Finalizers, o.Status.Phase = []corev1.FinalizerName{corev1.FinalizerKubernetes}, corev1.NamespaceActive
	case *corev1.Pod:
		return s.preparePod(o)
	}
	return nil
}

// admitsInto: the namespace is there, and is not on its way out.
func (s *Server) admitsInto(k *kind, o client.Object) error {
	if k.cluster {
		return nil
	}
	namespace := s.stored[s.kinds[namespaceType]].objects[client.ObjectKey{Name: o.GetNamespace()}]
	if namespace == nil {
		return apierrors.NewNotFound(corev1.Resource("namespaces"), o.GetNamespace())
	}
	if namespace.GetDeletionTimestamp() == nil {
		return nil
	}
	err := apierrors.NewForbidden(k.group(), o.GetName(), fmt.Errorf("unable to create new content in namespace %s because it is being terminated", o.GetNamespace()))
	err.ErrStatus.Details.Causes = append(err.ErrStatus.Details.Causes, metav1.StatusCause{
		Type: corev1.NamespaceTerminatingCause, Message: fmt.Sprintf("namespace %s is being terminated", o.GetNamespace()), Field: "metadata.namespace",
	})
	return err
}

// part of an object that a write is about.
type part string

const (
	whole    part = ""
	status   part = "status"
	finalize part = "finalize"
)

// update replaces an object, or its status, by what the caller has; it fills o with what is stored then.
func (s *Server) update(o client.Object, of part) error {
	k := s.kindOf(o)
	stored, err := s.find(k, client.ObjectKeyFromObject(o))
	if err != nil {
		return err
	}
	return s.replace(k, stored, wire(o), of, o)
}

// replace what is stored by what is wanted, as far as the part goes.
func (s *Server) replace(k *kind, stored, wanted client.Object, of part, out client.Object) error {
	if err := sameVersion(k, stored, wanted); err != nil {
		return err
	}
	next := wanted
	switch {
	case of == status:
		next = copied(stored)
		keepField(next, wanted, "Status")
	case k.status:
		keepField(next, stored, "Status")
	}
	systemMeta(next, stored)
	if stored.GetDeletionTimestamp() != nil && len(sets.New(next.GetFinalizers()...).Difference(sets.New(stored.GetFinalizers()...))) > 0 {
		path := field.NewPath("metadata", "finalizers")
		return apierrors.NewInvalid(k.GroupKind(), stored.GetName(), field.ErrorList{
			field.Forbidden(path, "no new finalizers can be added if the object is being deleted"),
		})
	}
	if of == whole {
		if pod, ok := next.(*corev1.Pod); ok {
			if err := unchanged(stored.(*corev1.Pod), pod); err != nil {
				return err
			}
		}
	}
	return s.put(k, stored, next, out)
}

// sameVersion is a conflict if another version or another object is wanted than is stored.
func sameVersion(k *kind, stored, wanted client.Object) error {
	if v := wanted.GetResourceVersion(); v != "" && v != stored.GetResourceVersion() {
		return conflict(k, stored.GetName())
	}
	if uid := wanted.GetUID(); uid != "" && uid != stored.GetUID() {
		return apierrors.NewConflict(k.group(), stored.GetName(),
			fmt.Errorf("Precondition failed: UID in precondition: %v, UID in object meta: %v", uid, stored.GetUID()))
	}
	return nil
}

func conflict(k *kind, name string) error {
	return apierrors.NewConflict(k.group(), name, fmt.Errorf("the object has been modified; please apply your changes to the latest version and try again"))
}

// put stores what differs from what is stored, and lets go what is deleted and held by nothing.
func (s *Server) put(k *kind, stored, next client.Object, out client.Object) error {
	if gone(next) {
		s.remove(k, next)
		if out != nil {
			fill(out, copied(next))
		}
		return nil
	}
	spec := sameSpec(stored, next)
	if spec && sameStatus(stored, next) && sameMeta(stored, next) {
		if out != nil {
			fill(out, copied(stored))
		}
		return nil
	}
	if k.generation && !spec {
		next.SetGeneration(stored.GetGeneration() + 1)
	}
	s.commit(k, next)
	if out != nil {
		fill(out, copied(next))
	}
	return nil
}

// gone: deleted, its time is over, and no finalizer holds it.
func gone(o client.Object) bool {
	if o.GetDeletionTimestamp() == nil || len(o.GetFinalizers()) > 0 {
		return false
	}
	if namespace, ok := o.(*corev1.Namespace); ok {
		return len(namespace.Spec.Finalizers) == 0
	}
	grace := o.GetDeletionGracePeriodSeconds()
	return grace == nil || *grace == 0
}

// graceOf a pod that is deleted without a word on it.
const graceOf = 30

// delete marks an object as deleted; it goes at once where nothing holds it.
func (s *Server) delete(o client.Object, opts ...client.DeleteOption) error {
	k := s.kindOf(o)
	options := (&client.DeleteOptions{}).ApplyOptions(opts)
	stored, err := s.find(k, client.ObjectKeyFromObject(o))
	if err != nil {
		return err
	}
	if p := options.Preconditions; p != nil {
		if p.UID != nil && *p.UID != stored.GetUID() || p.ResourceVersion != nil && *p.ResourceVersion != stored.GetResourceVersion() {
			return apierrors.NewConflict(k.group(), o.GetName(), fmt.Errorf("Precondition failed"))
		}
	}
	next := copied(stored)
	grace := s.grace(next, options.GracePeriodSeconds)
	if next.GetDeletionTimestamp() == nil {
		now := s.stamp()
		next.SetDeletionTimestamp(&now)
		if generation := next.GetGeneration(); generation > 0 {
			next.SetGeneration(generation + 1)
		}
	} else if had := next.GetDeletionGracePeriodSeconds(); had != nil && *had <= grace {
		grace = *had
	}
	next.SetDeletionGracePeriodSeconds(&grace)
	if namespace, ok := next.(*corev1.Namespace); ok {
		namespace.Status.Phase = corev1.NamespaceTerminating
	}
	return s.put(k, stored, next, nil)
}

// grace of a deletion: pods on a node have some.
func (s *Server) grace(o client.Object, asked *int64) int64 {
	pod, ok := o.(*corev1.Pod)
	if !ok || pod.Spec.NodeName == "" || pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
		return 0
	}
	switch {
	case asked != nil:
		return *asked
	case pod.Spec.TerminationGracePeriodSeconds != nil:
		return *pod.Spec.TerminationGracePeriodSeconds
	}
	return graceOf
}
