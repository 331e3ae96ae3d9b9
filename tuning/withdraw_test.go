package tuning_test

import (
	"fmt"
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
	"attune.io/attune/resize/withdraw"
	"attune.io/attune/tuning"
)

const (
	deniedByPolicy = `pods "web-abc-x" is forbidden: ValidatingAdmissionPolicy 'small-containers' with binding 'small-containers' denied request: containers may have at most 200m CPU as limit`
	overQuota      = `pods "web-abc-x" is forbidden: exceeded quota: for-user-deployments, requested: requests.cpu=800m, used: requests.cpu=0, limited: requests.cpu=500m`
)

// seeding sets a seed of CPU in millicores and memory in MiB.
func seeding(w tuning.View, cpu, memory recommender.Amount) tuning.View {
	c, m := podview.Quantity(recommender.CPU, cpu), podview.Quantity(recommender.Memory, memory*mi)
	w.Rec.Spec.Seed = &v1alpha1.Seed{Revision: "r1", Containers: []v1alpha1.ContainerSeed{{Name: "app", CPURequest: &c, MemoryRequest: &m, AllowMemoryDecrease: true}}}
	return w
}

// later returns the view at a later time, with the status of a decision.
func later(w tuning.View, d tuning.Decision, after time.Duration) tuning.View {
	w.Now = now.Add(after)
	w.Rec = w.Rec.DeepCopy()
	w.Rec.Status = d.Status
	return w
}

