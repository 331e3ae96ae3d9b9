package resize

import (
	corev1 "k8s.io/api/core/v1"

	"attune.io/attune/internal/constraint"
	"attune.io/attune/recommender"
)

// quota lets a pod grow only within what the namespace's quotas have left, as the API server counts it: of each
// amount the greatest of spec, allocated and actual. So what is being lowered is not free before the node has
// lowered it. Lowering passes even where a quota is exceeded already. A quota also demands that every container
// sets the amount that it counts.
func quota(pod *corev1.Pod, p Plan, in GateInput) *Refusal {
	if len(in.Namespace.Quotas) == 0 {
		return nil
	}
	after := p.Apply(pod)
	growth := GrowthOf(pod, p)
	for _, q := range in.Namespace.Quotas {
		if !constraint.Covers(&q, pod) {
			continue
		}
		for _, name := range constraint.Names(q.Status.Hard) {
			counted, ok := constraint.CountedBy(name)
			if !ok {
				continue
			}
			if c := counted.Unspecified(after); c != "" {
				return Refuse(ReasonQuota, "quota %s demands that container %s sets %s, which a resize does not add", q.Name, c, name)
			}
			if refusal := exceeded(q, name, growth, in.Namespace.Reserved, counted); refusal != nil {
				return refusal
			}
		}
	}
	return nil
}

// exceeded refuses growth beyond one amount of a quota, for now: a quota may be raised, and other pods may free
// room.
func exceeded(q corev1.ResourceQuota, name corev1.ResourceName, growth, promised recommender.Size, counted constraint.Counted) *Refusal {
	more := counted.Of(growth)
	hard, used, known := counted.State(&q, name)
	used += counted.Of(promised)
	switch {
	case more <= 0:
		return nil
	case !known:
		return RefuseForNow(ReasonQuota, "the use of quota %s is not known yet", q.Name)
	case used+more > hard:
		return RefuseForNow(ReasonQuota, "the pod would take %s more of %s, and quota %s has %s of %s in use", recommender.Format(counted.Resource, more), name,
			q.Name, recommender.Format(counted.Resource, used), recommender.Format(counted.Resource, hard))
	}
	return nil
}

// GrowthOf is by how much a plan raises what quotas count for a pod, in millicores and bytes; amounts that fall
// are 0.
func GrowthOf(pod *corev1.Pod, p Plan) recommender.Size {
	before, after := constraint.Charged(pod), constraint.Charged(p.Apply(pod))
	var growth recommender.Size
	for _, r := range recommender.Resources {
		growth[r].Request = max(0, after[r].Request-before[r].Request)
		growth[r].Limit = max(0, after[r].Limit-before[r].Limit)
	}
	return growth
}
