package constraint

import (
	corev1 "k8s.io/api/core/v1"

	"attune.io/attune/recommender"
)

// QuotaRoom is what the quotas of a namespace leave its pods to grow by. Its pods share it: what one is promised, the
// next ones do not have.
type QuotaRoom struct {
	quotas   []corev1.ResourceQuota
	promised []recommender.Size
}

// NewQuotaRoom of a namespace.
func NewQuotaRoom(quotas []corev1.ResourceQuota) *QuotaRoom {
	return &QuotaRoom{quotas: quotas, promised: make([]recommender.Size, len(quotas))}
}

// Left is by how much a pod may grow in what quotas count for it: MaxAmount where none counts. It is zero where the use of a
// quota is not known, and all of it is where the pod does not say what a quota counts, as every resize is refused then.
func (x *QuotaRoom) Left(pod *corev1.Pod) recommender.Size {
	const most = recommender.MaxAmount
	room := recommender.Size{{Request: most, Limit: most}, {Request: most, Limit: most}}
	for i := range x.quotas {
		q := &x.quotas[i]
		if !Covers(q, pod) {
			continue
		}
		for name := range q.Status.Hard {
			counted, ok := CountedBy(name)
			if !ok {
				continue
			}
			if counted.Unspecified(pod) != "" {
				return recommender.Size{}
			}
			hard, used, known := counted.State(q, name)
			left := max(0, hard-used-counted.Of(x.promised[i]))
			if !known {
				left = 0
			}
			*counted.in(&room) = min(*counted.in(&room), left)
		}
	}
	return room
}

// Promise a pod growth.
func (x *QuotaRoom) Promise(pod *corev1.Pod, growth recommender.Size) {
	for i := range x.quotas {
		if !Covers(&x.quotas[i], pod) {
			continue
		}
		for _, r := range recommender.Resources {
			x.promised[i][r].Request += growth[r].Request
			x.promised[i][r].Limit += growth[r].Limit
		}
	}
}
