package node

import "attune.io/attune/recommender"

// Seed is what a container is given at admission, before there is a node: its peak, so that the scheduler
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

// SeedOf a container's demand: of a resource whose demand is not known, the zero Demand, nothing is given.
func SeedOf(c *Container) Seed {
	memory := max(c.Of[recommender.Memory].Base, c.Of[recommender.Memory].Peak)
	seed := Seed{
		Request:          Amounts{max(c.Of[recommender.CPU].Base, c.Of[recommender.CPU].Peak), memory},
		MemoryLimitFloor: c.OOM,
	}
	if memory > 0 {
		seed.MemoryLimit = MemoryLimit(c.Max7d, c.OOM, memory)
	}
	return seed
}
