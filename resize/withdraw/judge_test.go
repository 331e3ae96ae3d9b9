package withdraw

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/recommender"
)

func raising() *v1alpha1.Seed {
	q := resource.MustParse("4Gi")
	return &v1alpha1.Seed{Revision: "r", Containers: []v1alpha1.ContainerSeed{{Name: "app", MemoryRequest: &q}}}
}

func input(at time.Time) Input {
	return Input{Now: at, Seed: raising(), Seeded: func(*corev1.Pod) *v1alpha1.Seeded { return nil },
		Originals: func(*corev1.Pod) map[string]recommender.Size { return nil }, Unread: func(string) bool { return false }}
}

// An event with a time in the future, which every writer of events can create.
func TestEventOfTheFutureDoesNotWithdrawForEver(t *testing.T) {
	in := input(now)
	in.Rejected = &Rejection{At: now.Add(1000 * time.Hour), Message: "no"}
	out := Judge(in)
	for at := now; at.Before(now.Add(500 * time.Hour)); at = at.Add(time.Minute) {
		next := input(at)
		next.Status, next.Rejected = out.Status, in.Rejected
		next.Pods = []*corev1.Pod{{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.NewTime(at.Add(-30 * time.Second))}}}
		if out = Judge(next); out.Status == nil {
			t.Logf("ended after %s", at.Sub(now))
			return
		}
	}
	t.Errorf("still withdrawn after 500h: without %v", out.Status.RejectedWithout)
}

func TestAdmissionPolicyThatRequiresResourcesWithdraws(t *testing.T) {
	assert.True(t, MayReject(`admission webhook "validate.kyverno.svc-fail" denied the request: container app must specify a memory limit of at most 1Gi`, SeedEffect{Raises: true}))
}

// A transient answer that is unrelated to sizes must not end a withdrawal: the next pod would be rejected again.
func TestUnrelatedAnswerDoesNotEndAWithdrawal(t *testing.T) {
	in := input(now)
	in.Rejected = &Rejection{At: now, Message: "denied the request: memory limit above 1Gi"}
	out := Judge(in)
	in = input(now.Add(time.Hour))
	in.Status, in.Rejected = out.Status, &Rejection{At: now.Add(time.Hour), Message: `exceeded quota: q, requested: pods=1, used: pods=10, limited: pods=10`}
	out = Judge(in)
	in.Now, in.Status = now.Add(time.Hour+time.Minute), out.Status
	in.Pods = []*corev1.Pod{{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.NewTime(now.Add(time.Hour + 30*time.Second))}}}
	assert.NotNil(t, Judge(in).Status, "given again after an hour, although only the quota of pods was in the way")
}

// A pool that scales from zero adds the node within minutes. Because of LargestOf (nodes.largest, or a node seen
// before), admission set this size.
func TestPendingWaitsForAPoolThatScalesFromZero(t *testing.T) {
	q := resource.MustParse("4Gi")
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "web-1", UID: "u", CreationTimestamp: metav1.NewTime(now.Add(-5 * time.Second))},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{"memory": q}}}}},
		Status: corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse,
			Reason: corev1.PodReasonUnschedulable, LastTransitionTime: metav1.NewTime(now.Add(-4 * time.Second))}}},
	}
	small := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "small"}, Status: corev1.NodeStatus{
		Allocatable: corev1.ResourceList{"cpu": resource.MustParse("2"), "memory": resource.MustParse("2Gi")},
		Conditions:  []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}}}
	in := input(now)
	in.Largest = [2]recommender.Amount{64_000, 64 << 30}
	in.Pods, in.Cluster = []*corev1.Pod{pod}, []*corev1.Node{small}
	in.Seeded = func(*corev1.Pod) *v1alpha1.Seeded { return &v1alpha1.Seeded{Revision: "r"} }
	in.Originals = func(*corev1.Pod) map[string]recommender.Size {
		return map[string]recommender.Size{"app": {recommender.Memory: {Request: 1 << 30}}}
	}
	assert.Nil(t, Judge(in).Status)
}

