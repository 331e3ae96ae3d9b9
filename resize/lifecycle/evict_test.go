package lifecycle_test

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/workload"
	"attune.io/attune/podview"
	"attune.io/attune/recommender"
	. "attune.io/attune/resize"
	. "attune.io/attune/resize/lifecycle"
)

// ofDeployment returns a ready pod of a Deployment, with its own uid.
func ofDeployment(name string) *corev1.Pod {
	pod := running(size(500, 0, 512, 0))
	pod.Name, pod.UID = name, types.UID(name)
	pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "web-abc", Controller: ptr.To(true)}}
	return pod
}

func aNode(name, cpu string) *corev1.Node {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelHostname: name}}}
	node.Status.Allocatable = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse("8Gi")}
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	return node
}

// evictable returns the facts that allow the eviction of a pod of two replicas that wants 2 CPU instead of 500m.
func evictable(t *testing.T, pod *corev1.Pod) Eviction {
	t.Helper()
	plan := mustPlan(t, pod, wish(size(2000, 0, 0, 0)))
	two := resource.MustParse("2")
	return Eviction{
		Now: noon, Allowed: true, Siblings: []*corev1.Pod{pod, ofDeployment("web-2")}, Replicas: 2, Wanted: &plan,
		Seed:  &v1alpha1.Seed{ValidUntil: metav1.NewTime(noon.Add(time.Hour)), Containers: []v1alpha1.ContainerSeed{{Name: "app", CPURequest: &two}}},
		Nodes: []*corev1.Node{aNode("node-1", "4"), aNode("node-2", "4")},
	}
}

