package plane

import (
	"cmp"
	"context"
	"slices"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// replicaSets makes and deletes the pods of ReplicaSets (pkg/controller/replicaset).
func (p *Plane) replicaSets(ctx context.Context, v *view) error {
	for _, rs := range v.replicaSets {
		if rs.DeletionTimestamp != nil {
			continue
		}
		failure := p.manageReplicas(ctx, v, rs)
		if failure != nil && !refused(failure) {
			return failure
		}
		if err := p.replicaSetStatus(ctx, v, rs, failure); err != nil {
			return err
		}
	}
	return nil
}

// manageReplicas makes up the difference. What the API server refuses is the ReplicaSet's trouble, and it is told so.
func (p *Plane) manageReplicas(ctx context.Context, v *view, rs *appsv1.ReplicaSet) error {
	live := v.activeOf(rs)
	want := int(ptr.Deref(rs.Spec.Replicas, 1))
	for i := len(live); i < want; i++ {
		if err := p.create(ctx, v, owner{rs, "apps/v1", "ReplicaSet"}, rs.Spec.Template, p.podName(rs)); err != nil {
			p.wake(v, v.now.Add(retryCreate))
			return err
		}
	}
	if len(live) <= want {
		return nil
	}
	slices.SortStableFunc(live, func(a, b *corev1.Pod) int { return p.expendable(v, a, b) })
	for _, pod := range live[:len(live)-want] {
		if err := p.remove(ctx, v, pod); err != nil {
			return err
		}
	}
	return nil
}

// expendable sorts first what is deleted first (controller.ActivePodsWithRanks): without a node, pending, not ready,
// cheap, doubled on its node, ready for the shortest time, restarted the most, and youngest.
func (p *Plane) expendable(v *view, a, b *corev1.Pod) int {
	sinceA, readyA := readySince(a)
	sinceB, readyB := readySince(b)
	return cmp.Or(
		compareBool(a.Spec.NodeName == "", b.Spec.NodeName == ""),
		cmp.Compare(phaseRank[a.Status.Phase], phaseRank[b.Status.Phase]),
		compareBool(!readyA, !readyB),
		cmp.Compare(deletionCost(a), deletionCost(b)),
		-cmp.Compare(v.beside(a), v.beside(b)),
		sinceB.Compare(sinceA),
		-cmp.Compare(restartsOf(a), restartsOf(b)),
		b.CreationTimestamp.Compare(a.CreationTimestamp.Time),
		-cmp.Compare(a.Name, b.Name),
	)
}

var phaseRank = map[corev1.PodPhase]int{"": 0, corev1.PodPending: 0, corev1.PodUnknown: 1, corev1.PodRunning: 2}

// beside is how many pods of the same owner are on the pod's node.
func (v *view) beside(pod *corev1.Pod) (n int) {
	for _, other := range v.owned[pod.OwnerReferences[0].UID] {
		if active(other) && other.Spec.NodeName == pod.Spec.NodeName {
			n++
		}
	}
	return n
}

func deletionCost(pod *corev1.Pod) int64 {
	cost, err := strconv.ParseInt(pod.Annotations[corev1.PodDeletionCost], 10, 32)
	if err != nil {
		return 0
	}
	return cost
}

func restartsOf(pod *corev1.Pod) (n int32) {
	for _, s := range pod.Status.ContainerStatuses {
		n = max(n, s.RestartCount)
	}
	return n
}

// compareBool sorts true first.
func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return -1
	}
	return 1
}

func (p *Plane) replicaSetStatus(ctx context.Context, v *view, rs *appsv1.ReplicaSet, failure error) error {
	status := appsv1.ReplicaSetStatus{ObservedGeneration: rs.Generation, Conditions: slices.Clone(rs.Status.Conditions), TerminatingReplicas: rs.Status.TerminatingReplicas}
	for _, pod := range v.activeOf(rs) {
		status.Replicas++
		status.FullyLabeledReplicas++
		if ready(pod) {
			status.ReadyReplicas++
		}
		if p.available(v, pod, rs.Spec.MinReadySeconds) {
			status.AvailableReplicas++
		}
	}
	status.Conditions = withFailure(v, status.Conditions, failure)
	if equality.Semantic.DeepEqual(rs.Status, status) {
		return nil
	}
	changed := rs.DeepCopy()
	changed.Status = status
	swap(v.replicaSets, changed)
	return p.writeStatus(ctx, changed)
}

// withFailure says why pods could not be made, or nothing any more.
func withFailure(v *view, conditions []appsv1.ReplicaSetCondition, failure error) []appsv1.ReplicaSetCondition {
	i := slices.IndexFunc(conditions, func(c appsv1.ReplicaSetCondition) bool { return c.Type == appsv1.ReplicaSetReplicaFailure })
	switch {
	case failure == nil && i >= 0:
		return slices.Delete(conditions, i, i+1)
	case failure != nil && i < 0:
		return append(conditions, appsv1.ReplicaSetCondition{
			Type: appsv1.ReplicaSetReplicaFailure, Status: corev1.ConditionTrue, Reason: "FailedCreate", Message: failure.Error(), LastTransitionTime: stored(v.now),
		})
	}
	return conditions
}

// writeStatus writes a status as its controller does: a conflict or an object that is gone is looked at again with the
// next step.
func (p *Plane) writeStatus(ctx context.Context, changed client.Object) error {
	return ignoreStale(p.Client.Status().Update(ctx, changed))
}
