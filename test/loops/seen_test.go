package loops

import (
	"context"
	"errors"
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
	"attune.io/attune/internal/autoscale"
	"attune.io/attune/internal/workload"
	"attune.io/attune/resize"
	"attune.io/attune/test/kubelet"
	"attune.io/attune/usage"
)

// Cases 18, 24: the patch landed, its answer was lost, and the cache is behind for longer than an answer may take. The
// resize is taken on and not made twice.
func TestLoopsAdoptResizeDespiteStaleCache(t *testing.T) {
	t.Parallel()
	w := growing(t, kubelet.Options{}, "cpu=500m,memory=512Mi", "")
	before := *w.pod()
	sent := 0
	w.resize = func(patch func() error) error {
		sent++
		w.cached = func(corev1.Pod) corev1.Pod { return before }
		return errors.Join(patch(), context.DeadlineExceeded)
	}
	w.auto("cpu: {maxChangePercent: 300}")
	w.run(5*time.Minute, 10*time.Second)
	records := w.recommendation().Status.Records
	require.Len(t, records, 1, "%s", w.describe())
	assert.Equal(t, int64(2), records[0].Generation)
	assert.Equal(t, 1, sent)
	w.cached = nil
	w.until(10*time.Minute, "the record is closed", w.idle)
	assert.Equal(t, 1, sent)
	assert.Equal(t, int64(2), w.pod().Generation, "resized once")
	assert.Equal(t, []string{"Success"}, results(w.recommendation()))
}

// Cases 18, 24: the patch that puts a pod back landed, its answer was lost, and the cache is behind. It is not sent
// twice.
func TestLoopsRevertByTheLivePod(t *testing.T) {
	t.Parallel()
	w := newWorld(t, kubelet.Options{})
	w.usage.of["app"] = used{CPU: 0.4, Memory: 200}
	w.memory["app"] = 200
	w.deployment("web", 1, w.app("cpu=500m,memory=512Mi", "memory=1Gi"))
	w.startNewPods()
	w.policy("all", "updateStrategy: {type: Auto, cooldown: 10m, safetyObservationPeriod: 5m}\n"+lowersMemory)
	w.until(time.Hour, "it is watched at a lower limit", func() bool { return w.watched() != "" && memoryLimit(w.pod()) < 600 })
	w.memory["app"] = 600
	var killed *corev1.Pod
	sent := 0
	w.resize = func(patch func() error) error {
		sent++
		// From now on the cache shows the pod as it was when it was killed.
		if killed == nil {
			killed = w.pod()
			w.cached = func(corev1.Pod) corev1.Pod { return *killed }
		}
		return errors.Join(patch(), context.DeadlineExceeded)
	}
	w.until(5*time.Minute, "the limit is back", func() bool { return memoryLimit(w.pod()) == 1024 })
	w.run(3*time.Minute, 5*time.Second)
	assert.Equal(t, 1, sent)
	w.cached = nil
	w.until(5*time.Minute, "the record is closed", w.idle)
	assert.Equal(t, []string{"Reverted oomkill"}, results(w.recommendation()))
}

// realHPAs are those of the namespace; there are no VPAs.
type realHPAs struct{ client client.Reader }

func (h realHPAs) Of(ctx context.Context, of workload.Workload) (autoscale.Holds, error) {
	list := &autoscalingv2.HorizontalPodAutoscalerList{}
	err := h.client.List(ctx, list, client.InNamespace(of.Namespace))
	return autoscale.Autoscalers{HPAs: list.Items}.Of(of), err
}

