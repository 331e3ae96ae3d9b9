// Package resizetest builds pods, records and rules for the tests of resize and of the packages that use it.
package resizetest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/podview"
	"attune.io/attune/recommender"
	"attune.io/attune/resize"
	"attune.io/attune/resize/lifecycle"
)

// Mi and Gi are bytes.
const (
	Mi = recommender.Amount(1) << 20
	Gi = recommender.Amount(1) << 30
)

// Prior and Desired are the sizes of a usual decrease.
var (
	Prior   = Size(500, 1000, 512, 1024)
	Desired = Size(250, 500, 512, 1024)
)

// Noon is the time at which tests begin.
var Noon = time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)

// Size is CPU request/limit in millicores and memory request/limit in MiB.
func Size(cpuRequest, cpuLimit, memoryRequest, memoryLimit recommender.Amount) recommender.Size {
	return recommender.Size{
		recommender.CPU:    {Request: cpuRequest, Limit: cpuLimit},
		recommender.Memory: {Request: memoryRequest * Mi, Limit: memoryLimit * Mi},
	}
}

// Running returns a ready pod on a node whose containers have run at the given sizes for an hour; the first one is
// called app, the others side-1, side-2 …
func Running(sizes ...recommender.Size) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: "web-1", Namespace: "shop", UID: types.UID("uid-1"), Generation: 1,
			Labels: map[string]string{"pod-template-hash": "abc"},
		},
		Spec: corev1.PodSpec{NodeName: "node-1"},
		Status: corev1.PodStatus{
			Phase: corev1.PodRunning, ObservedGeneration: 1,
			Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}},
		},
	}
	for i, s := range sizes {
		name := "app"
		if i > 0 {
			name = "side-" + string(rune('0'+i))
		}
		pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{Name: name, Resources: podview.ToRequirements(s)})
		pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, StatusOf(name, s))
	}
	pod.Status.QOSClass = podview.QOSClass(pod)
	return pod
}

// StatusOf returns the status of a container that runs at a size.
func StatusOf(name string, s recommender.Size) corev1.ContainerStatus {
	requirements := podview.ToRequirements(s)
	return corev1.ContainerStatus{
		Name: name, ContainerID: "containerd://" + name + "-0", Ready: true,
		State:              corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(Noon.Add(-time.Hour))}},
		Resources:          &requirements,
		AllocatedResources: requirements.Requests.DeepCopy(),
	}
}

// WithSidecar adds a native sidecar that runs at a size.
func WithSidecar(pod *corev1.Pod, name string, s recommender.Size) *corev1.Pod {
	always := corev1.ContainerRestartPolicyAlways
	pod.Spec.InitContainers = append(pod.Spec.InitContainers, corev1.Container{Name: name, RestartPolicy: &always, Resources: podview.ToRequirements(s)})
	pod.Status.InitContainerStatuses = append(pod.Status.InitContainerStatuses, StatusOf(name, s))
	pod.Status.QOSClass = podview.QOSClass(pod)
	return pod
}

// WithInit adds an init container that has terminated.
func WithInit(pod *corev1.Pod, name string, s recommender.Size) *corev1.Pod {
	pod.Spec.InitContainers = append(pod.Spec.InitContainers, corev1.Container{Name: name, Resources: podview.ToRequirements(s)})
	pod.Status.QOSClass = podview.QOSClass(pod)
	return pod
}

// Restarting sets a resizePolicy of RestartContainer for a resource of the first container.
func Restarting(pod *corev1.Pod, resource corev1.ResourceName) *corev1.Pod {
	pod.Spec.Containers[0].ResizePolicy = append(pod.Spec.Containers[0].ResizePolicy,
		corev1.ContainerResizePolicy{ResourceName: resource, RestartPolicy: corev1.RestartContainer})
	return pod
}

// With edits a pod.
func With(pod *corev1.Pod, edit func(*corev1.Pod)) *corev1.Pod {
	edit(pod)
	return pod
}

// Wish is a wished size for the container app.
func Wish(s recommender.Size) []podview.Container { return []podview.Container{{Name: "app", Size: s}} }

