package plane

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"attune.io/attune/test/demand"
	"attune.io/attune/test/kubelet"
)

// status of the only container of the only pod whose name begins so.
func status(l *lab, prefix string) corev1.ContainerStatus {
	l.Helper()
	pods := l.pods(prefix)
	require.Len(l, pods, 1)
	require.Len(l, pods[0].Status.ContainerStatuses, 1)
	return pods[0].Status.ContainerStatuses[0]
}

// state is how a container is shown: what it is, and how it ended before.
func state(s corev1.ContainerStatus) string {
	now, last := "running", ""
	switch {
	case s.State.Waiting != nil:
		now = "waiting " + s.State.Waiting.Reason
	case s.State.Terminated != nil:
		now = fmt.Sprintf("terminated %s %d", s.State.Terminated.Reason, s.State.Terminated.ExitCode)
	}
	if t := s.LastTerminationState.Terminated; t != nil {
		last = fmt.Sprintf(", last %s %d", t.Reason, t.ExitCode)
	}
	return fmt.Sprintf("%s%s, %d restarts", now, last, s.RestartCount)
}

// needing has every container of a lab need the same, as a demand says.
func needing(d demand.Demand) kubelet.Processes {
	return demand.Processes{Of: func(*corev1.Pod, string) (demand.Demand, bool) { return d, true }}
}

// A container that is killed again and again is shown as terminated, waits in CrashLoopBackOff for 10 s, twice as long
// each time and at most 5 min, and runs until it is killed again (kuberuntime_manager.go, doBackOff). The first time it
// starts again at once.
func TestCrashLoopBackOff(t *testing.T) {
	// The memory is there after 10 s, and is more than the limit of 128 MiB.
	l := newLab(t, 1, kubelet.Options{Processes: needing(demand.Demand{Memory: 200 << 20}), RestartAfter: time.Second})
	l.create(deployment("web", 1))
	type change struct {
		at    time.Duration
		state string
	}
	var seen []change
	l.watched = func() {
		if len(l.pods("web-")) == 0 || len(l.pods("web-")[0].Status.ContainerStatuses) == 0 {
			return
		}
		if now := state(status(l, "web-")); len(seen) == 0 || seen[len(seen)-1].state != now {
			seen = append(seen, change{l.now.Sub(beginning), now})
		}
	}
	l.run(30 * time.Minute)
	want := []change{
		{0, "waiting ContainerCreating, 0 restarts"}, {1 * time.Second, "running, 0 restarts"},
		{11 * time.Second, "terminated OOMKilled 137, 0 restarts"}, {12 * time.Second, "running, last OOMKilled 137, 1 restarts"},
	}
	at, wait := 12*time.Second, 10*time.Second
	for n := 1; n <= 8; n++ {
		killed := at + 10*time.Second
		want = append(want,
			change{killed, fmt.Sprintf("terminated OOMKilled 137, last OOMKilled 137, %d restarts", n)},
			change{killed + time.Second, fmt.Sprintf("waiting CrashLoopBackOff, last OOMKilled 137, %d restarts", n)},
			change{killed + wait, fmt.Sprintf("running, last OOMKilled 137, %d restarts", n+1)})
		at, wait = killed+wait, min(2*wait, 5*time.Minute)
	}
	require.GreaterOrEqual(t, len(seen), len(want))
	assert.Equal(t, want, seen[:len(want)])
	pod := l.pods("web-")[0]
	assert.Equal(t, corev1.PodRunning, pod.Status.Phase)
	last := seen[len(seen)-1].state
	assert.Contains(t, last, "restarts")
}

// What a container that waits in a back-off shows: as the real status has it (kubelet_pods.go).
func TestFieldsOfABackOff(t *testing.T) {
	l := newLab(t, 1, kubelet.Options{Processes: needing(demand.Demand{Memory: 200 << 20}), RestartAfter: time.Second})
	l.create(deployment("web", 1))
	l.run(25 * time.Second)
	pod, s := l.pods("web-")[0], status(l, "web-")
	require.NotNil(t, s.State.Waiting)
	assert.Equal(t, fmt.Sprintf("back-off 10s restarting failed container=app pod=%s_%s(%s)", pod.Name, namespace, pod.UID), s.State.Waiting.Message)
	assert.False(t, s.Ready)
	assert.False(t, *s.Started)
	assert.Equal(t, s.ContainerID, s.LastTerminationState.Terminated.ContainerID)
	assert.Equal(t, "128Mi", s.Resources.Limits.Memory().String(), "what is allocated")
	assert.Equal(t, "128Mi", s.AllocatedResources.Memory().String())
	assert.Equal(t, corev1.ConditionFalse, podCondition(&pod, corev1.PodReady).Status)
	assert.Equal(t, corev1.ConditionTrue, podCondition(&pod, corev1.PodInitialized).Status)
}

