package replicas

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/podview"
	"attune.io/attune/recommender"
	"attune.io/attune/resize"
	"attune.io/attune/resize/lifecycle"
)

// fate is what a kubelet makes of a raised request.
type fate struct {
	// pending is the kubelet's reason; empty: it reports none.
	pending string
	// allocates: it allocates the size, and its runtime does not carry it out.
	allocates bool
	// after is when.
	after time.Duration
	// reverting: the pod was lowered to the request that it has, and gets the one before again.
	reverting bool
}

var fates = map[string]fate{
	"deferred":             {pending: corev1.PodReasonDeferred, after: time.Second},
	"deferred late":        {pending: corev1.PodReasonDeferred, after: 9 * time.Second},
	"infeasible":           {pending: corev1.PodReasonInfeasible, after: 2 * time.Second},
	"not observed":         {after: time.Hour},
	"not carried out":      {allocates: true, after: time.Second},
	"a revert is deferred": {pending: corev1.PodReasonDeferred, after: time.Second, reverting: true},
}

// TestDeferredRaisesDoNotScaleIn: eight pods at 65 % of 400m, with a target of 70 %, get 600m on nodes that have no room (the
// fleet of kubernetes/kubernetes#142155). Upstream reads the spec at each sync of its controller, whenever the first one is.
// Without withdrawal it asks for fewer pods at sync after sync, so that it scales in although no pod got anything. With
// withdrawal that is one sync at most, which no stabilization of 15 s or more lets through.
func TestDeferredRaisesDoNotScaleIn(t *testing.T) {
	const pods, has, asked, usage, horizon = 8, 400, 600, 260, 20 * time.Minute
	for name, f := range fates {
		t.Run(name, func(t *testing.T) {
			scaler := percent(70, 2, 20)
			most := func(period time.Duration) (syncs int) {
				for offset := range hpaSyncSeconds {
					fewer := f.play(t, period, has, asked, horizon, func(request int64) int32 {
						u := &upstream{}
						for range pods {
							u.add(ready, corev1.ResourceCPU, request, usage)
						}
						return u.desired(scaler, pods, corev1.ResourceCPU)
					}, time.Duration(offset)*time.Second)
					syncs = max(syncs, longest(fewer, pods))
				}
				return syncs
			}
			without, with := most(0), most(lifecycle.HPASyncPeriod)
			t.Logf("syncs in a row that ask for fewer pods: %d without withdrawal, %d with it", without, with)
			assert.LessOrEqual(t, with, 1)
			if f.pending != corev1.PodReasonInfeasible {
				assert.GreaterOrEqual(t, without, 4)
			}
		})
	}
}

const hpaSyncSeconds = int(lifecycle.HPASyncPeriod / time.Second)

// longest is the greatest number of syncs in a row that ask for fewer than there are.
func longest(asked []int32, current int32) (most int) {
	n := 0
	for _, a := range asked {
		if n++; a >= current {
			n = 0
		}
		most = max(most, n)
	}
	return most
}

