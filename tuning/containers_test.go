package tuning_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/policy"
	"attune.io/attune/podview"
	"attune.io/attune/recommender"
	"attune.io/attune/resize"
	"attune.io/attune/resize/climb"
	"attune.io/attune/resize/resizetest"
	"attune.io/attune/tuning"
)

// under returns the view with the settings of a policy in mode Auto that has some fields.
func under(t testing.TB, w tuning.View, fields string) tuning.View {
	t.Helper()
	p := &v1alpha1.AttunePolicy{}
	require.NoError(t, yaml.UnmarshalStrict([]byte(fields), &p.Spec))
	p.Spec.UpdateStrategy = &v1alpha1.UpdateStrategy{Type: new(v1alpha1.UpdateAuto), Canary: &v1alpha1.CanarySettings{Percentage: new(int32(100))}}
	p.Spec.TargetRef = v1alpha1.TargetRef{Kind: v1alpha1.KindDeployment}
	settings, err := policy.Resolve(nil, nil, p)
	require.NoError(t, err)
	w.Policy.Settings = settings
	return w
}

// two returns a view of a pod with containers app and side-1 of one size, with one target for both.
func two(t testing.TB, has, target recommender.Size) tuning.View {
	t.Helper()
	pod := resizetest.Running(has, has)
	started := metav1.NewTime(now.Add(-time.Hour))
	pod.Name, pod.UID, pod.CreationTimestamp, pod.Annotations, pod.Status.StartTime = "web-1", "web-1", started, map[string]string{}, &started
	for i := range pod.Status.ContainerStatuses {
		s := &pod.Status.ContainerStatuses[i]
		s.ContainerID, s.State.Running.StartedAt = fmt.Sprintf("containerd://%d", i), started
	}
	pod.OwnerReferences = running("web-1", has).OwnerReferences
	w := seen(t, has, pod)
	w.Workload.Template.Spec.Containers = pod.DeepCopy().Spec.Containers
	w.Usage.Memory[pod.UID] = map[string]recommender.Amount{}
	for _, name := range []string{"app", "side-1"} {
		w.Rec.Spec.Containers = append(w.Rec.Spec.Containers, v1alpha1.ContainerTarget{Name: name, Target: podview.ToResources(target)})
		w.Usage.Memory[pod.UID][name] = 10 * mi
	}
	w.Looked.Rooms = map[string]*resize.Room{"node-1": resize.RoomOf(w.Pods, nil, w.Now)}
	return w
}

// moved returns the sizes to which containers are resized.
func moved(d tuning.Decision) map[string]recommender.Size {
	out := map[string]recommender.Size{}
	for _, w := range d.Writes {
		for _, m := range w.Plan.Moves {
			if m.From != m.To {
				out[m.Container] = m.To
			}
		}
	}
	return out
}

// Each container moves by its own settings.
func TestContainersMoveByTheirOwnSettings(t *testing.T) {
	has, target := sizeOf(1000, 0, 1000, 0), sizeOf(100, 0, 100, 0)
	both := func(app, side recommender.Size) map[string]recommender.Size {
		return map[string]recommender.Size{"app": app, "side-1": side}
	}
	step := sizeOf(500, 0, 1000, 0) // 50 % of CPU, and memory is not lowered
	for fields, want := range map[string]map[string]recommender.Size{
		`{}`: both(step, step),
		`containerPolicies: [{containerName: app, cpu: {maxChangePercent: 10}}]`:                               both(sizeOf(900, 0, 1000, 0), step),
		`containerPolicies: [{containerName: app, memory: {allowDecrease: true, maxChangePercent: 20}}]`:       both(sizeOf(500, 0, 800, 0), step),
		`containerPolicies: [{containerName: app, controlledResources: [memory]}]`:                             {"side-1": step},
		`containerPolicies: [{containerName: app, controlledResources: [cpu], memory: {allowDecrease: true}}]`: both(step, step),
		`containerPolicies: [{containerName: app, mode: "Off"}]`:                                               {"side-1": step},
		`containerPolicies: [{containerName: "*", mode: "Off"}, {containerName: app}]`:                         {"app": step},
	} {
		// The stored targets are of before the policy changed.
		assert.Equal(t, want, moved(tuning.Decide(under(t, two(t, has, target), fields))), fields)
	}
}

