package loops

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/test/kubelet"
)

// boosting is a world in which another webhook creates every pod of the Deployment web with 2 CPUs. The template says
// 500m, and the pods use 100m.
func boosting(t *testing.T) *world {
	t.Helper()
	w := newWorld(t, kubelet.Options{})
	w.usage.of["app"] = used{CPU: 0.1, Memory: 200}
	w.memory["app"] = 200
	w.plane.Admit = func(pod *corev1.Pod) error {
		pod.Spec.Containers[0].Resources.Requests["cpu"] = resource.MustParse("2")
		return nil
	}
	w.policy("all", "updateStrategy: {type: Auto, cooldown: 10m, safetyObservationPeriod: 5m}"+lowersCPU)
	w.deployment("web", 1, w.app("cpu=500m,memory=512Mi", ""))
	w.settle()
	return w
}

// resizedBy gives the pod the template's CPU as another field manager does.
func (w *world) resizedBy(manager string) {
	w.t.Helper()
	patch := `{"spec":{"containers":[{"name":"app","resources":{"requests":{"cpu":"500m"}}}]}}`
	require.NoError(w.t, w.direct.SubResource("resize").Patch(w.t.Context(), w.pod(), client.RawPatch("application/strategic-merge-patch+json", []byte(patch)), client.FieldOwner(manager)))
}

// Case B36: kube-startup-cpu-boost creates pods with more CPU, and resizes each to its template's size once it has
// started. That is where the pod begins: no pause, and no request "that a user changed".
func TestBoostersDoNotPauseAWorkload(t *testing.T) {
	t.Parallel()
	w := boosting(t)
	for i := range 3 {
		w.resizedBy("kube-startup-cpu-boost")
		w.run(5*time.Hour, 5*time.Minute)
		assert.Nil(t, w.recommendation().Status.Paused)
		assert.Equal(t, int64(120), cpuRequest(w.pod()), "pod %d", i)
		for _, step := range w.recommendation().Spec.Containers[0].Steps {
			assert.NotContains(t, step.Reason, "whose request a user changed")
		}
		newest := w.recommendation().Status.Originals
		require.NotEmpty(t, newest)
		assert.Equal(t, "500m", newest[len(newest)-1].Containers[0].Resources.CPURequest.String(), "an undo gives the size after the start")
		w.writes = 0
		w.run(5*time.Hour, 5*time.Minute)
		assert.LessOrEqual(t, float64(w.writes), writesAMinute*5*60)
		w.roll(fmt.Sprint(i))
		w.run(2*time.Minute, 30*time.Second)
	}
}

// Another controller that creates pods with other requests, as GKE Autopilot does, and never resizes them.
func TestRequestsChangedAtCreationAreNotAUsersChange(t *testing.T) {
	t.Parallel()
	w := boosting(t)
	w.run(9*time.Hour, 5*time.Minute)
	assert.Equal(t, int64(120), cpuRequest(w.pod()))
	w.roll("next")
	w.settle()
	w.run(6*time.Hour, 5*time.Minute)
	assert.Equal(t, int64(120), cpuRequest(w.pod()))
	originals := w.recommendation().Status.Originals
	require.Len(t, originals, 2)
	for _, o := range originals {
		assert.Equal(t, "2", o.Containers[0].Resources.CPURequest.String())
		require.Len(t, o.Template, 1)
		assert.Equal(t, "500m", o.Template[0].Resources.CPURequest.String())
	}
}

// A resize after the start, by a user at any time, and over attune's own resizes pauses as before.
func TestOtherResizesStillPause(t *testing.T) {
	t.Parallel()
	for name, act := range map[string]func(*world){
		"a user, at once":             func(w *world) { w.resizedBy("kubectl-edit") },
		"a controller, an hour later": func(w *world) { w.run(time.Hour, 5*time.Minute); w.resizedBy("vpa-updater") },
		"a rival, again and again": func(w *world) {
			for range 6 {
				w.resizedBy("rightsizer")
				w.run(10*time.Minute, time.Minute)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := boosting(t)
			act(w)
			w.until(10*time.Minute, "paused", func() bool { return w.recommendation().Status.Phase == v1alpha1.PhasePaused })
		})
	}
}
