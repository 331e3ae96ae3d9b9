package tuning_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/podview"
	"attune.io/attune/recommender"
	"attune.io/attune/resize"
	"attune.io/attune/tuning"
)

// ourSize marks a pod as resized by attune half an hour ago.
func ourSize(pod *corev1.Pod) *corev1.Pod {
	pod.Generation, pod.Status.ObservedGeneration = 2, 2
	pod.ManagedFields = append(pod.ManagedFields, podview.ResizedEntry(podview.FieldManager, now.Add(-30*time.Minute)))
	return pod
}

// killed returns a lowered pod that was OOM-killed a minute ago and runs again.
func killed(name string) *corev1.Pod {
	return endedBefore(ourSize(running(name, seedSize)), "OOMKilled", 1, time.Minute)
}

// looping returns a lowered pod in a crash loop after two errors.
func looping(size recommender.Size) *corev1.Pod {
	pod := endedBefore(ourSize(running("web-1", size)), "Error", 2, time.Minute)
	s := &pod.Status.ContainerStatuses[0]
	s.LastTerminationState.Terminated.ExitCode, s.LastTerminationState.Terminated.StartedAt = 1, metav1.NewTime(now.Add(-2*time.Minute))
	s.State = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}}
	return pod
}

// stoppedBy returns a view in which attune is stopped in one way. The pods' original resources are 500m and 512Mi,
// with a limit of 1Gi.
func stoppedBy(t *testing.T, how string, pods ...*corev1.Pod) tuning.View {
	t.Helper()
	w := heading(seen(t, template, pods...), seedSize)
	w.Rec.Status.Originals = []v1alpha1.Originals{{TemplateHash: "abc", Containers: []v1alpha1.ContainerResources{{Name: "app", Resources: podview.ToResources(template)}}}}
	stops[how](&w)
	return w
}

// stops are the ways to stop attune for a workload.
var stops = map[string]func(*tuning.View){
	"kill switch":        func(w *tuning.View) { w.Policy.Settings.Resize.Paused = []string{"cluster"} },
	"mode Recommend":     func(w *tuning.View) { w.Policy.Settings.Resize.Mode = v1alpha1.UpdateRecommend },
	"mode Observe":       func(w *tuning.View) { w.Policy.Settings.Resize.Mode = v1alpha1.UpdateObserve },
	"mode Initial":       func(w *tuning.View) { w.Policy.Settings.Resize.Mode = v1alpha1.UpdateInitial },
	"workload paused":    func(w *tuning.View) { w.Workload.Annotations[v1alpha1.PausedAnnotation] = "true" },
	"pauses itself":      func(w *tuning.View) { w.Rec.Status.Paused = &v1alpha1.PausedState{Since: metav1.NewTime(now)} },
	"workload skipped":   func(w *tuning.View) { w.Workload.Annotations[v1alpha1.SkipAnnotation] = "true" },
	"pod skipped":        func(w *tuning.View) { w.Pods[0].Annotations[v1alpha1.SkipAnnotation] = "true" },
	"policy deleted":     func(w *tuning.View) { w.Policy.Gone, w.Policy.Usable, w.Rec.Spec.Containers = true, false, nil },
	"policy not valid":   func(w *tuning.View) { w.Policy.Usable, w.Rec.Spec.Containers = false, nil },
	"no target":          func(w *tuning.View) { w.Rec.Spec.Containers = nil },
	"container excluded": func(w *tuning.View) { w.Policy.Settings.Resize.Excluded = map[string]bool{"app": true} },
	"memory is not controlled": func(w *tuning.View) {
		w.Policy.Settings.Resize.Containers = map[string]resize.ContainerRules{"app": {Uncontrolled: [2]string{recommender.Memory: "containerPolicies[app].controlledResources"}}}
	},
	"workload gone": func(w *tuning.View) { w.Workload = nil },
	"VPA":           func(w *tuning.View) { w.Autoscalers = sizedByVPA(v1alpha1.UpdateAuto).Autoscalers },
	"nothing can be read": func(w *tuning.View) {
		w.Policy.Usable = false
		w.Close(&resize.Refusal{Reason: "NotKnown", Transient: true})
	},
	"turns used up": func(w *tuning.View) {
		w.Policy.Settings.Resize.Paused = []string{"cluster"}
		w.Begin.Wait = time.Minute
	},
	"undone": func(w *tuning.View) {
		w.Workload.Annotations[v1alpha1.UndoAnnotation] = "2026-03-01T11:00:00Z"
		w.Rec.Status.UndoneAt = "2026-03-01T11:00:00Z"
	},
	"in cooldown": func(w *tuning.View) {
		w.Policy.Settings.Resize.Paused = []string{"cluster"}
		w.Rec.Status.CooldownFrom = &metav1.Time{Time: now}
	},
	"rolling out": func(w *tuning.View) {
		w.Policy.Settings.Resize.Paused = []string{"cluster"}
		w.Workload.Rollout.InProgress = true
	},
}