func TestMayEvict(t *testing.T) {
	free := evictable(t, ofDeployment("web-1"))
	require.Nil(t, MayEvict(ofDeployment("web-1"), free))
	sibling := func(e *Eviction, edit func(*corev1.Pod)) {
		e.Siblings = []*corev1.Pod{e.Siblings[0], with(ofDeployment("web-2"), edit)}
	}
	for name, c := range map[string]struct {
		pod    func(*corev1.Pod)
		world  func(*Eviction)
		reason string
		passes bool
	}{
		"the operator may not evict":     {world: func(e *Eviction) { e.Allowed = false }, reason: ReasonEvictionOff},
		"47 a static pod":                {pod: func(p *corev1.Pod) { p.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "x"} }, reason: ReasonStaticPod},
		"no controller":                  {pod: func(p *corev1.Pod) { p.OwnerReferences = nil }, reason: ReasonNoController},
		"an owner that is no controller": {pod: func(p *corev1.Pod) { p.OwnerReferences[0].Controller = nil }, reason: ReasonNoController},
		"85 a DaemonSet's":               {pod: func(p *corev1.Pod) { p.OwnerReferences[0].Kind = "DaemonSet" }, reason: ReasonDaemonPod},
		"another group's DaemonSet's": {pod: func(p *corev1.Pod) {
			p.OwnerReferences[0].APIVersion, p.OwnerReferences[0].Kind = "apps.kruise.io/v1alpha1", "DaemonSet"
		}, reason: ReasonDaemonPod},
		"another group's Job's": {pod: func(p *corev1.Pod) {
			p.OwnerReferences[0].APIVersion, p.OwnerReferences[0].Kind = "batch.volcano.sh/v1alpha1", "Job"
		}, reason: ReasonBatchPod},
		"a Job's":                       {pod: func(p *corev1.Pod) { p.OwnerReferences[0].APIVersion, p.OwnerReferences[0].Kind = "batch/v1", "Job" }, reason: ReasonBatchPod},
		"3 it is being deleted":         {pod: func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: noon} }, reason: ReasonPodDeleted},
		"4 it has ended":                {pod: func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded }, reason: ReasonPodFinished},
		"Karpenter may not":             {pod: func(p *corev1.Pod) { p.Annotations = map[string]string{"karpenter.sh/do-not-disrupt": "true"} }, reason: ReasonDoNotDisrupt},
		"Karpenter may not for a while": {pod: func(p *corev1.Pod) { p.Annotations = map[string]string{"karpenter.sh/do-not-disrupt": "30m"} }, reason: ReasonDoNotDisrupt},
		"the old Karpenter may not":     {pod: func(p *corev1.Pod) { p.Annotations = map[string]string{"karpenter.sh/do-not-evict": "true"} }, reason: ReasonDoNotDisrupt},
		"the Cluster Autoscaler may not": {pod: func(p *corev1.Pod) {
			p.Annotations = map[string]string{"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"}
		}, reason: ReasonDoNotDisrupt},
		"the Descheduler had better not": {pod: func(p *corev1.Pod) {
			p.Annotations = map[string]string{"descheduler.alpha.kubernetes.io/prefer-no-eviction": ""}
		}, reason: ReasonDoNotDisrupt},
		"the template says so":   {world: func(e *Eviction) { e.Annotations = []map[string]string{nil, {"karpenter.sh/do-not-disrupt": "true"}} }, reason: ReasonDoNotDisrupt},
		"it is too large":        {pod: func(p *corev1.Pod) { p.Annotations = map[string]string{workload.TooLargeAnnotation: "true"} }, reason: ReasonTooLarge},
		"the workload opts out":  {world: func(e *Eviction) { e.Annotations = []map[string]string{{v1alpha1.SkipAnnotation: "true"}} }, reason: ReasonDoNotDisrupt},
		"the workload is paused": {world: func(e *Eviction) { e.Annotations = []map[string]string{{v1alpha1.PausedAnnotation: "true"}} }, reason: ReasonDoNotDisrupt},
		"the workload is undone": {world: func(e *Eviction) {
			e.Annotations = []map[string]string{{v1alpha1.UndoAnnotation: "2026-01-01T00:00:00Z"}}
		}, reason: ReasonDoNotDisrupt},
		"the kill switch":                      {world: func(e *Eviction) { e.Paused = []string{"cluster"} }, reason: ReasonPaused},
		"no new pod is sized in the namespace": {world: func(e *Eviction) { e.NotSized = "excluded" }, reason: ReasonSuccessorNotSized},
		"the last successor was not sized": {world: func(e *Eviction) {
			e.Tries = []v1alpha1.Try{{What: v1alpha1.TryEviction, Pod: "web-3", Until: metav1.NewTime(noon.Add(time.Second))}}
		}, reason: ReasonLastSuccessor},
		"there is no seed":     {world: func(e *Eviction) { e.Seed = nil }, reason: ReasonSuccessorNotSized, passes: true},
		"the seed has expired": {world: func(e *Eviction) { e.Now = noon.Add(time.Hour) }, reason: ReasonSuccessorNotSized, passes: true},
		"the seed gives less": {world: func(e *Eviction) {
			e.Seed = e.Seed.DeepCopy()
			e.Seed.Containers[0].CPURequest = ptr.To(resource.MustParse("1999m"))
		}, reason: ReasonSuccessorNotSized, passes: true},
		"no node on which it may run is large enough": {world: func(e *Eviction) {
			e.Seed = e.Seed.DeepCopy()
			e.Seed.LargestPod.CPURequest = ptr.To(resource.MustParse("1900m"))
		}, reason: ReasonSuccessorNotSized, passes: true},
		"the seed leaves the CPU alone": {world: func(e *Eviction) { e.Seed = &v1alpha1.Seed{ValidUntil: e.Seed.ValidUntil} }, reason: ReasonSuccessorNotSized, passes: true},
		"no other node":                 {world: func(e *Eviction) { e.Nodes = e.Nodes[:1] }, reason: ReasonNoOtherNode},
		"all other nodes are smaller":   {world: func(e *Eviction) { e.Nodes = []*corev1.Node{aNode("node-1", "4"), aNode("node-2", "1900m")} }, reason: ReasonNoOtherNode},
		"the other node is cordoned":    {world: func(e *Eviction) { n := aNode("node-2", "4"); n.Spec.Unschedulable = true; e.Nodes = []*corev1.Node{n} }, reason: ReasonNoOtherNode},
		"the other node is not ready": {world: func(e *Eviction) {
			n := aNode("node-2", "4")
			n.Status.Conditions[0].Status = corev1.ConditionUnknown
			e.Nodes = []*corev1.Node{n}
		}, reason: ReasonNoOtherNode},
		"the other node is tainted": {world: func(e *Eviction) {
			n := aNode("node-2", "4")
			n.Spec.Taints = []corev1.Taint{{Key: "gpu", Effect: corev1.TaintEffectNoSchedule}}
			e.Nodes = []*corev1.Node{n}
		}, reason: ReasonNoOtherNode},
		"the pod may run on its node alone": {pod: func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{corev1.LabelHostname: "node-1"} }, reason: ReasonNoOtherNode},
		"67 the only replica":               {world: func(e *Eviction) { e.Replicas, e.Siblings = 1, e.Siblings[:1] }, reason: ReasonLastReplica},
		"59 the namespace is being deleted": {world: func(e *Eviction) { e.NamespaceTerminating = true }, reason: ReasonNamespaceTerminating},
		"64 a rollout":                      {world: func(e *Eviction) { e.Rollout = "1 of 2" }, reason: ReasonRolloutInProgress, passes: true},
		"another one is being evicted": {world: func(e *Eviction) {
			e.Records = []v1alpha1.ResizeRecord{{PodUID: "web-2", Phase: v1alpha1.RecordEvicting}}
		}, reason: ReasonReplicasNotReady, passes: true},
		"another one is being deleted":                        {world: func(e *Eviction) { sibling(e, func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: noon} }) }, reason: ReasonReplicasNotReady, passes: true},
		"another one is not ready":                            {world: func(e *Eviction) { sibling(e, func(p *corev1.Pod) { p.Status.Conditions = nil }) }, reason: ReasonReplicasNotReady, passes: true},
		"another one is missing":                              {world: func(e *Eviction) { e.Replicas = 3 }, reason: ReasonReplicasNotReady, passes: true},
		"another one has ended, and its successor is missing": {world: func(e *Eviction) { sibling(e, func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }) }, reason: ReasonReplicasNotReady, passes: true},
	} {
		t.Run(name, func(t *testing.T) {
			pod := ofDeployment("web-1")
			e := evictable(t, pod)
			if c.pod != nil {
				c.pod(pod)
			}
			if c.world != nil {
				c.world(&e)
			}
			refusal := MayEvict(pod, e)
			require.NotNil(t, refusal)
			assert.Equal(t, c.reason, refusal.Reason, refusal.Message)
			assert.Equal(t, c.passes, refusal.Transient, refusal.Message)
		})
	}
}