func TestRejectedPodsWithdrawAdmissionResources(t *testing.T) {
	for name, tc := range map[string]struct {
		cpu, memory recommender.Amount
		change      func(*tuning.View)
		message     string
		withdrawn   bool
	}{
		"another admission policy":                            {cpu: 800, memory: 512, message: deniedByPolicy, withdrawn: true},
		"an unknown quota":                                    {cpu: 800, memory: 512, message: overQuota, withdrawn: true},
		"a quota of the API server with scopes":               {cpu: 800, memory: 512, message: `pods "x" is forbidden: exceeded quota: best, requested: cpu=800m,memory=512Mi, used: cpu=0, limited: cpu=500m`, withdrawn: true},
		"a LimitRange that is newer than the seed":            {cpu: 800, memory: 512, message: `pods "x" is forbidden: maximum cpu usage per Container is 600m, but limit is 800m`, withdrawn: true},
		"a least size demanded of a lowered pod":              {cpu: 200, memory: 512, message: `pods "x" is forbidden: minimum cpu usage per Container is 400m, but request is 200m`, withdrawn: true},
		"the seed gives what the template has":                {cpu: 500, memory: 512, message: deniedByPolicy},
		"the template is larger than a seed that raises only": {cpu: 200, memory: 200, message: deniedByPolicy, change: func(w *tuning.View) { w.Rec.Spec.Seed.RaiseOnly = true }},
		"a quota while the seed only lowers":                  {cpu: 200, memory: 200, message: overQuota},
		"a quota for the number of pods":                      {cpu: 800, memory: 512, message: `pods "x" is forbidden: exceeded quota: few, requested: pods=1, used: pods=3,requests.cpu=1, limited: pods=3`},
		"PodSecurity":                                         {cpu: 800, memory: 512, message: `pods "x" is forbidden: violates PodSecurity "restricted:latest": allowPrivilegeEscalation != false`},
		"a webhook that does not answer":                      {cpu: 800, memory: 512, message: `Internal error occurred: failed calling webhook "mesh.example.com": connection refused`},
		"no service account":                                  {cpu: 800, memory: 512, message: `pods "x" is forbidden: error looking up service account shop/web: serviceaccount "web" not found`},
		"the namespace is being deleted":                      {cpu: 800, memory: 512, message: deniedByPolicy, change: func(w *tuning.View) { w.Namespace.Terminating = true }},
		"the workload is being deleted":                       {cpu: 800, memory: 512, message: deniedByPolicy, change: func(w *tuning.View) { w.Workload.Deleting = true }},
		"a paused rollout":                                    {cpu: 800, memory: 512, message: deniedByPolicy, withdrawn: true, change: func(w *tuning.View) { w.Workload.Rollout.InProgress = true }},
		"a rollout while old pods run":                        {cpu: 800, memory: 512, message: deniedByPolicy, withdrawn: true, change: func(w *tuning.View) { w.Pods = []*corev1.Pod{running("web-1", template)} }},
		"a pod was created since": {cpu: 800, memory: 512, message: deniedByPolicy, change: func(w *tuning.View) {
			w.Past.Rejected.At = now.Add(-2 * time.Hour)
			w.Past.Rejected.At = now.Add(-time.Minute)
			p := running("web-1", template)
			p.CreationTimestamp = metav1.NewTime(now)
			w.Pods = []*corev1.Pod{p}
		}},
		"an old event":                {cpu: 800, memory: 512, message: deniedByPolicy, change: func(w *tuning.View) { w.Past.Rejected.At = now.Add(-10 * time.Minute) }},
		"an old condition that lasts": {cpu: 800, memory: 512, message: deniedByPolicy, withdrawn: true, change: func(w *tuning.View) { w.Past.Rejected.At = now.Add(-10 * time.Minute); w.Past.Rejected.Lasts = true }},
		"no seed":                     {cpu: 800, memory: 512, message: deniedByPolicy, change: func(w *tuning.View) { w.Rec.Spec.Seed = nil }},
	} {
		t.Run(name, func(t *testing.T) {
			w := seeding(seen(t, template), tc.cpu, tc.memory)
			w.Past.Rejected = &withdraw.Rejection{At: now, Message: tc.message}
			if tc.change != nil {
				tc.change(&w)
			}
			d := tuning.Decide(w)
			if !tc.withdrawn {
				assert.Nil(t, d.Status.AdmissionWithdrawn)
				return
			}
			require.NotNil(t, d.Status.AdmissionWithdrawn)
			assert.Equal(t, v1alpha1.ReasonAdmissionRejected, d.Status.AdmissionWithdrawn.Reason)
			assert.Equal(t, "r1", d.Status.AdmissionWithdrawn.Revision)
			assert.Contains(t, d.Status.AdmissionWithdrawn.Message, "is forbidden")
			assert.Equal(t, now.Add(24*time.Hour), d.Status.AdmissionWithdrawn.Until.Time)
			degraded := meta.FindStatusCondition(d.Status.Conditions, v1alpha1.ConditionDegraded)
			assert.Equal(t, v1alpha1.ReasonAdmissionRejected, degraded.Reason)
			assert.Contains(t, degraded.Message, "is forbidden")
			assert.Contains(t, strings.Join(told(d), "\n"), "Warning AdmissionRejected New pods are created without admission resources until 2026-03-02T12:00:00Z: pods")
			assert.True(t, d.Due, "it is stored at once")
		})
	}
}

// Users of the namespace also write the API server's messages.
func TestWordsOfARejectionAreBounded(t *testing.T) {
	w := seeding(seen(t, template), 800, 512)
	w.Past.Rejected = &withdraw.Rejection{At: now, Message: "is forbidden\n\x1b[31m\xff" + strings.Repeat("ä", 4000)}
	message := tuning.Decide(w).Status.AdmissionWithdrawn.Message
	assert.LessOrEqual(t, len(message), 256)
	assert.NotContains(t, message, "\n")
	assert.NotContains(t, message, "\x1b")
}

