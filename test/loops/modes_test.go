package loops

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/test/kubelet"
)

const lowersCPU = "\ncpu: {maxChangePercent: 90}"

// shrinking is a world of pods of half a CPU that need 120m.
func shrinking(t *testing.T, replicas int32) *world {
	t.Helper()
	w := newWorld(t, kubelet.Options{})
	w.usage.of["app"] = used{CPU: 0.1, Memory: 200}
	w.memory["app"] = 200
	w.deployment("web", replicas, w.app("cpu=500m,memory=512Mi", ""))
	w.startNewPods()
	return w
}

// lowered is how many pods have less CPU than they were born with, on their kubelets.
func (w *world) lowered() (n int) {
	w.t.Helper()
	for _, pod := range w.pods() {
		if cpu := runsCPU(&pod); cpu > 0 && cpu < 500 {
			n++
		}
	}
	return n
}

// change changes the policy.
func (w *world) change(name string, change func(*v1alpha1.AttunePolicySpec)) {
	w.t.Helper()
	policy := w.thePolicy(name)
	change(&policy.Spec)
	require.NoError(w.t, w.direct.Update(w.t.Context(), policy))
}

// A canary that nobody promotes stays alone, however long that is; promoted by hand, the others follow.
func TestLoopsWaitForAPersonToPromoteACanary(t *testing.T) {
	t.Parallel()
	w := shrinking(t, 4)
	w.policy("all", "updateStrategy: {type: Canary, cooldown: 10m, safetyObservationPeriod: 5m, maxConcurrentResizes: 100%, canary: {percentage: 25, autoPromote: false}}"+lowersCPU)
	w.until(time.Hour, "the canary is kept", func() bool { return len(w.recommendation().Status.Verified) > 0 && w.idle() })
	assert.Equal(t, 1, w.lowered(), "a quarter of four")
	w.run(24*time.Hour, time.Hour, func() bool {
		assert.Equal(t, 1, w.lowered(), "%s", w.clock.Now())
		return !t.Failed()
	})
	assert.Equal(t, []string{"Success"}, results(w.recommendation()))
	w.change("all", func(s *v1alpha1.AttunePolicySpec) { s.UpdateStrategy.Canary.AutoPromote = ptr.To(true) })
	w.until(time.Hour, "the others follow", func() bool { return w.lowered() == 4 && w.idle() })
	for _, pod := range w.pods() {
		assert.Equal(t, int64(2), pod.Generation, "once each")
	}
}

// One pod at a time, each after the clean observation of the last one, in one step without a cooldown; new pods are as their template says.
func TestOneShotResizesOnePodAtATime(t *testing.T) {
	t.Parallel()
	w := shrinking(t, 3)
	w.seeded = true
	const watch = 5 * time.Minute
	asked := w.asking(func() error { return nil })
	w.policy("all", "updateStrategy: {type: OneShot, cooldown: 20m, safetyObservationPeriod: 5m, maxConcurrentResizes: 100%, canary: {percentage: 100}}"+lowersCPU)
	w.run(6*time.Hour, time.Minute, func() bool {
		assert.LessOrEqual(t, len(w.recommendation().Status.Records), 1)
		return !t.Failed()
	})
	require.Len(t, *asked, 3, "each pod once")
	for i := 1; i < 3; i++ {
		assert.GreaterOrEqual(t, (*asked)[i].Sub((*asked)[i-1]), watch)
		assert.LessOrEqual(t, (*asked)[i].Sub((*asked)[i-1]), 2*watch)
	}
	assert.Equal(t, 3, w.lowered())
	assert.Equal(t, []string{"Success", "Success", "Success"}, results(w.recommendation()))
	assert.Nil(t, w.recommendation().Spec.Seed)
	w.scale("web", 4)
	w.settle()
	assert.Equal(t, int64(1), countOf(w.pods(), func(p *corev1.Pod) bool { return cpuRequest(p) == 500 }), "the newest")
}

