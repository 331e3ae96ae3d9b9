// Package tuningtest builds inputs for tests of package tuning: Deployment web in namespace shop, its pods, its node
// and its policy.
package tuningtest

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/clip"
	"attune.io/attune/internal/policy"
	"attune.io/attune/internal/workload"
	"attune.io/attune/podview"
	"attune.io/attune/recommender"
	"attune.io/attune/resize"
	"attune.io/attune/resize/harm"
	"attune.io/attune/resize/lifecycle"
	"attune.io/attune/resize/resizetest"
	"attune.io/attune/tuning"
)

// Now is the time of all views.
var Now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// Template is a size with a memory limit. SeedSize is smaller.
var (
	Template = SizeOf(500, 0, 512, 1024)
	SeedSize = SizeOf(200, 0, 200, 400)
)

// Mi is a mebibyte.
const Mi = 1 << 20

// SizeOf returns a size from CPU request and limit in millicores, memory request and limit in MiB.
var SizeOf = resizetest.Size

// Seen returns the view of Deployment web in mode Auto with a template size and pods.
func Seen(t testing.TB, template recommender.Size, pods ...*corev1.Pod) tuning.View {
	t.Helper()
	p := &v1alpha1.AttunePolicy{ObjectMeta: metav1.ObjectMeta{Name: "all", UID: "policy"}}
	p.Spec.TargetRef = v1alpha1.TargetRef{Kind: v1alpha1.KindDeployment}
	p.Spec.UpdateStrategy = &v1alpha1.UpdateStrategy{Type: ptr.To(v1alpha1.UpdateAuto)}
	settings, err := policy.Resolve(nil, nil, p)
	require.NoError(t, err)
	rec := &v1alpha1.AttuneRecommendation{ObjectMeta: metav1.ObjectMeta{Name: "deployment-web", Namespace: "shop", Generation: 1}}
	rec.Spec.Workload = v1alpha1.WorkloadRef{Kind: v1alpha1.KindDeployment, Name: "web"}
	rec.Spec.DataUntil = &metav1.Time{Time: Now}
	return tuning.View{
		Now: Now, Rec: rec, Pods: pods,
		Policy:   tuning.PolicyView{Settings: settings, Usable: true},
		Operator: tuning.OperatorView{ServerVersion: "v1.36.3"},
		Usage:    tuning.UsageView{Memory: map[types.UID]map[string]recommender.Amount{}, MemorySoon: map[types.UID]bool{}},
		Looked:   tuning.LookedView{Live: map[types.UID]bool{}, Unread: tuning.Unread{Nodes: map[string]*resize.Refusal{}}},
		Nodes:    map[string]tuning.Node{"node-1": {Node: Node("node-1", "16", "64Gi")}},
		Workload: &workload.Workload{
			Identity: workload.Identity{Kind: v1alpha1.KindDeployment, Namespace: "shop", Name: "web"},
			Replicas: int32(len(pods)), Annotations: map[string]string{},
			Template: &corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Resources: podview.ToRequirements(template)}}}},
		},
	}
}

// Heading sets the target of container app.
func Heading(w tuning.View, size recommender.Size) tuning.View {
	w.Rec.Spec.Containers = []v1alpha1.ContainerTarget{{Name: "app", Target: podview.ToResources(size)}}
	return w
}

// Node returns a ready node whose kubelet has the API server's version.
func Node(name, cpu, memory string) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelHostname: name}}}
	n.Status.Allocatable = corev1.ResourceList{"cpu": resource.MustParse(cpu), "memory": resource.MustParse(memory)}
	n.Status.NodeInfo.KubeletVersion = "v1.36.3"
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	return n
}

// Running returns a ready pod of Deployment web on node-1, created an hour ago.
func Running(name string, size recommender.Size) *corev1.Pod {
	started := metav1.NewTime(Now.Add(-time.Hour))
	pod := resizetest.Running(size)
	pod.Name, pod.UID, pod.CreationTimestamp, pod.Annotations = name, types.UID(name), started, map[string]string{}
	pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "web-abc", Controller: ptr.To(true)}}
	app := &pod.Status.ContainerStatuses[0]
	app.ContainerID, app.State.Running.StartedAt, pod.Status.StartTime = "containerd://"+name, started, &started
	return pod
}