// resize gives the app of a pod another memory.
func resize(l *lab, pod *corev1.Pod, request, limit string) {
	l.Helper()
	before := pod.DeepCopy()
	c := &pod.Spec.Containers[0]
	c.Resources = *c.Resources.DeepCopy()
	c.Resources.Requests[corev1.ResourceMemory] = resource.MustParse(request)
	c.Resources.Limits[corev1.ResourceMemory] = resource.MustParse(limit)
	require.NoError(l, l.Client.SubResource("resize").Patch(l.Context(), pod, client.MergeFrom(before)))
}

// A resize that is allocated while a container waits starts it at once, and its pod's cgroup keeps the old limit until
// the container's memory is changed while it runs (kubernetes/kubernetes#138760).
func TestResizeEndsABackOff(t *testing.T) {
	l := newLab(t, 1, kubelet.Options{Processes: needing(demand.Demand{Memory: 200 << 20}), PodCgroup: true})
	l.create(deployment("web", 1))
	l.run(5 * time.Minute)
	require.Contains(t, state(status(l, "web-")), "waiting CrashLoopBackOff")
	pod := &l.pods("web-")[0]
	resize(l, pod, "256Mi", "256Mi")
	l.settle()
	assert.Contains(t, state(status(l, "web-")), "running")
	limit := func() string { return l.pods("web-")[0].Status.Resources.Limits.Memory().String() }
	assert.Equal(t, "128Mi", limit())
	l.run(11 * time.Second)
	killed := status(l, "web-").RestartCount
	assert.Contains(t, state(status(l, "web-")), "waiting CrashLoopBackOff, last OOMKilled", "within its pod's old limit")
	assert.Contains(t, status(l, "web-").State.Waiting.Message, "back-off 10s", "which has begun anew")
	l.run(14 * time.Second)
	pod = &l.pods("web-")[0]
	resize(l, pod, "257Mi", "257Mi")
	l.run(10 * time.Minute)
	assert.Equal(t, "257Mi", limit())
	assert.LessOrEqual(t, status(l, "web-").RestartCount, killed+1)
	assert.Contains(t, state(status(l, "web-")), "running")
}

// Probes fail with too little CPU: the readiness probe at first, then the liveness probe, which ends the container.
func TestProbesNeedCPU(t *testing.T) {
	for name, tc := range map[string]struct {
		limit string
		ready bool
		state string
	}{
		"enough":         {"1", true, "running, 0 restarts"},
		"too little":     {"400m", false, "running, 0 restarts"},
		"far too little": {"100m", false, "waiting CrashLoopBackOff, last Error 137"},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t, 1, kubelet.Options{RestartAfter: time.Second, Processes: needing(demand.Demand{CPU: 1, Memory: 1 << 20, ReadyWith: 0.5, AliveWith: 0.2})})
			d := deployment("web", 1)
			d.Spec.Template.Spec.Containers[0].Resources.Limits[corev1.ResourceCPU] = resource.MustParse(tc.limit)
			l.create(d)
			l.run(2 * time.Minute)
			found := false
			for range 40 {
				l.run(5 * time.Second)
				s := status(l, "web-")
				assert.Equal(t, tc.ready, s.Ready)
				found = found || len(state(s)) >= len(tc.state) && state(s)[:len(tc.state)] == tc.state
			}
			assert.True(t, found, "at last %s", state(status(l, "web-")))
		})
	}
}