// Usage that climbs is answered by the settings of the container.
func TestClimbsAreRaisedByTheirContainersSettings(t *testing.T) {
	for fields, raised := range map[string]bool{
		`{}`: true,
		`containerPolicies: [{containerName: app, memory: {raiseBeforeKill: "Off"}}]`:                                             false,
		`containerPolicies: [{containerName: "*", memory: {raiseBeforeKill: "Off"}}]`:                                             false,
		`containerPolicies: [{containerName: side-1, memory: {raiseBeforeKill: "Off"}}]`:                                          true,
		`{memory: {raiseBeforeKill: "Off"}, containerPolicies: [{containerName: app, memory: {raiseBeforeKill: Auto}}]}`:          true,
		`containerPolicies: [{containerName: app, controlledResources: [cpu]}]`:                                                   false,
		`containerPolicies: [{containerName: app, controlledResources: [memory]}]`:                                                true,
		`containerPolicies: [{containerName: app, memory: {controlledValues: RequestsOnly}}]`:                                     false,
		`containerPolicies: [{containerName: app, memory: {maxAllowed: 450Mi}}, {containerName: "*", memory: {maxAllowed: 8Gi}}]`: false,
		`containerPolicies: [{containerName: app, mode: "Off"}]`:                                                                  false,
	} {
		w := under(t, climbing(t), fields)
		assert.Equal(t, raised, len(moved(tuning.Decide(w))) > 0, fields)
		assert.Equal(t, raised, w.Climbing(), fields)
	}
	assert.Empty(t, new(under(t, climbing(t), `containerPolicies: [{containerName: app, memory: {raiseBeforeKill: "Off"}}]`)).Climbable(), "its samples are not read")
}

// An OOM kill of a container whose memory is not controlled changes nothing, unless attune lowered it before.
func TestKillsOfUncontrolledMemory(t *testing.T) {
	has := sizeOf(500, 0, 512, 512)
	for fields, answered := range map[string]bool{`{}`: true, `containerPolicies: [{containerName: app, controlledResources: [cpu]}]`: false,
		`containerPolicies: [{containerName: app, controlledResources: [memory]}]`: true} {
		for _, limit := range []int{0, 512} {
			has[recommender.Memory].Limit = recommender.Amount(limit) * mi
			pod := endedBefore(running("web-1", has), "OOMKilled", 1, time.Minute)
			w := under(t, heading(seen(t, has, pod), sizeOf(500, 0, 700, recommender.Amount(limit)*700/512)), fields)
			w.Rec.Spec.Containers[0].MemoryLimitFloor = new(podview.Quantity(recommender.Memory, 700*mi))
			w.Rec.Status.Floors = []v1alpha1.Floor{{Container: "app", Resource: "memory", Amount: podview.Quantity(recommender.Memory, 700*mi), Reason: "oomkill", LearnedAt: metav1.NewTime(now)}}
			assert.Equal(t, answered, len(moved(tuning.Decide(w))) > 0, "%s, limit %d", fields, limit)
		}
	}
}

// Each container has its own multiplier; the pod's boosts end after the longest duration.
func TestBoostsOfContainers(t *testing.T) {
	const entries = `{cpu: {startupBoost: {multiplier: "2", duration: 3m}}, containerPolicies: [{containerName: app, cpu: {startupBoost: {multiplier: "4", duration: 90s}}}]}`
	ends := func(fields string, ago time.Duration) bool {
		return len(moved(tuning.Decide(under(t, boosting(t, startsWithMore(t, "web-1", ago)), fields)))) > 0
	}
	assert.True(t, ends(entries, 2*time.Minute), "the boost of app lasts for 90s")
	assert.False(t, ends(`cpu: {startupBoost: {multiplier: "2", duration: 3m}}`, 2*time.Minute))
	assert.True(t, ends(`containerPolicies: [{containerName: app, controlledResources: [memory]}]`, time.Minute), "a boost that was given ends, although CPU is not controlled any more")

	again := func(fields string) map[string]recommender.Size {
		return moved(tuning.Decide(under(t, boosting(t, restartedWithout(t, 1, 10*time.Second)), fields)))
	}
	assert.EqualValues(t, 800, again(entries)["app"][recommender.CPU].Request)
	assert.EqualValues(t, 400, again(`cpu: {startupBoost: {multiplier: "2", duration: 3m}}`)["app"][recommender.CPU].Request)
	assert.Empty(t, again(`{cpu: {startupBoost: {multiplier: "2", duration: 3m}}, containerPolicies: [{containerName: app, controlledResources: [memory]}]}`))
	assert.Empty(t, again(`{cpu: {startupBoost: {multiplier: "2", duration: 3m}}, containerPolicies: [{containerName: app, cpu: {startupBoost: {multiplier: "1", duration: 3m}}}]}`))
	assert.EqualValues(t, 600, again(`containerPolicies: [{containerName: app, cpu: {startupBoost: {multiplier: "3", duration: 3m}}}]`)["app"][recommender.CPU].Request, "the policy has none")
}

