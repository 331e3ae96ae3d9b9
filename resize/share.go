package resize

import (
	corev1 "k8s.io/api/core/v1"

	"attune.io/attune/recommender"
)

// Standing is why a pod may not be changed now, whatever its change would be; nil: it may. It is what the
// platform's rules and the gates say of the pod itself.
func Standing(pod *corev1.Pod, world World) *Refusal {
	s := situation{pod: pod, caps: world.Capabilities, now: world.Now, statuses: statusesOf(pod)}
	for _, rule := range podRules {
		if refusal := rule(s); refusal != nil {
			return refusal
		}
	}
	return firstClosed(gates, pod, planOf(pod), world)
}

// InitRequests are the most that a step of the pod's init containers asks for, with the sidecars that were
// started before it: the scheduler keeps that much for as long as the pod lives.
func InitRequests(pod *corev1.Pod) [2]recommender.Amount {
	var steps [2]recommender.Amount
	var sidecars [2]recommender.Amount
	for i := range pod.Spec.InitContainers {
		c := &pod.Spec.InitContainers[i]
		asks := ReadSpec(c.Resources)
		for _, r := range recommender.Resources {
			if restartsAlways(c) {
				sidecars[r] += asks[r].Request
				continue
			}
			steps[r] = max(steps[r], sidecars[r]+asks[r].Request)
		}
	}
	return steps
}

// Overhead is what the scheduler counts for a pod beside its containers.
func Overhead(pod *corev1.Pod) [2]recommender.Amount { return amounts(pod.Spec.Overhead) }

// Unfinished: the scheduler counts more for the pod than its spec asks for, as a decrease is under way.
func Unfinished(pod *corev1.Pod) bool { return footprint(pod) != podRequests(pod) }

// Guaranteed pods keep request and limit equal; the strategy Node sizes them at admission alone.
func Guaranteed(pod *corev1.Pod) bool { return classOf(pod) == corev1.PodQOSGuaranteed }

// Finished pods take nothing of their node any more.
func Finished(pod *corev1.Pod) bool { return finished(situation{pod: pod}) != nil }

// Together are the plans of pods whose node sizes them: all that there are records for. Those that restart
// containers go one at a time, while nothing else is open.
func Together(plans []Plan, open int, most int) []Plan {
	room := most - open
	return take(gentle(plans, open), &room, most, WaveNext)
}
