package ui_test

import (
	"context"
	"fmt"
	"math"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/answers"
	policies "attune.io/attune/internal/policy"
	workloads "attune.io/attune/internal/workload"
	"attune.io/attune/podview"
	"attune.io/attune/recommender"
	"attune.io/attune/ui"
)

// Now is the current time of the test cluster.
var Now = time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)

// Harm is a text that must not appear unescaped in a page.
const Harm = `"><script>alert(1)</script><img src=x onerror=alert(1)>`

// Caches serves a test cluster. It implements ui.Caches.
type Caches struct {
	ui.Cluster
	Others
}

// All implements ui.Caches.
func (c Caches) All(_ context.Context, namespace string) (ui.Cluster, error) {
	if namespace == "" {
		return c.Cluster, nil
	}
	out := ui.Cluster{At: c.At}
	for _, p := range c.Policies {
		if p.Namespace == namespace {
			out.Policies = append(out.Policies, p)
		}
	}
	for _, r := range c.Recommendations {
		if r.Namespace == namespace {
			out.Recommendations = append(out.Recommendations, r)
		}
	}
	return out, nil
}

// Explain implements ui.Caches.
func (c Caches) Explain(_ context.Context, rec *v1alpha1.AttuneRecommendation, _ bool) ui.Explained {
	answer, err := Live(rec)
	if err != nil {
		return ui.Explained{Problem: err.Error()}
	}
	return ui.Explained{Explanation: answer}
}

// Live explains a recommendation from a template and three pods that match it.
func Live(rec *v1alpha1.AttuneRecommendation) (answers.Explanation, error) {
	template := &corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"pod-template-hash": "6d4b75cb6d"}}}
	for _, c := range rec.Spec.Containers {
		template.Spec.Containers = append(template.Spec.Containers, corev1.Container{Name: c.Name, Resources: podview.ToRequirements(sizeOf(500, 1000, 1<<30, 2<<30))})
	}
	template.Spec.InitContainers = []corev1.Container{{Name: "migrate", Resources: podview.ToRequirements(sizeOf(4000, 4000, 1<<30, 1<<30))}}
	view := answers.View{Recommendation: rec, NotSized: "the namespace does not have the label attune.io/inject=enabled", Settings: &policies.Settings{Recommender: settings()}, Workload: workloads.Workload{Template: template}}
	for i := range 3 {
		pod := &corev1.Pod{ObjectMeta: template.ObjectMeta, Spec: template.Spec}
		pod.Name = fmt.Sprintf("%s-6d4b75cb6d-%05d", rec.Spec.Workload.Name, i)
		view.Pods = append(view.Pods, pod)
	}
	return answers.Explain(view, nil, Now)
}

// Usage implements ui.Caches. It returns a week with a daily cycle and a gap.
func (c Caches) Usage(_ context.Context, rec *v1alpha1.AttuneRecommendation) map[string][]recommender.StepUsage {
	out := map[string][]recommender.StepUsage{}
	for _, container := range rec.Spec.Containers {
		if container.Target.CPURequest == nil {
			continue
		}
		var steps []recommender.StepUsage
		for i := range 7 * 24 * 12 {
			if i > 700 && i < 800 {
				continue
			}
			wave := 1 + math.Sin(float64(i)*2*math.Pi/288)
			steps = append(steps, recommender.StepUsage{
				At: Now.Add(-7*24*time.Hour + time.Duration(i+1)*5*time.Minute), CPUCores: 0.04 + 0.06*wave + 0.01*float64(i*7919%13)/13,
				MemoryBytes: float64(500<<20) + 90e6*wave,
			})
		}
		out[container.Name] = steps
	}
	return out
}

func settings() recommender.Settings {
	return recommender.Settings{
		HistoryWindow: 7 * 24 * time.Hour, QueryStep: 5 * time.Minute, MinimumDataPoints: 48,
		Of: [2]recommender.ResourceSettings{
			recommender.CPU:    {Percentile: 95, OverheadPercent: 20, MinAllowed: 1, MaxAllowed: 4000, MaxChangePercent: 50, LimitsFollow: true, AllowDecrease: true},
			recommender.Memory: {Percentile: 99, OverheadPercent: 30, MaxChangePercent: 30, LimitsFollow: true},
		},
	}
}

