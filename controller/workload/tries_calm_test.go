package workload

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/podview"
	"attune.io/attune/resize"
	"attune.io/attune/resize/lifecycle"
	"attune.io/attune/tuning"
)

// granted are attune's permissions, all granted.
func granted(l *lab) *Rights {
	return &Rights{Ask: func(context.Context) (bool, error) { return true, nil }, Clock: l.clock}
}

// fullQuota is an exhausted quota.
func fullQuota(hard corev1.ResourceList) *corev1.ResourceQuota {
	full := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: "team", Namespace: "shop"}}
	full.Status.Hard, full.Status.Used = hard, hard
	return full
}

// outOfReach are pods whose previous resources cannot be restored.
var outOfReach = map[string]func(t *testing.T) *lab{
	"the quota is used up": func(t *testing.T) *lab {
		w := judged(t)
		harms[resize.HarmOOM](&w)
		return newLab(t, w.Rec, deploymentOf(sizeOf(500, 1000, 512, 1024), 1), w.Pods[0],
			fullQuota(corev1.ResourceList{"requests.memory": resource.MustParse("1Gi"), "requests.cpu": resource.MustParse("1")}))
	},
	"CPU came back, memory does not": func(t *testing.T) *lab {
		w := judged(t)
		pod := running("web-1", sizeOf(500, 1000, 200, 400))
		pod.Generation, pod.Status.ObservedGeneration = 3, 3
		r := &w.Rec.Status.Records[0]
		r.Phase, r.Reason, r.WatchUntil, r.Attempts, r.Generation = v1alpha1.RecordReverting, "notready", nil, 1, 3
		return newLab(t, w.Rec, deploymentOf(sizeOf(500, 1000, 512, 1024), 1), pod, fullQuota(corev1.ResourceList{"requests.memory": resource.MustParse("1Gi")}))
	},
	"a LimitRange came after the pod": func(t *testing.T) *lab {
		w := judged(t)
		pod := running("web-1", sizeOf(200, 0, 200, 400))
		pod.Generation, pod.Status.ObservedGeneration = 2, 2
		r := &w.Rec.Status.Records[0]
		r.Prior[0].Resources, r.Desired[0].Resources = podview.ToResources(sizeOf(500, 0, 512, 1024)), podview.ToResources(sizeOf(200, 0, 200, 400))
		endedBefore(pod, "OOMKilled", 1, time.Second)
		late := &corev1.LimitRange{ObjectMeta: metav1.ObjectMeta{Name: "defaults", Namespace: "shop"}}
		late.Spec.Limits = []corev1.LimitRangeItem{{Type: corev1.LimitTypeContainer, Default: corev1.ResourceList{"cpu": resource.MustParse("500m")}}}
		return newLab(t, w.Rec, deploymentOf(sizeOf(500, 0, 512, 1024), 1), pod, late)
	},
}

// A revert that is partly impossible is reported, and then nothing is written until something changes.
func TestARevertOutOfReachIsCalm(t *testing.T) {
	for name, world := range outOfReach {
		t.Run(name, func(t *testing.T) {
			l := world(t)
			l.wakeUps(50)
			assert.LessOrEqual(t, l.status, 3)
			assert.LessOrEqual(t, l.patches, 1)
			r := l.rec().Status
			require.Len(t, r.Records, 1)
			assert.Equal(t, v1alpha1.RecordReverting, r.Records[0].Phase)
			assert.Less(t, int(r.Records[0].Attempts), 3, "attempts are patches")
			c := meta.FindStatusCondition(r.Conditions, v1alpha1.ConditionDegraded)
			assert.Equal(t, v1alpha1.ReasonRevertPending, c.Reason)
			written := l.status
			l.live(3 * time.Hour)
			assert.LessOrEqual(t, l.status-written, 3, "hours later, too")
		})
	}
}