// If pods are also rejected without admission resources, the status does not change again and again.
func TestARejectionWithoutAdmissionResourcesDoesNotFlap(t *testing.T) {
	w := seeding(seen(t, template), 800, 512)
	w.Past.Rejected = &withdraw.Rejection{At: now, Message: overQuota}
	d := tuning.Decide(w)
	require.NotNil(t, d.Status.AdmissionWithdrawn)

	w = later(w, d, 5*time.Second)
	w.Past.Rejected = &withdraw.Rejection{At: w.Now, Message: overQuota}
	d = tuning.Decide(w)
	assert.False(t, d.Status.AdmissionWithdrawn.RejectedWithout, "that pod was on its way already")

	writes := 0
	for i := 1; i <= 60; i++ {
		w = later(w, d, time.Duration(i)*time.Minute)
		w.Past.Rejected = &withdraw.Rejection{At: w.Now.Add(-time.Second), Message: overQuota}
		d = tuning.Decide(w)
		require.NotNil(t, d.Status.AdmissionWithdrawn)
		assert.True(t, d.Status.AdmissionWithdrawn.RejectedWithout)
		assert.Equal(t, v1alpha1.ReasonHealthy, meta.FindStatusCondition(d.Status.Conditions, v1alpha1.ConditionDegraded).Reason, "not because of attune")
		if d.Presses(w) {
			writes++
		}
	}
	assert.Equal(t, 1, writes)

	// The quota has room again, and the controller creates a pod.
	pod := running("web-1", template)
	w = later(w, d, 61*time.Minute)
	pod.CreationTimestamp = metav1.NewTime(w.Now)
	w.Pods = []*corev1.Pod{pod}
	d = tuning.Decide(w)
	assert.Nil(t, d.Status.AdmissionWithdrawn)
	w = later(w, d, 62*time.Minute)
	assert.Nil(t, tuning.Decide(w).Status.AdmissionWithdrawn, "the answer is from before the pod")
}

func TestAdmissionResourcesAreTriedAgainWithOnePod(t *testing.T) {
	withdrawn := func(t *testing.T) (tuning.View, tuning.Decision) {
		w := seeding(seen(t, template), 800, 512)
		w.Past.Rejected = &withdraw.Rejection{At: now, Message: deniedByPolicy}
		d := tuning.Decide(w)
		require.NotNil(t, d.Status.AdmissionWithdrawn)
		w.Past.Rejected = nil
		return w, d
	}
	t.Run("not before a day", func(t *testing.T) {
		w, d := withdrawn(t)
		w = later(w, d, 23*time.Hour)
		d = tuning.Decide(w)
		assert.True(t, d.Status.AdmissionWithdrawn.Until.After(w.Now))
	})
	t.Run("with a new template", func(t *testing.T) {
		w, d := withdrawn(t)
		w = later(w, d, time.Minute)
		w.Workload.Template.Spec.Containers[0].Image = "v2"
		d = tuning.Decide(w)
		assert.Equal(t, w.Now, d.Status.AdmissionWithdrawn.Until.Time)
	})
	t.Run("one pod is tried, and rejected", func(t *testing.T) {
		w, d := withdrawn(t)
		w = later(w, d, 25*time.Hour)
		w.Past.Rejected = &withdraw.Rejection{At: w.Now, Message: deniedByPolicy}
		d = tuning.Decide(w)
		assert.Equal(t, w.Now.Add(24*time.Hour), d.Status.AdmissionWithdrawn.Until.Time)
	})
	t.Run("one pod is tried, and starts", func(t *testing.T) {
		w, d := withdrawn(t)
		w = later(w, d, 25*time.Hour)
		pod := born(t, running("web-1", sizeOf(800, 0, 512, 1024)), "r1", template)
		pod.CreationTimestamp = metav1.NewTime(w.Now)
		waiting := pod.DeepCopy()
		waiting.Status = corev1.PodStatus{Phase: corev1.PodPending}
		w.Pods = []*corev1.Pod{waiting}
		d = tuning.Decide(w)
		require.NotNil(t, d.Status.AdmissionWithdrawn)
		assert.Equal(t, "web-1", d.Status.AdmissionWithdrawn.TrialPod, "others are created without meanwhile")

		w = later(w, d, 25*time.Hour+time.Minute)
		w.Pods = []*corev1.Pod{pod}
		d = tuning.Decide(w)
		assert.Nil(t, d.Status.AdmissionWithdrawn)
		assert.Contains(t, strings.Join(told(d), "\n"), "AdmissionResumed New pods are created with admission resources again: pod web-1 has started with them")
	})
	t.Run("the tried pod is gone", func(t *testing.T) {
		w, d := withdrawn(t)
		d.Status.AdmissionWithdrawn.TrialPod = "web-1"
		w = later(w, d, 25*time.Hour)
		assert.Empty(t, tuning.Decide(w).Status.AdmissionWithdrawn.TrialPod)
	})
}