// A pod that names its nodes never gets another node, so a larger node elsewhere does not matter. The DaemonSet
// controller names the node of each pod, and its pods tolerate a node that is cordoned or not ready.
func TestPodThatNamesItsNodesIsJudgedByThem(t *testing.T) {
	q := resource.MustParse("4Gi")
	requires := func(terms ...corev1.NodeSelectorTerm) *corev1.Affinity {
		return &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: terms}}}
	}
	in := func(key string, values ...string) []corev1.NodeSelectorRequirement {
		return []corev1.NodeSelectorRequirement{{Key: key, Operator: corev1.NodeSelectorOpIn, Values: values}}
	}
	named := corev1.NodeSelectorTerm{MatchFields: in(metav1.ObjectNameField, "small")}
	of := func(name, memory string, ready corev1.ConditionStatus) *corev1.Node {
		return &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelHostname: name, "pool": "a"}},
			Status: corev1.NodeStatus{Allocatable: corev1.ResourceList{"cpu": resource.MustParse("2"), "memory": resource.MustParse(memory)},
				Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: ready}}},
		}
	}
	taint := func(n *corev1.Node, key string) *corev1.Node {
		n.Spec.Unschedulable = key == corev1.TaintNodeUnschedulable
		n.Spec.Taints = []corev1.Taint{{Key: key, Effect: corev1.TaintEffectNoSchedule}}
		return n
	}
	daemon := []corev1.Toleration{{Key: corev1.TaintNodeNotReady, Operator: corev1.TolerationOpExists}, {Key: corev1.TaintNodeUnschedulable, Operator: corev1.TolerationOpExists}}
	for name, tc := range map[string]struct {
		spec      corev1.PodSpec
		small     *corev1.Node
		withdrawn bool
	}{
		"name of the node":                {corev1.PodSpec{Affinity: requires(named)}, nil, true},
		"names in each term":              {corev1.PodSpec{Affinity: requires(named, corev1.NodeSelectorTerm{MatchExpressions: in(corev1.LabelHostname, "small", "other")})}, nil, true},
		"host name in the selector":       {corev1.PodSpec{NodeSelector: map[string]string{corev1.LabelHostname: "small"}}, nil, true},
		"one term without a name":         {corev1.PodSpec{Affinity: requires(named, corev1.NodeSelectorTerm{MatchExpressions: in("pool", "b")})}, nil, false},
		"a pool that may get larger ones": {corev1.PodSpec{NodeSelector: map[string]string{"pool": "a"}}, nil, false},
		"it names the large node":         {corev1.PodSpec{Affinity: requires(corev1.NodeSelectorTerm{MatchFields: in(metav1.ObjectNameField, "big")})}, nil, false},
		"cordoned":                        {corev1.PodSpec{Affinity: requires(named)}, taint(of("small", "2Gi", corev1.ConditionTrue), corev1.TaintNodeUnschedulable), false},
		"cordoned, a DaemonSet":           {corev1.PodSpec{Affinity: requires(named), Tolerations: daemon}, taint(of("small", "2Gi", corev1.ConditionTrue), corev1.TaintNodeUnschedulable), true},
		"not ready, a DaemonSet":          {corev1.PodSpec{Affinity: requires(named), Tolerations: daemon}, taint(of("small", "2Gi", corev1.ConditionFalse), corev1.TaintNodeNotReady), true},
		"too small for the template too":  {corev1.PodSpec{Affinity: requires(named)}, of("small", "512Mi", corev1.ConditionTrue), false},
	} {
		t.Run(name, func(t *testing.T) {
			pod := &corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{Name: "agent-1", UID: "u", CreationTimestamp: metav1.NewTime(now.Add(-5 * time.Second))}, Spec: tc.spec,
				Status: corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse,
					Reason: corev1.PodReasonUnschedulable, LastTransitionTime: metav1.NewTime(now.Add(-4 * time.Second))}}},
			}
			pod.Spec.Containers = []corev1.Container{{Name: "app", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{"memory": q}}}}
			small := tc.small
			if small == nil {
				small = of("small", "2Gi", corev1.ConditionTrue)
			}
			in := input(now)
			in.Largest = [2]recommender.Amount{64_000, 64 << 30}
			in.Pods, in.Cluster = []*corev1.Pod{pod}, []*corev1.Node{small, taint(of("big", "64Gi", corev1.ConditionTrue), corev1.TaintNodeUnschedulable)}
			in.Seeded = func(*corev1.Pod) *v1alpha1.Seeded { return &v1alpha1.Seeded{Revision: "r"} }
			in.Originals = func(*corev1.Pod) map[string]recommender.Size {
				return map[string]recommender.Size{"app": {recommender.Memory: {Request: 1 << 30}}}
			}
			out := Judge(in)
			assert.Equal(t, tc.withdrawn, out.Status != nil)
			assert.Equal(t, tc.withdrawn, len(out.Unscheduled) == 1, "it gets its template's resources")
		})
	}
}