// As soon as the quota has room, the pod is restored.
func TestBlockedRevertIsWokenByItsCause(t *testing.T) {
	l := outOfReach["the quota is used up"](t)
	l.wakeUps(5)
	require.Zero(t, l.patches)
	assert.NotEmpty(t, l.c.memory.waiting.wake(tuning.AboutQuotas("shop")), "it waits for the quota")
	change(l, "team", &corev1.ResourceQuota{}, func(q *corev1.ResourceQuota) {
		q.Status.Hard = corev1.ResourceList{"requests.memory": resource.MustParse("8Gi"), "requests.cpu": resource.MustParse("8")}
	})
	l.pass()
	assert.Equal(t, 1, l.patches)
	assert.Equal(t, int64(512*mi), l.pod("web-1").Spec.Containers[0].Resources.Requests.Memory().Value())
}

// A revert that never succeeds ends: after a day, or soon after the policy was deleted. The floor stays, and an event
// says what to do.
func TestARevertInVainEnds(t *testing.T) {
	for _, tc := range []struct {
		name   string
		orphan bool
		before time.Duration
		after  time.Duration
	}{
		{"after a day", false, 23 * time.Hour, 2 * time.Hour},
		{"soon after the policy was deleted", true, 9 * time.Minute, 11 * time.Minute},
	} {
		t.Run(tc.name, func(t *testing.T) {
			l := outOfReach["the quota is used up"](t)
			l.pass()
			if tc.orphan {
				p := &v1alpha1.AttunePolicy{ObjectMeta: metav1.ObjectMeta{Name: "all", Namespace: "shop"}}
				require.NoError(t, l.api.Delete(t.Context(), p))
			}
			l.live(tc.before)
			require.Len(t, l.rec().Status.Records, 1)
			require.Contains(t, l.rec().Finalizers, v1alpha1.RecordsFinalizer)
			l.live(tc.after)
			rec := l.rec()
			assert.Empty(t, rec.Status.Records)
			assert.Empty(t, rec.Finalizers, "nothing is held up any longer")
			assert.Equal(t, lifecycle.ResultFailed, rec.Status.History[0].Result)
			assert.Equal(t, v1alpha1.ReasonRevertPending, rec.Status.History[0].Reason)
			assert.NotEmpty(t, rec.Status.Floors, "what it taught stays")
			c := meta.FindStatusCondition(rec.Status.Conditions, v1alpha1.ConditionDegraded)
			assert.Equal(t, v1alpha1.ReasonRevertPending, c.Reason)
			assert.Contains(t, c.Message, "quota team")
			assert.Contains(t, c.Message, "delete the pod")
			assert.Zero(t, l.patches)

			pod := l.pod("web-1")
			require.NoError(t, l.api.Delete(t.Context(), pod))
			l.live(time.Minute)
			assert.Empty(t, l.rec().Status.Tries, "the pod is gone, and so is what was known of it")
			assert.Equal(t, metav1.ConditionFalse, meta.FindStatusCondition(l.rec().Status.Conditions, v1alpha1.ConditionDegraded).Status)
		})
	}
}

// If attune was away for longer than a revert is tried, it tries once when nothing blocks the revert any more.
func TestRevertIsTriedOnceBeforeGivingUp(t *testing.T) {
	l := outOfReach["the quota is used up"](t)
	l.pass()
	require.Len(t, l.rec().Status.Records, 1)
	l.clock.Step(25 * time.Hour)
	quotas := &corev1.ResourceQuotaList{}
	require.NoError(t, l.api.List(t.Context(), quotas))
	for i := range quotas.Items {
		require.NoError(t, l.api.Delete(t.Context(), &quotas.Items[i]))
	}
	for range 5 {
		l.clock.Step(max(time.Second, l.pass().RequeueAfter))
	}
	assert.Equal(t, 1, l.patches)
}

