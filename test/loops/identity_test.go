package loops

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilrand "k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"attune.io/attune/test/kubelet"
)

// onceSized is a policy that sizes the Jobs of the namespace with the label tier: api at admission.
const onceSized = "targetRef: {kind: Job, selector: {matchLabels: {tier: api}}}\nupdateStrategy: {type: Initial}\ncpu: {maxChangePercent: 90}\nmemory: {allowDecrease: true}"

// startRun creates a Job as KEDA does for a ScaledJob, or with the label attune.io/identity, and its pod as the Job
// controller does, sized at admission.
func (w *world) startRun(label, identity, tier string) (*batchv1.Job, *corev1.Pod) {
	w.t.Helper()
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: identity + "-" + utilrand.String(5), Labels: map[string]string{label: identity, "tier": tier}}}
	if label != "attune.io/identity" {
		job.OwnerReferences = []metav1.OwnerReference{{APIVersion: "keda.sh/v1alpha1", Kind: "ScaledJob", Name: identity, UID: "22222222-2222-2222-2222-222222222222", Controller: ptr.To(true)}}
	}
	job.CreationTimestamp = metav1.NewTime(w.clock.Now())
	job.Spec.TTLSecondsAfterFinished = ptr.To[int32](60)
	_, job.Spec.Template = template("load", w.app("cpu=4,memory=8Gi", ""))
	job.Spec.Template.Labels[label] = identity
	job.Spec.Template.Spec.RestartPolicy = corev1.RestartPolicyNever
	require.NoError(w.t, w.direct.Create(w.t.Context(), job))
	pod := &corev1.Pod{ObjectMeta: *job.Spec.Template.ObjectMeta.DeepCopy(), Spec: *job.Spec.Template.Spec.DeepCopy()}
	pod.Namespace, pod.Name = w.namespace, job.Name+"-x7k2p"
	pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "batch/v1", Kind: "Job", Name: job.Name, UID: job.UID, Controller: ptr.To(true)}}
	require.NoError(w.t, w.admit(pod))
	require.NoError(w.t, w.direct.Create(w.t.Context(), pod))
	return job, pod
}

// endRun deletes a Job and its pod, as the TTL controller does.
func (w *world) endRun(job *batchv1.Job, pod *corev1.Pod) {
	w.t.Helper()
	require.NoError(w.t, w.direct.Delete(w.t.Context(), pod, client.GracePeriodSeconds(0)))
	require.NoError(w.t, w.direct.Delete(w.t.Context(), job))
}

// B19: the Jobs of one identity have one recommendation. Each run starts with it, also after a pause and a restart.
func TestTheJobsOfAnIdentityShareOneRecommendation(t *testing.T) {
	t.Parallel()
	for _, label := range []string{"scaledjob.keda.sh/name", "attune.io/identity"} {
		t.Run(label, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, kubelet.Options{})
			w.seeded = true
			w.usage.of["app"] = used{CPU: 0.5, Memory: 700}
			w.policy("jobs", onceSized)
			const runs, warm = 60, 5
			written := 0
			for i := range runs {
				job, pod := w.startRun(label, "etl-load", "api")
				if cpu := pod.Spec.Containers[0].Resources.Requests.Cpu().MilliValue(); i > 0 {
					assert.Less(t, cpu, int64(1000), "run %d", i)
				}
				w.run(4*time.Minute, time.Minute)
				require.Len(t, w.recommendations(), 1)
				w.endRun(job, pod)
				w.run(48*time.Second, 48*time.Second)
				if i == warm {
					written = w.writes
				}
			}
			rec := w.recommendation()
			assert.Equal(t, "identity:etl-load", rec.Spec.Workload.Name)
			assert.Equal(t, "identity-job-etl-load", rec.Name)
			assert.LessOrEqual(t, w.writes-written, 3*(runs-1-warm), "writes")
			t.Logf("%d writes in %d runs", w.writes-written, runs-1-warm)

			w.run(2*time.Hour, 10*time.Minute)
			w.wire()
			w.run(2*time.Hour, 10*time.Minute)
			_, pod := w.startRun(label, "etl-load", "api")
			assert.Less(t, pod.Spec.Containers[0].Resources.Requests.Cpu().MilliValue(), int64(1000), "the run after a restart without Jobs")
		})
	}
}

// Nothing is written while no Job runs, and the recommendation is deleted a week after the last run, for good.
func TestTheRecommendationOfAnIdentityEnds(t *testing.T) {
	t.Parallel()
	w := newWorld(t, kubelet.Options{})
	w.seeded = true
	w.usage.of["app"] = used{CPU: 0.5, Memory: 700}
	w.policy("jobs", onceSized)
	job, pod := w.startRun("attune.io/identity", "etl-load", "api")
	w.run(10*time.Minute, time.Minute)
	w.endRun(job, pod)
	w.run(8*24*time.Hour, 3*time.Hour)
	assert.Empty(t, w.recommendations())
	written := w.writes
	w.run(16*24*time.Hour, 12*time.Hour)
	assert.Empty(t, w.recommendations())
	assert.LessOrEqual(t, w.writes, written+1, "the policy's status")
}