// A controller tries again after 5 ms. The times of events and pods have whole seconds.
func TestPodCreatedInTheSameSecondClearsARejection(t *testing.T) {
	in := input(now.Add(10 * time.Second))
	in.Rejected = &Rejection{At: now, Message: "denied the request: not now"}
	assert.NotNil(t, Judge(in).Status)
	in.Pods = []*corev1.Pod{{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.NewTime(now)}}}
	assert.Nil(t, Judge(in).Status)
	in.Rejected.Lasts = true
	assert.NotNil(t, Judge(in).Status, "the condition of the workload says that it lasts")
}

// refusedPod is a pod of 4 GiB and 500m whose template has 1 GiB and 500m.
func refusedPod(name, owner, reason string, created time.Time) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), CreationTimestamp: metav1.NewTime(created),
			OwnerReferences: []metav1.OwnerReference{{Kind: owner, Name: "web", Controller: ptr.To(true)}}},
		Spec: corev1.PodSpec{NodeName: "node", Containers: []corev1.Container{{Name: "app", Resources: corev1.ResourceRequirements{
			Requests: corev1.ResourceList{"cpu": resource.MustParse("500m"), "memory": resource.MustParse("4Gi")}}}}},
		Status: corev1.PodStatus{Phase: corev1.PodFailed, Reason: reason},
	}
}

// The kubelet refuses the pod, and its controller creates the next one at once.
func TestPodsThatTheKubeletRefusesWithdraw(t *testing.T) {
	for name, tc := range map[string]struct {
		owner, reason string
		pods          int
		age           time.Duration
		unsized, want bool
	}{
		"three of a ReplicaSet":                      {owner: "ReplicaSet", reason: "OutOfmemory", pods: 3, want: true},
		"one may have lost a race":                   {owner: "ReplicaSet", reason: "OutOfmemory", pods: 2},
		"a DaemonSet deletes its failed pods":        {owner: "DaemonSet", reason: "OutOfmemory", pods: 1, want: true},
		"so does a StatefulSet":                      {owner: "StatefulSet", reason: "OutOfmemory", pods: 1, want: true},
		"more memory does not explain a lack of CPU": {owner: "ReplicaSet", reason: "OutOfcpu", pods: 3},
		"nor one of pods":                            {owner: "ReplicaSet", reason: "OutOfpods", pods: 3},
		"nor a label of the node":                    {owner: "ReplicaSet", reason: "NodeAffinity", pods: 3},
		"nor a device":                               {owner: "ReplicaSet", reason: "UnexpectedAdmissionError", pods: 3},
		"more does not fit one NUMA node":            {owner: "ReplicaSet", reason: "TopologyAffinityError", pods: 3, want: true},
		"CPU is as before":                           {owner: "ReplicaSet", reason: "SMTAlignmentError", pods: 3},
		"long ago":                                   {owner: "ReplicaSet", reason: "OutOfmemory", pods: 3, age: time.Hour},
		"not sized by admission":                     {owner: "ReplicaSet", reason: "OutOfmemory", pods: 3, unsized: true},
	} {
		t.Run(name, func(t *testing.T) {
			in := input(now)
			for i := range tc.pods {
				in.All = append(in.All, refusedPod(fmt.Sprint("web-", i), tc.owner, tc.reason, now.Add(-tc.age-time.Second)))
			}
			in.Seeded = func(*corev1.Pod) *v1alpha1.Seeded {
				if tc.unsized {
					return nil
				}
				return &v1alpha1.Seeded{Revision: "r"}
			}
			in.Originals = func(*corev1.Pod) map[string]recommender.Size {
				return map[string]recommender.Size{"app": {recommender.CPU: {Request: 500}, recommender.Memory: {Request: 1 << 30}}}
			}
			out := Judge(in)
			require.Equal(t, tc.want, out.Status != nil)
			if tc.want {
				assert.Equal(t, v1alpha1.ReasonPodsDoNotStart, out.Status.Reason)
				assert.Contains(t, out.Status.Message, tc.reason)
				in.Status = out.Status
				in.Now = out.Status.Until.Add(time.Minute)
				assert.Equal(t, out.Status.Since, Judge(in).Status.Since, "old failures do not withdraw again")
			}
		})
	}
}