// patchAnswers are all answers that an API server can give to a resize, each of them given to every one.
var patchAnswers = map[string]error{
	"404, not served": apierrors.NewGenericServerResponse(404, "patch", pods, "web-1", "the server could not find the requested resource", 0, true),
	"404, no pod":     apierrors.NewNotFound(pods, "web-1"),
	"409":             apierrors.NewConflict(pods, "web-1", errors.New("modified")),
	"422":             apierrors.NewInvalid(schema.GroupKind{Kind: "Pod"}, "web", nil),
	"403, policy":     apierrors.NewForbidden(pods, "web-1", errors.New("ValidatingAdmissionPolicy 'x' with binding 'y' denied request: no")),
	"403, quota":      apierrors.NewForbidden(pods, "web-1", errors.New("exceeded quota: team")),
	"403, range":      apierrors.NewForbidden(pods, "web-1", errors.New("maximum memory usage per Container is 512Mi, but limit is 1Gi")),
	"403, starting":   apierrors.NewForbidden(pods, "web-1", errors.New("not yet ready to handle request")),
	"403, node":       apierrors.NewForbidden(pods, "web-1", errors.New("node didn't have enough allocatable resources")),
	"403, rights":     apierrors.NewForbidden(pods, "web-1", errors.New(`User "x" cannot patch resource "pods/resize" in API group ""`)),
	"403, anything":   apierrors.NewForbidden(pods, "web-1", errors.New("no")),
	"401":             apierrors.NewUnauthorized("who are you"),
	"400":             apierrors.NewBadRequest("what"),
	"405":             apierrors.NewMethodNotSupported(pods, "patch"),
	"429":             apierrors.NewTooManyRequests("later", 1),
	"500":             apierrors.NewInternalError(errors.New("etcd")),
	"503":             apierrors.NewServiceUnavailable("later"),
	"504":             apierrors.NewTimeoutError("later", 1),
	"cut off":         errors.New("connection reset"),
}

// Whatever the API server answers, the same request is not sent again before its time, however many pods a workload
// has.
func TestRefusedResizesAreNotRetriedAtOnce(t *testing.T) {
	for name, answer := range patchAnswers {
		for _, n := range []int{2, 60} {
			t.Run(fmt.Sprintf("%s, %d pods", name, n), func(t *testing.T) {
				objects := []client.Object{deploymentOf(small, n)}
				for i := range n {
					objects = append(objects, running(fmt.Sprintf("web-%02d", i), small))
				}
				l := newLab(t, heading(seen(t, small), sizeOf(200, 0, 512, 0)).Rec, objects...)
				l.resize = func(client.Object) error { return answer }
				l.c.Rights = granted(l)
				l.wakeUps(map[int]int{2: 30, 60: 10}[n]) // less than a second
				burst := 10                              // also of a conflict, as long as the pod's version has not changed
				assert.LessOrEqual(t, l.patches, burst, "patches within a second")
				assert.LessOrEqual(t, l.status, 14, "writes within a second")
				if n == 2 {
					l.live(time.Hour)
					assert.LessOrEqual(t, l.patches, 12*burst, "patches within an hour")
				}
				assert.LessOrEqual(t, len(l.rec().Status.Tries), v1alpha1.MaxTries)
			})
		}
	}
}

// A revert is sent as often as needed: at once, then at most every 15 seconds, after an hour every minute; and the
// status is not written each time.
func TestRefusedRevertIsRetriedWithBackoff(t *testing.T) {
	for name, answer := range patchAnswers {
		t.Run(name, func(t *testing.T) {
			w := judged(t)
			harms[resize.HarmOOM](&w)
			l := newLab(t, w.Rec, deploymentOf(sizeOf(500, 1000, 512, 1024), 1), w.Pods[0])
			l.resize = func(client.Object) error { return answer }
			l.wakeUps(160)
			assert.LessOrEqual(t, l.patches, 4, "at 0, 1 and 3 seconds")
			assert.GreaterOrEqual(t, l.patches, 3)
			l.live(time.Hour)
			assert.InDelta(t, 3600/15, l.patches, 15, "every 15 seconds")
			assert.LessOrEqual(t, l.status, 16, "writes in an hour")
			hour := l.patches
			l.live(time.Hour)
			assert.InDelta(t, 60, l.patches-hour, 5, "every minute")
			assert.LessOrEqual(t, l.status, 16, "writes in two hours")
			l.resize = nil
			l.live(2 * time.Minute)
			assert.Equal(t, int64(1024*mi), l.pod("web-1").Spec.Containers[0].Resources.Limits.Memory().Value(), "it is put back in the end")
		})
	}
}

