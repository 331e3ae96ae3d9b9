package targets

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
	"attune.io/attune/podview"
	"attune.io/attune/recommender"
	"attune.io/attune/resize"
	"attune.io/attune/resize/harm"
)

// Wanted is what a workload's recommendation should say by now. complete: the workload's whole past has been read; until
// then what is stored is kept as far as it can be.
func Wanted(rec *v1alpha1.AttuneRecommendation, v View, complete bool) v1alpha1.AttuneRecommendationSpec {
	wanted := Desired(v)
	if rec.UID != "" && !complete {
		return keepDuringBackfill(rec.Spec, wanted, v)
	}
	return wanted
}

// Desired is the spec of a workload's AttuneRecommendation by what is known of its history. It leaves out the checkpoints.
func Desired(v View) v1alpha1.AttuneRecommendationSpec {
	spec := v1alpha1.AttuneRecommendationSpec{
		Workload:       v1alpha1.WorkloadRef{Kind: v.Workload.Kind, Name: v.Workload.Name, UID: v.Workload.UID},
		Policy:         v1alpha1.PolicyRef{Name: v.Policy.Name, UID: v.Policy.UID, Generation: v.Policy.Generation},
		Mode:           v.Settings.Resize.Mode,
		SettingsDigest: v.Digest,
	}
	if v.Settings.Strategy == v1alpha1.StrategyNode {
		spec.Strategy, spec.EvictionRanking = v1alpha1.StrategyNode, evictionRanking(v.Settings, v.Workload)
		spec.NodeGroup = v.Settings.NodeGroup
	}
	for _, c := range Sized(v.Workload.Template, v.Settings) {
		spec.Containers = append(spec.Containers, v.target(c))
	}
	if last := Newest(v.History.Profiles); !last.IsZero() {
		spec.DataUntil = &metav1.Time{Time: last.UTC().Truncate(time.Second)}
	}
	spec.Seed, spec.SeedWithheld = seed(v, spec.Containers)
	if spec.Mode == v1alpha1.UpdateObserve {
		spec.Containers = progress(spec.Containers)
	}
	return spec
}

// target of one container, by the policy's strategy.
func (v View) target(c *corev1.Container) v1alpha1.ContainerTarget {
	input, recommend := v.inputFor(c), recommender.Target
	if v.Explained {
		recommend = recommender.Recommend
	}
	target := containerTarget(recommend(input))
	if v.Settings.Strategy == v1alpha1.StrategyNode {
		return sharer{v}.share(c, input.Floors, target)
	}
	target = damp(v.Stored.Containers, target)
	target.MemoryLimitFloor = v.limitFloor(target)
	return target
}

// progress is what Observe shows of targets: how far their data has come.
func progress(targets []v1alpha1.ContainerTarget) (out []v1alpha1.ContainerTarget) {
	for _, t := range targets {
		out = append(out, v1alpha1.ContainerTarget{Name: t.Name, Confidence: t.Confidence, DataPoints: t.DataPoints, Holds: t.Holds})
	}
	return out
}

// inputFor is what the recommender is asked about a container.
func (v View) inputFor(c *corev1.Container) recommender.Input {
	input := recommender.Input{
		Container: c.Name,
		Profile:   v.History.Profiles[c.Name],
		Settings:  v.Settings.Recommender,
		Original:  v.original(c),
		Floors:    harm.FloorsOf(v.Status.Floors, c.Name, v.Now),
		Now:       v.Now,

		NotRunning: !v.History.Silent,
		CountRuns:  v.batch(),
	}
	for _, r := range recommender.Resources {
		input.Held[r] = v.Blocked(c.Name, r)
		if override := v.templateOverride(c, r); override > input.Floors[r].Amount {
			input.Floors[r] = recommender.Floor{Amount: override, Reason: "the template, whose request a person changed"}
		}
	}
	return input
}

// limitFloor is what no memory limit may be below. A VPA's container has none: it is not ours; one whose
// memory an HPA scales on has only what a kill taught, as the request of a limit that is equal to it moves
// with it.
func (v View) limitFloor(t v1alpha1.ContainerTarget) *resource.Quantity {
	switch {
	case HeldFor(t.Holds, recommender.Memory, resize.ReasonVPA):
		return nil
	case HeldFor(t.Holds, recommender.Memory, resize.ReasonHPA):
		return podview.ToPointer(recommender.Memory, autoscale.OOMFloor(t, v.Status.Floors, v.Now))
	}
	return t.MemoryLimitFloor
}

// original is what the container has without attune: what its template asks, or what its pods were
// given by others (a LimitRange) where the template asks nothing.
func (v View) original(c *corev1.Container) recommender.Size {
	size := podview.ReadSpec(c.Resources)
	if size != (recommender.Size{}) || len(v.Status.Originals) == 0 {
		return size
	}
	newest := v.Status.Originals[len(v.Status.Originals)-1]
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