// Case 62: an HPA appears in the middle of the waves. What is watched is watched to its end, and nothing of what it
// scales on is changed any more.
func TestLoopsFreezeForAnHPAThatAppears(t *testing.T) {
	t.Parallel()
	w := newWorld(t, kubelet.Options{})
	w.autoscalers = realHPAs{w.direct}
	w.wire()
	w.usage.of["app"] = used{CPU: 1, Memory: 900}
	w.memory["app"] = 200
	w.deployment("web", 4, w.app("cpu=500m,memory=512Mi", ""))
	w.startNewPods()
	w.policy("all", "updateStrategy: {type: Auto, cooldown: 2m, safetyObservationPeriod: 2m, maxConcurrentResizes: 1, canary: {percentage: 1}}\ncpu: {maxChangePercent: 300}\nmemory: {maxChangePercent: 300}")
	w.until(10*time.Minute, "one is watched", func() bool { return !w.idle() })
	hpa := &autoscalingv2.HorizontalPodAutoscaler{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "web"}}
	hpa.Spec.ScaleTargetRef = autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "web"}
	hpa.Spec.MaxReplicas = 9
	hpa.Spec.Metrics = []autoscalingv2.MetricSpec{{Type: autoscalingv2.ResourceMetricSourceType, Resource: &autoscalingv2.ResourceMetricSource{
		Name: "cpu", Target: autoscalingv2.MetricTarget{Type: autoscalingv2.UtilizationMetricType, AverageUtilization: ptr.To[int32](70)},
	}}}
	require.NoError(t, w.direct.Create(t.Context(), hpa))
	w.run(time.Hour, time.Minute)
	byCPU, byMemory := map[int64]int{}, map[int64]int{}
	for _, pod := range w.pods() {
		byCPU[cpuRequest(&pod)]++
		byMemory[memoryRequest(&pod)]++
	}
	assert.Equal(t, map[int64]int{500: 3, 1200: 1}, byCPU)
	assert.Len(t, byMemory, 1, "memory goes on: %v", byMemory)
	assert.NotContains(t, byMemory, int64(512))
	assert.Equal(t, []string{"Success", "Success", "Success", "Success"}, results(w.recommendation()))
}

// Case 59: a namespace that is being deleted is left alone.
func TestTerminatingNamespaceIsNotChanged(t *testing.T) {
	t.Parallel()
	w := growing(t, kubelet.Options{}, "cpu=500m,memory=512Mi", "")
	namespace := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: w.namespace}}
	namespace.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
	asked := w.asking(func() error { return nil })
	w.policy("all", onceAnHour+"\npaused: true")
	w.settle()
	require.Equal(t, "Paused", blockedBy(w.recommendation()).Reason)
	require.NoError(t, w.direct.Delete(t.Context(), namespace))
	policy := w.thePolicy("all")
	policy.Spec.Paused = ptr.To(false)
	require.NoError(t, w.direct.Update(t.Context(), policy))
	w.run(30*time.Minute, 5*time.Minute)
	assert.Empty(t, *asked)
	assert.Equal(t, "NamespaceTerminating", blockedBy(w.recommendation()).Reason)
}

// measured answers what a test says, and what the played kubelet knows.
type measured struct {
	w *world
	// killed is how many processes of a container the kernel killed.
	killed map[string]float64
	asked  int
}

var errNoSeries = errors.New("no series")

func (measured) Throttled(context.Context, string, []string, time.Duration, time.Time) (usage.ByContainer, error) {
	return nil, nil
}

func (measured) Waiting(context.Context, string, []string, time.Duration, time.Time) (usage.ByContainer, error) {
	return nil, nil
}

func (measured) Value(context.Context, string, time.Time) (float64, error) { return 0, errNoSeries }

func (m *measured) Memory(_ context.Context, _ string, pods []string, _ time.Duration, _ time.Time) (usage.ByContainer, error) {
	m.asked++
	held := usage.ByContainer{}
	for _, name := range pods {
		pod := m.w.named(name)
		held[name] = map[string]float64{}
		for _, c := range pod.Spec.Containers {
			held[name][c.Name] = float64(m.w.memoryOf(pod, c.Name))
		}
	}
	return held, nil
}

func (m *measured) OOMKills(_ context.Context, _ string, windows map[string]time.Duration, _ time.Time) (usage.ByContainer, error) {
	all := usage.ByContainer{}
	for pod := range windows {
		all[pod] = m.killed
	}
	return all, nil
}