// Lowering a memory limit is given up, and something blocks raising it again: the pod must be restored, and the reason
// is reported.
func TestGivingUpAMemoryLimitThatIsRefusedIsARevert(t *testing.T) {
	from, to := sizeOf(500, 0, 512, 1024), sizeOf(250, 0, 256, 512)
	pod := running("web-1", from)
	record := recordOf(pod, to)
	record.Phase, record.Generation = v1alpha1.RecordApplied, 2
	pod.Generation, pod.Status.ObservedGeneration = 2, 2
	pod.Spec.Containers[0].Resources = podview.ToRequirements(to)
	pod.Status.ContainerStatuses[0].AllocatedResources = podview.ToRequirements(to).Requests
	pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{
		Type: corev1.PodResizeInProgress, Status: corev1.ConditionTrue, Reason: corev1.PodReasonError, ObservedGeneration: 2, Message: "cannot decrease memory limits",
	})
	w := seen(t, from)
	w.Rec.Status.Records = []v1alpha1.ResizeRecord{record}
	l := newLab(t, w.Rec, deploymentOf(from, 1), pod)
	l.resize = func(client.Object) error {
		return apierrors.NewForbidden(pods, "web-1", errors.New("maximum memory usage per Container is 512Mi, but limit is 1Gi"))
	}
	l.wakeUps(50)
	assert.LessOrEqual(t, l.patches, 5)
	assert.LessOrEqual(t, l.status, 8)
	status := l.rec().Status
	require.Len(t, status.Records, 1)
	assert.Equal(t, v1alpha1.RecordReverting, status.Records[0].Phase)
	assert.Equal(t, resize.ReasonActuation, status.Records[0].Reason)
	l.resize = nil
	l.live(time.Minute)
	assert.Equal(t, int64(1024*mi), l.pod("web-1").Spec.Containers[0].Resources.Limits.Memory().Value(), "the limit is back")
}

// A second patch that never arrives is not sent forever: the pod is restored.
func TestASecondPatchThatNeverArrivesEnds(t *testing.T) {
	from, to := sizeOf(500, 0, 512, 1024), sizeOf(250, 0, 256, 512)
	half := sizeOf(250, 0, 512, 1024)
	pod := running("web-1", half)
	record := recordOf(running("web-1", from), to)
	record.Phase, record.Generation = v1alpha1.RecordSecondWritten, 2
	pod.Generation, pod.Status.ObservedGeneration = 2, 2
	w := seen(t, from)
	w.Rec.Status.Records = []v1alpha1.ResizeRecord{record}
	l := newLab(t, w.Rec, deploymentOf(from, 1), pod)
	refusing := true
	l.resize = func(client.Object) error {
		if refusing {
			return apierrors.NewConflict(pods, "web-1", errors.New("modified"))
		}
		return nil
	}
	l.live(12 * time.Minute)
	status := l.rec().Status
	require.Len(t, status.Records, 1)
	assert.Equal(t, v1alpha1.RecordWithdrawing, status.Records[0].Phase)
	refusing = false
	l.live(time.Minute)
	assert.Equal(t, from, podview.ReadSpec(l.pod("web-1").Spec.Containers[0].Resources))
}

var pods = schema.GroupResource{Resource: "pods"}