func degraded(d tuning.Decision) metav1.Condition {
	return *meta.FindStatusCondition(d.Status.Conditions, v1alpha1.ConditionDegraded)
}

func TestStoppingKeepsTheSafetyNet(t *testing.T) {
	for how := range stops {
		for what, pod := range map[string]*corev1.Pod{"OOM kill": killed("web-1"), "crash loop": looping(seedSize)} {
			t.Run(how+" "+what, func(t *testing.T) {
				w := stoppedBy(t, how, pod.DeepCopy())
				d := tuning.Decide(w)
				require.Len(t, d.Writes, 1, "%v %v", told(d), degraded(d))
				assert.Equal(t, template[recommender.Memory], d.Writes[0].Plan.Moves[0].To[recommender.Memory])
				if what == "OOM kill" {
					assert.Equal(t, template, d.Writes[0].Plan.Moves[0].To, "CPU too, as the container runs")
				}
				assert.False(t, d.Writes[0].Begins, "it waits for no turn")
				require.Len(t, d.Status.Records, 1)
				assert.Equal(t, resize.WaveRestore, d.Status.Records[0].Wave)
				assert.Equal(t, v1alpha1.ReasonBelowOriginal, degraded(d).Reason)
				assert.Contains(t, degraded(d).Message, "pod web-1: container app ")
				assert.Contains(t, strings.Join(told(d), "\n"), "Warning Reverted Restoring the original resources of pod web-1: container app ")
				assert.True(t, d.Presses(w), "it waits for no usage source")

				w.Rec.Status, w.Part = d.Status, tuning.OpenPart
				d = tuning.Decide(w)
				assert.Empty(t, d.Writes, "the record is open")
				assert.Equal(t, v1alpha1.ReasonBelowOriginal, degraded(d).Reason, "until the pod has them")
			})
		}
	}
}

func TestAutoRevertOffRestoresNothingAndSaysSo(t *testing.T) {
	for how := range stops {
		t.Run(how, func(t *testing.T) {
			w := stoppedBy(t, how, killed("web-1"))
			w.Policy.Settings.Resize.AutoRevert = false
			d := tuning.Decide(w)
			assert.Empty(t, d.Writes)
			assert.Equal(t, v1alpha1.ReasonBelowOriginal, degraded(d).Reason)
			assert.Contains(t, degraded(d).Message, "memory limit 400Mi of 1Gi); not restored, because autoRevert is false. Set it to true, or run kubectl attune undo deployment/web -n shop")
		})
	}
	w := heading(seen(t, template, killed("web-1")), seedSize)
	w.Rec.Status.Originals = stoppedBy(t, "mode Recommend", running("web-1", template)).Rec.Status.Originals
	w.Policy.Settings.Resize.AutoRevert = false
	assert.Equal(t, v1alpha1.ReasonBelowOriginal, degraded(tuning.Decide(w)).Reason, "also where attune is not stopped")
}

