package workload

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/podview"
	"attune.io/attune/resize"
)

// judged is a pod whose watch of a lowered size ends now.
func judged(t *testing.T) world {
	t.Helper()
	pod := running("web-1", sizeOf(200, 400, 200, 400))
	pod.Generation, pod.Status.ObservedGeneration = 2, 2
	w := seen(t, sizeOf(500, 1000, 512, 1024), pod).heading(sizeOf(200, 400, 200, 400))
	w.rec.Status.Records = []v1alpha1.ResizeRecord{{
		PodUID: pod.UID, PodName: pod.Name, Node: "node-1", Phase: v1alpha1.RecordWatching, Generation: 2, TemplateHash: "abc",
		WrittenAt: metav1.NewTime(now.Add(-10 * time.Minute)), WatchUntil: &metav1.Time{Time: now},
		Prior:    []v1alpha1.ContainerResources{{Name: "app", Resources: podview.ToResources(sizeOf(500, 1000, 512, 1024))}},
		Desired:  []v1alpha1.ContainerResources{{Name: "app", Resources: podview.ToResources(sizeOf(200, 400, 200, 400))}},
		Baseline: []v1alpha1.ContainerBaseline{{Name: "app", ContainerID: "containerd://web-1", StartedAt: &metav1.Time{Time: now.Add(-time.Hour)}, Ready: true}},
	}}
	w.measured = map[string]resize.Signals{}
	return w
}

// harms are all that a watched pod can suffer.
var harms = map[resize.Harm]func(w *world){
	resize.HarmOOM:      func(w *world) { endedBefore(w.pods[0], "OOMKilled", 1, time.Second) },
	resize.HarmRestart:  func(w *world) { endedBefore(w.pods[0], "Error", 2, time.Second) },
	resize.HarmNotReady: func(w *world) { w.pods[0].Status.Conditions[0].Status = corev1.ConditionFalse },
	resize.HarmThrottle: func(w *world) { w.measured["web-1"] = resize.Signals{Throttle: map[string]float64{"app": 0.9}} },
	resize.HarmSLO: func(w *world) {
		w.measured["web-1"] = resize.Signals{SLO: []resize.SLOResult{{Name: "errors", Message: "2 %"}}}
	},
}

// With autoRevert off, harm is told and learned from, and not a thing is written to the pod: neither now nor
// under another name in the cooldown that follows.
func TestWithoutAutoRevertNothingIsWritten(t *testing.T) {
	for harm, suffer := range harms {
		t.Run(string(harm), func(t *testing.T) {
			with := judged(t)
			suffer(&with)
			d := decide(with)
			require.NotEmpty(t, d.writes, "or nothing is tested: %v", d.told())
			require.Equal(t, v1alpha1.RecordReverting, d.status.Records[0].Phase)

			w := judged(t)
			suffer(&w)
			w.settings.Resize.AutoRevert = false
			d = decide(w)
			assert.Empty(t, d.writes)
			assert.Empty(t, d.evictions)
			assert.Empty(t, d.status.Records)
			assert.NotEmpty(t, d.status.Floors, "learned")
			require.NotEmpty(t, d.told())
			assert.Contains(t, d.told()[0], "did harm and is not taken back (autoRevert is off): "+string(harm))
			assert.Equal(t, "Failed "+string(harm), d.status.History[0].Result+" "+d.status.History[0].Reason)

			w.rec.Status = d.status
			w.now = now.Add(time.Minute)
			assert.Empty(t, decide(w.heading(sizeOf(900, 1800, 900, 1800))).writes)
		})
	}
}

// A revert that its node puts off, or that something refuses, is alerted until it is through.
func TestARevertThatDoesNotGetThroughIsAlerted(t *testing.T) {
	w := judged(t)
	harms[resize.HarmNotReady](&w)
	hard, used := corev1.ResourceList{"requests.memory": resource.MustParse("1Gi")}, corev1.ResourceList{"requests.memory": resource.MustParse("1Gi")}
	w.quotas = []corev1.ResourceQuota{{ObjectMeta: metav1.ObjectMeta{Name: "team"}, Status: corev1.ResourceQuotaStatus{Hard: hard, Used: used}}}
	d := decide(w)
	require.Len(t, d.writes, 1, "CPU goes all the way")
	assert.Equal(t, sizeOf(500, 1000, 200, 400), d.writes[0].plan.Moves[0].To)
	c := meta.FindStatusCondition(d.status.Conditions, v1alpha1.ConditionDegraded)
	assert.Equal(t, v1alpha1.ReasonRevertPending, c.Reason)
	assert.Contains(t, c.Message, "pod web-1 does not have its old size back: Quota:")
	assert.Contains(t, d.told()[len(d.told())-1], "Warning RevertPending Pod web-1")
	require.Len(t, d.status.Records, 1)

	// The quota is raised: the rest follows, and the alert ends.
	w.rec.Status = d.status
	w.pods[0].Spec.Containers[0].Resources = podview.ToRequirements(sizeOf(500, 1000, 200, 400))
	w.quotas = nil
	d = decide(w)
	require.Len(t, d.writes, 1)
	assert.Equal(t, sizeOf(500, 1000, 512, 1024), d.writes[0].plan.Moves[0].To)
	assert.Equal(t, v1alpha1.ReasonHealthy, meta.FindStatusCondition(d.status.Conditions, v1alpha1.ConditionDegraded).Reason)
	assert.Empty(t, d.pending)
}
