package loops

import (
	"encoding/json"
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/autoscale"
)

// loweredWorld is retargetWorld after all requests were lowered.
func loweredWorld(t *testing.T) (*world, *bool) {
	w, denied := retargetWorld(t, retargetCPU)
	w.until(12*time.Hour, "the requests are lowered", func() bool { return slices.Equal(w.requests(), []int64{lowestRetargeted}) && w.idle() })
	keeps := w.passed
	w.passed = func() {
		keeps()
		clear(w.known)
	}
	return w, denied
}

// replaceAll replaces all pods at once, and lets a while pass.
func (w *world) replaceAll(d time.Duration) {
	w.t.Helper()
	pods := w.pods()
	for i := range pods {
		require.NoError(w.t, w.direct.Delete(w.t.Context(), &pods[i]))
	}
	w.run(d, time.Minute)
}

func (w *world) setBounds(least, most int32) {
	w.t.Helper()
	hpa := w.hpa()
	hpa.Spec.MinReplicas, hpa.Spec.MaxReplicas = &least, most
	require.NoError(w.t, w.direct.Update(w.t.Context(), hpa))
}

// The HPA does not scale for a while, and pods are replaced: new pods get their original requests, and the target follows as
// far as there is one. Afterwards the requests are lowered again.
func TestRetargetFollowsAnHPAThatIsAway(t *testing.T) {
	t.Parallel()
	var was *autoscalingv2.HorizontalPodAutoscaler
	gone := func(w *world) {
		was = w.hpa()
		require.NoError(w.t, w.direct.Delete(w.t.Context(), was.DeepCopy()))
		was.ResourceVersion, was.UID = "", ""
	}
	for name, c := range map[string]struct {
		away, back func(w *world)
		deleted    bool
	}{
		"fixed":         {away: func(w *world) { w.setBounds(4, 4) }, back: func(w *world) { w.setBounds(4, 40) }},
		"minReplicas 0": {away: func(w *world) { w.setBounds(0, 40) }, back: func(w *world) { w.setBounds(4, 40) }},
		"created again as it was": {deleted: true, away: gone, back: func(w *world) {
			require.NoError(w.t, w.direct.Create(w.t.Context(), was.DeepCopy()))
		}},
		"created again with its original target": {deleted: true, away: gone, back: func(w *world) {
			hpa := was.DeepCopy()
			hpa.Annotations, hpa.Spec.Metrics[0].Resource.Target.AverageUtilization = nil, ptr.To[int32](70)
			require.NoError(w.t, w.direct.Create(w.t.Context(), hpa))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			w, _ := loweredWorld(t)
			if c.deleted {
				w.passed = func() { clear(w.known) }
			}
			c.away(w)
			w.run(time.Hour, 5*time.Minute)
			w.replaceAll(10 * time.Minute)
			assert.Equal(t, []int64{1000}, w.requests())
			if !c.deleted {
				assert.True(t, w.followed(), "%v", w.targets())
				assert.NotContains(t, w.hpa().Annotations, autoscale.OriginalTargetAnnotation)
			}
			c.back(w)
			w.run(5*time.Minute, time.Minute)
			assert.True(t, w.followed(), "%v", w.targets())
			w.until(12*time.Hour, "the requests are lowered again", func() bool { return slices.Equal(w.requests(), []int64{lowestRetargeted}) && w.followed() })
		})
	}
}

