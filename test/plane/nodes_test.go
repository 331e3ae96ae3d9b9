package plane

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"attune.io/attune/test/kubelet"
)

func readiness(l *lab, node string) corev1.ConditionStatus {
	return nodeCondition(read(l, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}}), corev1.NodeReady).Status
}

// A kubelet that is silent makes its node Unknown after 50 s and its pods not ready; after 300 s more they are deleted,
// but for those of DaemonSets, and stay until the kubelet is back.
func TestSilentNode(t *testing.T) {
	l := newLab(t, 2, kubelet.Options{})
	d := deployment("web", 4)
	l.create(d)
	l.create(daemonSet("agent"))
	s := statefulSet("db", 1)
	s.Spec.Template.Spec.NodeSelector = map[string]string{corev1.LabelHostname: "node-0"}
	l.create(s)
	l.run(time.Minute)
	on := func() (ready, terminating, all int) {
		for _, pod := range l.pods("") {
			if pod.Spec.NodeName != "node-0" {
				continue
			}
			all++
			if pod.DeletionTimestamp != nil {
				terminating++
			}
			if _, is := readySince(&pod); is {
				ready++
			}
		}
		return ready, terminating, all
	}
	check := func(wantReady, wantTerminating, wantAll int, when string) {
		t.Helper()
		ready, terminating, all := on()
		assert.Equal(t, []int{wantReady, wantTerminating, wantAll}, []int{ready, terminating, all}, when)
	}
	check(4, 0, 4, "before")
	l.Node("node-0").Cut(l.now)
	l.run(49 * time.Second)
	check(4, 0, 4, "nothing is noticed yet")
	assert.Equal(t, corev1.ConditionTrue, readiness(l, "node-0"))
	l.run(2 * time.Second)
	check(0, 0, 4, "unknown")
	assert.Equal(t, corev1.ConditionUnknown, readiness(l, "node-0"))
	taints := read(l, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-0"}}).Spec.Taints
	require.Len(t, taints, 2)
	assert.Equal(t, "node.kubernetes.io/unreachable", taints[0].Key)
	l.run(295 * time.Second)
	check(0, 0, 4, "tolerated")
	l.run(10 * time.Second)
	check(0, 3, 4, "all but the daemon's are deleted, and stay")
	l.run(time.Minute)
	assert.Equal(t, int32(4), read(l, d).Status.ReadyReplicas, "replaced elsewhere")
	assert.Len(t, l.pods("db-"), 1, "the ordinal is taken until the kubelet is back")
	require.NoError(t, l.Node("node-0").Start(t.Context(), l.now))
	l.run(time.Minute)
	assert.Equal(t, corev1.ConditionTrue, readiness(l, "node-0"))
	assert.Empty(t, read(l, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-0"}}).Spec.Taints)
	check(2, 0, 2, "the daemon's pod goes on, the ordinal is new")
}

// A spot instance is gone: 40 s later its pods are failed and deleted, and replaced elsewhere.
func TestNodeIsRemoved(t *testing.T) {
	l := newLab(t, 2, kubelet.Options{})
	d, s := deployment("web", 4), statefulSet("db", 2)
	l.create(d)
	l.create(s)
	l.create(daemonSet("agent"))
	l.run(time.Minute)
	require.NoError(t, l.Remove(t.Context(), "node-0"))
	l.run(30 * time.Second)
	assert.Less(t, len(onNode(l, "node-1")), 7)
	l.run(time.Minute)
	assert.Empty(t, onNode(l, "node-0"))
	assert.Len(t, onNode(l, "node-1"), 7)
	assert.Equal(t, int32(4), read(l, d).Status.ReadyReplicas)
	assert.Equal(t, int32(2), read(l, s).Status.ReadyReplicas)
	l.join("node-2", kubelet.Options{})
	l.run(time.Minute)
	assert.Len(t, onNode(l, "node-2"), 1, "the daemon's")
}

func onNode(l *lab, node string) (names []string) {
	for _, pod := range l.pods("") {
		if pod.Spec.NodeName == node {
			names = append(names, pod.Name)
		}
	}
	return names
}

// A rebooted machine has another boot ID, and containers whose end was not seen.
func TestReboot(t *testing.T) {
	l := newLab(t, 1, kubelet.Options{})
	l.create(deployment("web", 1))
	l.run(time.Minute)
	before := read(l, l.Node("node-0").Object()).Status.NodeInfo.BootID
	l.Node("node-0").Cut(l.now)
	l.run(30 * time.Second)
	require.NoError(t, l.Node("node-0").Boot(t.Context(), l.now))
	l.run(time.Minute)
	assert.NotEqual(t, before, read(l, l.Node("node-0").Object()).Status.NodeInfo.BootID)
	status := l.pods("web-")[0].Status.ContainerStatuses[0]
	assert.Equal(t, int32(1), status.RestartCount)
	assert.True(t, status.Ready)
	assert.Equal(t, "ContainerStatusUnknown 137", fmt.Sprintf("%s %d", status.LastTerminationState.Terminated.Reason, status.LastTerminationState.Terminated.ExitCode))
}

func budget(name string, spec policyv1.PodDisruptionBudgetSpec) *policyv1.PodDisruptionBudget {
	spec.Selector, _ = labelled("web")
	return &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Spec: spec}
}

// The status of a budget follows its pods (disruption.go, getExpectedPodCount).
func TestBudgetStatus(t *testing.T) {
	for name, tc := range map[string]struct {
		spec                       policyv1.PodDisruptionBudgetSpec
		ready                      int32
		expected, desired, allowed int32
	}{
		"minAvailable":        {policyv1.PodDisruptionBudgetSpec{MinAvailable: ptr.To(intstr.FromInt32(3))}, 4, 4, 3, 1},
		"minAvailable, %":     {policyv1.PodDisruptionBudgetSpec{MinAvailable: ptr.To(intstr.FromString("60%"))}, 4, 4, 3, 1},
		"maxUnavailable":      {policyv1.PodDisruptionBudgetSpec{MaxUnavailable: ptr.To(intstr.FromInt32(1))}, 4, 4, 3, 1},
		"maxUnavailable, %":   {policyv1.PodDisruptionBudgetSpec{MaxUnavailable: ptr.To(intstr.FromString("30%"))}, 4, 4, 2, 2},
		"none may go":         {policyv1.PodDisruptionBudgetSpec{MaxUnavailable: ptr.To(intstr.FromInt32(0))}, 4, 4, 4, 0},
		"one is not ready":    {policyv1.PodDisruptionBudgetSpec{MaxUnavailable: ptr.To(intstr.FromInt32(1))}, 3, 4, 3, 0},
		"more than there are": {policyv1.PodDisruptionBudgetSpec{MinAvailable: ptr.To(intstr.FromInt32(9))}, 4, 4, 9, 0},
	} {
		t.Run(name, func(t *testing.T) {
			limit := tc.ready
			l := newLab(t, 1, kubelet.Options{})
			unready := map[string]bool{}
			l.Node("node-0").Reconfigure(func(o *kubelet.Options) { o.Ready = func(pod *corev1.Pod) bool { return !unready[pod.Name] } })
			l.create(deployment("web", 4))
			l.create(budget("web", tc.spec))
			l.run(time.Minute)
			for _, pod := range l.pods("web-")[limit:] {
				unready[pod.Name] = true
			}
			l.run(time.Minute)
			status := read(l, budget("web", tc.spec)).Status
			assert.Equal(t, []int32{tc.expected, tc.desired, tc.ready, tc.allowed},
				[]int32{status.ExpectedPods, status.DesiredHealthy, status.CurrentHealthy, status.DisruptionsAllowed})
			assert.Equal(t, tc.allowed > 0, status.Conditions[0].Status == metav1.ConditionTrue)
		})
	}
}

// A drain moves all pods but the daemons', never more at once than the budget allows.
func TestDrain(t *testing.T) {
	l := newLab(t, 1, kubelet.Options{StartAfter: 5 * time.Second})
	d := deployment("web", 4)
	l.create(d)
	l.create(daemonSet("agent"))
	l.create(budget("web", policyv1.PodDisruptionBudgetSpec{MaxUnavailable: ptr.To(intstr.FromInt32(1))}))
	l.run(time.Minute)
	l.join("node-1", kubelet.Options{StartAfter: 5 * time.Second})
	l.run(time.Minute)
	least := int32(4)
	l.watched = func() {
		available := int32(0)
		for _, pod := range l.pods("web-") {
			if active(&pod) && ready(&pod) {
				available++
			}
		}
		least = min(least, available)
	}
	require.NoError(t, l.Drain(t.Context(), "node-0"))
	l.run(2 * time.Minute)
	assert.Equal(t, int32(3), least)
	assert.Len(t, onNode(l, "node-0"), 1)
	assert.Equal(t, int32(4), read(l, d).Status.AvailableReplicas)
	l.watched = func() {}
	require.NoError(t, l.Uncordon(t.Context(), "node-0"))
	edit(l, d, func(d *appsv1.Deployment) { d.Spec.Replicas = ptr.To[int32](6) })
	l.run(time.Minute)
	assert.Len(t, onNode(l, "node-0"), 3, "it takes pods again")
}

// What does not fit says why; a more urgent pod takes the place of a less urgent one.
func TestSchedulerSaysWhyAndPreempts(t *testing.T) {
	l := newLab(t, 1, kubelet.Options{CPU: "1", Memory: "4Gi"})
	d := deployment("web", 3)
	d.Spec.Template = template("web", "400m", "128Mi")
	l.create(d)
	l.run(time.Minute)
	var waiting *corev1.Pod
	for _, pod := range l.pods("web-") {
		if pod.Spec.NodeName == "" {
			waiting = &pod
		}
	}
	require.NotNil(t, waiting)
	c := podCondition(waiting, corev1.PodScheduled)
	require.NotNil(t, c)
	assert.Equal(t, "False Unschedulable 0/1 nodes are available: 1 Insufficient cpu.", fmt.Sprintf("%s %s %s", c.Status, c.Reason, c.Message))
	assert.Equal(t, corev1.PodPending, waiting.Status.Phase)
	l.run(time.Hour)
	assert.Equal(t, waiting.ResourceVersion, read(l, waiting).ResourceVersion, "it is said once")

	urgent := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "urgent"}, Spec: template("x", "500m", "128Mi").Spec}
	urgent.Spec.Priority = ptr.To[int32](1000)
	l.create(urgent)
	l.run(time.Minute)
	assert.Equal(t, "node-0", read(l, urgent).Spec.NodeName)
	assert.Len(t, onNode(l, "node-0"), 2, "one of the others had to go")

	require.NoError(t, l.Client.Delete(t.Context(), urgent))
	l.run(time.Minute)
	assert.Len(t, onNode(l, "node-0"), 2, "the next one has its place")
	for _, pod := range l.pods("web-") {
		if pod.Spec.NodeName == "" {
			continue
		}
		var said []corev1.ConditionStatus
		for _, c := range pod.Status.Conditions {
			if c.Type == corev1.PodScheduled {
				said = append(said, c.Status)
			}
		}
		assert.Equal(t, []corev1.ConditionStatus{corev1.ConditionTrue}, said, "it waits no more")
	}
}

