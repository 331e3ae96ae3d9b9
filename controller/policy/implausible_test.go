package policy

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/recommender"
)

func readyOf(t *testing.T, f *fleet) string {
	t.Helper()
	p := &v1alpha1.AttunePolicy{}
	require.NoError(t, f.memory.Get(t.Context(), client.ObjectKey{Namespace: "shop", Name: "all"}, p))
	c := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionReady)
	require.NotNil(t, c)
	return c.Reason + ": " + c.Message
}

func TestReadyNamesSamplesThatCannotBeTrue(t *testing.T) {
	f := newFleet(t, 2)
	past := newPast()
	past.implausible[recommender.Memory] = recommender.Implausible{Dropped: 1, Of: 277, Highest: 10 << 40, Most: 96 << 30}
	f.History = past
	f.pass(t)
	assert.Contains(t, readyOf(t, f), "Monitoring: ")
	assert.Contains(t, readyOf(t, f), "; container app of Deployment/app-000000: less than 1 % of the memory samples of the last day were dropped, up to 10Ti: no container can use more than 96Gi. Fix the usage source, or set a larger node (nodes.largest, --node)")
	for _, rec := range f.memory.recommendations("shop") {
		assert.Empty(t, rec.Spec.Containers[0].Holds, "one sample blocks nothing")
	}
}

// The remark has the cause and the fix, also if only one resource is blocked, so that the policy is ready.
func TestReadyNamesTheCauseOfDroppedSamples(t *testing.T) {
	zeros := recommender.Implausible{Dropped: 277, Of: 277, Zeros: 277}
	for name, c := range map[string]struct {
		of   recommender.Resource
		is   recommender.Implausible
		want string
	}{
		"memory of 0 bytes": {recommender.Memory, zeros,
			"100 % of the memory samples of the last day were 0 bytes: the kubelet reports no working set. Check the container runtime of the node"},
		"CPU that is not measured": {recommender.CPU, zeros,
			"100 % of the cpu samples of the last day were 0, like those of almost all containers: the usage source does not measure CPU. Check the kubelets and the container runtime"},
		"above the node of the pod": {recommender.Memory, recommender.Implausible{Dropped: 3, Of: 277, Highest: 20 << 30, Most: 8 << 30, Bound: recommender.OfNode},
			"1 % of the memory samples of the last day were dropped, up to 20Gi: on its node, no container can use more than 8Gi. Fix the usage source. If the node has grown, restart its kubelet"},
		"above the limit": {recommender.CPU, recommender.Implausible{Dropped: 3, Of: 277, Highest: 20_000, Most: 3_000, Bound: recommender.OfLimit},
			"1 % of the cpu samples of the last day were dropped, up to 20 cores: the limit of the container allows no more than 3 cores. Fix the usage source. If the node enforces no CPU limits, remove the limit"},
		"a cause of its own": {recommender.CPU, recommender.Implausible{Dropped: 3, Of: 277, Highest: 20_000, Cause: "cpu_cores only rises", Fix: "Use a rate"},
			"1 % of the cpu samples of the last day were dropped, up to 20 cores: cpu_cores only rises. Use a rate"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFleet(t, 1)
			past := newPast()
			past.implausible[c.of] = c.is
			f.History = past
			f.pass(t)
			assert.Contains(t, readyOf(t, f), "Monitoring: watching 1 workload; container app of Deployment/app-000000: "+c.want)
		})
	}
	f := newFleet(t, 1)
	past := newPast()
	past.implausible[recommender.Memory] = recommender.Implausible{Dropped: 100, Of: 277, Zeros: 100}
	f.History = past
	f.pass(t)
	assert.NotContains(t, readyOf(t, f), "0 bytes", "a container that starts often has samples of 0 bytes: the others are enough")
}