func sizeOf(cpu, cpuLimit, memory, memoryLimit recommender.Amount) recommender.Size {
	return recommender.Size{{Request: cpu, Limit: cpuLimit}, {Request: memory, Limit: memoryLimit}}
}

// Small is a cluster of three namespaces, with every state.
func Small() Caches {
	c := Caches{Cluster: ui.Cluster{At: Now}, Others: others()}
	c.Policies = []v1alpha1.AttunePolicy{
		policy("shop", "api", v1alpha1.UpdateAuto, ready("True", v1alpha1.ReasonMonitoring, "watching 3 workloads")),
		policy("billing", "all", v1alpha1.UpdateRecommend, ready("True", v1alpha1.ReasonMonitoring, "watching 1 workload")),
		policy("legacy", "all", v1alpha1.UpdateAuto, ready("False", v1alpha1.ReasonInvalidConfig, `spec.updateStrategy.cooldown of level policy: "soon" is no duration; 10m would do`)),
	}
	web, db := workload("shop", v1alpha1.KindDeployment, "web", "app", "proxy"), workload("shop", v1alpha1.KindStatefulSet, "db", "postgres")
	withActivity(&web)
	db.Status.Phase, db.Status.Paused = v1alpha1.PhasePaused, &v1alpha1.PausedState{Since: at(-2 * time.Hour), Reason: "another writer resized db-0 twice"}
	young := workload("shop", v1alpha1.KindDaemonSet, "agent", "agent")
	young.Spec.Containers[0] = v1alpha1.ContainerTarget{Name: "agent", Confidence: "0.1", DataPoints: 12, Holds: []v1alpha1.Hold{
		{Resource: "cpu", Reason: "InsufficientData", Message: "12 of 48 steps have data"}, {Resource: "memory", Reason: "InsufficientData", Message: "12 of 48 steps have data"},
	}}
	quiet := workload("billing", v1alpha1.KindCronJob, "invoices", "main")
	quiet.Spec.Mode = v1alpha1.UpdateRecommend
	c.Recommendations = []v1alpha1.AttuneRecommendation{web, db, young, quiet}
	return c
}

// Hostile is the same with Harm wherever other writers could have put a text.
func Hostile() Caches {
	c := Small()
	for i := range c.Policies {
		c.Policies[i].Status.Conditions = []metav1.Condition{ready("False", Harm, Harm)}
	}
	web, db := &c.Recommendations[0], &c.Recommendations[1]
	web.Spec.Containers[0].Name, web.Spec.Containers[0].Steps[0].Reason, web.Spec.Containers[0].Holds[0].Message = Harm, Harm, Harm
	web.Status.Conditions[0].Reason, web.Status.Conditions[0].Message = Harm, Harm
	web.Status.History[0].Container, web.Status.History[0].Reason, web.Status.Records[0].PodName = Harm, Harm, Harm
	db.Spec.Workload.Name, db.Spec.Policy.Name, db.Status.Paused.Reason = Harm, Harm, Harm
	c.Events[0].Message, c.Events[0].Reason, c.Events[0].Pod = Harm, Harm, Harm
	c.Settings[0].Value, c.NotCounted[0].Message, c.NotCounted[0].Container = Harm, Harm, Harm
	node := shared(Harm)
	node.Pods[1].Name, node.Pods[1].Containers[0].Name, node.Pods[2].Message, node.Evictions[0].Reason, node.Decided.Holders[0].Message = Harm, Harm, Harm, Harm, Harm
	c.Others.Nodes = append(c.Others.Nodes, node)
	return c
}

// Sourceless is a cluster whose usage source does not answer.
func Sourceless() Caches {
	c := Small()
	for i := range c.Policies {
		c.Policies[i].Status.Conditions = []metav1.Condition{ready("False", v1alpha1.ReasonPrometheusUnavailable,
			"http://prometheus.monitoring:9090 does not answer: connection refused; nothing is applied until it answers")}
	}
	return c
}