// What is used of a quota follows the pods with a lag.
func TestQuotaFollowsPods(t *testing.T) {
	l := newLab(t, 1, kubelet.Options{})
	l.QuotaLag = 20 * time.Second
	quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "all"}}
	quota.Spec.Hard = corev1.ResourceList{
		corev1.ResourcePods: resource.MustParse("10"), corev1.ResourceRequestsCPU: resource.MustParse("1"), corev1.ResourceLimitsMemory: resource.MustParse("1Gi"),
	}
	l.create(quota)
	l.settle()
	used := func() string {
		u := read(l, quota).Status.Used
		pods, cpu, memory := u[corev1.ResourcePods], u[corev1.ResourceRequestsCPU], u[corev1.ResourceLimitsMemory]
		return fmt.Sprintf("%s pods, %s, %s", pods.String(), cpu.String(), memory.String())
	}
	assert.Equal(t, "0 pods, 0, 0", used(), "a new one is counted at once")
	d := deployment("web", 3)
	l.create(d)
	l.run(time.Minute)
	assert.Equal(t, "3 pods, 300m, 384Mi", used())
	edit(l, d, func(d *appsv1.Deployment) { d.Spec.Replicas = ptr.To[int32](1) })
	l.run(10 * time.Second)
	assert.Equal(t, "3 pods, 300m, 384Mi", used(), "not yet")
	l.run(15 * time.Second)
	assert.Equal(t, "1 pods, 100m, 128Mi", used())
	edit(l, d, func(d *appsv1.Deployment) { d.Spec.Replicas = ptr.To[int32](20) })
	l.run(time.Minute)
	assert.Len(t, l.pods("web-"), 8, "as much memory as there is")
	status := read(l, d).Status
	assert.Equal(t, "True FailedCreate", conditionOf(status.Conditions, appsv1.DeploymentReplicaFailure))
	events := &corev1.EventList{}
	require.NoError(t, l.Client.List(l.Context(), events, client.InNamespace(namespace)))
	require.Len(t, events.Items, 1, "one for the ReplicaSet, however often it tries")
	e := events.Items[0]
	assert.Equal(t, "FailedCreate ReplicaSet", e.Reason+" "+e.InvolvedObject.Kind)
	assert.Equal(t, l.replicaSets()[0].UID, e.InvolvedObject.UID)
	assert.Greater(t, e.Count, int32(1))
}

// Whose owner is gone goes; a namespace goes with all that is in it.
func TestGarbageAndNamespaces(t *testing.T) {
	l := newLab(t, 1, kubelet.Options{StopAfter: 10 * time.Second})
	d := deployment("web", 2)
	l.create(d)
	l.create(deployment("api", 2))
	l.create(statefulSet("db", 1))
	l.run(time.Minute)
	require.NoError(t, l.Client.Delete(t.Context(), d))
	l.run(time.Minute)
	assert.Empty(t, l.pods("web-"))
	assert.Len(t, l.replicaSets(), 1)
	assert.Len(t, l.pods(""), 3)
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}
	require.NoError(t, l.Client.Delete(t.Context(), ns))
	l.run(5 * time.Second)
	assert.Len(t, l.pods(""), 3, "they take their time to end")
	l.run(time.Minute)
	assert.Empty(t, l.pods(""))
	assert.Empty(t, l.replicaSets())
	assert.Error(t, l.Client.Get(t.Context(), clientKey(ns), ns))
}
