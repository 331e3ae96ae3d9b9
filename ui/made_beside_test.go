package ui_test

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/answers"
	"attune.io/attune/internal/event"
	settingsof "attune.io/attune/internal/policy"
	owner "attune.io/attune/internal/workload"
	"attune.io/attune/recommender"
	"attune.io/attune/ui"
)

// Others has the cached data that is neither a policy nor a recommendation.
type Others struct {
	// Nodes by name, and the reason if there are none.
	Nodes       []answers.NodeAnswer
	NoNodes     string
	Events      []event.SentEvent
	Settings    []settingsof.Field
	NotCounted  []answers.NotCounted
	WithoutPast bool
}

// Beside implements ui.Caches.
func (c Caches) Beside(ctx context.Context, rec *v1alpha1.AttuneRecommendation) ui.Beside {
	entry := c.Savings(ctx)(rec)
	out := ui.Beside{Trails: map[string]event.Trail{}, Saved: &entry, Settings: c.Others.Settings}
	if rec.Status.History != nil {
		out.Events = c.Events
	}
	if c.WithoutPast {
		return out
	}
	for _, container := range rec.Spec.Containers {
		out.Trails[container.Name] = past()
	}
	return out
}

// past has four days: reduced requests, one restored request, limits, and a target that decreased.
func past() event.Trail {
	point := func(hours int, request, limit, target recommender.Amount) event.TrailPoint {
		return event.TrailPoint{At: at(-time.Duration(hours) * time.Hour).UnixMilli(), TrailValues: event.TrailValues{Request: request, Limit: limit, Target: target}}
	}
	return event.Trail{
		Points: [2][]event.TrailPoint{
			{point(96, 700, 1400, 320), point(60, 700, 1400, 240), point(20, 500, 1000, 240), point(8, 500, 1000, 200)},
			{point(96, 1<<30, 2<<30, 900<<20), point(71, 600<<20, 1200<<20, 600<<20), point(70, 1<<30, 2<<30, 768<<20)},
		},
		Kills: []int64{at(-70*time.Hour - 30*time.Second).UnixMilli()},
	}
}

// Savings implements ui.Caches.
func (c Caches) Savings(context.Context) func(*v1alpha1.AttuneRecommendation) answers.SavingsEntry {
	settings, pods := &settingsof.Settings{Pricing: settingsof.Pricing{CPUPerCoreHour: 0.03, MemoryPerGiBHour: 0.004, Currency: "€"}}, make([]*corev1.Pod, 3)
	return func(rec *v1alpha1.AttuneRecommendation) answers.SavingsEntry {
		return answers.SavingsEntry{
			View:    answers.View{Recommendation: rec, Workload: owner.Workload{Replicas: 3}, Settings: settings, Pods: pods},
			Figures: answers.SavingsFigures{Saved: answers.SavedAmounts{250, 1 << 30}, Available: answers.SavedAmounts{620, -(128 << 20)}, NotCounted: c.NotCounted},
		}
	}
}

// Nodes implements ui.Caches.
func (c Caches) Nodes(context.Context) (ui.Nodes, error) {
	out := ui.Nodes{At: c.At, Problem: c.NoNodes}
	for i := range c.Others.Nodes {
		out.Names = append(out.Names, c.Others.Nodes[i].Node)
	}
	slices.Sort(out.Names)
	return out, nil
}

// Node implements ui.Caches.
func (c Caches) Node(_ context.Context, name string) (answers.NodeAnswer, bool, error) {
	for i := range c.Others.Nodes {
		if c.Others.Nodes[i].Node == name {
			return c.Others.Nodes[i], true, nil
		}
	}
	return answers.NodeAnswer{}, false, nil
}