// A created pod has only its identity: if a policy does not select all Jobs of it, none is sized.
func TestJobsOfAnIdentityWithDifferentPoliciesAreNotSized(t *testing.T) {
	t.Parallel()
	w := newWorld(t, kubelet.Options{})
	w.seeded = true
	w.usage.of["app"] = used{CPU: 0.5, Memory: 700}
	w.policy("jobs", onceSized)
	w.startRun("attune.io/identity", "etl-load", "web")
	w.startRun("attune.io/identity", "etl-load", "api")
	w.run(10*time.Minute, time.Minute)
	_, pod := w.startRun("attune.io/identity", "etl-load", "web")
	assert.Equal(t, "4", pod.Spec.Containers[0].Resources.Requests.Cpu().String())
	w.run(time.Minute, time.Minute)
	assert.Equal(t, "IdentityConflict", w.condition("jobs", "Ready").Reason)
}

// release creates the Deployment of a release as Knative Serving does for a revision.
func (w *world) release(name, identity string, replicas int32, tier string, containers ...corev1.Container) {
	w.t.Helper()
	d := &appsv1.Deployment{}
	d.Namespace, d.Name, d.Spec.Replicas = w.namespace, name, &replicas
	d.CreationTimestamp = metav1.NewTime(w.clock.Now())
	d.Labels = map[string]string{"tier": tier}
	d.Spec.Selector, d.Spec.Template = template(name, containers...)
	d.Spec.Template.Labels["serving.knative.dev/configuration"] = identity
	require.NoError(w.t, w.direct.Create(w.t.Context(), d))
}

const released = "targetRef: {kind: Deployment, selector: {matchLabels: {tier: web}}}\nupdateStrategy: {type: Auto, cooldown: 10m, safetyObservationPeriod: 5m}\ncpu: {maxChangePercent: 900}\nmemory: {maxChangePercent: 900}"

// B20: the pods of a new release start with the size of the release before.
func TestAReleaseStartsWithTheSizeOfItsIdentity(t *testing.T) {
	t.Parallel()
	w := newWorld(t, kubelet.Options{})
	w.seeded = true
	w.usage.of["web-00041/app"] = used{CPU: 1, Memory: 400}
	w.memory["app"] = 400
	app := w.app("cpu=200m,memory=256Mi", "memory=512Mi")
	w.release("web-00041", "web", 2, "web", app)
	w.policy("all", released)
	w.run(6*time.Hour, 10*time.Minute)
	before := w.podsOf("web-00041")[0].Spec.Containers[0].Resources.Requests.Cpu().MilliValue()
	require.Greater(t, before, int64(1000))

	w.release("web-00042", "web", 2, "web", app)
	w.scale("web-00041", 0)
	w.startNewPods()
	for _, pod := range w.podsOf("web-00042") {
		assert.Equal(t, before, pod.Spec.Containers[0].Resources.Requests.Cpu().MilliValue(), "at once")
		assert.Contains(t, pod.Annotations["attune.io/seeded"], `"deployment-web-00042"`)
	}
	w.run(24*time.Hour, time.Hour)
	assert.Equal(t, "web", w.rec("web-00042").Spec.Identity)
	for _, c := range w.rec("web-00042").Spec.Containers {
		assert.Empty(t, c.Holds)
		assert.Equal(t, before, c.Target.CPURequest.MilliValue())
	}
	for _, pod := range w.podsOf("web-00042") {
		assert.Equal(t, before, pod.Spec.Containers[0].Resources.Requests.Cpu().MilliValue())
	}
}

// A release that no policy selects is not sized by that of another, after the policy loop has seen it.
func TestAReleaseWithoutAPolicyHasItsOwnSize(t *testing.T) {
	t.Parallel()
	w := newWorld(t, kubelet.Options{})
	w.seeded = true
	w.usage.of["web-00041/app"] = used{CPU: 1, Memory: 400}
	w.memory["app"] = 400
	app := w.app("cpu=200m,memory=256Mi", "memory=512Mi")
	w.release("web-00041", "web", 2, "web", app)
	w.policy("all", released)
	w.run(6*time.Hour, 10*time.Minute)
	w.release("web-00042", "web", 0, "other", app)
	w.run(time.Hour, 10*time.Minute)
	w.scale("web-00042", 1)
	w.startNewPods()
	assert.Equal(t, "200m", w.podsOf("web-00042")[0].Spec.Containers[0].Resources.Requests.Cpu().String())
}

// Another container, another kind or no identity: nothing is shared.
func TestAReleaseOfOtherContainersHasItsOwnSize(t *testing.T) {
	t.Parallel()
	w := newWorld(t, kubelet.Options{})
	w.seeded = true
	w.usage.of["web-00041/app"] = used{CPU: 1, Memory: 400}
	w.memory["app"], w.memory["server"] = 400, 100
	w.release("web-00041", "web", 2, "web", w.app("cpu=200m,memory=256Mi", "memory=512Mi"))
	w.policy("all", released)
	w.run(6*time.Hour, 10*time.Minute)
	w.release("web-00042", "web", 1, "web", w.container("server", "cpu=200m,memory=256Mi", "memory=512Mi"))
	w.release("shop", "shop", 1, "web", w.app("cpu=200m,memory=256Mi", "memory=512Mi"))
	w.run(6*time.Hour, 10*time.Minute)
	for _, name := range []string{"web-00042", "shop"} {
		assert.Equal(t, "200m", w.podsOf(name)[0].Spec.Containers[0].Resources.Requests.Cpu().String(), name)
	}
}