// What a node refuses, by what is wrong with it.
func TestNodeRefuses(t *testing.T) {
	for name, tc := range map[string]struct {
		options        kubelet.Options
		faults         kubelet.Faults
		request, limit string
		reason         string
		message        string
	}{
		"room for it":           {request: "200Mi", limit: "200Mi"},
		"a decrease, pressure":  {faults: kubelet.Faults{Rejects: "The node had condition: [DiskPressure]. "}, request: "64Mi", limit: "128Mi", reason: "PodResizePending Deferred", message: "DiskPressure"},
		"swap":                  {options: kubelet.Options{Swap: true}, request: "96Mi", limit: "128Mi", reason: "PodResizePending Infeasible", message: "swap"},
		"no stats":              {faults: kubelet.Faults{NoStats: true}, request: "64Mi", limit: "64Mi", reason: "PodResizeInProgress Error", message: "missing container memory usage"},
		"the cache is too much": {request: "64Mi", limit: "64Mi", reason: "PodResizeInProgress Error", message: "below current usage"},
		"the runtime says no":   {faults: kubelet.Faults{Error: "vetoed"}, request: "200Mi", limit: "200Mi", reason: "PodResizeInProgress Error", message: "vetoed"},
	} {
		t.Run(name, func(t *testing.T) {
			tc.options.Processes = needing(demand.Demand{Memory: 20 << 20, Cache: 1 << 30})
			l := newLab(t, 1, tc.options)
			d := deployment("web", 1)
			d.Spec.Template.Spec.Containers[0].Resources.Requests[corev1.ResourceMemory] = resource.MustParse("100Mi")
			l.create(d)
			l.run(10 * time.Minute)
			l.Node("node-0").Faults = tc.faults
			pod := &l.pods("web-")[0]
			resize(l, pod, tc.request, tc.limit)
			l.run(time.Minute)
			pod = &l.pods("web-")[0]
			got, message := "", ""
			for _, c := range pod.Status.Conditions {
				if c.Type == corev1.PodResizePending || c.Type == corev1.PodResizeInProgress {
					got, message = fmt.Sprintf("%s %s", c.Type, c.Reason), c.Message
				}
			}
			assert.Equal(t, tc.reason, got)
			assert.Contains(t, message, tc.message)
			l.Node("node-0").Faults = kubelet.Faults{}
			l.run(10 * time.Minute)
			assert.Zero(t, status(l, "web-").RestartCount)
		})
	}
}

// Without room on its node any more, a pod that arrives is turned away and replaced, and stays as it is.
func TestOutOfCPU(t *testing.T) {
	l := newLab(t, 1, kubelet.Options{CPU: "1"})
	l.Node("node-0").Faults.Taken = 950
	l.create(deployment("web", 1))
	l.run(2 * time.Second)
	pods := l.pods("web-")
	require.NotEmpty(t, pods)
	assert.Equal(t, "Failed OutOfcpu", fmt.Sprintf("%s %s", pods[0].Status.Phase, pods[0].Status.Reason))
	l.Node("node-0").Faults.Taken = 0
	l.run(time.Minute)
	assert.Equal(t, corev1.ConditionTrue, podCondition(&l.pods("web-")[len(l.pods("web-"))-1], corev1.PodReady).Status)
}

// Equal worlds have equal lives, names included; and what does not change is not written.
func TestEqualLives(t *testing.T) {
	live := func() (names []string, writes int64) {
		l := newLab(t, 3, kubelet.Options{Processes: needing(demand.Demand{Seed: 7, Shape: demand.Bursty, CPU: 0.5, Memory: 90 << 20, Leak: 1 << 20}), RestartAfter: time.Second})
		l.create(deployment("web", 6))
		l.create(statefulSet("db", 3))
		l.create(daemonSet("agent"))
		l.run(48 * time.Hour)
		l.Node("node-1").Cut(l.now)
		l.run(10 * time.Minute)
		require.NoError(t, l.Node("node-1").Boot(t.Context(), l.now))
		l.run(time.Hour)
		require.NoError(t, l.Remove(t.Context(), "node-2"))
		l.run(24 * time.Hour)
		for _, pod := range l.pods("") {
			names = append(names, fmt.Sprint(pod.Name, pod.Spec.NodeName, pod.Status.ContainerStatuses[0].RestartCount, pod.CreationTimestamp))
		}
		return names, l.server.Version()
	}
	names, writes := live()
	again, same := live()
	assert.Equal(t, names, again)
	assert.Equal(t, writes, same)
	assert.NotEmpty(t, names)

	l := newLab(t, 3, kubelet.Options{Processes: needing(demand.Demand{Shape: demand.Diurnal, CPU: 0.1, Memory: 50 << 20})})
	l.create(deployment("web", 6))
	l.run(time.Hour)
	before := l.server.Version()
	l.run(30 * 24 * time.Hour)
	assert.Equal(t, before, l.server.Version(), "a calm month writes nothing")
}

// One step of a cluster of 10 nodes and 500 pods: in which nothing has changed, and in which everything is looked at,
// as after any write.
func BenchmarkStep(b *testing.B) {
	l := newLab(b, 10, kubelet.Options{CPU: "64", Processes: needing(demand.Demand{CPU: 0.1, Memory: 50 << 20})})
	for i := range 50 {
		l.create(deployment(fmt.Sprintf("web-%02d", i), 10))
	}
	l.run(10 * time.Minute)
	require.Len(b, l.pods("web-"), 500)
	for name, version := range map[string]func() int64{"unchanged": l.server.Version, "changed": nil} {
		b.Run(name, func(b *testing.B) {
			l.Cluster.Version = version
			b.ReportAllocs()
			for b.Loop() {
				if err := l.Step(b.Context(), l.now); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