// These do not prevent an eviction: a tolerated taint, a taint that only prefers, an explicit yes, the pod's own
// readiness.
func TestPodsThatMayBeEvicted(t *testing.T) {
	tainted := aNode("node-2", "4")
	tainted.Spec.Taints = []corev1.Taint{{Key: "gpu", Effect: corev1.TaintEffectNoSchedule}, {Key: "busy", Effect: corev1.TaintEffectPreferNoSchedule}}
	pod := ofDeployment("web-1")
	pod.Spec.Tolerations = []corev1.Toleration{{Key: "gpu", Operator: corev1.TolerationOpExists}}
	pod.Annotations = map[string]string{"karpenter.sh/do-not-disrupt": "false", "cluster-autoscaler.kubernetes.io/safe-to-evict": "true"}
	e := evictable(t, pod)
	e.Nodes = []*corev1.Node{tainted}
	pod.Status.Conditions = nil
	assert.Nil(t, MayEvict(pod, e))

	elsewhere := e
	elsewhere.Wanted, elsewhere.NotSized, elsewhere.Seed = nil, "excluded", nil
	elsewhere.Tries = []v1alpha1.Try{{What: v1alpha1.TryEviction, Until: metav1.NewTime(noon.Add(time.Hour))}}
	assert.Nil(t, MayEvict(pod, elsewhere), "it goes for another reason, and its successor may be as it is")

	e.Tries = []v1alpha1.Try{{What: v1alpha1.TryEviction, Until: metav1.NewTime(noon)}}
	assert.Nil(t, MayEvict(pod, e), "a row that has expired")
}