func countOf(pods []corev1.Pod, is func(*corev1.Pod) bool) (n int64) {
	for i := range pods {
		if is(&pods[i]) {
			n++
		}
	}
	return n
}

// Observe and Recommend touch neither running nor new pods.
func TestLoopsThatOnlyLook(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"Observe", "Recommend"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			w := shrinking(t, 2)
			w.seeded = true
			asked := w.asking(func() error { return nil })
			w.policy("all", "updateStrategy: {type: "+mode+", cooldown: 1m}"+lowersCPU)
			w.run(24*time.Hour, time.Hour)
			w.scale("web", 3)
			w.settle()
			assert.Empty(t, *asked)
			rec := w.recommendation()
			assert.Nil(t, rec.Spec.Seed)
			assert.Empty(t, rec.Status.History)
			assert.NotZero(t, rec.Spec.Containers[0].DataPoints, "it looks")
			for _, pod := range w.pods() {
				assert.Equal(t, int64(500), cpuRequest(&pod))
				assert.Equal(t, int64(1), pod.Generation)
			}
		})
	}
}

// Resizes begin inside of the window only; what harms is taken back outside of it, too.
func TestLoopsKeepToTheirSchedule(t *testing.T) {
	t.Parallel()
	w := shrinking(t, 2)
	opens := w.clock.Now().Add(3 * time.Hour).Truncate(time.Minute)
	closes := opens.Add(10 * time.Minute)
	asked := w.asking(func() error { return nil })
	w.policy("all", fmt.Sprintf("updateStrategy: {type: Auto, cooldown: 1h, safetyObservationPeriod: 30m, schedule: {timezone: UTC, windows: [{start: %q, end: %q}]}}%s",
		opens.Format("15:04"), closes.Format("15:04"), lowersCPU))
	w.run(opens.Add(-time.Minute).Sub(w.clock.Now()), 20*time.Minute)
	assert.Empty(t, *asked)
	assert.Equal(t, "OutsideSchedule", blockedBy(w.recommendation()).Reason)
	w.until(20*time.Minute, "a resize is watched", func() bool { return w.watched() != "" })
	require.Len(t, *asked, 1)
	assert.False(t, (*asked)[0].Before(opens) || (*asked)[0].After(closes), "asked at %s", (*asked)[0])

	harmed := w.watched()
	w.run(closes.Add(time.Minute).Sub(w.clock.Now()), time.Minute)
	require.Equal(t, harmed, w.watched(), "the watch goes on outside of the window")
	w.ready = func(pod *corev1.Pod) bool { return pod.Name != harmed || runsCPU(pod) >= 500 }
	w.until(time.Hour, "put back", func() bool { return w.idle() })
	require.Len(t, *asked, 2)
	assert.True(t, (*asked)[1].After(closes))
	assert.Equal(t, []string{"Reverted notready"}, results(w.recommendation()))
	assert.Zero(t, w.lowered())
}

// A guardrail that is violated in the middle of a long observation reverts the resize within a minute.
func TestLoopsRevertWhileTheyObserve(t *testing.T) {
	t.Parallel()
	w := shrinking(t, 1)
	gauge := &guarded{measured: measured{w: w}, value: 0.2}
	w.gauge, w.sources = gauge, []string{w.namespace}
	w.wire()
	w.policy("all", "updateStrategy: {type: Auto, cooldown: 1h, safetyObservationPeriod: 6h}\n"+
		`sloGuardrails: [{name: latency, query: 'latency_p99{app="web"}', threshold: "0.5", comparison: "<"}]`+lowersCPU)
	w.until(2*time.Hour, "a resize is watched", func() bool { return w.watched() != "" })
	w.run(time.Hour, time.Minute)
	require.NotEmpty(t, w.watched(), "the guardrail holds")
	assert.LessOrEqual(t, len(gauge.queries), 121, "one query each half a minute")
	gauge.err = errNoSeries
	w.run(time.Hour, time.Minute)
	require.NotEmpty(t, w.watched(), "no answer is no violation")
	gauge.value, gauge.err = 0.9, nil
	w.run(time.Minute, 10*time.Second)
	require.Empty(t, w.watched())
	w.until(time.Minute, "reverted", func() bool { return w.idle() })
	assert.Equal(t, []string{"Reverted slo"}, results(w.recommendation()))
	assert.Zero(t, w.lowered())
}