// stuck returns a pod that has waited on its node for a duration, with the kubelet's message.
func stuck(t *testing.T, size recommender.Size, waits time.Duration, reason, message string) *corev1.Pod {
	pod := born(t, running("web-1", size), "r1", template)
	pod.CreationTimestamp = metav1.NewTime(now.Add(-waits - time.Second))
	pod.Status = corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(now.Add(-waits))}}}
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "app", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}}}}
	return pod
}

func TestPodsThatDoNotStartWithdrawAdmissionResources(t *testing.T) {
	const noSpace = `FailedMount: MountVolume.SetUp failed for volume "kube-api-access-7ql22" : write ca.crt: no space left on device`
	tiny, raised := sizeOf(12, 0, 1, 2), sizeOf(800, 0, 600, 1200)
	for name, tc := range map[string]struct {
		pod            *corev1.Pod
		kubelet        string
		asks, withdraw bool
	}{
		"a token that does not fit":          {pod: stuck(t, tiny, time.Minute, "ContainerCreating", ""), kubelet: noSpace, asks: true, withdraw: true},
		"a sandbox without memory":           {pod: stuck(t, tiny, time.Minute, "ContainerCreating", ""), kubelet: "FailedCreatePodSandBox: container init was OOM-killed (memory limit too low?)", asks: true, withdraw: true},
		"a container that cannot be created": {pod: stuck(t, tiny, time.Minute, "CreateContainerError", "minimum memory limit allowed is 6MB"), withdraw: true},
		"a container that cannot be run":     {pod: stuck(t, tiny, time.Minute, "RunContainerError", "failed to write memory.limit_in_bytes: device or resource busy"), withdraw: true},
		"not for a minute yet":               {pod: stuck(t, tiny, 50*time.Second, "ContainerCreating", ""), kubelet: noSpace},
		"a ConfigMap that is missing":        {pod: stuck(t, tiny, time.Hour, "ContainerCreating", ""), kubelet: `FailedMount: MountVolume.SetUp failed for volume "config" : configmap "web" not found`, asks: true},
		"a key that is missing":              {pod: stuck(t, tiny, time.Hour, "CreateContainerConfigError", "couldn't find key PASSWORD in Secret shop/web")},
		"a key of a volume that is missing":  {pod: stuck(t, tiny, time.Hour, "ContainerCreating", ""), kubelet: `FailedMount: references non-existent config key: x`, asks: true},
		"an image that cannot be pulled":     {pod: stuck(t, tiny, time.Hour, "ImagePullBackOff", "")},
		"a kubelet that reports nothing":     {pod: stuck(t, tiny, time.Hour, "ContainerCreating", ""), asks: true},
		"a pod that was raised":              {pod: stuck(t, raised, time.Hour, "CreateContainerError", "no memory"), kubelet: noSpace},
		"a pod that admission did not size": {pod: func() *corev1.Pod {
			p := stuck(t, tiny, time.Hour, "CreateContainerError", "no memory")
			delete(p.Annotations, v1alpha1.SeededAnnotation)
			return p
		}()},
		"a pod that is being deleted": {pod: func() *corev1.Pod {
			p := stuck(t, tiny, time.Hour, "CreateContainerError", "no memory")
			p.DeletionTimestamp = &metav1.Time{Time: now}
			return p
		}()},
	} {
		t.Run(name, func(t *testing.T) {
			w := seeding(seen(t, template, tc.pod), 12, 1)
			d := tuning.Decide(w)
			assert.Equal(t, tc.asks, len(d.Unknowns.Stalled) == 1, "%v", d.Unknowns)
			w.Looked.Stalled = map[types.UID]string{tc.pod.UID: tc.kubelet}
			d = tuning.Decide(w)
			assert.Equal(t, tc.withdraw, d.Status.AdmissionWithdrawn != nil)
			if tc.withdraw {
				assert.Equal(t, v1alpha1.ReasonPodsDoNotStart, d.Status.AdmissionWithdrawn.Reason)
				assert.Contains(t, d.Status.AdmissionWithdrawn.Message, "pod web-1 does not start with a memory limit below its template's in container app. If attune cannot restore the limit, delete the pod: ")
			}
			assert.Empty(t, d.Evictions)
			if !tc.withdraw {
				assert.Empty(t, d.Writes)
				return
			}
			require.Len(t, d.Writes, 1, "the kubelet tries again with it")
			from, to := d.Writes[0].Plan.Moves[0].From, d.Writes[0].Plan.Moves[0].To
			assert.Equal(t, template[recommender.Memory].Limit, to[recommender.Memory].Limit)
			assert.Equal(t, from[recommender.Memory].Request, to[recommender.Memory].Request, "the node may have no room for more")
			assert.Equal(t, from[recommender.CPU], to[recommender.CPU], "with cgroup v1 no container starts above the CPU limit of its pod's cgroup")
			w.Policy.Settings.Resize.Mode, w.Policy.Settings.Resize.Paused = v1alpha1.UpdateInitial, []string{"policy"}
			assert.Len(t, tuning.Decide(w).Writes, 1, "whatever stops attune")
			w.Policy.Settings.Resize.AutoRevert = false
			assert.Empty(t, tuning.Decide(w).Writes)
		})
	}
}

