package policy

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/autoscale"
	"attune.io/attune/internal/policy"
	"attune.io/attune/internal/workload"
	"attune.io/attune/recommender"
	"attune.io/attune/resize"
)

// seedLifetime is how long new pods are sized by a seed that nobody renews: an operator that is gone
// must not size pods for ever by what it once knew.
const seedLifetime = 24 * time.Hour

// inputs are everything that a workload's AttuneRecommendation depends on.
type inputs struct {
	workload workload.Workload
	policy   *v1alpha1.AttunePolicy
	settings policy.Settings
	profiles map[string]recommender.Profile
	// stored are the targets as they were written last.
	stored []v1alpha1.ContainerTarget
	// status is the workload loop's half: floors, kept sizes, originals, bad seeds.
	status v1alpha1.AttuneRecommendationStatus
	// blocked names a reason not to change a container's resource that lies outside its history.
	blocked func(container string, r recommender.Resource) *recommender.Hold
	now     time.Time
}

// desired computes the spec of a workload's AttuneRecommendation. It is pure.
func desired(in inputs) v1alpha1.AttuneRecommendationSpec {
	spec := v1alpha1.AttuneRecommendationSpec{
		Workload: v1alpha1.WorkloadRef{Kind: in.workload.Kind, Name: in.workload.Name, UID: in.workload.UID},
		Policy: v1alpha1.PolicyRef{
			Name: in.policy.Name, UID: in.policy.UID, Generation: in.policy.Generation,
		},
		Mode:           in.settings.Resize.Mode,
		SettingsDigest: in.settings.Digest(),
	}
	var newest time.Time
	for _, c := range sized(in.workload.Template, in.settings) {
		profile := in.profiles[c.Name]
		rec := recommender.Recommend(in.inputFor(c, profile))
		target := steady(in.stored, containerTarget(rec))
		target.MemoryLimitFloor = in.limitFloor(target)
		spec.Containers = append(spec.Containers, target)
		if profile.Last.After(newest) {
			newest = profile.Last
		}
	}
	if !newest.IsZero() {
		spec.DataUntil = &metav1.Time{Time: newest.UTC().Truncate(time.Second)}
	}
	spec.Seed, spec.SeedWithheld = seed(in, spec.Containers)
	return spec
}

func (in inputs) inputFor(c corev1.Container, profile recommender.Profile) recommender.Input {
	input := recommender.Input{
		Container: c.Name,
		Profile:   profile,
		Settings:  in.settings.Recommender,
		Original:  in.original(c),
		Floors:    resize.FloorsOf(in.status.Floors, c.Name, in.now),
		Now:       in.now,
	}
	for _, r := range recommender.Resources {
		input.Held[r] = in.blocked(c.Name, r)
		if meant := in.meant(c, r); meant > input.Floors[r].Amount {
			input.Floors[r] = recommender.Floor{Amount: meant, Reason: "the template, whose request a person changed"}
		}
	}
	return input
}

// limitFloor is what no memory limit may be below. A VPA's container has none: it is not ours; one whose
// memory an HPA scales on has only what a kill taught, as the request of a limit that is equal to it moves
// with it.
func (in inputs) limitFloor(t v1alpha1.ContainerTarget) *resource.Quantity {
	switch {
	case heldFor(t.Holds, recommender.Memory, resize.ReasonVPA):
		return nil
	case heldFor(t.Holds, recommender.Memory, resize.ReasonHPA):
		return quantity(recommender.Memory, autoscale.OOMFloor(t, in.status.Floors, in.now))
	}
	return t.MemoryLimitFloor
}

// quantity is nil for nothing.
func quantity(r recommender.Resource, a recommender.Amount) *resource.Quantity {
	if a == 0 {
		return nil
	}
	q := resize.Quantity(r, a)
	return &q
}

// original is what the container has without attune: what its template asks, or what its pods were
// given by others (a LimitRange) where the template asks nothing.
func (in inputs) original(c corev1.Container) recommender.Size {
	size := resize.ReadSpec(c.Resources)
	if size != (recommender.Size{}) || len(in.status.Originals) == 0 {
		return size
	}
	newest := in.status.Originals[len(in.status.Originals)-1]
	for _, o := range newest.Containers {
		if o.Name == c.Name {
			return resize.FromResources(o.Resources)
		}
	}
	return size
}

// sized are the containers of a template that are sized: regular ones and native sidecars, without
// the excluded.
func sized(template *corev1.PodTemplateSpec, settings policy.Settings) []corev1.Container {
	if template == nil {
		return nil
	}
	var out []corev1.Container
	for _, c := range template.Spec.InitContainers {
		if c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways {
			out = append(out, c)
		}
	}
	out = append(out, template.Spec.Containers...)
	return slices.DeleteFunc(out, func(c corev1.Container) bool { return settings.Resize.Excluded[c.Name] })
}