// Able returns the capabilities of a node of 1.36 with plenty of room.
func Able() resize.Capabilities {
	return resize.Capabilities{
		Resizable: true, ServerMinor: 36, KubeletMinor: 36, NodeReady: true,
		Allocatable: [2]recommender.Amount{recommender.CPU: 16_000, recommender.Memory: 64 * Gi},
	}
}

// MustPlan returns a plan towards sizes; it fails the test if a rule refuses the plan on a node that is Able.
func MustPlan(t *testing.T, pod *corev1.Pod, wished []podview.Container) resize.Plan {
	t.Helper()
	plan, refusal := resize.PlanFor(pod, wished, Able(), Noon)
	require.Nil(t, refusal, "%v", refusal)
	return plan
}

// Auto returns the rules of a policy that resizes automatically and reverts regressions.
func Auto() resize.Rules {
	return resize.Rules{
		Mode: v1alpha1.UpdateAuto, Method: v1alpha1.ResizeInPlaceOnly, Cooldown: time.Hour, Observation: 5 * time.Minute,
		AutoRevert: true, CanaryPercent: 10, AutoPromote: true, MaxConcurrentPercent: 10, RateWindow: time.Minute,
	}
}

// SetCondition sets a condition of a pod to True, as the kubelet does for a generation.
func SetCondition(pod *corev1.Pod, kind corev1.PodConditionType, reason, message string, generation int64) {
	ClearCondition(pod, kind)
	pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{
		Type: kind, Status: corev1.ConditionTrue, Reason: reason, Message: message, ObservedGeneration: generation,
	})
}

// ClearCondition removes a condition from a pod.
func ClearCondition(pod *corev1.Pod, kind corev1.PodConditionType) {
	var kept []corev1.PodCondition
	for _, c := range pod.Status.Conditions {
		if c.Type != kind {
			kept = append(kept, c)
		}
	}
	pod.Status.Conditions = kept
}

// Recorded returns a record of the pod's resize from Prior to another size, accepted as generation 2, a minute before
// Noon.
func Recorded(to recommender.Size, edit ...func(*v1alpha1.ResizeRecord)) v1alpha1.ResizeRecord {
	pod := Running(Prior)
	plan := resize.Plan{PodUID: pod.UID, PodName: pod.Name, Namespace: pod.Namespace, Node: pod.Spec.NodeName, TemplateHash: podview.TemplateHash(pod)}
	plan.Moves = []resize.Move{{Container: "app", From: Prior, To: to}}
	record := lifecycle.NewRecord(plan, pod, Noon.Add(-time.Minute), Auto())
	record.Phase, record.Generation = v1alpha1.RecordApplied, 2
	for _, e := range edit {
		e(&record)
	}
	return record
}

// OfMemory makes a record one that lowered memory too. An OOM kill is no regression of other records.
func OfMemory(r *v1alpha1.ResizeRecord) { r.Prior[0].Resources = podview.ToResources(HadMore) }

// HadMore is Prior with more memory.
var HadMore = Size(500, 1000, 1024, 2048)

// Reason sets the reason of a record.
func Reason(why string) func(*v1alpha1.ResizeRecord) {
	return func(r *v1alpha1.ResizeRecord) { r.Reason = why }
}

// WatchedUntil makes a record observed until a duration after Noon.
func WatchedUntil(after time.Duration) func(*v1alpha1.ResizeRecord) {
	return func(r *v1alpha1.ResizeRecord) {
		r.Phase, r.WatchUntil, r.Deadline = v1alpha1.RecordWatching, timeAt(Noon.Add(after)), nil
	}
}

// Resized returns the pod after the API server accepted a resize and before the kubelet observed it.
func Resized(to recommender.Size, edits ...func(*corev1.Pod)) *corev1.Pod {
	pod := Running(Prior)
	pod.Spec.Containers[0].Resources = podview.ToRequirements(to)
	pod.Generation = 2
	pod.ManagedFields = []metav1.ManagedFieldsEntry{podview.ResizedEntry(podview.FieldManager, Noon.Add(-time.Minute))}
	for _, edit := range edits {
		edit(pod)
	}
	return pod
}

// Observed: the kubelet has observed the second generation.
func Observed(p *corev1.Pod) { p.Status.ObservedGeneration = 2 }

// AllocatedTo: the kubelet has allocated the requests of a size.
func AllocatedTo(s recommender.Size) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Status.ContainerStatuses[0].AllocatedResources = podview.ToRequirements(s).Requests
	}
}