// others has the data of a small cluster.
func others() Others {
	defaults := &v1alpha1.AttuneDefaults{}
	defaults.Name = v1alpha1.DefaultsName
	defaults.Spec.CostPricing = &v1alpha1.CostPricing{CPUPerCoreHour: ptr.To(v1alpha1.Decimal("0.03")), Currency: "€"}
	sizing := &v1alpha1.AttunePolicy{}
	sizing.Spec.TargetRef = v1alpha1.TargetRef{Kind: v1alpha1.KindDeployment, Name: "web"}
	sizing.Spec.CPU = &v1alpha1.CPUSettings{ResourceSettings: v1alpha1.ResourceSettings{Percentile: ptr.To(int32(95))}}
	return Others{
		Nodes: []answers.NodeAnswer{shared("worker-1"), plain("worker-2")},
		Events: []event.SentEvent{
			{At: at(-10 * time.Minute).Time, Type: "Normal", Reason: "Resized", Pod: "web-6d4b75cb6d-00000", Message: "Pod web-6d4b75cb6d-00000: cpu 700m to 500m"},
			{At: at(-70 * time.Hour).Time, Type: "Warning", Reason: "Reverted", Pod: "web-6d4b75cb6d-00002", Message: "Pod web-6d4b75cb6d-00002 has its old size again: oomkill"},
		},
		Settings:   settingsof.Fields(defaults, nil, sizing, settingsof.Operator{}),
		NotCounted: []answers.NotCounted{{Container: "app", Resource: "memory", Reason: "AllowDecrease", Message: "memory is lowered only with allowDecrease"}},
	}
}

func amounts(cpu, memory string) answers.Amounts {
	return answers.Amounts{CPURequest: &cpu, MemoryRequest: &memory}
}

// shared is a node whose pods share the headroom. One pod keeps more than its share.
func shared(name string) answers.NodeAnswer {
	n := plain(name)
	share, base, peak := amounts("508m", "200Mi"), "400m", "800m"
	for i, get := range []string{"508m", "800m", "800m"} {
		pod := answers.NodePod{Name: fmt.Sprintf("shop/web-7c9-%05d", i), Shares: true, Containers: []answers.NodeContainer{{
			Name: "app", Holds: amounts("800m", "200Mi"), Wants: amounts("800m", "220Mi"), Gets: amounts(get, "200Mi"), Base: &answers.Quantities{CPU: &base}, Peak: &answers.Quantities{CPU: &peak}, Share: &share,
			Steps: []answers.Step{{Resource: "cpu", Name: "base", After: "400m", Reason: "its base demand"}, {Resource: "cpu", Name: "headroom", Before: "400m", After: "508m", Reason: "its part of the shared headroom"}},
		}}}
		if i == 1 {
			pod.Reason, pod.Message = "WorkloadPaused", "the pod cannot be changed now: WorkloadPaused"
		}
		n.Pods = append(n.Pods, pod)
	}
	n.Evictions = []answers.NodeEviction{{Name: "shop/web-7c9-00002", Ranking: "Low", Reason: "CPU does not fit", Waits: true}}
	n.Decided = &answers.NodeDecided{
		At: Now.Add(-42 * time.Second), Needed: answers.NodeAmounts{CPU: "1924m", Memory: "600Mi"}, Overcommitted: true,
		Holders: []answers.NodeHolder{{Name: "shop/web-7c9-00001", Resource: "cpu", Above: "292m", Reason: "WorkloadPaused", Message: "the pod cannot be changed now: WorkloadPaused"}},
	}
	return n
}

// plain is a node without sharing pods.
func plain(name string) answers.NodeAnswer {
	return answers.NodeAnswer{
		Node: name, Allocatable: answers.NodeAmounts{CPU: "4", Memory: "8Gi"}, Fixed: answers.NodeAmounts{CPU: "100m", Memory: "70Mi"}, Available: answers.NodeAmounts{CPU: "3900m", Memory: "8122Mi"},
		Pods: []answers.NodePod{{Name: "kube-system/stranger", Reason: "NoPolicy", Message: "no policy manages its workload", Containers: []answers.NodeContainer{{Name: "dns", Holds: amounts("100m", "70Mi"), Gets: amounts("100m", "70Mi")}}}},
	}
}