func TestClassifyEviction(t *testing.T) {
	pods := schema.GroupResource{Resource: "pods"}
	budget := apierrors.NewTooManyRequests("Cannot evict pod as it would violate the pod's disruption budget.", 10)
	budget.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: policyv1.DisruptionBudgetCause, Message: "needs 2 healthy pods and has 2 currently"}}
	for name, c := range map[string]struct {
		err  error
		want EvictionOutcome
	}{
		"granted":                     {nil, EvictionGranted},
		"66 a PodDisruptionBudget":    {budget, EvictionDenied},
		"90 no rights":                {apierrors.NewForbidden(pods, "web-1", errors.New("no")), EvictionDenied},
		"too much to do":              {apierrors.NewTooManyRequests("later", 1), EvictionUnknown},
		"the pod has changed":         {apierrors.NewConflict(pods, "web-1", errors.New("resourceVersion")), EvictionUnknown},
		"gone":                        {apierrors.NewNotFound(pods, "web-1"), EvictionUnknown},
		"two PodDisruptionBudgets":    {apierrors.NewInternalError(errors.New("This pod has more than one PodDisruptionBudget")), EvictionUnknown},
		"18 no answer":                {errors.New("context deadline exceeded"), EvictionUnknown},
		"18 an answer that is broken": {apierrors.NewServerTimeout(pods, "evict", 1), EvictionUnknown},
	} {
		assert.Equal(t, c.want, ClassifyEviction(c.err), name)
	}
}

// Only the node's answer is a reason to evict: never a failed call, or a regression after a resize.
func TestResizesWorthAnEviction(t *testing.T) {
	rules := auto()
	rules.Method = v1alpha1.ResizeInPlaceOrRecreate
	grows := v1alpha1.ResizeRecord{Phase: v1alpha1.RecordWithdrawing, WrittenAt: metav1.NewTime(noon),
		Prior:   []v1alpha1.ContainerResources{{Name: "app", Resources: podview.ToResources(size(500, 0, 512, 0))}},
		Desired: []v1alpha1.ContainerResources{{Name: "app", Resources: podview.ToResources(size(2000, 0, 512, 0))}}}
	for reason, evicts := range map[string]bool{
		ReasonInfeasible: true, ReasonDeferred: true,
		ReasonUnobserved: false, ReasonTimeout: false, ReasonActuation: false, ReasonUndo: false, string(HarmOOM): false, "": false,
	} {
		record := grows
		record.Reason = reason
		next := Next(State{Kind: Applied, Restored: true}, record, rules, Circumstances{}, noon)
		assert.Equal(t, evicts, next.Kind == Evict, "%s: %v", reason, next)
		assert.NotEqual(t, Evict, Next(State{Kind: Applied, Restored: true}, record, auto(), Circumstances{}, noon).Kind, "%s under InPlaceOnly", reason)
	}
	assert.True(t, Recreates(grows, rules))
	assert.False(t, Recreates(grows, auto()))
	assert.Equal(t, recommender.Amount(0), podview.SeedRequests(&v1alpha1.Seed{}, "app")[recommender.CPU].Request)
}

// Only a record whose eviction was denied reports a denial.
func TestDenied(t *testing.T) {
	record := v1alpha1.ResizeRecord{PodName: "web-1", Phase: v1alpha1.RecordWithdrawing, WrittenAt: metav1.NewTime(noon)}
	assert.Nil(t, Denied(record), "on its way back to its old size")
	asked := Advance(record, Action{Kind: Evict}, noon)
	assert.Nil(t, Denied(asked), "nobody has answered")
	refusal := Denied(NotEvicted(asked))
	require.NotNil(t, refusal)
	assert.Equal(t, ReasonEvictionDenied, refusal.Reason)
	assert.Contains(t, refusal.Message, "web-1")
	assert.True(t, refusal.Transient)
	assert.Equal(t, noon.Add(time.Minute).UTC(), refusal.Until.UTC())
}