// actual: the runtime reports a size.
func actual(s recommender.Size) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		resources := podview.ToRequirements(s)
		p.Status.ContainerStatuses[0].Resources = &resources
	}
}

// Done: a size was observed, allocated and carried out.
func Done(s recommender.Size) func(*corev1.Pod) {
	return func(p *corev1.Pod) { Observed(p); AllocatedTo(s)(p); actual(s)(p) }
}

// Ended returns a terminated state; started and finished are durations after the record was written, a minute before
// Noon.
func Ended(why, id string, started, finished time.Duration) *corev1.ContainerStateTerminated {
	written := Noon.Add(-time.Minute)
	return &corev1.ContainerStateTerminated{
		Reason: why, ExitCode: ExitCode(why), ContainerID: "containerd://" + id,
		StartedAt: metav1.NewTime(written.Add(started)), FinishedAt: metav1.NewTime(written.Add(finished)),
	}
}

// ExitCode returns the exit code that a runtime reports with a reason: of SIGKILL after an OOM kill.
func ExitCode(reason string) int32 {
	if reason == podview.OOMKilled {
		return 137
	}
	return 0
}

// Last sets the last termination of the pod's first container.
func Last(t *corev1.ContainerStateTerminated) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Status.ContainerStatuses[0].LastTerminationState.Terminated = t }
}

// Web returns a pod that runs at Prior.
func Web() *corev1.Pod { return Running(Prior) }

// Ago returns the time a duration before Noon.
func Ago(d time.Duration) *metav1.Time { return &metav1.Time{Time: Noon.Add(-d)} }

func timeAt(t time.Time) *metav1.Time { return &metav1.Time{Time: t} }

// Open returns an input with which every gate is open.
func Open() resize.GateInput {
	return resize.GateInput{Now: Noon, Rules: Auto(), Workload: resize.WorkloadInput{Replicas: 3, ReadyReplicas: 3}, Node: resize.NodeInput{Capabilities: Able(), Room: Taken()}}
}

// Taken returns the room that the pods use.
func Taken(pods ...*corev1.Pod) *resize.Room { return resize.RoomOf(pods, nil, Noon) }

// Input is Open after an edit.
func Input(edit func(*resize.GateInput)) resize.GateInput {
	w := Open()
	edit(&w)
	return w
}

// Check fails unless the refusal has the reason; an empty reason expects no refusal.
func Check(t *testing.T, reason string, refusal *resize.Refusal) {
	t.Helper()
	if reason == "" {
		require.Nil(t, refusal, "%v", refusal)
		return
	}
	require.NotNil(t, refusal, "nothing closed a gate that %s should have", reason)
	assert.Equal(t, reason, refusal.Reason)
	assert.NotEmpty(t, refusal.Message)
}

// List returns a list of CPU and memory without empty ones.
func List(cpu, memory string) corev1.ResourceList {
	l := corev1.ResourceList{}
	if cpu != "" {
		l[corev1.ResourceCPU] = resource.MustParse(cpu)
	}
	if memory != "" {
		l[corev1.ResourceMemory] = resource.MustParse(memory)
	}
	return l
}

// QuotaOf returns a quota of one amount and its use; an empty use is not known.
func QuotaOf(name corev1.ResourceName, hard, used string, scopes ...corev1.ResourceQuotaScope) corev1.ResourceQuota {
	q := corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Name: "team"},
		Spec:       corev1.ResourceQuotaSpec{Scopes: scopes},
		Status:     corev1.ResourceQuotaStatus{Hard: corev1.ResourceList{name: resource.MustParse(hard)}, Used: corev1.ResourceList{}},
	}
	if used != "" {
		q.Status.Used[name] = resource.MustParse(used)
	}
	return q
}

// Refused returns the closed record of a size that the pod's node refused.
func Refused(t *testing.T, to recommender.Size, reason string) v1alpha1.ResizeRecord {
	t.Helper()
	record := lifecycle.NewRecord(MustPlan(t, Web(), Wish(to)), Web(), Noon, Auto())
	return lifecycle.Advance(record, lifecycle.Action{Kind: lifecycle.Withdraw, Reason: reason}, Noon)
}
