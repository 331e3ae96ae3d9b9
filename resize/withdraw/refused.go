package withdraw

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/podview"
	"attune.io/attune/recommender"
)

const (
	// refusedLately is the maximum age of pods that kubelets refused.
	refusedLately = 10 * time.Minute
	// mostRefused is the number of refused pods that withdraws. Fewer may have lost a race for the room on their nodes.
	mostRefused = 3
)

// refused returns that kubelets refuse pods because of their admission resources (OutOfcpu, OutOfmemory and others);
// nil: they do not. Such a pod is Failed, and its controller creates the next one at once. One pod is enough where the
// controller deletes failed pods: there are never three.
func (d *judge) refused(since time.Time) *trouble {
	var last *corev1.Pod
	count := 0
	for _, pod := range d.in.All {
		if created := pod.CreationTimestamp.Time; created.Before(since) || d.in.Now.Sub(created) > refusedLately || !d.explains(pod) {
			continue
		}
		if count++; last == nil || last.CreationTimestamp.Before(&pod.CreationTimestamp) {
			last = pod
		}
	}
	if count == 0 || count < mostRefused && !deletesFailed(last) {
		return nil
	}
	why := fmt.Sprintf("the kubelet refuses pod %s with %s: it requests %s; its template requests %s", last.Name, last.Status.Reason,
		amounts(podview.Requests(last)), amounts(podview.Requests(d.before(last))))
	return &trouble{v1alpha1.ReasonPodsDoNotStart, why, d.in.Seeded(last).Revision}
}

// explains reports whether a pod's admission resources explain why its kubelet refused it.
func (d *judge) explains(pod *corev1.Pod) bool {
	if pod.Status.Phase != corev1.PodFailed || refusals[pod.Status.Reason] == nil || d.in.Seeded(pod) == nil {
		return false
	}
	return refusals[pod.Status.Reason](podview.Requests(d.before(pod)), podview.Requests(pod))
}

// refusals are the kubelet's reasons that sizes can explain, by what a pod would request without admission and what it
// requests.
var refusals = map[string]func(was, has [2]recommender.Amount) bool{
	"OutOfcpu":              func(was, has [2]recommender.Amount) bool { return has[recommender.CPU] > was[recommender.CPU] },
	"OutOfmemory":           func(was, has [2]recommender.Amount) bool { return has[recommender.Memory] > was[recommender.Memory] },
	"TopologyAffinityError": func(was, has [2]recommender.Amount) bool { return !podview.Within(has, was) },
	// Whole cores for one container each (full-pcpus-only).
	"SMTAlignmentError": func(was, has [2]recommender.Amount) bool { return has[recommender.CPU] != was[recommender.CPU] },
}

// deletesFailed reports whether a pod's controller deletes failed pods.
func deletesFailed(pod *corev1.Pod) bool {
	owner := metav1.GetControllerOf(pod)
	return owner != nil && (owner.Kind == string(v1alpha1.KindDaemonSet) || owner.Kind == string(v1alpha1.KindStatefulSet))
}
