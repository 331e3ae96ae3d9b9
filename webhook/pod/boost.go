package pod

import (
	"math"
	"strconv"

	corev1 "k8s.io/api/core/v1"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/recommender"
)

// boost is more CPU to start with. The zero value is none.
type boost struct {
	// thousandths that the request is multiplied by.
	thousandths recommender.Amount
	// most is the greatest request that it makes; zero is no bound.
	most recommender.Amount
}

// readBoost takes what cannot be read, or would not raise anything, for none.
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

// of a request: never less than that.
func (b boost) of(request recommender.Amount) recommender.Amount {
	if b.thousandths == 0 {
		return request
	}
	raised := (request*b.thousandths + 999) / 1000
	if b.most > 0 {
		raised = min(raised, b.most)
	}
	return max(request, raised)
}

// mayBoost: what is given to start with can be taken back without a restart, which would start it again.
func (u *unit) mayBoost() bool {
	for _, p := range u.ResizePolicy {
		if p.ResourceName == string(corev1.ResourceCPU) && p.RestartPolicy == string(corev1.RestartContainer) {
			return false
		}
	}
	return true
}

// boosted: the container has more CPU than it would have without its boost.
func (u *unit) boosted() bool {
	return u.boost && u.plain.Request > 0 && u.will[recommender.CPU].Request > u.plain.Request
}

// unboost gives the boosts of all containers back, and reports whether there were any.
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
