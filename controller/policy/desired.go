package policy

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/autoscale"
	"attune.io/attune/internal/policy"
	"attune.io/attune/internal/workload"
	"attune.io/attune/podview"
	"attune.io/attune/recommender"
	"attune.io/attune/recommender/node"
	"attune.io/attune/resize"
	"attune.io/attune/resize/harm"
)

// inputs are everything that a workload's AttuneRecommendation depends on.
type inputs struct {
	workload workload.Workload
	policy   *v1alpha1.AttunePolicy
	settings policy.Settings
	// settingsDigest is that of the settings.
	settingsDigest string
	profiles       map[string]recommender.Profile
	// highest answers the most that replicas used of a container's resource in a span of time (strategy Node).
	highest func(container string, r recommender.Resource) node.Span
	// stored are the targets as they were written last, standing the seed.
	stored   []v1alpha1.ContainerTarget
	standing *v1alpha1.Seed
	// silent: pods ran for so long since the last sample that the source had to have something newer of them.
	silent bool
	// status is the workload loop's half: floors, kept sizes, originals, bad seeds.
	status v1alpha1.AttuneRecommendationStatus
	// blocked names a reason not to change a container's resource that lies outside its history.
	blocked func(container string, r recommender.Resource) *recommender.Hold
	now     time.Time
	// explained: every target comes with the steps that led to it. Nearly always nobody is to read them.
	explained bool
}

// desired computes the spec of a workload's AttuneRecommendation. It is pure.
func desired(in inputs) v1alpha1.AttuneRecommendationSpec {
	spec := v1alpha1.AttuneRecommendationSpec{
		Workload: v1alpha1.WorkloadRef{Kind: in.workload.Kind, Name: in.workload.Name, UID: in.workload.UID},
		Policy: v1alpha1.PolicyRef{
			Name: in.policy.Name, UID: in.policy.UID, Generation: in.policy.Generation,
		},
		Mode:           in.settings.Resize.Mode,
		SettingsDigest: in.settingsDigest,
	}
	if in.settings.Strategy == v1alpha1.StrategyNode {
		spec.Strategy, spec.EvictionRanking = v1alpha1.StrategyNode, evictionRanking(in.settings, in.workload)
		spec.NodeGroup = in.settings.NodeGroup
	}
	for _, c := range sized(in.workload.Template, in.settings) {
		profile := in.profiles[c.Name]
		input := in.inputFor(c, profile)
		recommend := recommender.Target
		if in.explained {
			recommend = recommender.Recommend
		}
		target := containerTarget(recommend(input))
		if in.settings.Strategy == v1alpha1.StrategyNode {
			target = in.forNode(c, input.Floors, target)
		} else {
			target = steady(in.stored, target)
			target.MemoryLimitFloor = in.limitFloor(target)
		}
		spec.Containers = append(spec.Containers, target)
	}
	if last := newest(in.profiles); !last.IsZero() {
		spec.DataUntil = &metav1.Time{Time: last.UTC().Truncate(time.Second)}
	}
	spec.Seed, spec.SeedWithheld = seed(in, spec.Containers)
	if spec.Mode == v1alpha1.UpdateObserve {
		spec.Containers = progress(spec.Containers)
	}
	return spec
}

// progress is what Observe shows of targets: how far their data has come.
func progress(targets []v1alpha1.ContainerTarget) (out []v1alpha1.ContainerTarget) {
	for _, t := range targets {
		out = append(out, v1alpha1.ContainerTarget{Name: t.Name, Confidence: t.Confidence, DataPoints: t.DataPoints, Holds: t.Holds})
	}
	return out
}

// batch: the workload runs now and then.
func (in inputs) batch() bool {
	return in.workload.Kind == v1alpha1.KindJob || in.workload.Kind == v1alpha1.KindCronJob
}

// newest is the time of the last sample of any container.
func newest(profiles map[string]recommender.Profile) (last time.Time) {
	for _, p := range profiles {
		if p.Last.After(last) {
			last = p.Last
		}
	}
	return last
}

func (in inputs) inputFor(c *corev1.Container, profile recommender.Profile) recommender.Input {
	input := recommender.Input{
		Container: c.Name,
		Profile:   profile,
		Settings:  in.settings.Recommender,
		Original:  in.original(c),
		Floors:    harm.FloorsOf(in.status.Floors, c.Name, in.now),
		Now:       in.now,

		NotRunning: !in.silent,
		CountRuns:  in.batch(),
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
	q := podview.Quantity(r, a)
	return &q
}

// original is what the container has without attune: what its template asks, or what its pods were
// given by others (a LimitRange) where the template asks nothing.
func (in inputs) original(c *corev1.Container) recommender.Size {
	size := podview.ReadSpec(c.Resources)
	if size != (recommender.Size{}) || len(in.status.Originals) == 0 {
		return size
	}
	newest := in.status.Originals[len(in.status.Originals)-1]
	for _, o := range newest.Containers {
		if o.Name == c.Name {
			return podview.FromResources(o.Resources)
		}
	}
	return size
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
