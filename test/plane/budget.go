package plane

import (
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

// disruptionTimeout is how long a pod that was evicted is expected to go (pkg/controller/disruption).
const disruptionTimeout = 2 * time.Minute

// budgets keeps the status of PodDisruptionBudgets (pkg/controller/disruption, trySync).
func (p *Plane) budgets(ctx context.Context, v *view) error {
	for _, pdb := range v.budgets {
		if pdb.DeletionTimestamp != nil {
			continue
		}
		status := p.budgetStatus(v, pdb)
		if equality.Semantic.DeepEqual(pdb.Status, status) {
			continue
		}
		changed := pdb.DeepCopy()
		changed.Status = status
		if err := p.writeStatus(ctx, changed); err != nil {
			return err
		}
	}
	return nil
}

func (p *Plane) budgetStatus(v *view, pdb *policyv1.PodDisruptionBudget) policyv1.PodDisruptionBudgetStatus {
	pods := v.selected(pdb.Namespace, pdb.Spec.Selector)
	expected, desired := p.expected(v, pdb, pods)
	status := policyv1.PodDisruptionBudgetStatus{
		ObservedGeneration: pdb.Generation, ExpectedPods: expected, DesiredHealthy: desired, Conditions: slices.Clone(pdb.Status.Conditions),
	}
	status.DisruptedPods = p.disrupted(v, pdb, pods)
	for _, pod := range pods {
		_, leaving := status.DisruptedPods[pod.Name]
		if pod.DeletionTimestamp == nil && !leaving && ready(pod) {
			status.CurrentHealthy++
		}
	}
	status.DisruptionsAllowed = max(0, status.CurrentHealthy-desired)
	if expected <= 0 {
		status.DisruptionsAllowed = 0
	}
	note := metav1.Condition{Type: policyv1.DisruptionAllowedCondition, Status: metav1.ConditionFalse, Reason: policyv1.InsufficientPodsReason, ObservedGeneration: pdb.Generation}
	if status.DisruptionsAllowed > 0 {
		note.Status, note.Reason = metav1.ConditionTrue, policyv1.SufficientPodsReason
	}
	status.Conditions = withCondition(v, status.Conditions, note)
	return status
}

func withCondition(v *view, list []metav1.Condition, c metav1.Condition) []metav1.Condition {
	c.LastTransitionTime = stored(v.now)
	i := slices.IndexFunc(list, func(other metav1.Condition) bool { return other.Type == c.Type })
	if i < 0 {
		return append(list, c)
	}
	if list[i].Status == c.Status {
		c.LastTransitionTime = list[i].LastTransitionTime
	}
	list[i] = c
	return list
}

// selected pods of a namespace, finished ones left out; a budget without a selector selects none.
func (v *view) selected(namespace string, by *metav1.LabelSelector) (pods []*corev1.Pod) {
	if by == nil {
		return nil
	}
	selector, err := metav1.LabelSelectorAsSelector(by)
	if err != nil {
		panic("the API server has checked the selector: " + err.Error())
	}
	for _, pod := range v.pods {
		if pod.Namespace == namespace && !finished(pod) && selector.Matches(labels.Set(pod.Labels)) {
			pods = append(pods, pod)
		}
	}
	return pods
}

// expected is how many pods there should be, and how many of them healthy (getExpectedPodCount): a percentage and
// maxUnavailable are of the replicas of their owners, a plain minAvailable of the pods there are.
func (p *Plane) expected(v *view, pdb *policyv1.PodDisruptionBudget, pods []*corev1.Pod) (count, desired int32) {
	if least := pdb.Spec.MinAvailable; pdb.Spec.MaxUnavailable == nil && least != nil && least.Type == 0 {
		return int32(len(pods)), least.IntVal
	}
	seen := map[types.UID]bool{}
	for _, pod := range pods {
		owner := metav1.GetControllerOfNoCopy(pod)
		if owner == nil || seen[owner.UID] {
			continue
		}
		seen[owner.UID] = true
		count += v.scaleOf(owner.UID)
	}
	if pdb.Spec.MaxUnavailable != nil {
		return count, max(0, count-scaledValue(pdb.Spec.MaxUnavailable, count, true))
	}
	if pdb.Spec.MinAvailable != nil {
		return count, scaledValue(pdb.Spec.MinAvailable, count, true)
	}
	return count, 0
}

// scaleOf is the number of replicas of a pod's controller; of a ReplicaSet's Deployment where it has one.
func (v *view) scaleOf(uid types.UID) int32 {
	for _, rs := range v.replicaSets {
		if rs.UID != uid {
			continue
		}
		for _, d := range v.deployments {
			if metav1.IsControlledBy(rs, d) {
				return replicas(d)
			}
		}
		return size(rs)
	}
	for _, s := range v.stateful {
		if s.UID == uid {
			return ptr.Deref(s.Spec.Replicas, 1)
		}
	}
	return 0
}

// disrupted are the pods whose eviction was granted and that are not gone yet (buildDisruptedPodMap).
func (p *Plane) disrupted(v *view, pdb *policyv1.PodDisruptionBudget, pods []*corev1.Pod) map[string]metav1.Time {
	left := map[string]metav1.Time{}
	for _, pod := range pods {
		at, granted := pdb.Status.DisruptedPods[pod.Name]
		if !granted || pod.DeletionTimestamp != nil {
			continue
		}
		until := at.Add(disruptionTimeout)
		if v.now.Before(until) {
			left[pod.Name] = at
			p.wake(v, until)
		}
	}
	if len(left) == 0 {
		return nil
	}
	return left
}