// Failed pods are not live, but they show what the kubelet refuses.
func TestPodsThatTheKubeletRefusesWithdrawAdmissionResources(t *testing.T) {
	w := seeding(seen(t, template), 800, 512)
	for _, name := range []string{"web-1", "web-2", "web-3"} {
		pod := born(t, running(name, sizeOf(800, 0, 512, 1024)), "r1", template)
		pod.CreationTimestamp = metav1.NewTime(now.Add(-time.Second))
		pod.Status = corev1.PodStatus{Phase: corev1.PodFailed, Reason: "OutOfcpu"}
		w.Pods = append(w.Pods, pod)
	}
	withdrawn := tuning.Decide(w).Status.AdmissionWithdrawn
	require.NotNil(t, withdrawn)
	assert.Contains(t, withdrawn.Message, "OutOfcpu")
}

func TestPendingPodsWithdrawAdmissionResources(t *testing.T) {
	pending := func(cpu recommender.Amount, waits time.Duration) *corev1.Pod {
		pod := born(t, running("web-1", sizeOf(cpu, 0, 512, 1024)), "r1", template)
		pod.Spec.NodeName = ""
		pod.Status = corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{
			{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable, LastTransitionTime: metav1.NewTime(now.Add(-waits))}}}
		return pod
	}
	full := func(cpu recommender.Amount) *resize.Room {
		other := running("other", sizeOf(cpu, 0, 100, 0))
		return resize.RoomOf([]*corev1.Pod{other}, nil, now)
	}
	for name, tc := range map[string]struct {
		pod      *corev1.Pod
		room     *resize.Room
		withdraw bool
		why      string
	}{
		"more than the node has":                   {pod: pending(2160, 0), withdraw: true, why: "more than any node has on which it may run"},
		"the template does not fit either":         {pod: pending(2160, time.Hour), room: full(1900)},
		"room for the template alone":              {pod: pending(900, 10*time.Minute), room: full(1400), withdraw: true, why: "a node has room for the 500m of CPU"},
		"not for ten minutes yet":                  {pod: pending(900, 9*time.Minute), room: full(1400)},
		"something else keeps it from the node":    {pod: pending(900, time.Hour), room: full(100)},
		"no more than its template":                {pod: pending(500, time.Hour), room: full(1400)},
		"a full node, where it would wait as well": {pod: pending(900, time.Hour), room: full(1900)},
	} {
		t.Run(name, func(t *testing.T) {
			w := seeding(seen(t, template, tc.pod), 2160, 512)
			small := node("node-2", "2", "4Gi")
			w.Looked.Cluster = []*corev1.Node{small}
			if name == "the template does not fit either" {
				w.Looked.Cluster = []*corev1.Node{node("node-2", "400m", "4Gi")}
			}
			if tc.room != nil {
				w.Looked.Rooms = map[string]*resize.Room{"node-2": tc.room}
			}
			d := tuning.Decide(w)
			require.Equal(t, tc.withdraw, d.Status.AdmissionWithdrawn != nil, "%+v", d.Status.AdmissionWithdrawn)
			assert.Empty(t, d.Evictions)
			if !tc.withdraw {
				assert.Empty(t, d.Writes)
				return
			}
			assert.Equal(t, v1alpha1.ReasonPodsDoNotStart, d.Status.AdmissionWithdrawn.Reason)
			assert.Contains(t, d.Status.AdmissionWithdrawn.Message, tc.why)
			require.Len(t, d.Writes, 1, "a pod without a node gets its template's resources")
			assert.Equal(t, template[recommender.CPU], d.Writes[0].Plan.Moves[0].To[recommender.CPU])
		})
	}
	t.Run("whatever stops attune", func(t *testing.T) {
		for _, mode := range []v1alpha1.UpdateType{v1alpha1.UpdateInitial, v1alpha1.UpdateRecommend, v1alpha1.UpdateAuto} {
			w := seeding(seen(t, template, pending(2160, 0)), 2160, 512)
			w.Looked.Cluster = []*corev1.Node{node("node-2", "2", "4Gi")}
			w.Policy.Settings.Resize.Mode, w.Policy.Settings.Resize.Paused = mode, []string{"default"}
			require.Len(t, tuning.Decide(w).Writes, 1, mode)
			w.Looked.CacheLags = map[types.UID]bool{"web-1": true}
			assert.Empty(t, tuning.Decide(w).Writes, "an older pod is in the cache")
			w.Policy.Settings.Resize.AutoRevert, w.Looked.CacheLags = false, nil
			assert.Empty(t, tuning.Decide(w).Writes)
		}
	})
	t.Run("the nodes are asked for", func(t *testing.T) {
		d := tuning.Decide(seeding(seen(t, template, pending(2160, 0)), 2160, 512))
		assert.True(t, d.Unknowns.Nodes)
		assert.Nil(t, d.Status.AdmissionWithdrawn)
	})
}

