package targets

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/autoscale"
	"attune.io/attune/internal/policy"
	"attune.io/attune/podview"
	"attune.io/attune/recommender"
	"attune.io/attune/resize"
)

// Wanted returns the spec that a workload's recommendation should have now. complete reports that the whole history
// has been read. Until then, after a restart or a change of leader, the stored targets stay where possible: a short
// history would recommend less than the full one. The result shares memory with the View.
func Wanted(rec *v1alpha1.AttuneRecommendation, v View, complete bool) v1alpha1.AttuneRecommendationSpec {
	wanted := Desired(v)
	if rec.UID != "" && !complete {
		return keepDuringBackfill(rec.Spec, wanted, v)
	}
	return wanted
}

// Desired computes the spec of a workload's AttuneRecommendation from its history, without checkpoints, which the
// policy loop adds. In mode Observe it removes the targets at the end, after the seed: only the progress of the data
// is shown.
func Desired(v View) v1alpha1.AttuneRecommendationSpec {
	spec := v1alpha1.AttuneRecommendationSpec{
		Workload:       v1alpha1.WorkloadRef{Kind: v.Workload.Kind, Name: v.Workload.Name, UID: v.Workload.UID},
		Identity:       v.Identity,
		Policy:         policy.RefOf(v.Policy),
		Mode:           v.Settings.Resize.Mode,
		SettingsDigest: v.Digest,
	}
	if v.Settings.Strategy != v1alpha1.StrategyWorkload {
		spec.Strategy = v.Settings.Strategy
	}
	if v.Settings.Strategy == v1alpha1.StrategyNode {
		spec.EvictionRanking, spec.NodeGroup = evictionRanking(v.Settings, v.Workload), v.Settings.NodeGroup
		spec.PolicySource = v.Settings.Source.OfPolicy
	}
	spec.Containers, spec.LargestNode = v.withinNodes(podview.Map(Sized(v.Workload.Template, v.Settings), v.target)), v.largestNode()
	if last := Newest(v.History.Profiles); !last.IsZero() {
		spec.DataUntil = &metav1.Time{Time: last.UTC().Truncate(time.Second)}
	}
	spec.Seed, spec.SeedBlocked = seed(v, spec.Containers)
	spec.HPABindings = recommendedTargets(&v, spec.Containers)
	if spec.Mode == v1alpha1.UpdateObserve {
		spec.Containers = progress(spec.Containers)
	}
	return spec
}

// target computes the target of one container by the policy's strategy. The recommender comes first. Under strategy
// Workload, a small decrease is then ignored (damp), and the floor of the memory limit is set.
func (v View) target(c *corev1.Container) v1alpha1.ContainerTarget {
	limits := v.memoryLimits(c)
	input, recommend := v.inputFor(c), recommender.Target
	input.Limits = v.limitUsage(c.Name, limits)
	if v.Explained {
		recommend = recommender.Recommend
	}
	target := v.blockDecreases(c, containerTarget(recommend(input)))
	if v.Settings.Strategy == v1alpha1.StrategyNode {
		return sharer{v}.share(c, input.Floors, target)
	}
	if v.Kept != nil {
		target.Kept = keptOf(target, v.proof)
	}
	target = damp(v.Stored.Containers, target)
	target.MemoryLimitFloor, target.MemoryLimits = v.limitFloor(target), limits
	return target
}

// progress returns the part of targets that mode Observe shows: the progress of their data, without sizes.
func progress(targets []v1alpha1.ContainerTarget) []v1alpha1.ContainerTarget {
	return podview.Map(targets, func(t v1alpha1.ContainerTarget) v1alpha1.ContainerTarget {
		return v1alpha1.ContainerTarget{Name: t.Name, Confidence: t.Confidence, DataPoints: t.DataPoints, Holds: t.Holds}
	})
}

// inputFor builds the recommender's input for a container. A request that a user has just changed in the template
// acts as a floor until there is enough data of the new generation.
func (v View) inputFor(c *corev1.Container) recommender.Input {
	input := recommender.Input{
		Container: c.Name,
		Profile:   v.History.Profiles[c.Name],
		Settings:  *v.Settings.For(c.Name),
		Estimates: v.History.Estimates[c.Name],
		Original:  v.original(c),
		Killed:    resize.LimitFloorOf(v.Status.Floors, c.Name, v.Now),
		Now:       v.Now,

		Guaranteed:  v.guaranteed(),
		Implausible: v.History.Implausible[c.Name],

		NotRunning: !v.History.Silent,
		CountRuns:  v.batch(),
	}
	input.Floors = resize.RequestFloorsOf(v.Status.Floors, c.Name, input.Original[recommender.Memory].Limit, v.Now)
	for _, r := range recommender.Resources {
		if proof := v.proof(c.Name, r); proof != nil {
			input.Kept[r] = &proof.Kept
		} else if proof := proposed(&v, c.Name, r); proof != nil {
			input.Kept[r] = &proof.Kept // the recommended request belongs to a target that attune would write
		}
		if input.Held[r] = v.Blocked(c.Name, r); input.Held[r] == nil && v.History.Young && !input.Implausible[r].Blocks() {
			input.Held[r] = implausible(v.Stored.Containers, c.Name, r)
		}
		if override := v.templateOverride(c, r); override > input.Floors[r].Amount {
			input.Floors[r].Amount, input.Floors[r].Reason = override, "the template, whose request a user changed"
		}
	}
	return input
}

