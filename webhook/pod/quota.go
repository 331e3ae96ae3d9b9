package pod

import (
	corev1 "k8s.io/api/core/v1"

	"attune.io/attune/podview"
	"attune.io/attune/recommender"
)

// Room is what one ResourceQuota leaves for new pods.
type Room struct {
	of [2]struct{ request, limit allowance }
	// byClass: the quota counts some classes of quality of service only.
	byClass bool
}

// allowance of one counted amount.
type allowance struct {
	counted bool
	// left is 0 where it is not known.
	left recommender.Amount
}

var (
	requestKeys = [2][]corev1.ResourceName{
		recommender.CPU:    {corev1.ResourceCPU, corev1.ResourceRequestsCPU},
		recommender.Memory: {corev1.ResourceMemory, corev1.ResourceRequestsMemory},
	}
	limitKeys = [2][]corev1.ResourceName{
		recommender.CPU:    {corev1.ResourceLimitsCPU},
		recommender.Memory: {corev1.ResourceLimitsMemory},
	}
)

// RoomOf reads a quota. Scopes other than by class are taken to cover every pod: a quota that does
// not count a pod then still holds it back from growing, never the other way round.
func RoomOf(q *corev1.ResourceQuota) (room Room) {
	for _, r := range recommender.Resources {
		room.of[r].request = allowanceOf(q, r, requestKeys[r])
		room.of[r].limit = allowanceOf(q, r, limitKeys[r])
	}
	for _, scope := range q.Spec.Scopes {
		room.byClass = room.byClass || byClass(scope)
	}
	if q.Spec.ScopeSelector != nil {
		for _, e := range q.Spec.ScopeSelector.MatchExpressions {
			room.byClass = room.byClass || byClass(e.ScopeName)
		}
	}
	return room
}

func byClass(scope corev1.ResourceQuotaScope) bool {
	return scope == corev1.ResourceQuotaScopeBestEffort || scope == corev1.ResourceQuotaScopeNotBestEffort
}

func allowanceOf(q *corev1.ResourceQuota, r recommender.Resource, keys []corev1.ResourceName) (a allowance) {
	for _, key := range keys {
		spec, counted := q.Spec.Hard[key]
		if !counted {
			continue
		}
		left := leftOf(q, r, key, atMost(r, spec))
		if a.counted {
			left = min(left, a.left)
		}
		a = allowance{counted: true, left: left}
	}
	return a
}

// leftOf is known only where the quota controller has counted what is used of it.
func leftOf(q *corev1.ResourceQuota, r recommender.Resource, key corev1.ResourceName, hard recommender.Amount) recommender.Amount {
	enforced, known := q.Status.Hard[key]
	used, counted := q.Status.Used[key]
	if !known || !counted {
		return 0
	}
	return max(0, min(hard, atMost(r, enforced))-podview.AmountOf(r, used))
}

// admits reports whether a pod that grows from one effective allocation to another is known to fit.
// A pod that does not grow fits as it did.
func (a *allowance) admits(from, to recommender.Amount) bool {
	return !a.counted || to <= from || to <= a.left
}

// admits of one resource.
func (room *Room) admits(r recommender.Resource, from, to recommender.Allocation) bool {
	return room.of[r].request.admits(from.Request, to.Request) && room.of[r].limit.admits(from.Limit, to.Limit)
}