// Empty is a cluster without a policy.
func Empty() Caches {
	return Caches{Cluster: ui.Cluster{At: Now}, Others: Others{NoNodes: "The operator watches only some namespaces: it does not see all pods of a node."}}
}

// Long is a small cluster in which every name and text is as long as the API allows.
func Long() Caches {
	c := Small()
	name, text := strings.Repeat("long-name-", 25)[:250], strings.Repeat("unbroken", 120)
	web := &c.Recommendations[0]
	web.Spec.Workload.Name, web.Spec.Policy.Name, web.Spec.Containers[0].Name = name, name, name[:63]
	web.Spec.Containers[0].Holds[0].Message, web.Status.Conditions[0].Message, web.Status.Records[0].PodName = text, text, name
	for i := range web.Status.History {
		web.Status.History[i].Container, web.Status.History[i].Reason = name[:63], text
	}
	c.Events[0].Message, c.Settings[0].Value = text, text[:200]
	c.Others.Nodes[0].Node, c.Others.Nodes[0].Pods[1].Name, c.Others.Nodes[0].Pods[1].Reason = name, name, name
	c.Policies[0].Status.Conditions = []metav1.Condition{ready("False", v1alpha1.ReasonInvalidConfig, text)}
	return c
}

// Great is a cluster of that many workloads with two containers each. There is a namespace per 100 workloads; the
// first one has 500.
func Great(workloads int) Caches {
	c := Caches{Cluster: ui.Cluster{At: Now}, Others: others()}
	for i := range workloads / 20 {
		c.Others.Nodes = append(c.Others.Nodes, plain(fmt.Sprintf("worker-%04d", i+1)))
	}
	for i := range workloads {
		namespace := "team-000"
		if i >= 500 {
			namespace = fmt.Sprintf("team-%03d", i/100)
		}
		if len(c.Policies) == 0 || c.Policies[len(c.Policies)-1].Namespace != namespace {
			c.Policies = append(c.Policies, policy(namespace, "all", v1alpha1.UpdateAuto, ready("True", v1alpha1.ReasonMonitoring, "watching 100 workloads")))
		}
		rec := workload(namespace, v1alpha1.KindDeployment, fmt.Sprintf("service-%04d", i), "app", "proxy")
		if i%10 == 0 {
			withActivity(&rec)
		}
		c.Recommendations = append(c.Recommendations, rec)
	}
	return c
}

func ready(status metav1.ConditionStatus, reason, message string) metav1.Condition {
	return metav1.Condition{Type: v1alpha1.ConditionReady, Status: status, Reason: reason, Message: message, LastTransitionTime: at(-24 * time.Hour)}
}

func at(after time.Duration) metav1.Time { return metav1.NewTime(Now.Add(after)) }

func policy(namespace, name string, mode v1alpha1.UpdateType, condition metav1.Condition) v1alpha1.AttunePolicy {
	p := v1alpha1.AttunePolicy{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, CreationTimestamp: at(-30 * 24 * time.Hour)},
		Status:     v1alpha1.AttunePolicyStatus{Mode: mode, Conditions: []metav1.Condition{condition}},
	}
	if condition.Status == metav1.ConditionTrue {
		p.Status.Workloads = &v1alpha1.WorkloadCounts{Discovered: 3}
		p.Status.Savings = &v1alpha1.Savings{CPURequestReduction: resource.MustParse("1800m"), MemoryRequestReduction: resource.MustParse("1536Mi")}
	}
	return p
}

