package loops

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/recommender/replicas"
	"attune.io/attune/resize"
	"attune.io/attune/test/kubelet"
)

// scaledWorld has a Deployment web of four replicas that request 1 CPU and use 100m, under an HPA with a target of 70 %
// and minReplicas 4. At most, their mean was 300m. hpa changes the HPA.
func scaledWorld(t *testing.T, settings string, containers func(*world) []corev1.Container, hpas ...*autoscalingv2.HorizontalPodAutoscaler) *world {
	w := newWorld(t, kubelet.Options{})
	w.autoscalers = realHPAs{w.direct}
	w.wire()
	w.seeded = true
	w.usage.of["app"] = used{CPU: 0.1, Memory: 200}
	w.usage.now = w.clock.Now
	w.usage.spans = map[string][]replicas.Span{" cpu": w.upTo(300), "app cpu": w.upTo(300)}
	w.memory["app"] = 200
	if containers == nil {
		containers = func(w *world) []corev1.Container { return []corev1.Container{w.app("cpu=1,memory=512Mi", "")} }
	}
	w.deployment("web", 4, containers(w)...)
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
// the margin is 20 %.
const least = 360*100/78 + 1

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
		"Keep":                              {"Keep", false, least, "raised to 462m: with less than 385m, HorizontalPodAutoscaler web would have asked for 5 replicas instead of 4 at"},
		"Block":                             {"Block", false, 1000, ": another request would change the number of replicas"},
		"Keep of a workload that is scaled": {"Keep", true, 1000, ": no other request is proven to keep the number of replicas, because it follows the usage: HorizontalPodAutoscaler web asks for 12 replicas at"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := scaledWorld(t, fmt.Sprintf(keepCPU, c.setting), nil)
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
	w := scaledWorld(t, fmt.Sprintf(keepCPU, "Keep"), nil)
	w.until(6*time.Hour, "the first pod is resized", func() bool { return len(w.requests()) == 2 })
	hpa := minFour(w.namespace, "web")
	require.NoError(t, w.direct.Get(t.Context(), client.ObjectKeyFromObject(hpa), hpa))
	hpa.Spec.Metrics[0].Resource.Target.AverageUtilization = ptr.To[int32](20)
	require.NoError(t, w.direct.Update(t.Context(), hpa))
	// A pod is replaced in the middle of the wave.
	pods := w.pods()
	i := slices.IndexFunc(pods, func(pod corev1.Pod) bool { return cpuRequest(&pod) == 1000 })
	require.NoError(t, w.direct.Delete(t.Context(), &pods[i]))
	w.startNewPods()
	w.run(6*time.Hour, 5*time.Minute)
	assert.Equal(t, []int64{least, 1000}, w.requests(), "with 20 %%, the HPA asks for more replicas at 300m already")
	assert.NotNil(t, w.recommendation().Spec.Containers[0].Holds)
}

// Adversarial siblings of the story: where the range and anything else contradict each other, the request stays.
func TestHPAKeepAgainstOtherBounds(t *testing.T) {
	t.Parallel()
	strict, ofContainer := minFour("", "strict"), minFour("", "web")
	strict.Spec.Metrics[0].Resource.Target.AverageUtilization = ptr.To[int32](40)
	target := ofContainer.Spec.Metrics[0].Resource.Target
	ofContainer.Spec.Metrics[0] = autoscalingv2.MetricSpec{Type: autoscalingv2.ContainerResourceMetricSourceType,
		ContainerResource: &autoscalingv2.ContainerResourceMetricSource{Name: "cpu", Container: "app", Target: target}}
	keep := fmt.Sprintf(keepCPU, "Keep")
	for name, c := range map[string]struct {
		settings string
		hpas     []*autoscalingv2.HorizontalPodAutoscaler
		with     func(*world) []corev1.Container
		want     []int64
	}{
		"maxAllowed below the range": {settings: "cpu: {maxChangePercent: 90, hpa: Keep, maxAllowed: 300m}", want: []int64{1000}},
		"two HPAs":                   {settings: keep, hpas: []*autoscalingv2.HorizontalPodAutoscaler{minFour("", "web"), strict}, want: []int64{360*100/45 + 1}},
		"strategy Node":              {settings: keep + "\nstrategy: Node", want: []int64{1000}},
		"Guaranteed pods": {settings: keep, want: []int64{least}, with: func(w *world) []corev1.Container {
			return []corev1.Container{w.app("cpu=1,memory=512Mi", "cpu=1,memory=512Mi")}
		}},
		"a LimitRange above the least request": {settings: keep, want: []int64{600}, with: func(w *world) []corev1.Container {
			limits := &corev1.LimitRange{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "large"}}
			limits.Spec.Limits = []corev1.LimitRangeItem{{Type: corev1.LimitTypeContainer, Min: amounts(w.t, "cpu=600m")}}
			require.NoError(w.t, w.direct.Create(w.t.Context(), limits))
			return []corev1.Container{w.app("cpu=1,memory=512Mi", "")}
		}},
		"one of two containers": {settings: keep, hpas: []*autoscalingv2.HorizontalPodAutoscaler{ofContainer}, want: []int64{least}, with: func(w *world) []corev1.Container {
			w.usage.of["side"], w.memory["side"] = used{CPU: 0.1, Memory: 100}, 100
			return []corev1.Container{w.app("cpu=1,memory=512Mi", ""), {Name: "side", Resources: sized(w.t, "cpu=1,memory=512Mi", "")}}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := scaledWorld(t, c.settings, c.with, c.hpas...)
			w.run(6*time.Hour, 5*time.Minute)
			assert.Equal(t, c.want, w.requests())
			if len(w.pods()[0].Spec.Containers) == 2 {
				assert.EqualValues(t, 120, w.pods()[0].Spec.Containers[1].Resources.Requests.Cpu().MilliValue(), "no HPA scales on it")
			}
		})
	}
}

// No range holds the answer to an OOM kill, nor an undo: also where nothing is proven any more.
func TestHPAKeepHoldsNoAnswerAndNoUndo(t *testing.T) {
	t.Parallel()
	w := scaledWorld(t, fmt.Sprintf(keepCPU, "Keep"), func(w *world) []corev1.Container {
		return []corev1.Container{w.app("cpu=1,memory=512Mi", "cpu=2,memory=512Mi")}
	})
	w.until(6*time.Hour, "the first pod is resized", func() bool { return len(w.requests()) == 2 })
	hpa := minFour(w.namespace, "web")
	require.NoError(t, w.direct.Get(t.Context(), client.ObjectKeyFromObject(hpa), hpa))
	hpa.Spec.Metrics[0].Resource.Target.AverageUtilization = ptr.To[int32](20)
	require.NoError(t, w.direct.Update(t.Context(), hpa))
	w.memory["app"] = 600
	w.until(2*time.Hour, "all pods have the memory", func() bool {
		return !slices.ContainsFunc(w.pods(), func(pod corev1.Pod) bool { return memoryLimit(&pod) < 600 })
	})
	assert.Equal(t, []int64{least, 1000}, w.requests())
	w.annotate(map[string]string{v1alpha1.UndoAnnotation: "2026-01-01T00:00:00Z"})
	w.until(2*time.Hour, "the first pod has its original CPU", func() bool { return slices.Equal(w.requests(), []int64{1000}) })
}