func TestWhatIsNotRestored(t *testing.T) {
	for name, c := range map[string]*corev1.Pod{
		"it has its originals":                   endedBefore(ourSize(running("web-1", template)), "OOMKilled", 3, time.Minute),
		"it has more":                            endedBefore(ourSize(running("web-1", sizeOf(900, 0, 900, 2048))), "OOMKilled", 3, time.Minute),
		"the kill was before attune lowered it":  endedBefore(ourSize(running("web-1", seedSize)), "OOMKilled", 1, 31*time.Minute),
		"less CPU kills no container for memory": endedBefore(ourSize(running("web-1", sizeOf(200, 0, 512, 1024))), "OOMKilled", 1, time.Minute),
		"one restart is no crash loop":           endedBefore(ourSize(running("web-1", seedSize)), "Error", 1, time.Minute),
		"it ended without an error": func() *corev1.Pod {
			pod := looping(seedSize)
			pod.Status.ContainerStatuses[0].LastTerminationState.Terminated.ExitCode = 0
			return pod
		}(),
		"it has run for long since": func() *corev1.Pod {
			pod := looping(seedSize)
			pod.Status.ContainerStatuses[0].State = corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(now.Add(-11 * time.Minute))}}
			return pod
		}(),
		"a person resized it since": func() *corev1.Pod {
			pod := killed("web-1")
			pod.ManagedFields = append(pod.ManagedFields, podview.ResizedEntry("kubectl-patch", now.Add(-5*time.Minute)))
			return pod
		}(),
		"attune never sized it": func() *corev1.Pod {
			pod := killed("web-1")
			pod.ManagedFields = nil
			return pod
		}(),
		"it is being deleted": func() *corev1.Pod {
			pod := killed("web-1")
			pod.DeletionTimestamp = &metav1.Time{Time: now}
			return pod
		}(),
		"it was admitted for another workload": endedBefore(func() *corev1.Pod {
			pod := running("web-1", seedSize)
			pod.Annotations[v1alpha1.SeededAnnotation] = `{"recommendation":"deployment-other","revision":"r1"}`
			return pod
		}(), "OOMKilled", 1, time.Minute),
	} {
		t.Run(name, func(t *testing.T) {
			d := tuning.Decide(stoppedBy(t, "mode Recommend", c))
			assert.Empty(t, d.Writes)
			assert.Equal(t, v1alpha1.ReasonHealthy, degraded(d).Reason)
		})
	}
}

// While attune is not stopped, an OOM kill raises memory to the floor and does not restore the original resources.
func TestARunningAttuneRaisesAsBefore(t *testing.T) {
	w := stoppedBy(t, "mode Recommend", killed("web-1"))
	w.Policy.Settings.Resize.Mode = v1alpha1.UpdateAuto
	d := tuning.Decide(w)
	for _, write := range d.Writes {
		assert.NotEqual(t, resize.WaveRestore, write.Plan.Wave)
	}
	assert.Equal(t, v1alpha1.ReasonHealthy, degraded(d).Reason)
}

func TestPodsThatAreRestored(t *testing.T) {
	guaranteed := sizeOf(200, 200, 200, 200)
	admitted := func(pod *corev1.Pod) *corev1.Pod { return born(t, pod, "r1", template) }
	for name, c := range map[string]struct {
		pod      *corev1.Pod
		original recommender.Size
		to       recommender.Size
	}{
		"sized at admission alone": {endedBefore(admitted(running("web-1", seedSize)), "OOMKilled", 1, time.Minute), template, template},
		"Guaranteed":               {endedBefore(ourSize(running("web-1", guaranteed)), "OOMKilled", 1, time.Minute), sizeOf(500, 500, 512, 512), sizeOf(500, 500, 512, 512)},
		"a higher amount stays":    {endedBefore(ourSize(running("web-1", sizeOf(900, 0, 200, 400))), "OOMKilled", 1, time.Minute), template, sizeOf(900, 0, 512, 1024)},
		"crashes with less CPU": {func() *corev1.Pod {
			pod := looping(sizeOf(200, 0, 512, 1024))
			pod.Status.ContainerStatuses[0].State = corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(now.Add(-time.Minute))}}
			return pod
		}(), template, template},
		"a person resized it before": {func() *corev1.Pod {
			pod := killed("web-1")
			pod.ManagedFields = append(pod.ManagedFields, podview.ResizedEntry("kubectl-patch", now.Add(-2*time.Hour)))
			return pod
		}(), template, template},
	} {
		t.Run(name, func(t *testing.T) {
			w := stoppedBy(t, "policy deleted", c.pod)
			w.Rec.Status.Originals[0].Containers[0].Resources = podview.ToResources(c.original)
			d := tuning.Decide(w)
			require.Len(t, d.Writes, 1, "%v", degraded(d))
			assert.Equal(t, c.to, d.Writes[0].Plan.Moves[0].To)
		})
	}
}