func workload(namespace string, kind v1alpha1.WorkloadKind, name string, containers ...string) v1alpha1.AttuneRecommendation {
	rec := v1alpha1.AttuneRecommendation{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID(namespace + name)},
		Spec: v1alpha1.AttuneRecommendationSpec{
			Workload: v1alpha1.WorkloadRef{Kind: kind, Name: name}, Policy: v1alpha1.PolicyRef{Name: "api"}, Mode: v1alpha1.UpdateAuto,
			DataUntil: &metav1.Time{Time: Now.Add(-5 * time.Minute)},
		},
		Status: v1alpha1.AttuneRecommendationStatus{Phase: v1alpha1.PhaseIdle, Pods: &v1alpha1.PodCounts{Total: 3, AtTarget: 3}},
	}
	for _, container := range containers {
		rec.Spec.Containers = append(rec.Spec.Containers, v1alpha1.ContainerTarget{
			Name: container, Target: podview.ToResources(sizeOf(200, 400, 768<<20, 3<<29)), Confidence: "0.92", DataPoints: 1915,
			Holds: []v1alpha1.Hold{{Resource: "memory", Reason: "AllowDecrease", Message: "1Gi to 768Mi is -25 %; memory is lowered only with allowDecrease"}},
			Steps: []v1alpha1.Step{
				{Resource: "cpu", Name: "percentile", Before: "0", After: "160m", Reason: "95th percentile of 1915 samples"},
				{Resource: "cpu", Name: "margin", Before: "160m", After: "192m", Reason: "20 % more"},
				{Resource: "cpu", Name: "bounds", Before: "192m", After: "200m", Reason: "rounded up to 10m"},
				{Resource: "memory", Name: "percentile", Before: "0", After: "619659264", Reason: "99th percentile of 1915 samples"},
				{Resource: "memory", Name: "margin", Before: "619659264", After: "768Mi", Reason: "30 % more"},
			},
		})
	}
	return rec
}

// withActivity adds in-flight resizes, a history, floors, conditions and originals to a recommendation.
func withActivity(rec *v1alpha1.AttuneRecommendation) {
	prior := podview.ToResources(sizeOf(500, 1000, 1<<30, 2<<30))
	s := &rec.Status
	s.Phase, s.NextResize = v1alpha1.PhaseWatching, &v1alpha1.NextResize{Reason: v1alpha1.ReasonObservation, At: &metav1.Time{Time: Now.Add(5 * time.Minute)}}
	s.Pods = &v1alpha1.PodCounts{Total: 3, AtTarget: 1, Open: 1}
	s.Records = []v1alpha1.ResizeRecord{{
		PodUID: "uid", PodName: rec.Spec.Workload.Name + "-6d4b75cb6d-00000", Node: "worker-1", Phase: v1alpha1.RecordWatching, WrittenAt: at(-10 * time.Minute), WatchUntil: &metav1.Time{Time: Now.Add(5 * time.Minute)},
		Prior: []v1alpha1.ContainerResources{{Name: "app", Resources: prior}}, Desired: []v1alpha1.ContainerResources{{Name: "app", Resources: rec.Spec.Containers[0].Target}},
	}}
	s.History = []v1alpha1.HistoryEntry{
		{Timestamp: at(-20 * time.Hour), Pod: rec.Spec.Workload.Name + "-6d4b75cb6d-00001", Container: "app", Resource: "cpu", From: "700m", To: "500m", Method: "InPlace", Result: "Success"},
		{Timestamp: at(-70 * time.Hour), Pod: rec.Spec.Workload.Name + "-6d4b75cb6d-00002", Container: "app", Resource: "memory", From: "1Gi", To: "600Mi", Method: "InPlace", Result: "Reverted", Reason: "oomkill"},
	}
	s.Floors = []v1alpha1.Floor{{Container: "app", Resource: "memory", Amount: resource.MustParse("700Mi"), Reason: "oomkill", LearnedAt: at(-70 * time.Hour)}}
	s.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionResizeBlocked, Status: metav1.ConditionTrue, Reason: "Quota", Message: "quota requests of namespace shop has no room for 200m more", LastTransitionTime: at(-time.Hour)}}
	s.Originals = []v1alpha1.Originals{{TemplateHash: "6d4b75cb6d", Since: &metav1.Time{Time: Now.Add(-30 * 24 * time.Hour)}, Containers: []v1alpha1.ContainerResources{{Name: "app", Resources: prior}}}}
}