// No decision changes a container that is off, or a resource that is not controlled: whatever its target, its kills, its
// climbs and its floors are, and whatever the other containers need.
func TestNoDecisionChangesWhatIsNotSized(t *testing.T) {
	rounds := 4_000
	if n, err := strconv.Atoi(os.Getenv("ATTUNE_DRAWS")); err == nil { // make test-long
		rounds = n
	}
	d, writes := rand.New(rand.NewPCG(3, 4)), 0
	amount := func() recommender.Amount { return recommender.Amount(50 + d.IntN(1000)) }
	for i := range rounds {
		has := sizeOf(amount(), 0, amount(), 0)
		if d.IntN(2) == 0 {
			has[recommender.CPU].Limit, has[recommender.Memory].Limit = 2*has[recommender.CPU].Request, has[recommender.Memory].Request*recommender.Amount(1+d.IntN(2))
		}
		w := two(t, has, sizeOf(amount(), 0, amount(), 0))
		var entries string
		for _, name := range []string{"app", "side-1", `"*"`} {
			if d.IntN(2) == 0 {
				entries += fmt.Sprintf("- {containerName: %s, controlledResources: %s, memory: {allowDecrease: true}, mode: %q}\n", name,
					[]string{"[cpu]", "[memory]", "[cpu, memory]"}[d.IntN(3)], []string{"Auto", "Off"}[d.IntN(2)])
			}
		}
		w = under(t, w, "containerPolicies:\n"+entries)
		pod := w.Pods[0]
		for j, name := range []string{"app", "side-1"} {
			if d.IntN(4) == 0 {
				s := &pod.Status.ContainerStatuses[j]
				s.RestartCount, s.LastTerminationState.Terminated = 1, &corev1.ContainerStateTerminated{
					Reason: "OOMKilled", ExitCode: 137, StartedAt: metav1.NewTime(now.Add(-time.Hour)), FinishedAt: metav1.NewTime(now.Add(-time.Minute))}
			}
			if d.IntN(3) == 0 {
				w.Rec.Status.Floors = append(w.Rec.Status.Floors, v1alpha1.Floor{Container: name, Resource: "memory", Amount: podview.Quantity(recommender.Memory, 2000*mi), Reason: "oomkill", LearnedAt: metav1.NewTime(now)})
			}
			if limit := has[recommender.Memory].Limit; limit > 0 && d.IntN(3) == 0 {
				var samples []climb.Sample
				for k := range 8 {
					samples = append(samples, climb.Sample{At: now.Add(time.Duration(k-7) * 5 * time.Second), Bytes: limit * recommender.Amount(72+3*k) / 100})
				}
				w.SetClimb(types.UID("web-1"), name, tuning.Climb{Samples: samples})
			}
			if d.IntN(3) == 0 {
				w.Rec.Spec.Containers[j].MemoryLimitFloor = new(podview.Quantity(recommender.Memory, 1500*mi))
			}
		}
		decided := tuning.Decide(w)
		writes += len(decided.Writes)
		for _, write := range decided.Writes {
			for _, m := range write.Plan.Moves {
				of := w.Policy.Settings.Resize.Of(m.Container)
				for _, r := range recommender.Resources {
					if w.Policy.Settings.Resize.Excludes(m.Container) || of.Uncontrolled[r] != "" {
						require.Equal(t, m.From[r], m.To[r], "round %d: %s of %s by %s, entries\n%s", i, r, m.Container, write.Plan.Reason, entries)
					}
				}
			}
		}
	}
	assert.Greater(t, writes, rounds/4)
}