// A guardrail of the policy's decides at the end of the watch.
func TestLoopsAskGuardrails(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		value  float64
		err    error
		result string
		lowers int
	}{
		"it holds":     {0.2, nil, "Success", 1},
		"it is broken": {0.9, nil, "Reverted slo", 0},
		"no answer":    {0, errNoSeries, "Success Inconclusive", 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := shrinking(t, 1)
			gauge := &guarded{measured: measured{w: w}, value: tc.value, err: tc.err}
			w.gauge, w.sources = gauge, []string{w.namespace}
			w.wire()
			w.policy("all", once+`sloGuardrails: [{name: latency, query: 'latency_p99{app="web"}', threshold: "0.5", comparison: "<"}]`+lowersCPU)
			w.until(2*time.Hour, "judged", func() bool { return len(results(w.recommendation())) > 0 && w.idle() })
			assert.Equal(t, []string{tc.result}, results(w.recommendation()))
			assert.Equal(t, tc.lowers, w.lowered())
			assert.Contains(t, gauge.queries, `latency_p99{app="web"}`)
			assert.Equal(t, tc.result == "Success", len(w.recommendation().Status.Verified) > 0, "only what held is kept")
		})
	}
}

// guarded answers guardrails.
type guarded struct {
	measured
	value   float64
	err     error
	queries []string
}

func (g *guarded) Value(_ context.Context, query string, _ time.Time) (float64, error) {
	g.queries = append(g.queries, query)
	return g.value, g.err
}

// Pods of every kind that runs on are resized alike, by their own policy. Those of Deployments are met everywhere else.
func TestLoopsResizeEveryKind(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"StatefulSet", "DaemonSet", "ReplicaSet"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, kubelet.Options{})
			w.usage.of["app"] = used{CPU: 0.1, Memory: 200}
			w.memory["app"] = 200
			w.workload(kind, w.app("cpu=500m,memory=512Mi", "memory=1Gi"))
			w.startNewPods()
			before := w.pod()
			w.policy("all", "targetRef: {kind: "+kind+"}\n"+once+lowersMemory+lowersCPU)
			w.until(time.Hour, "kept", func() bool { return len(w.recommendations()) == 1 && len(results(w.recommendation())) > 0 && w.idle() })
			after := w.pod()
			assert.Equal(t, []string{"Success"}, results(w.recommendation()))
			assert.Equal(t, before.UID, after.UID)
			assert.Zero(t, restarts(after))
			assert.InDelta(t, 120, float64(runsCPU(after)), 2)
			assert.InDelta(t, 260, float64(memoryRequest(after)), 2)
			assert.InDelta(t, 520, float64(memoryLimit(after)), 3, "twice the request, as before")
		})
	}
}

// workload makes one of a kind, web, with one pod.
func (w *world) workload(kind string, c corev1.Container) {
	w.t.Helper()
	one := int32(1)
	var owner client.Object
	labels, pods := template("web", c)
	switch kind {
	case "StatefulSet":
		w.statefulSet("web", 1, c)
		return
	case "DaemonSet":
		owner = &appsv1.DaemonSet{Spec: appsv1.DaemonSetSpec{Selector: labels, Template: pods}}
	case "ReplicaSet":
		owner = &appsv1.ReplicaSet{Spec: appsv1.ReplicaSetSpec{Replicas: &one, Selector: labels, Template: pods}}
	}
	owner.SetNamespace(w.namespace)
	owner.SetName("web")
	require.NoError(w.t, w.direct.Create(w.t.Context(), owner))
}

