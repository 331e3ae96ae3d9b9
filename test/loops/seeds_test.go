package loops

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"attune.io/attune/test/kubelet"
)

// A size that was proven by a first wave turns out to kill: the Deployment is scaled up in the very moment in
// which the first kill is seen, before anybody has computed another seed, and no new pod is born with it.
func TestLoopsWithholdASeedAtTheFirstHarm(t *testing.T) {
	t.Parallel()
	w := newWorld(t, kubelet.Options{})
	w.seeded = true
	w.usage.of["app"] = used{CPU: 0.4, Memory: 200}
	w.memory["app"] = 200
	w.deployment("web", 20, w.app("cpu=500m,memory=512Mi", "memory=1Gi"))
	w.startNewPods()
	w.policy("all", "updateStrategy: {type: Auto, cooldown: 1h, safetyObservationPeriod: 5m}\n"+lowersMemory)
	w.until(time.Hour, "the first wave's size is kept and new pods are born with it", func() bool {
		rec := w.recommendation()
		return len(rec.Status.Verified) > 0 && rec.Spec.Seed != nil && !rec.Spec.Seed.RaiseOnly
	})
	w.until(3*time.Hour, "the next wave is watched", func() bool { return w.watched() != "" })
	trying := w.watched()
	seed := w.recommendation().Spec.Seed.Revision
	w.holds = func(pod *corev1.Pod, _ string) (int64, bool) { return 800, pod.Name == trying }

	for range 100 {
		w.pass()
		if len(w.recommendation().Status.BadSeeds) > 0 {
			break
		}
		w.clock.SetTime(w.clock.Now().Add(time.Second))
	}
	rec := w.recommendation()
	require.Equal(t, []string{seed}, rec.Status.BadSeeds, "%s", w.describe())
	require.NotNil(t, rec.Spec.Seed)
	require.Equal(t, seed, rec.Spec.Seed.Revision, "the policy loop has not looked yet")
	before := w.pods()
	w.scale("web", 30)
	require.NoError(t, w.plane.Sync(t.Context(), w.clock.Now()))
	born := 0
	for _, pod := range w.pods() {
		if !slices.ContainsFunc(before, func(p corev1.Pod) bool { return p.UID == pod.UID }) {
			born++
			assert.Equal(t, int64(1024), memoryLimit(&pod), "%s was born with what had just killed", pod.Name)
		}
	}
	assert.Equal(t, 10, born)
	assert.True(t, w.told.has("Warning SeedMarkedBad New pods no longer get seed "+seed), w.told.lines)

	w.run(6*time.Hour, 15*time.Minute)
	for _, pod := range w.pods() {
		assert.LessOrEqual(t, restarts(&pod), int32(1), pod.Name)
	}
}

// A pod that is born with a seed, was never resized, and is killed: the next ones are born with more.
func TestLoopsLearnFromKilledNewPods(t *testing.T) {
	t.Parallel()
	w := newWorld(t, kubelet.Options{})
	w.seeded = true
	w.usage.of["app"] = used{CPU: 0.4, Memory: 200}
	w.memory["app"] = 200
	w.policy("all", "updateStrategy: {type: Initial}\n"+lowersMemory)
	w.deployment("web", 0, w.app("cpu=500m,memory=512Mi", "memory=1Gi"))
	w.settle()
	seed := w.recommendation().Spec.Seed
	require.NotNil(t, seed)
	w.scale("web", 1)
	w.startNewPods()
	small := memoryLimit(w.pod())
	require.Less(t, small, int64(700))
	w.memory["app"] = 700
	w.until(5*time.Minute, "the seed is marked bad", func() bool {
		return slices.Contains(w.recommendation().Status.BadSeeds, seed.Revision)
	})
	old := w.pod()
	w.until(time.Minute, "the killed pod has its template's limit back, in every mode", func() bool { return memoryLimit(w.pod()) == 1024 })
	w.scale("web", 2)
	w.settle()
	require.Len(t, w.pods(), 2)
	for _, pod := range w.pods() {
		if pod.UID != old.UID {
			assert.GreaterOrEqual(t, float64(memoryLimit(&pod)), 1.3*float64(small)-1)
		}
	}
}

// The first attempt of a Job that nobody has measured yet is killed at the limit of its template: the second
// is born with more.
func TestNextAttemptOfAJobGetsMoreMemory(t *testing.T) {
	t.Parallel()
	w := newWorld(t, kubelet.Options{})
	w.seeded = true
	w.policy("all", "targetRef: {kind: Job}\nupdateStrategy: {type: Initial}")
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "load"}}
	_, job.Spec.Template = template("load", w.app("cpu=100m,memory=128Mi", "memory=128Mi"))
	job.Spec.Template.Spec.RestartPolicy = corev1.RestartPolicyNever
	require.NoError(t, w.direct.Create(t.Context(), job))
	w.settle()
	require.Nil(t, w.recommendation().Spec.Seed, "nothing is known")
	attempt := func(name string) *corev1.Pod {
		yes := true
		pod := &corev1.Pod{ObjectMeta: *job.Spec.Template.ObjectMeta.DeepCopy(), Spec: *job.Spec.Template.Spec.DeepCopy()}
		pod.Namespace, pod.Name = w.namespace, name
		pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "batch/v1", Kind: "Job", Name: job.Name, UID: job.UID, Controller: &yes}}
		require.NoError(t, w.admit(pod))
		require.NoError(t, w.direct.Create(t.Context(), pod))
		return pod
	}
	first := attempt("load-1")
	assert.Equal(t, int64(128), memoryLimit(first))
	before := first.DeepCopy()
	first.Status.Phase = corev1.PodFailed
	first.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "app", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
		Reason: "OOMKilled", ExitCode: 137, ContainerID: "containerd://1", FinishedAt: metav1.NewTime(w.clock.Now()),
	}}}}
	require.NoError(t, w.direct.Status().Patch(t.Context(), first, client.MergeFrom(before)))
	w.pass()
	w.pass()
	second := attempt("load-2")
	assert.Equal(t, int64(167), memoryLimit(second), "1.3 times 128 MiB, in whole MiB")
	assert.Equal(t, int64(128), memoryRequest(second), "it was killed at its limit")
	assert.Equal(t, int64(100), cpuRequest(second), "nothing is known of its CPU")
	assert.Equal(t, int64(128), memoryLimit(w.named("load-1")))
}
