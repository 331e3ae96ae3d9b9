package tuning_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/autoscale"
	"attune.io/attune/internal/policy"
	"attune.io/attune/podview"
	"attune.io/attune/recommender"
	"attune.io/attune/resize"
	"attune.io/attune/tuning"
)

// startsWithMore returns a pod that was created with 400m of CPU: 200m and a startup boost of 200m.
func startsWithMore(t *testing.T, name string, ago time.Duration) *corev1.Pod {
	t.Helper()
	pod := running(name, sizeOf(400, 0, 512, 1024))
	pod.Status.ContainerStatuses[0].State.Running.StartedAt = metav1.NewTime(now.Add(-ago))
	raw, err := json.Marshal(v1alpha1.Seeded{Recommendation: "deployment-web", Revision: "r",
		Original: []v1alpha1.ContainerResources{{Name: "app", Resources: podview.ToResources(template)}},
		Boosted:  []v1alpha1.BoostedContainer{{Name: "app", CPURequest: resource.MustParse("400m"), BaseCPURequest: resource.MustParse("200m")}}})
	require.NoError(t, err)
	pod.Annotations[v1alpha1.SeededAnnotation] = string(raw)
	return pod
}

func boosting(t *testing.T, pods ...*corev1.Pod) tuning.View {
	t.Helper()
	w := heading(seen(t, template, pods...), sizeOf(200, 0, 512, 1024))
	w.Policy.Settings.StartupBoost = &policy.Boost{Multiplier: 2, Duration: 3 * time.Minute}
	w.Rec.Status.CooldownFrom = &metav1.Time{Time: now}
	return w
}

func TestBoostsAreTakenBackOfAllPodsAtOnce(t *testing.T) {
	w := boosting(t, startsWithMore(t, "web-1", time.Hour), startsWithMore(t, "web-2", time.Minute), startsWithMore(t, "web-3", time.Hour))
	d := tuning.Decide(w)
	require.Len(t, d.Writes, 2, "in a cooldown, and beyond any wave")
	for i, name := range []string{"web-1", "web-3"} {
		assert.Equal(t, name, d.Writes[i].Plan.PodName)
		assert.Equal(t, recommender.Amount(200), d.Writes[i].Plan.Moves[0].To[recommender.CPU].Request)
		assert.Equal(t, resize.WaveBoost, d.Status.Records[i].Wave)
		assert.Equal(t, resize.ReasonBoost, d.Status.Records[i].Reason)
	}
	assert.Equal(t, 2*time.Minute, d.After, "when the boost of web-2 is over")
}

// Boosts that end at the same time, as after a rollout, leave records for an OOM-killed pod.
func TestBoostsDoNotHoldGrowthAfterAKillUp(t *testing.T) {
	var pods []*corev1.Pod
	for i := range 60 {
		pods = append(pods, startsWithMore(t, fmt.Sprintf("web-%02d", i), time.Hour))
	}
	killed := endedBefore(running("web-killed", sizeOf(200, 0, 512, 512)), "OOMKilled", 1, time.Minute)
	w := eager(heading(boosting(t, append(pods, killed)...), sizeOf(200, 0, 700, 700)))
	d := tuning.Decide(w)
	boosts := 0
	for _, r := range d.Status.Records {
		if r.Wave == resize.WaveBoost {
			boosts++
		}
	}
	assert.Equal(t, 30, boosts, "of 50 records")
	assert.Contains(t, begun(d), "web-killed", "in the first pass")
	assert.LessOrEqual(t, len(d.Status.Records), v1alpha1.MaxRecords)
}

// No other resize changes the CPU of a pod during its boost.
func TestStepsLeaveABoostAlone(t *testing.T) {
	w := boosting(t, startsWithMore(t, "web-1", time.Minute))
	w.Rec.Status.CooldownFrom = nil
	assert.Empty(t, tuning.Decide(heading(w, sizeOf(100, 0, 512, 1024))).Writes)
	assert.Empty(t, tuning.Decide(heading(w, sizeOf(4000, 0, 512, 1024))).Writes)
	forged := startsWithMore(t, "web-1", time.Minute)
	forged.Annotations[v1alpha1.SeededAnnotation] = `{"recommendation":"deployment-other","boosted":[{"name":"app","cpuRequest":"400m","baseCPURequest":"200m"}]}`
	w = boosting(t, forged)
	w.Rec.Status.CooldownFrom = nil
	assert.NotEmpty(t, tuning.Decide(heading(w, sizeOf(100, 0, 512, 1024))).Writes, "a note that is not about this workload is none")
}

// The policy has no boost any more: it ends with readiness.
func TestABoostWhosePolicyChanged(t *testing.T) {
	w := boosting(t, startsWithMore(t, "web-1", time.Second))
	w.Policy.Settings.StartupBoost = nil
	assert.Len(t, tuning.Decide(w).Writes, 1)
}

