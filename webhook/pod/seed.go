package pod

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/workload"
	"attune.io/attune/podview"
	"attune.io/attune/recommender"
	"attune.io/attune/resize/harm"
)

// Recommendation is the part of an AttuneRecommendation that admission needs, with its quantities read.
// It is immutable.
type Recommendation struct {
	// Name of the object.
	Name string
	// Of is the workload that it sizes.
	Of workload.Identity
	// Seed is nil where new pods stay as they are; Withheld then says why.
	Seed     *Seed
	Withheld string
}

// Seed is what new pods are given.
type Seed struct {
	Revision   string
	ValidUntil time.Time
	Containers []ContainerSeed
}

// ContainerSeed is the seed of one container.
type ContainerSeed struct {
	Name string
	Of   [2]ask
	// boost of the CPU.
	boost boost
	// originals are what the container is known to have been created with, by generations of the template.
	originals []recommender.Size
	// crashes of newborn pods, by template generation: those are not lowered.
	crashes []v1alpha1.BirthCrash
}

// forGeneration is the seed without its lowering, in a template generation whose pods crashed when they were born with less.
func (s *ContainerSeed) forGeneration(templateHash string) *ContainerSeed {
	if s == nil || !harm.LoweringWithheld(s.crashes, s.Name, templateHash) {
		return s
	}
	raising := *s
	for r := range raising.Of {
		raising.Of[r].mayLower = false
	}
	return &raising
}

// made reports whether the seed was made with such a request in mind. Where it was not, somebody has
// just changed the template and meant it: until the loops have seen the new pods, none is lowered.
func (s *ContainerSeed) made(r recommender.Resource, request recommender.Amount) bool {
	return len(s.originals) == 0 || slices.ContainsFunc(s.originals, func(known recommender.Size) bool {
		return known[r].Request == request
	})
}

// ask is the seed of one resource of one container.
type ask struct {
	// request to give; zero leaves the resource alone.
	request recommender.Amount
	// limitFollows keeps the ratio of the original limit to the original request; else the limit stays.
	limitFollows bool
	// limit, where not zero, is given as it is.
	limit recommender.Amount
	// limitFloor is what the limit may not be below.
	limitFloor recommender.Amount
	// mayLower lets the resource go below what the pod was created with.
	mayLower bool
	// bothMove: in a Guaranteed pod the limit moves with the request whatever else is said.
	bothMove bool
}

// Read takes from a recommendation what admission needs.
func Read(rec *v1alpha1.AttuneRecommendation) *Recommendation {
	r := &Recommendation{
		Name:     rec.Name,
		Of:       workload.IdentityOf(rec),
		Withheld: rec.Spec.SeedWithheld,
	}
	seed := rec.Spec.Seed
	if seed == nil {
		return r
	}
	if slices.Contains(rec.Status.BadSeeds, seed.Revision) {
		r.Withheld = "seed " + seed.Revision + " harmed a pod"
		return r
	}
	r.Seed = &Seed{Revision: seed.Revision, ValidUntil: seed.ValidUntil.Time}
	for i := range seed.Containers {
		c := readContainer(&seed.Containers[i], rec.Spec.Strategy, seed.RaiseOnly || seed.Containers[i].RaiseOnly)
		c.originals, c.crashes = originals(rec.Status.Originals, c.Name), rec.Status.BirthCrashes
		r.Seed.Containers = append(r.Seed.Containers, c)
	}
	return r
}

func originals(generations []v1alpha1.Originals, container string) (sizes []recommender.Size) {
	for _, generation := range generations {
		for _, c := range generation.Containers {
			if size := podview.FromResources(c.Resources); c.Name == container && !slices.Contains(sizes, size) {
				sizes = append(sizes, size)
			}
		}
	}
	return sizes
}

func readContainer(s *v1alpha1.ContainerSeed, strategy v1alpha1.Strategy, raiseOnly bool) ContainerSeed {
	// A seed of the strategy Node may stand for a while after its policy has left it: no other sets a limit as it is.
	node := strategy == v1alpha1.StrategyNode || s.MemoryLimit != nil
	return ContainerSeed{Name: s.Name, boost: readBoost(s.CPUBoost), Of: [2]ask{
		recommender.CPU: {
			request:      amountAt(recommender.CPU, s.CPURequest),
			limitFollows: s.CPULimitFollows,
			mayLower:     !raiseOnly,
			bothMove:     node || s.CPULimitFollows,
		},
		recommender.Memory: {
			request:      amountAt(recommender.Memory, s.MemoryRequest),
			limitFollows: s.MemoryLimitFollows,
			limit:        amountAt(recommender.Memory, s.MemoryLimit),
			limitFloor:   amountAt(recommender.Memory, s.MemoryLimitFloor),
			mayLower:     s.AllowMemoryDecrease && !raiseOnly,
			bothMove:     node || s.MemoryLimitFollows,
		},
	}}
}

// amountAt reads an optional quantity; what is absent, negative or absurd is zero, which leaves the
// resource alone.
func amountAt(r recommender.Resource, q *resource.Quantity) recommender.Amount {
	if a := podview.FromPointer(r, q); a <= podview.Plausible {
		return a
	}
	return 0
}

// of is the seed of a container, or nil.
func (s *Seed) of(container string) *ContainerSeed {
	for i := range s.Containers {
		if s.Containers[i].Name == container {
			return &s.Containers[i]
		}
	}
	return nil
}
