package pod

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/workload"
	"attune.io/attune/podview"
	"attune.io/attune/recommender"
	"attune.io/attune/resize"
	"attune.io/attune/resize/harm"
)

// Recommendation is the part of an AttuneRecommendation that admission needs, with its quantities parsed once. It is
// immutable, so that any number of reviews share it.
type Recommendation struct {
	// Name of the object.
	Name string
	// Of is the workload of the recommendation.
	Of workload.Identity
	// Seed holds the sizes of new pods; nil: they are not changed, and SeedBlocked is the reason if there is one.
	Seed        *Seed
	SeedBlocked string
	// withdrawn is set while pods are rejected or do not start with the seed.
	withdrawn *v1alpha1.AdmissionWithdrawn
	// identity and created are spec.identity and the creation time of the object.
	identity string
	created  time.Time
	// ofCluster is true if a cluster policy sizes the workload.
	ofCluster bool
}

// forNew returns the recommendation for the first pods of a workload that has none yet, from another workload with its
// identity: under the name of its own, so that the workload loop finds it. It returns nil if the pod lacks a container
// with a seed, because only workloads with the same containers share their resources. The receiver is not changed.
func (r *Recommendation) forNew(of workload.Identity, p *Pod) *Recommendation {
	if r == nil || !r.holds(p) {
		return nil
	}
	own := *r
	own.Name, own.Of = of.RecommendationName(), of
	return &own
}

// holds reports whether the pod has each container with a seed.
func (r *Recommendation) holds(p *Pod) bool {
	return r.Seed == nil || !slices.ContainsFunc(r.Seed.Containers, func(c ContainerSeed) bool { return !p.has(c.Name) })
}

// has reports whether the pod has a container with the name.
func (p *Pod) has(name string) bool {
	is := func(c Container) bool { return c.Name == name }
	return slices.ContainsFunc(p.Spec.Containers, is) || slices.ContainsFunc(p.Spec.InitContainers, is)
}

// sparing returns the recommendation to use for a pod: a copy that only raises if a cluster policy must not lower the
// pod. The workload's template may have had no such priority when the seed was computed. The receiver is not changed.
func (r *Recommendation) sparing(p *Pod) *Recommendation {
	if !r.ofCluster || !podview.Critical(p.Spec.PriorityClassName, p.Spec.Priority) {
		return r
	}
	spared, seed := *r, *r.Seed
	seed.Containers = slices.Clone(seed.Containers)
	for i := range seed.Containers {
		seed.Containers[i] = *seed.Containers[i].raising()
	}
	spared.Seed = &seed
	return &spared
}

// Seed is the size with which new pods of a workload are created.
type Seed struct {
	// Revision identifies the seed; a revision that caused a regression is not used again.
	Revision string
	// ValidUntil is when the seed expires; the policy loop renews it while there is fresh data.
	ValidUntil time.Time
	// Containers are the seeds by container; other containers are not changed.
	Containers []ContainerSeed
	// Largest limits the sum of a pod's requests (requests), and how far limits are raised (limits); 0: not known.
	Largest recommender.Size
}

// ContainerSeed is the seed of one container.
type ContainerSeed struct {
	// Name of the container.
	Name string
	// Of holds the seed of each resource, indexed by Resource.
	Of [2]ask
	// boost of the CPU; the zero value: none.
	boost boost
	// originals are the known sizes with which the container was created, over generations of the template.
	originals []recommender.Size
	// crashes are crash loops of new pods by template generation; pods of these generations are not lowered.
	crashes []v1alpha1.FailedStart
}

// forGeneration returns the seed for a template generation: without lowering if pods of that generation crashed when
// they were created with less. The receiver is not changed; nil stays nil.
func (s *ContainerSeed) forGeneration(templateHash string) *ContainerSeed {
	if s == nil || !harm.LoweringBlocked(s.crashes, s.Name, templateHash) {
		return s
	}
	return s.raising()
}

// raising returns a copy of the seed that lowers nothing.
func (s *ContainerSeed) raising() *ContainerSeed {
	raising := *s
	for r := range raising.Of {
		raising.Of[r].mayLower = false
	}
	return &raising
}

// made reports whether the seed was computed for a template with this request. If not, a user just changed the
// template, and no pod is lowered until the loops have read the new pods. Without known originals every request
// matches.
func (s *ContainerSeed) made(r recommender.Resource, request recommender.Amount) bool {
	return len(s.originals) == 0 || slices.ContainsFunc(s.originals, func(known recommender.Size) bool {
		return known[r].Request == request
	})
}

// ask is the seed of one resource of one container, in millicores or bytes.
type ask struct {
	// request to set; 0: the resource is not changed.
	request recommender.Amount
	// limitFollows keeps the ratio of the original limit to the original request; otherwise the limit is not changed.
	limitFollows bool
	// limit to set; 0: limitFollows decides. With limitFollows, usage follows its limit, and limit replaces the ratio.
	limit recommender.Amount
	// rule replaces the ratio of the CPU limit; the zero value: it does not.
	rule recommender.LimitRule
	// limitFloor is the least memory limit, or the CPU limit that a decrease leaves; 0: none.
	limitFloor recommender.Amount
	// limitMost is the amount above which the limit is not raised, in addition to frame.largest; 0: none.
	limitMost recommender.Amount
	// mayLower allows amounts below the size with which the pod was created.
	mayLower bool
	// kept is the range of requests that keeps the number of replicas of HPAs; nil: none applies.
	kept *recommender.Kept
	// bothMove changes the limit of a Guaranteed pod with its request, whatever limitFollows is.
	bothMove bool
}