// Three pods, one after the other, are deleted soon after their creation. The loop passes what it saw on.
func TestPodsThatAreDeletedAgainAndAgainWithdrawAdmissionResources(t *testing.T) {
	for _, kind := range []v1alpha1.WorkloadKind{v1alpha1.KindStatefulSet, v1alpha1.KindJob} {
		w := seeding(seen(t, template), 800, 512)
		w.Workload.Kind, w.Rec.Spec.Workload.Kind = kind, kind
		d := tuning.Decide(w)
		for i := range 3 {
			w = later(w, d, time.Duration(i)*time.Minute)
			pod := born(t, running(fmt.Sprint("web-", i), sizeOf(800, 0, 512, 1024)), "r1", template)
			pod.CreationTimestamp = metav1.NewTime(w.Now.Add(-30 * time.Second))
			pod.DeletionTimestamp = &metav1.Time{Time: w.Now}
			w.Pods, w.Past.Deletions = []*corev1.Pod{pod}, d.Deletions
			d = tuning.Decide(w)
		}
		if kind == v1alpha1.KindJob {
			assert.Nil(t, d.Status.AdmissionWithdrawn, "pods of Jobs come and go")
			continue
		}
		require.NotNil(t, d.Status.AdmissionWithdrawn)
		assert.Equal(t, v1alpha1.ReasonPodsDoNotStart, d.Status.AdmissionWithdrawn.Reason)
		assert.Equal(t, v1alpha1.ReasonPodsDoNotStart, meta.FindStatusCondition(d.Status.Conditions, v1alpha1.ConditionDegraded).Reason)
	}
}