// A cluster without room has thousands of pods that wait for days, each with reads of nodes, pods or events.
func TestPodsThatWaitForLongAreCheckedRarely(t *testing.T) {
	in := input(now)
	in.Seeded = func(*corev1.Pod) *v1alpha1.Seeded { return &v1alpha1.Seeded{Revision: "r"} }
	waiting := func(age time.Duration) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.NewTime(now.Add(-age))}, Status: corev1.PodStatus{Phase: corev1.PodPending}}
	}
	for age, want := range map[time.Duration]time.Duration{
		-time.Hour: 15 * time.Second, 0: 15 * time.Second, 5 * time.Minute: 15 * time.Second, 20 * time.Minute: time.Minute,
		2 * time.Hour: 5 * time.Minute, 48 * time.Hour: 5 * time.Minute,
	} {
		in.Status, in.Pods = nil, []*corev1.Pod{waiting(age)}
		assert.Equal(t, want, Judge(in).After, age)
		in.Status = &v1alpha1.AdmissionWithdrawn{Since: metav1.NewTime(now.Add(-96 * time.Hour)), Until: metav1.NewTime(now.Add(-72 * time.Hour))}
		if age >= 0 {
			assert.Equal(t, want, Judge(in).After, "the one pod after a withdrawal, %s old", age)
		}
	}
	in.Status, in.Pods = nil, []*corev1.Pod{waiting(48 * time.Hour), waiting(time.Minute)}
	assert.Equal(t, 15*time.Second, Judge(in).After, "the youngest counts")
}

// Thousands of pods of one template may wait in a cluster of thousands of nodes, with long constraints.
func TestNodesAreSearchedOnceForPodsOfOneTemplate(t *testing.T) {
	var terms []corev1.NodeSelectorTerm
	for range 100 {
		terms = append(terms, corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "a", Operator: corev1.NodeSelectorOpIn, Values: []string{"x"}}}})
	}
	only := &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: terms}}}
	in := input(now)
	in.Seeded = func(*corev1.Pod) *v1alpha1.Seeded { return &v1alpha1.Seeded{Revision: "r"} }
	in.Originals = func(*corev1.Pod) map[string]recommender.Size {
		return map[string]recommender.Size{"app": {recommender.Memory: {Request: 1 << 30}}}
	}
	for i := range 20 {
		in.Pods = append(in.Pods, &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("web-", i), CreationTimestamp: metav1.NewTime(now.Add(-time.Hour))},
			Spec: corev1.PodSpec{Affinity: only.DeepCopy(), Containers: []corev1.Container{{Name: "app", Resources: corev1.ResourceRequirements{
				Requests: corev1.ResourceList{"memory": resource.MustParse("4Gi")}}}}},
			Status: corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse,
				Reason: corev1.PodReasonUnschedulable, LastTransitionTime: metav1.NewTime(now.Add(-time.Hour))}}},
		})
	}
	allocations := func(nodes int) float64 {
		in.Cluster = nil
		for i := range nodes {
			in.Cluster = append(in.Cluster, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("n", i)}, Status: corev1.NodeStatus{
				Allocatable: corev1.ResourceList{"cpu": resource.MustParse("8"), "memory": resource.MustParse("8Gi")}}})
		}
		return testing.AllocsPerRun(1, func() { Judge(in) })
	}
	assert.Less(t, (allocations(101)-allocations(1))/100, 100., "allocations for each node")
}
