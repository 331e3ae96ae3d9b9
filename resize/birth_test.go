package resize

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/recommender"
)

// newborn is a pod that was created ten minutes before noon.
func newborn(s recommender.Size) *corev1.Pod {
	pod := running(s)
	pod.CreationTimestamp = metav1.NewTime(noon.Add(-10 * time.Minute))
	return pod
}

// endedEarly ends the pod's container once, for a reason, five minutes before noon.
func endedEarly(pod *corev1.Pod, reason string, restarts int32) *corev1.Pod {
	s := &pod.Status.ContainerStatuses[0]
	s.RestartCount = restarts
	s.LastTerminationState.Terminated = &corev1.ContainerStateTerminated{
		Reason: reason, ContainerID: "containerd://before", StartedAt: metav1.NewTime(noon.Add(-9 * time.Minute)), FinishedAt: metav1.NewTime(noon.Add(-5 * time.Minute)),
	}
	return pod
}

func TestWhatAPodWasBornWithIsJudged(t *testing.T) {
	original := size(500, 1000, 512, 1024)
	less := size(200, 400, 200, 400)
	rollout := Signals{Rollout: true}
	for name, c := range map[string]struct {
		pod     *corev1.Pod
		signals Signals
		at      time.Time
		want    Harm
	}{
		"killed with less memory":                    {endedEarly(newborn(less), oomKilled, 1), Signals{}, noon, HarmOOM},
		"killed with less memory in a rollout":       {endedEarly(newborn(less), oomKilled, 1), rollout, noon, HarmOOM},
		"killed weeks later":                         {endedEarly(newborn(less), oomKilled, 1), Signals{}, noon.Add(500 * time.Hour), HarmOOM},
		"killed with the memory of its template":     {endedEarly(newborn(size(200, 400, 512, 1024)), oomKilled, 1), Signals{}, noon, ""},
		"crashing":                                   {endedEarly(newborn(less), "Error", 2), Signals{}, noon, HarmRestart},
		"crashing in a rollout":                      {endedEarly(newborn(less), "Error", 2), rollout, noon, ""},
		"crashing hours later":                       {endedEarly(newborn(less), "Error", 2), Signals{}, noon.Add(3 * time.Hour), ""},
		"restarted once":                             {endedEarly(newborn(less), "Error", 1), Signals{}, noon, ""},
		"well":                                       {newborn(less), Signals{}, noon, ""},
		"crashing with less CPU, and killed by that": {endedEarly(newborn(size(200, 400, 512, 1024)), "Error", 2), Signals{}, noon, HarmRestart},
	} {
		t.Run(name, func(t *testing.T) {
			birth, lowered := BirthRecord(c.pod, map[string]recommender.Size{"app": original})
			require.True(t, lowered)
			assert.Equal(t, c.want, JudgeBirth(c.pod, birth, c.at, auto(), c.signals).Harm)
		})
	}
}

func TestNoBirthIsBlamedForWhatItDidNotLower(t *testing.T) {
	original := map[string]recommender.Size{"app": size(500, 1000, 512, 1024)}
	_, raised := BirthRecord(newborn(size(600, 1200, 512, 1024)), original)
	assert.False(t, raised, "it has more than its template gives")
	_, same := BirthRecord(newborn(size(500, 1000, 512, 1024)), original)
	assert.False(t, same)
	_, unknown := BirthRecord(newborn(size(100, 0, 100, 100)), nil)
	assert.False(t, unknown, "nobody knows its originals")
	_, resized := BirthRecord(with(newborn(size(200, 400, 200, 400)), func(p *corev1.Pod) { p.Generation = 2 }), original)
	assert.False(t, resized, "a resize since has a record of its own")
	_, without := BirthRecord(newborn(size(200, 0, 200, 0)), map[string]recommender.Size{"app": {}})
	assert.False(t, without, "requests where there were none lower nothing")
}

func TestASeedHarmsNewbornsThatGiveNoMoreThanWhatHarmed(t *testing.T) {
	harmful := v1alpha1.ResizeRecord{
		Prior:   []v1alpha1.ContainerResources{{Name: "app", Resources: ToResources(size(500, 0, 512, 1024))}},
		Desired: []v1alpha1.ContainerResources{{Name: "app", Resources: ToResources(size(600, 0, 200, 400))}},
	}
	seed := func(cpu, memory recommender.Amount) *v1alpha1.Seed {
		return &v1alpha1.Seed{Containers: []v1alpha1.ContainerSeed{{
			Name: "app", CPURequest: toPointer(recommender.CPU, cpu), MemoryRequest: toPointer(recommender.Memory, memory*mi),
		}}}
	}
	assert.True(t, HarmsNewborn(seed(0, 200), harmful), "the same memory")
	assert.True(t, HarmsNewborn(seed(900, 150), harmful), "less")
	assert.False(t, HarmsNewborn(seed(600, 201), harmful), "more; CPU was raised and is not to blame")
	assert.False(t, HarmsNewborn(seed(100, 0), harmful), "memory is left alone")
	assert.False(t, HarmsNewborn(nil, harmful))
	other := seed(0, 200)
	other.Containers[0].Name = "other"
	assert.False(t, HarmsNewborn(other, harmful))
	raising := seed(0, 200)
	raising.RaiseOnly = true
	assert.False(t, HarmsNewborn(raising, harmful), "it never lowers a template")
}

func TestBadSeedsAreBounded(t *testing.T) {
	var bad []string
	for i := range v1alpha1.MaxBadSeeds + 5 {
		marked, fresh := MarkBad(bad, fmt.Sprint(i))
		require.True(t, fresh)
		bad = marked
	}
	require.Len(t, bad, v1alpha1.MaxBadSeeds)
	assert.Equal(t, "24", bad[len(bad)-1])
	same, fresh := MarkBad(bad, "24")
	assert.False(t, fresh)
	assert.Equal(t, bad, same)
}