// Born adds the seed annotation to a pod.
func Born(t *testing.T, pod *corev1.Pod, revision string, original recommender.Size) *corev1.Pod {
	t.Helper()
	pod.Annotations[v1alpha1.SeededAnnotation] = string(clip.JSON(v1alpha1.Seeded{
		Recommendation: "deployment-web", Revision: revision,
		Original: []v1alpha1.ContainerResources{{Name: "app", Resources: podview.ToResources(original)}},
	}))
	return pod
}

// EndedBefore lets a pod's container terminate some time ago and run again.
func EndedBefore(pod *corev1.Pod, reason string, restarts int32, ago time.Duration) *corev1.Pod {
	s := &pod.Status.ContainerStatuses[0]
	s.RestartCount = restarts
	s.LastTerminationState.Terminated = &corev1.ContainerStateTerminated{
		Reason: reason, ExitCode: resizetest.ExitCode(reason), ContainerID: fmt.Sprintf("containerd://%s-%d", pod.Name, restarts), StartedAt: metav1.NewTime(Now.Add(-time.Hour)), FinishedAt: metav1.NewTime(Now.Add(-ago)),
	}
	return pod
}

// Told returns the events of a decision as lines.
func Told(d tuning.Decision) (lines []string) {
	for _, e := range d.Events {
		lines = append(lines, e.Type+" "+e.Reason+" "+e.Message)
	}
	return lines
}

// Resized returns a view whose only pod was resized from 500m to 300m of CPU, without a limit. Its record has the
// phase.
func Resized(t *testing.T, phase v1alpha1.RecordPhase, has recommender.Size) tuning.View {
	t.Helper()
	from, to := SizeOf(500, 0, 512, 0), SizeOf(300, 0, 512, 0)
	pod := Running("web-1", has)
	w := Heading(Seen(t, from, pod), to)
	w.Rec.Status.Records = []v1alpha1.ResizeRecord{{
		PodUID: pod.UID, PodName: pod.Name, Node: "node-1", Phase: phase, Generation: 1, WrittenAt: metav1.NewTime(Now.Add(-10 * time.Minute)),
		Prior:    []v1alpha1.ContainerResources{{Name: "app", Resources: podview.ToResources(from)}},
		Desired:  []v1alpha1.ContainerResources{{Name: "app", Resources: podview.ToResources(to)}},
		Baseline: []v1alpha1.ContainerBaseline{{Name: "app", ContainerID: "containerd://web-1", Ready: true, StartedAt: pod.Status.StartTime}},
	}}
	return w
}

// RecordOf returns the record of a resize that was just sent.
func RecordOf(pod *corev1.Pod, to recommender.Size) v1alpha1.ResizeRecord {
	plan, refusal := resize.PlanFor(pod, []podview.Container{{Name: "app", Size: to}}, resize.CapabilitiesOf(Node("node-1", "16", "64Gi"), "v1.36.3"), Now)
	if refusal != nil {
		panic(refusal)
	}
	return lifecycle.NewRecord(plan, pod, Now, resize.Rules{})
}

// Eager sets a policy that resizes every pod at once.
func Eager(w tuning.View) tuning.View {
	w.Policy.Settings.Resize.MaxConcurrentPercent, w.Policy.Settings.Resize.CanaryPercent = 100, 100
	for r := range w.Policy.Settings.Recommender.Of {
		w.Policy.Settings.Recommender.Of[r].MaxChangePercent, w.Policy.Settings.Recommender.Of[r].AllowDecrease = 300, true
	}
	w.Looked.Live, w.Usage.Memory, w.Looked.Rooms = map[types.UID]bool{}, map[types.UID]map[string]recommender.Amount{}, map[string]*resize.Room{}
	return w
}

// Begun returns the names of the pods whose resizes a decision sends.
func Begun(d tuning.Decision) (pods []string) {
	for _, w := range d.Writes {
		pods = append(pods, w.Plan.PodName)
	}
	return pods
}

// Blocked returns the reason of the condition ResizeBlocked; empty: the condition is not True.
func Blocked(d tuning.Decision) string {
	if c := meta.FindStatusCondition(d.Status.Conditions, v1alpha1.ConditionResizeBlocked); c.Status == metav1.ConditionTrue {
		return c.Reason
	}
	return ""
}

// Small and Big are sizes without limits.
var Small, Big = SizeOf(500, 0, 512, 0), SizeOf(1000, 0, 512, 0)

// QuotaOf returns a ResourceQuota of CPU requests.
func QuotaOf(name, hard, used string) corev1.ResourceQuota {
	q := resizetest.QuotaOf(corev1.ResourceRequestsCPU, hard, used)
	q.Name = name
	return q
}