func TestMostSamplesImplausibleBlocksTheResource(t *testing.T) {
	f := newFleet(t, 1)
	past := newPast()
	past.implausible[recommender.CPU] = recommender.Implausible{Dropped: 139, Of: 277, Highest: 1_600_000, Most: 96_000}
	f.History = past
	f.pass(t)
	rec := f.memory.recommendations("shop")[0]
	assert.Equal(t, []string{"cpu UsageImplausible"}, reasons(rec.Spec.Containers[0]))
	assert.Contains(t, rec.Spec.Containers[0].Holds[0].Message, "50 % of the cpu samples of the last day were dropped, up to 1600 cores: no container can use more than 96 cores")
	require.NotNil(t, rec.Spec.Seed)
	assert.Nil(t, rec.Spec.Seed.Containers[0].CPURequest)
	assert.NotNil(t, rec.Spec.Seed.Containers[0].MemoryRequest, "memory is measured")

	past.implausible[recommender.Memory] = recommender.Implausible{Dropped: 277, Of: 277, Highest: 10 << 40, Most: 96 << 30}
	f.pass(t)
	assert.Contains(t, readyOf(t, f), "UsageImplausible: app: ")
	assert.Nil(t, f.memory.recommendations("shop")[0].Spec.Seed)

	past.implausible, past.young = [2]recommender.Implausible{}, true
	f.pass(t)
	assert.Equal(t, []string{"cpu UsageImplausible", "memory UsageImplausible"}, reasons(f.memory.recommendations("shop")[0].Spec.Containers[0]), "a restart does not lift it")

	past.young = false
	f.pass(t)
	assert.Empty(t, f.memory.recommendations("shop")[0].Spec.Containers[0].Holds, "it is lifted by plausible samples")
}

// A store that has thinned its samples has no CPU rates where it has memory. A young workload has both.
func TestReadyNamesCPUHistoryShorterThanMemory(t *testing.T) {
	const day = 24 * time.Hour
	profile := func(cpu, memory time.Duration, every int) recommender.Profile {
		var steps []recommender.StepUsage
		for at := today.Add(-memory); !at.After(today); at = at.Add(5 * time.Minute) {
			s := recommender.StepUsage{At: at, CPUCores: math.NaN(), MemoryBytes: 3e8}
			if every > 0 && today.Sub(at) <= cpu && at.Unix()/300%int64(every) == 0 {
				s.CPUCores = 0.2
			}
			steps = append(steps, s)
		}
		return recommender.NewProfile(steps, 5*time.Minute)
	}
	const probably = "is probably too short for a downsampled store or a long scrape interval. Set a longer rateWindow, or queryParameters of the store"
	for name, test := range map[string]struct {
		past recommender.Profile
		want string
		// dropped CPU samples of the last day.
		dropped int
	}{
		"raw samples for two of seven days":     {profile(2*day, 7*day, 1), "; warning from the usage source: container app of Deployment/app-000000 has CPU usage in 577 steps and memory usage in 2017: metricsSource.rateWindow 5m0s " + probably, 0},
		"a sample an hour, the newest ones too": {profile(7*day, 7*day, 12), "has CPU usage in 169 steps and memory usage in 2017", 0},
		"a scrape every ten minutes":            {profile(7*day, 7*day, 0), "has CPU usage in 0 steps and memory usage in 2017", 0},
		"a young workload":                      {profile(2*day, 2*day, 1), "", 0},
		"the first hours":                       {profile(time.Hour, 20*time.Hour, 1), "", 0},
		"five of seven days":                    {profile(5*day, 7*day, 1), "", 0},
		"CPU of 0 was dropped":                  {profile(2*day, 7*day, 1), "", 277},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFleet(t, 1)
			past := newPast()
			for i := range past.profiles {
				past.profiles[i] = test.past
			}
			past.implausible[recommender.CPU] = recommender.Implausible{Dropped: test.dropped, Zeros: test.dropped, Of: 277}
			f.History = past
			f.pass(t)
			if test.want == "" {
				assert.NotContains(t, readyOf(t, f), "rateWindow")
				return
			}
			assert.Contains(t, readyOf(t, f), test.want)
			if test.past.Of[recommender.CPU].Points == 0 {
				rec := f.memory.recommendations("shop")[0]
				assert.Contains(t, reasons(rec.Spec.Containers[0]), "cpu NoData", "missing usage is not 0")
				require.NotNil(t, rec.Spec.Seed)
				assert.Nil(t, rec.Spec.Seed.Containers[0].CPURequest)
			}
		})
	}
}
