package pod

import (
	"math"
	"strconv"

	corev1 "k8s.io/api/core/v1"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/recommender"
)

// boost is the additional CPU of a starting container. The zero value gives none.
type boost struct {
	// thousandths is the factor for the request, times 1000; 0: no boost.
	thousandths recommender.Amount
	// most is the greatest request that the boost makes, in millicores; 0: no bound.
	most recommender.Amount
}

// readBoost reads a seed's boost. A multiplier that cannot be read, raises nothing, or is above v1alpha1.MaxBoost
// counts as no boost.
func readBoost(b *v1alpha1.CPUBoost) boost {
	if b == nil {
		return boost{}
	}
	multiplier, err := strconv.ParseFloat(string(b.Multiplier), 64)
	if err != nil || !(multiplier > 1 && multiplier <= v1alpha1.MaxBoost) {
		return boost{}
	}
	return boost{thousandths: recommender.Amount(math.Round(multiplier * 1000)), most: amountAt(recommender.CPU, b.Most)}
}

// of returns the boosted request in millicores, never less than the request itself.
func (b boost) of(request recommender.Amount) recommender.Amount {
	if b.thousandths == 0 {
		return request
	}
	// Rounded up to a whole millicore.
	raised := (request*b.thousandths + 999) / 1000
	if b.most > 0 {
		raised = min(raised, b.most)
	}
	return max(request, raised)
}

// mayBoost reports whether the boost can be taken back without a restart. With resizePolicy RestartContainer for
// CPU: the boost is taken back -> the container restarts -> it needs the boost again.
func (u *unit) mayBoost() bool {
	for _, p := range u.ResizePolicy {
		if p.ResourceName == string(corev1.ResourceCPU) && p.RestartPolicy == string(corev1.RestartContainer) {
			return false
		}
	}
	return true
}

// boosted reports whether the container gets more CPU than it would have without its boost.
func (u *unit) boosted() bool {
	return u.boost && u.plain.Request > 0 && u.will[recommender.CPU].Request > u.plain.Request
}

// unboost takes the boosts of all containers back and reports whether there were any.
func unboost(units []unit) (any bool) {
	for i := range units {
		u := &units[i]
		if u.boosted() {
			u.will[recommender.CPU], any = u.plain, true
		}
		u.boost = false
	}
	return any
}
