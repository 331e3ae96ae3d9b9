package node

import "attune.io/attune/recommender"

// Seed is what a container is given at admission, before there is a node: its day's peak, so that the scheduler
// finds it a place that it never has to leave again while its demand stays the same.
//
// CPU has no limit of its own: an existing one stays as the template has it, since to remove it may change
// the pod's quality-of-service class or break a quota. In a Guaranteed pod request and limit are the peak,
// not below MemoryLimitFloor; it is not touched afterwards.
type Seed struct {
	// Request of each resource; zero leaves it alone.
	Request Amounts
	// MemoryLimit as MemoryLimit has it; zero leaves it alone.
	MemoryLimit recommender.Amount
	// MemoryLimitFloor is what no memory limit may be below: what OOM kills taught.
	MemoryLimitFloor recommender.Amount
}

// SeedOf a container's demand: of a resource whose demand is not known, the zero Demand, nothing is given. It is
// the day's peak, max(base, Day), at least what is allowed; where the day is not known, the peak stands for it. A
// forecast above the day's peak is not in it: a pod is admitted at its peak where its workload's last day was
// its worst.
func SeedOf(c *Container) Seed {
	seed := Seed{MemoryLimitFloor: c.OOM}
	for _, r := range recommender.Resources {
		peak := c.Day[r]
		if peak <= 0 {
			peak = c.Of[r].Peak
		}
		if peak = max(peak, c.Of[r].Base); peak > 0 {
			seed.Request[r] = max(peak, c.Least[r])
		}
	}
	if memory := seed.Request[recommender.Memory]; memory > 0 {
		seed.MemoryLimit = MemoryLimit(c.Max7d, c.OOM, memory)
	}
	return seed
}