// Read returns the part of a recommendation that admission needs. It has no seed if its revision caused a regression.
func Read(rec *v1alpha1.AttuneRecommendation) *Recommendation {
	r := &Recommendation{
		Name:        rec.Name,
		Of:          workload.IdentityOf(rec),
		SeedBlocked: rec.Spec.SeedBlocked,

		identity: rec.Spec.Identity, created: rec.CreationTimestamp.Time,
		withdrawn: rec.Status.AdmissionWithdrawn,
		ofCluster: rec.Spec.Policy.Kind == v1alpha1.PolicyKindCluster,
	}
	seed := rec.Spec.Seed
	if seed == nil {
		return r
	}
	if slices.Contains(rec.Status.BadSeeds, seed.Revision) {
		r.SeedBlocked = "seed " + seed.Revision + " caused a regression of a pod"
		return r
	}
	r.Seed = &Seed{Revision: seed.Revision, ValidUntil: seed.ValidUntil.Time, Largest: recommender.Size{
		recommender.CPU:    {Request: amountAt(recommender.CPU, seed.LargestPod.CPURequest), Limit: amountAt(recommender.CPU, seed.LargestPod.CPULimit)},
		recommender.Memory: {Request: amountAt(recommender.Memory, seed.LargestPod.MemoryRequest), Limit: amountAt(recommender.Memory, seed.LargestPod.MemoryLimit)},
	}}
	for i := range seed.Containers {
		c := readContainer(&seed.Containers[i], rec.Spec.Strategy, seed.RaiseOnly || seed.Containers[i].RaiseOnly)
		target := podview.First(rec.Spec.Containers, func(t v1alpha1.ContainerTarget) bool { return t.Name == c.Name })
		for _, resource := range recommender.Resources {
			c.Of[resource].kept = resize.KeptRange(target, resource)
		}
		c.originals, c.crashes = originals(rec.Status.Originals, c.Name), rec.Status.FailedStarts
		r.Seed.Containers = append(r.Seed.Containers, c)
	}
	return r
}

// originals returns the distinct sizes with which a container was created, over all generations in the status.
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

// readContainer reads the seed of one container. raiseOnly forbids lowering of both resources. Lowering memory also
// requires AllowMemoryDecrease.
func readContainer(s *v1alpha1.ContainerSeed, strategy v1alpha1.Strategy, raiseOnly bool) ContainerSeed {
	// A seed of the strategy Node may remain for a while after its policy changed the strategy: only Node sets a
	// limit that does not follow.
	node := strategy == v1alpha1.StrategyNode || s.MemoryLimit != nil && !s.MemoryLimitFollows
	return ContainerSeed{Name: s.Name, boost: readBoost(s.CPUBoost), Of: [2]ask{
		recommender.CPU: {
			request:      amountAt(recommender.CPU, s.CPURequest),
			limitFollows: s.CPULimitFollows,
			rule:         readRule(s),
			limitFloor:   amountAt(recommender.CPU, s.CPULimitFloor),
			limitMost:    amountAt(recommender.CPU, s.CPULimitMost),
			mayLower:     !raiseOnly,
			bothMove:     node || s.CPULimitFollows,
		},
		recommender.Memory: {
			request:      amountAt(recommender.Memory, s.MemoryRequest),
			limitFollows: s.MemoryLimitFollows,
			limit:        amountAt(recommender.Memory, s.MemoryLimit),
			limitFloor:   amountAt(recommender.Memory, s.MemoryLimitFloor),
			limitMost:    amountAt(recommender.Memory, s.MemoryLimitMost),
			mayLower:     s.AllowMemoryDecrease && !raiseOnly,
			// A seed of Node without a limit is from a policy that leaves limits alone.
			bothMove: s.MemoryLimit != nil || s.MemoryLimitFollows || node && s.MemoryRequest == nil,
		},
	}}
}

// readRule reads the rule for a CPU limit. Without limits that follow, or with an absurd amount, there is none.
func readRule(s *v1alpha1.ContainerSeed) recommender.LimitRule {
	of := s.CPULimitRule
	if of == nil || !s.CPULimitFollows {
		return recommender.LimitRule{}
	}
	rule := recommender.LimitRule{Remove: of.Remove, Min: amountAt(recommender.CPU, of.Min), Max: amountAt(recommender.CPU, of.Max)}
	if of.RatioThousandths >= 1000 && of.RatioThousandths <= int64(podview.Plausible) {
		rule.Thousandths = recommender.Amount(of.RatioThousandths)
	}
	return rule
}

// amountAt reads an optional quantity. A quantity that is absent, negative or beyond podview.Plausible is 0: the
// resource is not changed.
func amountAt(r recommender.Resource, q *resource.Quantity) recommender.Amount {
	if a := podview.FromPointer(r, q); a <= podview.Plausible {
		return a
	}
	return 0
}

// of is the seed of a container, or nil.
func (s *Seed) of(container string) *ContainerSeed {
	return podview.FirstIn(s.Containers, func(c *ContainerSeed) bool { return c.Name == container })
}