// play follows one raise of a pod second by second, as the loop does, and returns what upstream asks for at each sync.
func (f fate) play(t *testing.T, period time.Duration, has, raised int64, length time.Duration, judge func(request int64) int32, offset time.Duration) (asked []int32) {
	start := time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)
	pod := (&upstream{}).add(ready, corev1.ResourceCPU, raised, 0)
	pod.UID, pod.Spec.NodeName, pod.Generation, pod.Status.ObservedGeneration = "uid", "node", 2, 2
	of := func(request int64) recommender.Size {
		return recommender.Size{{Request: recommender.Amount(request)}, {}}
	}
	ran := podview.ToRequirements(of(has))
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "app", Resources: &ran, AllocatedResources: ran.Requests.DeepCopy(),
		State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}
	pod.Status.QOSClass = corev1.PodQOSBurstable
	record := v1alpha1.ResizeRecord{PodUID: pod.UID, PodName: pod.Name, Node: "node", Phase: v1alpha1.RecordApplied, Generation: 2, WrittenAt: metav1.NewTime(start),
		Deadline: ptr.To(metav1.NewTime(start.Add(lifecycle.ActuatedFor)))}
	record.Prior = []v1alpha1.ContainerResources{{Name: "app", Resources: podview.ToResources(of(has))}}
	record.Desired = []v1alpha1.ContainerResources{{Name: "app", Resources: podview.ToResources(of(raised))}}
	if f.reverting {
		record.Prior, record.Desired = record.Desired, record.Prior
		record.Phase, record.Reason, record.Deadline = v1alpha1.RecordReverting, string(resize.HarmNotReady), nil
	}
	caps := resize.Capabilities{Resizable: true, ServerMinor: 37, KubeletMinor: 37, NodeReady: true, Allocatable: [2]recommender.Amount{16_000, 64 << 30}}
	rules := resize.Rules{AutoRevert: true}
	var tries []v1alpha1.Try
	sent, kubeletAt := start, start.Add(f.after)
	for now := start; now.Before(start.Add(length)); now = now.Add(time.Second) {
		if (now.Sub(start)-offset)%lifecycle.HPASyncPeriod == 0 && now.Sub(start) >= offset {
			request := pod.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU]
			asked = append(asked, judge(request.MilliValue()))
		}
		f.kubelet(pod, now, kubeletAt)
		tries = lifecycle.PutBacks(tries, []v1alpha1.ResizeRecord{record}, func(types.UID) bool { return true }, now)
		c := lifecycle.Circumstances{Tries: tries}
		if lifecycle.RequestsMore(pod, resize.ScaledRequests{"": {true, false}}) {
			c.HPASync = period
		}
		if resize.PuttingBack(record) {
			c.Pause = max(0, sent.Add(lifecycle.PutBackEvery(record, tries, now)).Sub(now))
		}
		action := lifecycle.Next(lifecycle.Assess(pod, record, caps, now), record, rules, c, now)
		record = lifecycle.Advance(record, action, now)
		var plan resize.Plan
		switch action.Kind {
		case lifecycle.Withdraw, lifecycle.Revert:
			plan, _ = lifecycle.RevertPlan(pod, record, caps)
		case lifecycle.StepBack:
			plan = lifecycle.StepBackPlan(pod, record, caps)
			tries, _ = lifecycle.Obstacle(tries, pod.UID, action.Reason, action.Message)
		case lifecycle.Forget:
			require.Equal(t, lifecycle.ResultWithdrawn, action.Result)
			return asked
		}
		if !plan.Empty() {
			pod = plan.Apply(pod)
			pod.Generation++
			record.Generation, sent, kubeletAt = pod.Generation, now, now.Add(f.after)
			record = lifecycle.Sent(record)
		}
	}
	return asked
}

// kubelet plays the fate of what the pod requests. What it has already, it gets.
func (f fate) kubelet(pod *corev1.Pod, now, at time.Time) {
	status := &pod.Status.ContainerStatuses[0]
	request := pod.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU]
	pod.Status.Conditions = pod.Status.Conditions[:1]
	if had := status.Resources.Requests[corev1.ResourceCPU]; request.Cmp(had) <= 0 {
		status.AllocatedResources = corev1.ResourceList{corev1.ResourceCPU: request}
		status.Resources = &corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: request}}
		pod.Status.ObservedGeneration = pod.Generation
		return
	}
	if now.Before(at) {
		pod.Status.ObservedGeneration = pod.Generation - 1
		return
	}
	pod.Status.ObservedGeneration = pod.Generation
	condition := corev1.PodCondition{Status: corev1.ConditionTrue, ObservedGeneration: pod.Generation}
	switch {
	case f.allocates:
		status.AllocatedResources = corev1.ResourceList{corev1.ResourceCPU: request}
		condition.Type = corev1.PodResizeInProgress
	case f.pending != "":
		condition.Type, condition.Reason = corev1.PodResizePending, f.pending
	}
	pod.Status.Conditions = append(pod.Status.Conditions, condition)
}