func containerTarget(rec recommender.Recommendation) v1alpha1.ContainerTarget {
	target := v1alpha1.ContainerTarget{
		Name:       rec.Container,
		Target:     resize.ToResources(rec.Target),
		Confidence: strconv.FormatFloat(rec.Confidence, 'f', 2, 64),
		DataPoints: int32(rec.DataPoints),
	}
	if rec.MemoryLimitFloor > 0 {
		q := resize.Quantity(recommender.Memory, rec.MemoryLimitFloor)
		target.MemoryLimitFloor = &q
	}
	for _, h := range rec.Holds {
		target.Holds = append(target.Holds, v1alpha1.Hold{
			Resource: h.Resource.String(), Reason: string(h.Reason), Message: h.Message,
		})
	}
	for _, s := range rec.Steps {
		target.Steps = append(target.Steps, v1alpha1.Step{
			Resource: s.Resource.String(), Name: s.Name, Reason: s.Reason,
			Before: recommender.Format(s.Resource, s.Before), After: recommender.Format(s.Resource, s.After),
		})
	}
	return target
}

// seedHeld says that no resource of any container may be changed, or has a target.
const seedHeld = "Held"

// seedMode says that the mode does not size new pods.
func seedMode(mode v1alpha1.UpdateType) string { return "Mode" + string(mode) }

// seed is what new pods are given, by the mode: the target (Initial), the last kept size (Canary,
// Auto), or the target as a raise where no size is kept yet. Otherwise it says why there is none.
func seed(in inputs, targets []v1alpha1.ContainerTarget) (*v1alpha1.Seed, string) {
	mode := in.settings.Resize.Mode
	_, skipped := in.workload.Skipped()
	switch {
	case len(in.settings.Resize.Paused) > 0:
		return nil, v1alpha1.ReasonPaused
	case in.workload.Paused() || in.status.Paused != nil:
		return nil, v1alpha1.ReasonPaused
	case skipped:
		return nil, "Skipped"
	case slices.ContainsFunc(targets, sizedByVPA):
		return nil, resize.ReasonVPA
	case mode != v1alpha1.UpdateInitial && mode != v1alpha1.UpdateCanary && mode != v1alpha1.UpdateAuto:
		return nil, seedMode(mode)
	}
	out := &v1alpha1.Seed{ValidUntil: metav1.Time{Time: in.now.Add(seedLifetime).UTC().Truncate(time.Second)}}
	usesKept := mode != v1alpha1.UpdateInitial
	out.RaiseOnly = usesKept && len(in.status.Kept) == 0
	for _, t := range targets {
		if c, ok := containerSeed(in, t, usesKept); ok {
			out.Containers = append(out.Containers, c)
		}
	}
	if len(out.Containers) == 0 {
		return nil, seedHeld
	}
	out.Revision = digest(struct {
		RaiseOnly  bool
		Containers []v1alpha1.ContainerSeed
	}{out.RaiseOnly, out.Containers})
	if slices.Contains(in.status.BadSeeds, out.Revision) {
		return nil, "SeedMarkedBad"
	}
	return out, ""
}

func containerSeed(in inputs, t v1alpha1.ContainerTarget, usesKept bool) (v1alpha1.ContainerSeed, bool) {
	size := resize.FromResources(t.Target)
	if kept := keptSize(in.status.Kept, t.Name); usesKept && kept != nil {
		size = in.notBelowMeant(t.Name, resize.FromResources(*kept))
	}
	s := v1alpha1.ContainerSeed{
		Name:                t.Name,
		MemoryLimitFloor:    t.MemoryLimitFloor,
		AllowMemoryDecrease: in.settings.Recommender.Of[recommender.Memory].AllowDecrease,
		CPULimitFollows:     in.settings.Recommender.Of[recommender.CPU].LimitsFollow,
		MemoryLimitFollows:  in.settings.Recommender.Of[recommender.Memory].LimitsFollow,
	}
	if req := size[recommender.CPU].Request; req > 0 && !held(t.Holds, recommender.CPU) {
		q := resize.Quantity(recommender.CPU, req)
		s.CPURequest = &q
	}
	if req := size[recommender.Memory].Request; req > 0 && !held(t.Holds, recommender.Memory) {
		q := resize.Quantity(recommender.Memory, req)
		s.MemoryRequest = &q
	}
	if floor := autoscale.OOMFloor(t, in.status.Floors, in.now); floor > 0 {
		s.MemoryRequest, s.AllowMemoryDecrease = quantity(recommender.Memory, floor), false
	}
	return s, s.CPURequest != nil || s.MemoryRequest != nil
}

func keptSize(kept []v1alpha1.KeptSize, container string) *v1alpha1.Resources {
	for i := range kept {
		if kept[i].Name == container {
			return &kept[i].Size
		}
	}
	return nil
}

func held(holds []v1alpha1.Hold, r recommender.Resource) bool {
	return slices.ContainsFunc(holds, func(h v1alpha1.Hold) bool { return h.Resource == r.String() })
}

func heldFor(holds []v1alpha1.Hold, r recommender.Resource, reason string) bool {
	return slices.ContainsFunc(holds, func(h v1alpha1.Hold) bool { return h.Resource == r.String() && h.Reason == reason })
}

func sizedByVPA(t v1alpha1.ContainerTarget) bool {
	return heldFor(t.Holds, recommender.Memory, resize.ReasonVPA)
}

// digest is a short stable hash of a value's JSON.
func digest(v any) string {
	raw, err := json.Marshal(v)
	if err != nil {
		panic("marshalling plain data: " + err.Error())
	}
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:6])
}