// Cases 34, 36: what a container holds, page cache included, is looked at before its limit is lowered. Far below it,
// all goes in one patch; near it, the limit is not even tried.
func TestLoopsCheckMemoryUsageBeforeLoweringALimit(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		holds int64
		limit func(t *testing.T, mib int64)
	}{
		"far less":               {200, func(t *testing.T, mib int64) { assert.Less(t, mib, int64(700)) }},
		"page cache, nearly all": {1000, func(t *testing.T, mib int64) { assert.Equal(t, int64(1024), mib) }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, kubelet.Options{})
			gauge := &measured{w: w}
			w.gauge = gauge
			w.wire()
			w.usage.of["app"] = used{CPU: 0.1, Memory: 200}
			w.memory["app"] = tc.holds
			w.deployment("web", 1, w.app("cpu=500m,memory=512Mi", "memory=1Gi"))
			w.startNewPods()
			asked := w.asking(func() error { return nil })
			w.policy("all", "updateStrategy: {type: Auto, cooldown: 1h, safetyObservationPeriod: 1m}\ncpu: {maxChangePercent: 90}\n"+lowersMemory)
			w.run(30*time.Minute, time.Minute)
			assert.NotZero(t, gauge.asked)
			assert.Len(t, *asked, 1, "one patch: %s", w.describe())
			assert.Empty(t, w.node.Failures, "the kubelet is never asked for what it refuses")
			tc.limit(t, memoryLimit(w.pod()))
			assert.Less(t, cpuRequest(w.pod()), int64(300))
			assert.Equal(t, []string{"Success"}, results(w.recommendation()))
		})
	}
}

// Case 37: the kernel kills a child, and the container lives on. Only the counter shows it, at the watch's end.
func TestLoopsRevertForAChildThatWasKilled(t *testing.T) {
	t.Parallel()
	w := newWorld(t, kubelet.Options{})
	gauge := &measured{w: w, killed: map[string]float64{"app": 2}}
	w.gauge = gauge
	w.wire()
	w.usage.of["app"] = used{CPU: 0.4, Memory: 200}
	w.memory["app"] = 100
	w.deployment("web", 1, w.app("cpu=500m,memory=512Mi", "memory=1Gi"))
	w.startNewPods()
	w.policy("all", "updateStrategy: {type: Auto, cooldown: 2h, safetyObservationPeriod: 5m}\n"+lowersMemory)
	w.until(time.Hour, "the resize is judged", func() bool { return len(results(w.recommendation())) > 0 })
	rec := w.recommendation()
	assert.Equal(t, []string{"Reverted oomkill"}, results(rec))
	assert.Equal(t, int64(1024), memoryLimit(w.pod()))
	assert.Zero(t, restarts(w.pod()))
	tried := int64(260) * 2
	assert.InDelta(t, 1.3*float64(tried), float64(resize.FloorsOf(rec.Status.Floors, "app", w.clock.Now())[1].Amount>>20), 10)
	assert.True(t, w.told.has("2 processes of container app were OOM-killed"), w.told.lines)
}

// Case 75: a node that starts anew restarts its containers; that is nobody's harm.
func TestLoopsDoNotBlameThemselvesForAReboot(t *testing.T) {
	t.Parallel()
	w := growing(t, kubelet.Options{}, "cpu=500m,memory=512Mi", "")
	w.policy("all", "updateStrategy: {type: Auto, cooldown: 1h, safetyObservationPeriod: 5m}\ncpu: {maxChangePercent: 300}")
	w.until(10*time.Minute, "it is watched", func() bool {
		records := w.recommendation().Status.Records
		return len(records) > 0 && records[0].Phase == v1alpha1.RecordWatching
	})
	require.NoError(t, w.node.Reboot(t.Context(), w.clock.Now()))
	for range 2 {
		w.run(20*time.Second, 10*time.Second)
		w.node.Crash(w.pod(), "app", w.clock.Now())
	}
	w.until(time.Hour, "the record is closed", w.idle)
	assert.Equal(t, []string{"Success Inconclusive"}, results(w.recommendation()))
	assert.Equal(t, int64(1200), cpuRequest(w.pod()))
}