// Cases 64, 75: nothing new begins while the workload rolls out, and what is watched then is not blamed for restarts.
func TestLoopsLookAtRollouts(t *testing.T) {
	t.Parallel()
	rolling := false
	rolls := func(o client.Object) {
		if d, ok := o.(*appsv1.Deployment); ok && rolling {
			d.Status.UpdatedReplicas, d.Status.UnavailableReplicas = 1, 1
		}
	}
	t.Run("nothing begins", func(t *testing.T) {
		w := shrinking(t, 2)
		w.seen, rolling = rolls, true
		asked := w.asking(func() error { return nil })
		w.policy("all", once+lowersCPU)
		w.run(2*time.Hour, 10*time.Minute)
		assert.Empty(t, *asked)
		blocked := blockedBy(w.recommendation())
		assert.Equal(t, "RolloutInProgress", blocked.Reason)
		assert.Contains(t, blocked.Message, "1 of 2 pods run the newest template")
		rolling = false
		w.changes++ // The loops are told of the status.
		w.until(time.Hour, "begun once it is over", func() bool { return w.lowered() > 0 })
	})
	t.Run("no harm", func(t *testing.T) {
		w := shrinking(t, 2)
		w.seen, rolling = rolls, false
		w.policy("all", "updateStrategy: {type: Auto, cooldown: 10h, safetyObservationPeriod: 5m}"+lowersCPU)
		w.until(time.Hour, "watched", func() bool { return w.watched() != "" })
		rolling = true
		pod := w.named(w.watched())
		for range 2 {
			w.run(20*time.Second, 10*time.Second)
			w.node.Crash(w.named(pod.Name), "app", w.clock.Now())
		}
		w.until(2*time.Hour, "closed", w.idle)
		assert.Equal(t, []string{"Success Inconclusive"}, results(w.recommendation()))
		assert.Equal(t, 1, w.lowered(), "it is left as it is")
	})
}

// Case 65: what does not run now is still recommended for and sized at birth, and costs next to nothing meanwhile.
func TestStoppedWorkloadsKeepTheirRecommendations(t *testing.T) {
	t.Parallel()
	for kind, suspended := range map[string]func(w *world){
		"Deployment": func(w *world) { w.deployment("web", 0, w.app("cpu=500m,memory=512Mi", "")) },
		"CronJob": func(w *world) {
			cron := &batchv1.CronJob{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "web"}}
			cron.Spec.Schedule, cron.Spec.Suspend = "0 * * * *", ptr.To(true)
			_, cron.Spec.JobTemplate.Spec.Template = template("web", w.app("cpu=500m,memory=512Mi", ""))
			cron.Spec.JobTemplate.Spec.Template.Spec.RestartPolicy = corev1.RestartPolicyNever
			require.NoError(w.t, w.direct.Create(w.t.Context(), cron))
		},
	} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, kubelet.Options{})
			w.usage.of["app"] = used{CPU: 0.1, Memory: 200}
			suspended(w)
			w.policy("all", "targetRef: {kind: "+kind+"}\nupdateStrategy: {type: Initial}"+lowersCPU)
			w.settle()
			before := w.recommendation()
			require.NotNil(t, before.Spec.Seed)
			w.writes = 0
			w.run(3*24*time.Hour, time.Hour)
			after := w.recommendation()
			assert.Equal(t, before.Spec.Containers[0].Target, after.Spec.Containers[0].Target)
			require.NotNil(t, after.Spec.Seed)
			assert.Equal(t, before.Spec.Seed.Revision, after.Spec.Seed.Revision)
			assert.True(t, after.Spec.Seed.ValidUntil.After(w.clock.Now()))
			assert.LessOrEqual(t, float64(w.writes), writesAMinute*3*24*60)
		})
	}
}