// JobPod returns the pod of one Job of CronJob backup.
func JobPod(i int, size recommender.Size) *corev1.Pod {
	pod := Running(fmt.Sprintf("backup-2938475%d-x", i), size)
	pod.Labels = map[string]string{batchv1.ControllerUidLabel: fmt.Sprintf("uid-%d", i)}
	pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "batch/v1", Kind: "Job", Name: fmt.Sprintf("backup-2938475%d", i), Controller: ptr.To(true)}}
	return pod
}

// Judged returns a view of one lowered pod whose observation ends now.
func Judged(t *testing.T) tuning.View {
	t.Helper()
	pod := Running("web-1", SizeOf(200, 400, 200, 400))
	pod.Generation, pod.Status.ObservedGeneration = 2, 2
	w := Heading(Seen(t, SizeOf(500, 1000, 512, 1024), pod), SizeOf(200, 400, 200, 400))
	w.Rec.Status.Records = []v1alpha1.ResizeRecord{{
		PodUID: pod.UID, PodName: pod.Name, Node: "node-1", Phase: v1alpha1.RecordWatching, Generation: 2, TemplateHash: "abc",
		WrittenAt: metav1.NewTime(Now.Add(-10 * time.Minute)), WatchUntil: &metav1.Time{Time: Now},
		Prior:    []v1alpha1.ContainerResources{{Name: "app", Resources: podview.ToResources(SizeOf(500, 1000, 512, 1024))}},
		Desired:  []v1alpha1.ContainerResources{{Name: "app", Resources: podview.ToResources(SizeOf(200, 400, 200, 400))}},
		Baseline: []v1alpha1.ContainerBaseline{{Name: "app", ContainerID: "containerd://web-1", StartedAt: &metav1.Time{Time: Now.Add(-time.Hour)}, Ready: true}},
	}}
	w.Usage.Signals = map[string]harm.Signals{}
	return w
}

// Harms has an example of each kind of regression.
var Harms = map[resize.Harm]func(w *tuning.View){
	resize.HarmOOM:      func(w *tuning.View) { EndedBefore(w.Pods[0], "OOMKilled", 1, time.Second) },
	resize.HarmRestart:  func(w *tuning.View) { EndedBefore(w.Pods[0], "Error", 2, time.Second) },
	resize.HarmNotReady: func(w *tuning.View) { w.Pods[0].Status.Conditions[0].Status = corev1.ConditionFalse },
	resize.HarmThrottle: func(w *tuning.View) {
		w.Usage.Signals["web-1"] = harm.Signals{Throttle: map[string]float64{"app": 0.9}}
	},
	resize.HarmSLO: func(w *tuning.View) {
		w.Policy.Settings.Resize.Guardrails = []v1alpha1.SLOGuardrail{{Name: "errors", Comparison: "<", Threshold: "1"}}
		w.Usage.Signals["web-1"] = harm.Signals{Answers: map[harm.Question]harm.Answer{{Name: "errors"}: {Value: 2}}}
	},
}

// Rise adds a trigger to harm.Triggers while a test runs: the result of a query is more than 30 % higher than before the
// resize. It returns the query.
func Rise(t *testing.T) harm.Question {
	t.Helper()
	query := harm.Question{Name: "p99", Query: "p99", Before: true}
	rise := harm.Trigger{
		Harm: "rise",
		Asks: func(resize.Rules) []harm.Question { return []harm.Question{query} },
		Judge: func(c harm.Case) resize.Verdict {
			before, known := c.Before(query)
			after, asked := c.Signals.Answers[query]
			switch {
			case !known || !asked || after.Failed != "":
				return resize.Verdict{NotJudged: []string{query.Name}}
			case after.Value > 1.3*before:
				return resize.Verdict{Harm: "rise", Message: fmt.Sprintf("p99 rose from %g to %g", before, after.Value)}
			}
			return resize.Verdict{}
		},
	}
	list := harm.Triggers
	harm.Triggers = append(slices.Clone(list), rise)
	t.Cleanup(func() { harm.Triggers = list })
	return query
}

// Condition returns the condition ResizeBlocked of a decision.
func Condition(t *testing.T, d tuning.Decision) metav1.Condition {
	t.Helper()
	c := meta.FindStatusCondition(d.Status.Conditions, v1alpha1.ConditionResizeBlocked)
	require.NotNil(t, c)
	return *c
}
