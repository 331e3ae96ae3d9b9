package loops

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"attune.io/attune/recommender/replicas"
	"attune.io/attune/resize"
	"attune.io/attune/test/kubelet"
)

// scaledWorld has a Deployment web of four replicas that request 1 CPU and use 100m, under an HPA with a target of 70 %
// and minReplicas 4. At most, their mean was 300m. hpa changes the HPA.
func scaledWorld(t *testing.T, settings string, hpas ...*autoscalingv2.HorizontalPodAutoscaler) *world {
	w := newWorld(t, kubelet.Options{})
	w.autoscalers = realHPAs{w.direct}
	w.wire()
	w.seeded = true
	w.usage.of["app"] = used{CPU: 0.1, Memory: 200}
	w.usage.now = w.clock.Now
	w.usage.spans = map[string][]replicas.Span{" cpu": w.upTo(300), "app cpu": w.upTo(300)}
	w.memory["app"] = 200
	w.deployment("web", 4, w.app("cpu=1,memory=512Mi", ""))
	w.startNewPods()
	if len(hpas) == 0 {
		hpas = append(hpas, minFour(w.namespace, "web"))
	}
	for _, hpa := range hpas {
		hpa.Namespace = w.namespace
		require.NoError(t, w.direct.Create(t.Context(), hpa))
	}
	w.policy("all", "updateStrategy: {type: Auto}\n"+settings)
	return w
}

// upTo is a week in which the mean of four replicas was at most so many millicores, two days ago.
func (w *world) upTo(millicores float64) []replicas.Span {
	busy := w.clock.Now().Add(-48 * time.Hour).Unix()
	return []replicas.Span{{Ready: 4, Least: 5, Greatest: millicores, LeastAt: busy, GreatestAt: busy}}
}

func minFour(namespace, name string) *autoscalingv2.HorizontalPodAutoscaler {
	hpa := cpuHPA(namespace, name)
	hpa.Spec.MinReplicas = ptr.To[int32](4)
	return hpa
}

// requests are the distinct CPU requests of the pods, in millicores.
func (w *world) requests() (all []int64) {
	for _, pod := range w.pods() {
		all = append(all, cpuRequest(&pod))
	}
	slices.Sort(all)
	return slices.Compact(all)
}

const keepCPU = "cpu: {maxChangePercent: 90, hpa: %s}"

// least is the least request that keeps four replicas: 77 % of the request are within the tolerance of a target of 70 %, and
// the margin is 10 %.
const least = 330*100/78 + 1

// A workload at minReplicas whose CPU request is far too large is lowered to the proven request and no lower. With Block
// it is not lowered. A range of which the present request is the only one changes nothing either.
func TestHPAKeepLowersToTheProvenRequest(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		setting string
		dynamic bool
		want    int64
		says    string
	}{
		"Keep":                              {"Keep", false, least, "raised to 424m: with less than 385m, HorizontalPodAutoscaler web would have asked for 5 replicas instead of 4 at"},
		"Block":                             {"Block", false, 1000, ": another request would change the number of replicas"},
		"Keep of a workload that is scaled": {"Keep", true, 1000, ": no other request is proven to keep the number of replicas, because it follows the usage: HorizontalPodAutoscaler web asks for 12 replicas at"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := scaledWorld(t, fmt.Sprintf(keepCPU, c.setting))
			if c.dynamic {
				w.usage.spans[" cpu"] = w.upTo(2000)
			}
			w.run(6*time.Hour, 5*time.Minute, func() bool {
				assert.GreaterOrEqual(t, w.requests()[0], c.want)
				return true
			})
			assert.Equal(t, []int64{c.want}, w.requests())
			target := w.recommendation().Spec.Containers[0]
			said := ""
			for _, step := range target.Steps {
				if step.Name == "hpa" {
					said += step.Reason
				}
			}
			for _, hold := range target.Holds {
				if hold.Reason == resize.ReasonHPA {
					said += hold.Message
				}
			}
			assert.Contains(t, said, c.says)
			w.writes = 0
			w.run(24*time.Hour, time.Hour)
			assert.Equal(t, []int64{c.want}, w.requests())
			assert.LessOrEqual(t, float64(w.writes), writesAMinute*24*60, "in a day in which nothing changes")

			// New pods get the proven request too.
			require.NoError(t, w.direct.Delete(t.Context(), &w.pods()[0]))
			w.startNewPods()
			w.run(time.Hour, 5*time.Minute)
			assert.Equal(t, []int64{c.want}, w.requests())
		})
	}
}

// The target of the HPA changes in the middle of a wave: what was proven is void, and no further pod is resized until a
// range is proven with the new target.
func TestHPAKeepStopsWhenTheTargetChanges(t *testing.T) {
	t.Parallel()
	w := scaledWorld(t, fmt.Sprintf(keepCPU, "Keep"))
	w.until(6*time.Hour, "the first pod is resized", func() bool { return len(w.requests()) == 2 })
	hpa := minFour(w.namespace, "web")
	require.NoError(t, w.direct.Get(t.Context(), client.ObjectKeyFromObject(hpa), hpa))
	hpa.Spec.Metrics[0].Resource.Target.AverageUtilization = ptr.To[int32](20)
	require.NoError(t, w.direct.Update(t.Context(), hpa))
	w.run(6*time.Hour, 5*time.Minute)
	assert.Equal(t, []int64{least, 1000}, w.requests(), "with 20 %%, the HPA asks for more replicas at 300m already")
	assert.NotNil(t, w.recommendation().Spec.Containers[0].Holds)
}

// Adversarial siblings of the story: where the range and anything else contradict each other, the request stays.
func TestHPAKeepAgainstOtherBounds(t *testing.T) {
	t.Parallel()
	strict := minFour("", "strict")
	strict.Spec.Metrics[0].Resource.Target.AverageUtilization = ptr.To[int32](40)
	for name, c := range map[string]struct {
		settings string
		hpas     []*autoscalingv2.HorizontalPodAutoscaler
		want     int64
	}{
		"maxAllowed below the range": {"cpu: {maxChangePercent: 90, hpa: Keep, maxAllowed: 300m}", nil, 1000},
		"two HPAs":                   {fmt.Sprintf(keepCPU, "Keep"), []*autoscalingv2.HorizontalPodAutoscaler{minFour("", "web"), strict}, 330*100/45 + 1},
		"strategy Node":              {fmt.Sprintf(keepCPU, "Keep") + "\nstrategy: Node", nil, 1000},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := scaledWorld(t, c.settings, c.hpas...)
			w.run(6*time.Hour, 5*time.Minute)
			assert.Equal(t, []int64{c.want}, w.requests())
		})
	}
}