// proof returns the range of a request that keeps the number of replicas, or nil.
func (v View) proof(container string, r recommender.Resource) *autoscale.Proof {
	if v.Kept == nil || !v.Settings.KeepsReplicas(container, r) {
		return nil
	}
	return v.Kept(container, r)
}

// proposed returns the range of a request that only the missing right to change the target of an HPA blocks, or nil.
func proposed(v *View, container string, r recommender.Resource) *autoscale.Proof {
	if v.Proposed == nil || !v.Settings.Retargets(container, r) {
		return nil
	}
	return v.Proposed(container, r)
}

// recommendedTargets returns the bindings of HPAs, with the target that belongs to the recommended requests, whether attune
// writes it or not: a user who copies the requests needs both. Mode Observe shows no recommendations.
func recommendedTargets(v *View, containers []v1alpha1.ContainerTarget) []v1alpha1.HPABinding {
	var follower *autoscale.Follower
	requests := map[string]recommender.Amount{}
	for _, t := range containers {
		proof := proposed(v, t.Name, recommender.CPU)
		if proof == nil {
			proof = v.proof(t.Name, recommender.CPU)
		}
		if proof == nil || proof.Follower == nil {
			continue
		}
		follower = proof.Follower
		if target := podview.FromResources(t.Target)[recommender.CPU].Request; blockedOnlyByHPA(t.Holds, recommender.CPU) && target > 0 {
			requests[t.Name] = target
		}
	}
	if follower == nil || v.Settings.Resize.Mode == v1alpha1.UpdateObserve {
		return v.HPABindings
	}
	bindings := slices.Clone(v.HPABindings)
	for i := range bindings {
		b := &bindings[i]
		same := b.HPA == follower.HPA && b.Container == follower.Container && b.Resource == recommender.CPU.String()
		if target := follower.With(requests); same && target != follower.Threshold.Target {
			b.RecommendedPercent = target
		}
	}
	return bindings
}

// blockedOnlyByHPA reports whether HPAs are the only reason why a resource is blocked.
func blockedOnlyByHPA(holds []v1alpha1.Hold, r recommender.Resource) bool {
	return !slices.ContainsFunc(holds, func(h v1alpha1.Hold) bool { return h.Resource == r.String() && h.Reason != resize.ReasonHPA })
}

// keptOf returns the ranges to store with a target. A resource that is blocked has none.
func keptOf(t v1alpha1.ContainerTarget, proofs func(container string, r recommender.Resource) *autoscale.Proof) (rows []v1alpha1.KeptRequest) {
	for _, r := range recommender.Resources {
		if proof := proofs(t.Name, r); proof != nil && !resize.HeldFor(t.Holds, r, resize.ReasonHPA) {
			rows = append(rows, proof.Stored)
		}
	}
	return rows
}

// guaranteed reports whether new pods are of the QoS class Guaranteed without attune.
func (v View) guaranteed() bool {
	return v.Workload.Template != nil && podview.CreatesGuaranteed(&v.Workload.Template.Spec, v.original)
}

// implausible returns the stored block of a resource by implausible samples, or nil. After a restart, the dropped samples
// behind it are not known, and the kept ones may be the idle ones.
func implausible(stored []v1alpha1.ContainerTarget, container string, r recommender.Resource) *recommender.Hold {
	for _, t := range stored {
		for _, h := range t.Holds {
			if t.Name == container && h.Resource == r.String() && h.Reason == string(recommender.UsageImplausible) {
				return &recommender.Hold{Reason: recommender.UsageImplausible, Message: h.Message}
			}
		}
	}
	return nil
}

// limitFloor returns the amount below which the memory limit must not go; nil: no floor. A container that a VPA sizes
// has no floor, because attune does not change it. If an HPA scales on its memory, only OOM kills set a floor. In a
// Guaranteed pod the request changes with the limit, and that changes the HPA's result. So only pods that were
// OOM-killed are raised there (tuning, nextSizes).
func (v View) limitFloor(t v1alpha1.ContainerTarget) *resource.Quantity {
	switch {
	case resize.HeldFor(t.Holds, recommender.Memory, resize.ReasonVPA):
		return nil
	case resize.HeldFor(t.Holds, recommender.Memory, resize.ReasonHPA):
		return podview.ToPointer(recommender.Memory, resize.OOMFloor(t, v.Status.Floors, v.Now))
	}
	return t.MemoryLimitFloor
}