// What stops attune stops no boost that has begun from ending: the pod would keep CPU that was meant for minutes.
func TestBoostsEndWhileAttuneIsStopped(t *testing.T) {
	for name, stop := range map[string]func(*tuning.View){
		"another mode":          func(w *tuning.View) { w.Policy.Settings.Resize.Mode = v1alpha1.UpdateRecommend },
		"mode Off of container": func(w *tuning.View) { w.Policy.Settings.Resize.Excluded = map[string]bool{"app": true} },
		"the kill switch":       func(w *tuning.View) { w.Policy.Settings.Resize.Paused = []string{"cluster"} },
		"a paused workload":     func(w *tuning.View) { w.Workload.Annotations = map[string]string{v1alpha1.PausedAnnotation: "true"} },
		"paused by attune": func(w *tuning.View) {
			w.Rec.Status.Paused = &v1alpha1.PausedState{Since: metav1.Time{Time: now}, Reason: "leak"}
		},
		"an invalid policy": func(w *tuning.View) { w.Policy.Usable = false },
		"a deleted policy": func(w *tuning.View) {
			w.Policy.Usable, w.Policy.Gone, w.Policy.Settings.StartupBoost = false, true, nil
		},
		"no target": func(w *tuning.View) { w.Rec.Spec.Containers = nil },
	} {
		w := boosting(t, startsWithMore(t, "web-1", time.Hour))
		stop(&w)
		d := tuning.Decide(w)
		if assert.Len(t, d.Writes, 1, name) {
			assert.Equal(t, resize.WaveBoost, d.Writes[0].Plan.Wave, name)
			assert.Equal(t, recommender.Amount(200), d.Writes[0].Plan.Moves[0].To[recommender.CPU].Request, name)
		}
	}
	for name, stop := range map[string]func(*tuning.View){
		"attune.io/skip":     func(w *tuning.View) { w.Workload.Annotations = map[string]string{v1alpha1.SkipAnnotation: "true"} },
		"a deleted workload": func(w *tuning.View) { w.Workload = nil },
		"its object is being deleted": func(w *tuning.View) {
			w.Rec.DeletionTimestamp, w.Rec.Finalizers = &metav1.Time{Time: now}, []string{"x"}
		},
		"in time": func(w *tuning.View) {
			w.Policy.Settings.Resize.Mode = v1alpha1.UpdateRecommend
			w.Pods = []*corev1.Pod{startsWithMore(t, "web-1", time.Minute)}
		},
	} {
		w := boosting(t, startsWithMore(t, "web-1", time.Hour))
		stop(&w)
		assert.Empty(t, tuning.Decide(w).Writes, name)
	}
}

// After its observation no size is stored as verified, and no cooldown begins.
func TestHowTheEndOfABoostEnds(t *testing.T) {
	w := boosting(t, startsWithMore(t, "web-1", time.Hour))
	w.Rec.Status.CooldownFrom = nil
	record := tuning.Decide(w).Status.Records[0]
	record.Phase, record.Generation, record.WatchUntil = v1alpha1.RecordWatching, 2, &metav1.Time{Time: now}
	back := running("web-1", sizeOf(200, 0, 512, 1024))
	back.Generation, back.Status.ObservedGeneration, back.Annotations = 2, 2, w.Pods[0].Annotations
	w.Pods, w.Rec.Status.Records = []*corev1.Pod{back}, []v1alpha1.ResizeRecord{record}
	d := tuning.Decide(w)
	require.Len(t, d.Status.History, 1)
	assert.Equal(t, "Success StartupBoost", d.Status.History[0].Result+" "+d.Status.History[0].Reason)
	assert.Empty(t, d.Status.Verified)
	assert.Nil(t, d.Status.CooldownFrom)
	assert.Empty(t, d.Writes)
}

// restartedWithout returns a pod whose boost has ended (200m) and whose container restarted a moment ago.
func restartedWithout(t *testing.T, restarts int32, ran time.Duration) *corev1.Pod {
	t.Helper()
	pod := startsWithMore(t, "web-1", 10*time.Second)
	pod.Generation, pod.Status.ObservedGeneration = 2, 2
	pod.Spec.Containers[0].Resources = podview.ToRequirements(sizeOf(200, 0, 512, 1024))
	status := &pod.Status.ContainerStatuses[0]
	resources := podview.ToRequirements(sizeOf(200, 0, 512, 1024))
	status.Resources, status.AllocatedResources, status.RestartCount = &resources, resources.Requests, restarts
	ended := now.Add(-11 * time.Second)
	status.LastTerminationState.Terminated = &corev1.ContainerStateTerminated{ExitCode: 137, Reason: "Error", ContainerID: "containerd://before",
		StartedAt: metav1.NewTime(ended.Add(-ran)), FinishedAt: metav1.NewTime(ended)}
	return pod
}

