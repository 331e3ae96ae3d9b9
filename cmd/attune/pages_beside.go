package main

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/decision"
	"attune.io/attune/internal/owners"
	"attune.io/attune/internal/policy"
	"attune.io/attune/internal/savings/report"
	"attune.io/attune/internal/trail"
	"attune.io/attune/internal/workload"
	"attune.io/attune/ui"
)

// Beside implements ui.Caches.
func (p pages) Beside(ctx context.Context, rec *v1alpha1.AttuneRecommendation) ui.Beside {
	saved := p.Savings(ctx)(rec)
	out := ui.Beside{Trails: map[string]trail.Trail{}, Saved: &saved, Events: p.kept.told.Of(rec)}
	for _, c := range rec.Spec.Containers {
		out.Trails[c.Name] = p.kept.trails.Of(trailOf(rec, c.Name))
	}
	if of, err := p.settings.Of(ctx, rec); err == nil {
		out.Settings, _ = p.settings.Fields(ctx, of) // without them the page has no such table
	}
	return out
}

// trailOf is the key of a container's trail.
func trailOf(rec *v1alpha1.AttuneRecommendation, container string) trail.Key {
	return trail.Key{Namespace: rec.Namespace, Kind: rec.Spec.Workload.Kind, Workload: rec.Spec.Workload.Name, Container: container}
}

// Savings implements ui.Caches. It is what kubectl attune savings computes from the API server, by the same functions. The
// settings of a policy are read once for the workloads of a namespace, which come one after the other.
func (p pages) Savings(ctx context.Context) func(*v1alpha1.AttuneRecommendation) report.Entry {
	known, namespace := map[string]*policy.Settings{}, ""
	settings := func(rec *v1alpha1.AttuneRecommendation) *policy.Settings {
		if namespace != rec.Namespace {
			// Those of thousands of namespaces would be most of what the leader keeps.
			clear(known)
			namespace = rec.Namespace
		}
		key := policy.NameOf(rec.Spec.Policy)
		if of, ok := known[key]; ok {
			return of
		}
		of, _ := p.settingsOf(ctx, rec) // without them the savings are not counted
		known[key] = of
		return of
	}
	return func(rec *v1alpha1.AttuneRecommendation) report.Entry {
		view, _ := p.view(ctx, rec, settings(rec)) // without pods the savings are those of the template
		return report.EntryOf(view, view.Compute())
	}
}

// Nodes implements ui.Caches.
func (p pages) Nodes(ctx context.Context) (ui.Nodes, error) {
	out := ui.Nodes{At: p.now()}
	if p.decided == nil {
		out.Problem = "The operator watches some namespaces only: it does not see all pods of a node."
		return out, nil
	}
	all := &corev1.NodeList{}
	if err := p.client.List(ctx, all, client.UnsafeDisableDeepCopy); err != nil {
		return out, fmt.Errorf("listing the nodes for a page: %w", err)
	}
	for i := range all.Items {
		out.Names = append(out.Names, all.Items[i].Name)
	}
	slices.Sort(out.Names)
	return out, nil
}

// Node implements ui.Caches. As kubectl attune node does, it shows the last decision of the node loop, and what objects tell
// where no pod shares the node.
func (p pages) Node(ctx context.Context, name string) (decision.Node, bool, error) {
	if p.decided == nil {
		return decision.Node{}, false, nil
	}
	node := &corev1.Node{}
	if err := p.client.Get(ctx, client.ObjectKey{Name: name}, node, client.UnsafeDisableDeepCopy); err != nil {
		return decision.Node{}, false, client.IgnoreNotFound(err)
	}
	if last, known := p.decided(name); known && len(last.Pods) > 0 {
		return last, true, nil
	}
	list := &corev1.PodList{}
	if err := p.client.List(ctx, list, client.MatchingFields{workload.PodsByNode: name}, client.UnsafeDisableDeepCopy); err != nil {
		return decision.Node{}, false, fmt.Errorf("listing the pods of node %s for a page: %w", name, err)
	}
	pods := make([]*corev1.Pod, len(list.Items))
	for i := range list.Items {
		pods[i] = &list.Items[i]
	}
	var failed error
	answer := decision.Stored(node, pods, func(pod *corev1.Pod) *v1alpha1.AttuneRecommendation {
		rec, err := owners.Recommendation(ctx, p.client, pod)
		if err != nil {
			failed = err
		}
		return rec
	})
	return answer, failed == nil, failed
}