// The right is withdrawn while the target is changed. New pods get the request that belongs to it, until a user restores the
// target with the command of the message.
func TestRetargetWithoutTheRightKeepsThePair(t *testing.T) {
	t.Parallel()
	w, denied := loweredWorld(t)
	*denied = true
	w.wire()
	w.run(time.Hour, 5*time.Minute)
	w.replaceAll(time.Hour)
	assert.InDelta(t, lowestRetargeted, w.requests()[0], 1)
	assert.Len(t, w.requests(), 1)
	assert.True(t, w.followed(), "%v", w.targets())
	said, err := json.Marshal(w.recommendation().Spec.Containers[0].Holds)
	require.NoError(t, err)
	holds := w.recommendation().Spec.Containers[0].Holds
	require.Len(t, holds, 1, string(said))
	command := regexp.MustCompile(`kubectl patch hpa web -n (\S+) --type=json -p='(.*)', and then kubectl attune undo deployment/web`).FindStringSubmatch(holds[0].Message)
	require.Len(t, command, 3, holds[0].Message)
	assert.Equal(t, w.namespace, command[1])

	w.passed = func() { clear(w.known) }
	require.NoError(t, w.direct.Patch(t.Context(), w.hpa(), client.RawPatch(types.JSONPatchType, []byte(command[2]))))
	w.annotate(map[string]string{v1alpha1.UndoAnnotation: "2026-01-01T00:00:00Z"})
	w.run(time.Hour, 5*time.Minute)
	assert.Equal(t, []int64{1000}, w.requests())
	w.replaceAll(time.Hour)
	assert.Equal(t, []int64{1000}, w.requests())
	target, _ := w.target()
	assert.Equal(t, int32(70), target)
	assert.Empty(t, w.hpa().Annotations)
}

// The API server rejects another change of a target that attune has raised: new pods get the request that belongs to it.
func TestRetargetOfARaisedTargetThatIsRejectedKeepsThePair(t *testing.T) {
	t.Parallel()
	w, _ := loweredWorld(t)
	w.stumble = func(error) {}
	accepts := w.rejectHPA()
	w.usage.of["app"] = used{CPU: 1.6, Memory: 200}
	w.until(12*time.Hour, "the rejection is stored", func() bool { return len(w.recommendation().Status.Tries) > 0 })
	w.run(10*time.Minute, time.Minute)
	for range 4 {
		w.replaceAll(time.Hour)
		assert.InDelta(t, lowestRetargeted, w.requests()[0], 1)
		assert.Len(t, w.requests(), 1)
		assert.True(t, w.followed(), "%v", w.targets())
	}
	accepts.Store(true)
	w.until(72*time.Hour, "the requests are raised", func() bool { return w.requests()[0] > 1500 && w.idle() && w.followed() })
}

// A user changes the target after attune did. When all pods have their original requests, it is the new original one, and attune
// removes its annotation.
func TestRetargetGoesOnWithTheTargetOfAUser(t *testing.T) {
	t.Parallel()
	w, _ := loweredWorld(t)
	w.passed = func() { clear(w.known) }
	w.setTarget(60)
	w.run(time.Hour, 5*time.Minute)
	assert.Contains(t, w.hpa().Annotations, autoscale.OriginalTargetAnnotation)
	w.replaceAll(time.Hour)
	assert.Equal(t, []int64{1000}, w.requests())
	begun := len(w.link.Calls())
	w.run(6*time.Hour, 5*time.Minute)
	target, _ := w.target()
	assert.Equal(t, int32(60), target)
	assert.Empty(t, w.hpa().Annotations)
	assert.Empty(t, w.order(begun))
}

// A user applies the request and the target that kubectl attune diff prints. Both are the new original ones: the HPA scales at
// the same usage during the rollout and after it, and attune removes its annotation.
func TestRetargetOfAnAdoptedTarget(t *testing.T) {
	t.Parallel()
	w, _ := loweredWorld(t)
	binding := w.recommendation().Spec.HPABindings[0]
	assert.Equal(t, int32(90), binding.RecommendedPercent)
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "web"}}
	w.edit(d, func(client.Object) {
		d.Spec.Template.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = *w.recommendation().Spec.Containers[0].Target.CPURequest
	})
	w.setTarget(binding.RecommendedPercent)
	w.run(6*time.Hour, 5*time.Minute)
	w.replaceAll(time.Hour)
	assert.Equal(t, []int64{lowestRetargeted}, w.requests())
	target, _ := w.target()
	assert.Equal(t, int32(90), target)
	assert.Empty(t, w.hpa().Annotations)
	assert.Zero(t, w.recommendation().Spec.HPABindings[0].OriginalPercent)
}
