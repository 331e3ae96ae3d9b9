package api

import (
	"fmt"
	"net/http"
	"reflect"
	"slices"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

var budgetType = reflect.TypeFor[policyv1.PodDisruptionBudget]()

// evict deletes a pod if its disruption budget lets it go.
func (s *Server) evict(pod *corev1.Pod, eviction *policyv1.Eviction) error {
	found, err := s.find(s.kinds[podType], client.ObjectKeyFromObject(pod))
	if err != nil {
		return err
	}
	stored := found.(*corev1.Pod)
	var options []client.DeleteOption
	if eviction.DeleteOptions != nil {
		if p := eviction.DeleteOptions.Preconditions; p != nil {
			options = append(options, client.Preconditions(*p))
			if p.UID != nil && *p.UID != stored.UID {
				return apierrors.NewConflict(corev1.Resource("pods"), pod.Name, fmt.Errorf("the UID in the precondition (%s) does not match the UID in record (%s)", *p.UID, stored.UID))
			}
		}
		if g := eviction.DeleteOptions.GracePeriodSeconds; g != nil {
			options = append(options, client.GracePeriodSeconds(*g))
		}
	}
	if stored.Status.Phase == corev1.PodRunning && stored.DeletionTimestamp == nil {
		if err := s.disrupt(stored); err != nil {
			return err
		}
	}
	return s.delete(stored, options...)
}

// disrupt takes a disruption of the pod's budget.
func (s *Server) disrupt(pod *corev1.Pod) error {
	k := s.kinds[budgetType]
	for _, o := range s.stored[k].list() {
		budget := o.(*policyv1.PodDisruptionBudget)
		selector, err := metav1.LabelSelectorAsSelector(budget.Spec.Selector)
		if err != nil || budget.Namespace != pod.Namespace || selector.Empty() || !selector.Matches(labelsOf(pod)) {
			continue
		}
		if budget.Status.ObservedGeneration < budget.Generation || budget.Status.DisruptionsAllowed <= 0 {
			return tooMany(budget)
		}
		next := budget.DeepCopy()
		next.Status.DisruptionsAllowed--
		if next.Status.DisruptedPods == nil {
			next.Status.DisruptedPods = map[string]metav1.Time{}
		}
		next.Status.DisruptedPods[pod.Name] = s.stamp()
		s.commit(k, next)
	}
	return nil
}

func tooMany(budget *policyv1.PodDisruptionBudget) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusTooManyRequests, Reason: metav1.StatusReasonTooManyRequests,
		Message: "Cannot evict pod as it would violate the pod's disruption budget.",
		Details: &metav1.StatusDetails{Causes: []metav1.StatusCause{{
			Type: policyv1.DisruptionBudgetCause,
			Message: fmt.Sprintf("The disruption budget %s needs %d healthy pods and has %d currently",
				budget.Name, budget.Status.DesiredHealthy, budget.Status.CurrentHealthy),
		}}},
	}}
}

// bind puts a pod on a node.
func (s *Server) bind(pod *corev1.Pod, binding *corev1.Binding) error {
	k := s.kinds[podType]
	found, err := s.find(k, client.ObjectKeyFromObject(pod))
	if err != nil {
		return err
	}
	stored := found.(*corev1.Pod)
	switch {
	case stored.DeletionTimestamp != nil:
		return apierrors.NewConflict(k.group(), pod.Name, fmt.Errorf("pod %s is being deleted, cannot be assigned to a host", pod.Name))
	case stored.Spec.NodeName != "":
		return apierrors.NewConflict(k.group(), pod.Name, fmt.Errorf("pod %s is already assigned to node %q", pod.Name, stored.Spec.NodeName))
	}
	next := stored.DeepCopy()
	next.Spec.NodeName = binding.Target.Name
	unscheduled := func(c corev1.PodCondition) bool { return c.Type == corev1.PodScheduled }
	next.Status.Conditions = append(slices.DeleteFunc(next.Status.Conditions, unscheduled), corev1.PodCondition{
		Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: s.stamp(),
	})
	// A binding is no change that the generation counts.
	s.commit(k, next)
	return nil
}