// Only the OOM-killed container is restored.
func TestTheOtherContainerKeepsItsSize(t *testing.T) {
	pod := killed("web-1")
	side := pod.Spec.Containers[0]
	side.Name = "side"
	status := pod.Status.ContainerStatuses[0]
	status.Name, status.ContainerID, status.RestartCount, status.LastTerminationState = "side", "containerd://side", 0, corev1.ContainerState{}
	pod.Spec.Containers, pod.Status.ContainerStatuses = append(pod.Spec.Containers, side), append(pod.Status.ContainerStatuses, status)
	w := stoppedBy(t, "kill switch", pod)
	w.Rec.Status.Originals[0].Containers = append(w.Rec.Status.Originals[0].Containers, v1alpha1.ContainerResources{Name: "side", Resources: podview.ToResources(template)})
	d := tuning.Decide(w)
	require.Len(t, d.Writes, 1)
	require.Len(t, d.Writes[0].Plan.Moves, 1)
	assert.Equal(t, "app", d.Writes[0].Plan.Moves[0].Container)
}

// Degraded names the reason that blocks a restore, and when it is retried.
func TestAGateHoldsARestoreAndIsNamed(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*tuning.View)
		says   string
	}{
		"a quota":       {func(w *tuning.View) { w.Namespace.Quotas = []corev1.ResourceQuota{quotaOf("full", "1", "1")} }, "not restored yet: Quota: "},
		"no rights":     {func(w *tuning.View) { w.Operator.NoRights = "forbidden" }, "not restored yet: NoRights: "},
		"a stale cache": {func(w *tuning.View) { w.Looked.CacheLags = map[types.UID]bool{"web-1": true} }, "the cached pod is older than its last resize"},
		"it just ended": {func(w *tuning.View) {
			s := &w.Pods[0].Status.ContainerStatuses[0]
			s.State, s.LastTerminationState = s.LastTerminationState, corev1.ContainerState{}
		}, "waiting for the kubelet to start container app again"},
		"its node refused it": {func(w *tuning.View) {
			w.Rec.Status.Tries = []v1alpha1.Try{{What: v1alpha1.TryResize, Reason: resize.ReasonInfeasible, Pod: "web-1", PodUID: "web-1", Node: "node-1", Since: metav1.NewTime(now), Until: metav1.NewTime(now.Add(time.Hour))}}
		}, "node node-1 refused these resources for the pod; attune tries again after"},
	} {
		t.Run(name, func(t *testing.T) {
			w := stoppedBy(t, "kill switch", killed("web-1"))
			c.change(&w)
			d := tuning.Decide(w)
			assert.Empty(t, d.Writes)
			assert.Equal(t, v1alpha1.ReasonBelowOriginal, degraded(d).Reason)
			assert.Contains(t, degraded(d).Message, c.says)
			assert.NotEmpty(t, d.Pending)
			assert.Positive(t, d.After)
		})
	}
}

// The container's memory was raised while it waited, but the pod's own limit stayed, so it is killed again.
func TestALimitOfThePodThatStayedFollows(t *testing.T) {
	pod := endedBefore(ourSize(running("web-1", template)), "OOMKilled", 2, time.Minute)
	pod.Status.Resources = &corev1.ResourceRequirements{Limits: podview.ToRequirements(seedSize).Limits}
	w := stoppedBy(t, "kill switch", pod)
	d := tuning.Decide(w)
	require.Len(t, d.Writes, 1)
	assert.Equal(t, resize.ReasonPodLimitBehind, d.Writes[0].Plan.Reason)
	assert.Equal(t, template[recommender.Memory].Limit+mi, d.Writes[0].Plan.Moves[0].To[recommender.Memory].Limit)

	w.Rec.Status = d.Status
	w.Rec.Status.Records = nil
	d = tuning.Decide(w)
	assert.Empty(t, d.Writes, "not again and again")
	assert.Contains(t, degraded(d).Message, "the memory limit of the pod's cgroup is below")
}