// roll changes the template of Deployment web.
func (w *world) roll(version string) {
	w.t.Helper()
	d := &appsv1.Deployment{}
	require.NoError(w.t, w.direct.Get(w.t.Context(), client.ObjectKey{Namespace: w.namespace, Name: "web"}, d))
	metav1.SetMetaDataAnnotation(&d.Spec.Template.ObjectMeta, "version", version)
	require.NoError(w.t, w.direct.Update(w.t.Context(), d))
}

// Case 64 with a control plane that rolls out: a rollout whose new pods are not ready holds up everything, for as long as
// it takes; one in the middle of a watch takes the watched pod away, and teaches nothing.
func TestLoopsAmongRollouts(t *testing.T) {
	t.Parallel()
	w := shrinking(t, 4)
	w.roll("2")
	stuck := true
	w.ready = func(pod *corev1.Pod) bool { return !stuck || pod.Annotations["version"] != "2" }
	w.run(5*time.Minute, time.Minute)
	asked := w.asking(func() error { return nil })
	w.policy("all", "updateStrategy: {type: Auto, cooldown: 1m, safetyObservationPeriod: 10m}"+lowersCPU)
	w.run(3*time.Hour, 20*time.Minute)
	assert.Empty(t, *asked)
	assert.Equal(t, "RolloutInProgress", blockedBy(w.recommendation()).Reason)

	stuck = false
	w.until(2*time.Hour, "begun once it is through", func() bool { return w.watched() != "" })
	gone := w.watched()
	w.roll("3")
	w.until(time.Hour, "the watched pod is replaced", func() bool {
		return countOf(w.pods(), func(p *corev1.Pod) bool { return p.Name == gone || p.Annotations["version"] != "3" }) == 0 && w.idle()
	})
	w.until(12*time.Hour, "all are lowered", func() bool { return w.lowered() == 4 && w.idle() })
	rec := w.recommendation()
	for _, result := range results(rec) {
		assert.Equal(t, "Success", result)
	}
	assert.Empty(t, rec.Status.Floors)
	assert.Empty(t, rec.Finalizers)
}

// Three pods of two containers: each pod is resized once, both of its containers in one patch.
func TestLoopsResizeSeveralContainersAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t, kubelet.Options{})
	w.usage.of["app"], w.usage.of["proxy"] = used{CPU: 0.1, Memory: 200}, used{CPU: 0.05, Memory: 20}
	w.memory["app"], w.memory["proxy"] = 200, 20
	proxy := w.app("cpu=300m,memory=64Mi", "")
	proxy.Name = "proxy"
	w.deployment("web", 3, w.app("cpu=500m,memory=512Mi", ""), proxy)
	w.startNewPods()
	asked := w.asking(func() error { return nil })
	w.policy("all", "updateStrategy: {type: Auto, cooldown: 1m, safetyObservationPeriod: 1m}"+lowersCPU)
	w.until(6*time.Hour, "all are lowered", func() bool { return w.lowered() == 3 && w.idle() })
	assert.Len(t, *asked, 3)
	for _, pod := range w.pods() {
		assert.Equal(t, int64(2), pod.Generation)
		assert.InDelta(t, 120, float64(cpuRequest(&pod)), 2)
		assert.InDelta(t, 60, float64(pod.Spec.Containers[1].Resources.Requests.Cpu().MilliValue()), 2)
		assert.Equal(t, pod.Spec.Containers[1].Resources.Requests.Cpu().MilliValue(), pod.Status.ContainerStatuses[1].Resources.Requests.Cpu().MilliValue())
	}
}