// A container that restarts starts as slowly as a new one.
func TestRestartedContainerGetsItsBoostAgain(t *testing.T) {
	for name, tc := range map[string]struct {
		pod    *corev1.Pod
		change func(*tuning.View)
		want   recommender.Amount
	}{
		"the first restart":           {pod: restartedWithout(t, 1, time.Minute), want: 400},
		"the third, after a long run": {pod: restartedWithout(t, 3, time.Hour), want: 400},
		"the third, in a crash loop":  {pod: restartedWithout(t, 3, time.Minute)},
		"no restart":                  {pod: restartedWithout(t, 0, time.Minute)},
		"a pod that never had a boost": {pod: func() *corev1.Pod {
			p := restartedWithout(t, 1, time.Minute)
			delete(p.Annotations, v1alpha1.SeededAnnotation)
			return p
		}()},
		"a restart that is long ago": {pod: func() *corev1.Pod {
			p := restartedWithout(t, 1, time.Minute)
			p.Status.ContainerStatuses[0].State.Running.StartedAt = metav1.NewTime(now.Add(-4 * time.Minute))
			return p
		}()},
		"a change restarts the container": {pod: func() *corev1.Pod {
			p := restartedWithout(t, 1, time.Minute)
			p.Spec.Containers[0].ResizePolicy = []corev1.ContainerResizePolicy{{ResourceName: corev1.ResourceCPU, RestartPolicy: corev1.RestartContainer}}
			return p
		}()},
		"a boost whose record is lost": {pod: func() *corev1.Pod {
			p := restartedWithout(t, 1, time.Minute)
			p.Spec.Containers[0].Resources = podview.ToRequirements(sizeOf(400, 0, 512, 1024))
			return p
		}()},
		"another container was OOM-killed since": {pod: func() *corev1.Pod {
			p := restartedWithout(t, 1, time.Minute)
			p.Spec.Containers = append(p.Spec.Containers, *p.Spec.Containers[0].DeepCopy())
			p.Spec.Containers[1].Name = "proxy"
			p.Status.ContainerStatuses = append(p.Status.ContainerStatuses, *p.Status.ContainerStatuses[0].DeepCopy())
			proxy := &p.Status.ContainerStatuses[1]
			proxy.Name, proxy.ContainerID = "proxy", "containerd://proxy"
			proxy.LastTerminationState.Terminated.Reason, proxy.LastTerminationState.Terminated.FinishedAt = "OOMKilled", metav1.NewTime(now.Add(-5*time.Second))
			return p
		}()},
		"no boost in the policy": {pod: restartedWithout(t, 1, time.Minute), change: func(w *tuning.View) { w.Policy.Settings.StartupBoost = nil }},
		"maxAllowed":             {pod: restartedWithout(t, 1, time.Minute), change: func(w *tuning.View) { w.Policy.Settings.Recommender.Of[recommender.CPU].MaxAllowed = 300 }, want: 300},
		"a paused policy":        {pod: restartedWithout(t, 1, time.Minute), change: func(w *tuning.View) { w.Policy.Settings.Resize.Paused = []string{"policy"} }},
		"a mode without resizes": {pod: restartedWithout(t, 1, time.Minute), change: func(w *tuning.View) { w.Policy.Settings.Resize.Mode = v1alpha1.UpdateInitial }},
		"an HPA that scales on CPU": {pod: restartedWithout(t, 1, time.Minute), change: func(w *tuning.View) {
			hpa := autoscalingv2.HorizontalPodAutoscaler{ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "shop"}}
			hpa.Spec.ScaleTargetRef = autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "web"}
			hpa.Spec.MaxReplicas = 9
			w.Autoscalers = autoscale.Autoscalers{HPAs: []autoscalingv2.HorizontalPodAutoscaler{hpa}}.Of(*w.Workload)
		}},
		"an HPA that is gone for less than a day": {pod: restartedWithout(t, 1, time.Minute), change: func(w *tuning.View) {
			w.Rec.Spec.Containers[0].Holds = []v1alpha1.Hold{{Resource: "cpu", Reason: resize.ReasonHPA, Message: "HPA web"}}
		}},
		"a full quota": {pod: restartedWithout(t, 1, time.Minute), change: func(w *tuning.View) { w.Namespace.Quotas = []corev1.ResourceQuota{quotaOf("cpu", "200m", "200m")} }},
		"a node without room": {pod: restartedWithout(t, 1, time.Minute), change: func(w *tuning.View) {
			w.Looked.Rooms = map[string]*resize.Room{"node-1": resize.RoomOf([]*corev1.Pod{running("other", sizeOf(63900, 0, 100, 0))}, nil, now)}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			w := boosting(t, tc.pod)
			w.Policy.Settings.Resize.Boost = 3 * time.Minute
			if tc.change != nil {
				tc.change(&w)
			}
			d := tuning.Decide(w)
			if tc.want == 0 {
				assert.Empty(t, d.Writes)
				return
			}
			require.Len(t, d.Writes, 1, "in a cooldown")
			assert.Equal(t, tc.want, d.Writes[0].Plan.Moves[0].To[recommender.CPU].Request)
			assert.Equal(t, resize.WaveReboost, d.Status.Records[0].Wave)
		})
	}
}
