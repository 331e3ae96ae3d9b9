package node

import "attune.io/attune/recommender"

// Seed is a container's size at admission, before its pod has a node: its day's peak, so that the scheduler finds a place
// that the pod never has to leave while its demand stays the same.
//
// CPU has no limit of its own: an existing one stays as the template has it, since to remove it may change
// the pod's quality-of-service class or break a quota. In a Guaranteed pod request and limit are the peak,
// not below MemoryLimitFloor; it is not touched afterwards.
type Seed struct {
	// Request of each resource; zero leaves it alone.
	Request Amounts
	// MemoryLimit as MemoryLimit has it; zero leaves it alone.
	MemoryLimit recommender.Amount
	// MemoryLimitFloor is the lower bound of any memory limit, learned from OOM kills.
	MemoryLimitFloor recommender.Amount
}

// SeedOf a container: max(base, Day), at least what its policy allows; where the day is not known, the peak stands for it.
// A resource whose demand is not known, the zero Demand, is left alone. A forecast above the day's peak does not count: a
// pod is admitted at its peak where its workload's last day was its worst.
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