// Containers that the template has not, such as injected sidecars, are neither recommended nor changed.
func TestInjectedContainersAreNotChanged(t *testing.T) {
	t.Parallel()
	w := newWorld(t, kubelet.Options{})
	w.usage.of["app"], w.usage.of["proxy"] = used{CPU: 0.1, Memory: 200}, used{CPU: 0.01, Memory: 20}
	w.memory["app"], w.memory["proxy"] = 200, 20
	proxy := corev1.Container{Name: "proxy", Image: "example.org/proxy:1", Resources: sized(t, "cpu=300m,memory=256Mi", "memory=256Mi")}
	w.plane.Admit = func(pod *corev1.Pod) error {
		pod.Spec.Containers = append(pod.Spec.Containers, proxy)
		return nil
	}
	w.deployment("web", 1, w.app("cpu=500m,memory=512Mi", ""))
	w.startNewPods()
	w.policy("all", once+lowersMemory+lowersCPU)
	w.until(time.Hour, "kept", func() bool { return len(results(w.recommendation())) > 0 && w.idle() })
	pod := w.pod()
	assert.InDelta(t, 120, float64(cpuRequest(pod)), 2, "the one of the template")
	require.Len(t, pod.Spec.Containers, 2)
	assert.Equal(t, proxy.Resources, pod.Spec.Containers[1].Resources)
	for _, c := range w.recommendation().Spec.Containers {
		assert.Equal(t, "app", c.Name)
	}
}

// The kill switch, end to end: while AttuneDefaults are paused no pod is resized and none is sized at birth; what is
// open is finished. Not in parallel: the object is the cluster's.
func TestTheKillSwitch(t *testing.T) {
	w := shrinking(t, 3)
	w.seeded = true
	w.policy("all", "updateStrategy: {type: Auto, cooldown: 5m, safetyObservationPeriod: 5m, maxConcurrentResizes: 1}"+lowersCPU)
	w.until(2*time.Hour, "a size is kept, and new pods are born with it", func() bool {
		rec := w.recommendation()
		return len(rec.Status.Verified) > 0 && rec.Spec.Seed != nil && !rec.Spec.Seed.RaiseOnly
	})
	w.until(time.Hour, "the next pod is watched", func() bool { return w.watched() != "" })
	watched := w.watched()
	require.Less(t, w.lowered(), 3, "one is left to be resized")

	all := &v1alpha1.AttuneDefaults{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.DefaultsName}}
	all.Spec.Paused = ptr.To(true)
	require.NoError(t, w.direct.Create(t.Context(), all))
	t.Cleanup(func() { require.NoError(t, w.direct.Delete(testContext(t), all)) })
	w.settle()
	w.ready = func(pod *corev1.Pod) bool { return pod.Name != watched || runsCPU(pod) >= 500 }
	w.until(time.Hour, "what is open is put back although all is paused", w.idle)
	assert.Contains(t, results(w.recommendation()), "Reverted notready")
	before, resized := w.uids(), w.generations()
	w.run(24*time.Hour, time.Hour)
	assert.Equal(t, "Paused", blockedBy(w.recommendation()).Reason)
	assert.Contains(t, blockedBy(w.recommendation()).Message, "cluster")
	assert.Equal(t, resized, w.generations(), "no resize")
	assert.Nil(t, w.recommendation().Spec.Seed)
	assert.Equal(t, "Paused", w.recommendation().Spec.SeedBlocked)
	w.scale("web", 5)
	w.settle()
	assert.Len(t, w.pods(), 5)
	for _, pod := range w.pods() {
		if !contains(before, pod.UID) {
			assert.Equal(t, int64(500), cpuRequest(&pod), "born as its template says")
			assert.NotContains(t, pod.Annotations, v1alpha1.SeededAnnotation)
		}
	}

	generations := w.generations()
	all.Spec.Paused = ptr.To(false)
	require.NoError(t, w.direct.Update(t.Context(), all))
	w.ready = func(*corev1.Pod) bool { return true }
	w.until(24*time.Hour, "resized again", func() bool { return w.generations() > generations })
	assert.NotNil(t, w.recommendation().Spec.Seed)
}

// generations of all pods' specs: a resize adds one.
func (w *world) generations() (sum int64) {
	w.t.Helper()
	for _, pod := range w.pods() {
		sum += pod.Generation
	}
	return sum
}

func contains(uids []types.UID, uid types.UID) bool {
	for _, u := range uids {
		if u == uid {
			return true
		}
	}
	return false
}
