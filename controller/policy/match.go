package policy

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/policy"
	"attune.io/attune/internal/workload"
	"attune.io/attune/usage/podname"
)

// matched are the workloads that a policy selects: those it won, and those another policy sizes.
type matched struct {
	won  []workload.Workload
	lost []v1alpha1.PolicyConflict
	// neighbours are the other workloads of the namespace: their pods must not be taken for ours.
	neighbours []podname.Workload
}

// match finds the workloads of the policy's kind in its namespace and settles who sizes them.
func (c *Controller) match(ctx context.Context, p *v1alpha1.AttunePolicy) (matched, error) {
	policies := &v1alpha1.AttunePolicyList{}
	if err := c.Client.List(ctx, policies, client.InNamespace(p.Namespace), client.UnsafeDisableDeepCopy); err != nil {
		return matched{}, fmt.Errorf("listing policies: %w", err)
	}
	workloads, err := c.everyWorkload(ctx, p.Namespace)
	if err != nil {
		return matched{}, err
	}
	var out matched
	matcher := policy.NewMatcher(policies.Items)
	for _, w := range workloads {
		if !w.Part() {
			out.neighbours = append(out.neighbours, podname.Workload{Kind: w.Kind, Name: w.Name})
		}
		winner, losers := matcher.Match(w)
		if winner == nil {
			continue
		}
		if winner.Name == p.Name {
			out.won = append(out.won, w)
			continue
		}
		for _, l := range losers {
			if l.Policy.Name == p.Name {
				out.lost = append(out.lost, v1alpha1.PolicyConflict{Workload: w.String(), Winner: winner.Name, Reason: l.Reason})
			}
		}
	}
	return out, nil
}

func (c *Controller) everyWorkload(ctx context.Context, namespace string) ([]workload.Workload, error) {
	var all []workload.Workload
	for _, kind := range workload.Kinds {
		some, err := c.workloads(ctx, namespace, kind)
		if err != nil {
			return nil, err
		}
		all = append(all, some...)
	}
	return all, nil
}

// workloads lists the workloads of a kind from the cache, by name. Their templates are the cache's own: they
// are only read.
func (c *Controller) workloads(ctx context.Context, namespace string, kind v1alpha1.WorkloadKind) ([]workload.Workload, error) {
	list := workload.NewList(kind)
	if list == nil {
		return nil, fmt.Errorf("targetRef.kind %q is not supported: use Deployment, StatefulSet, DaemonSet, ReplicaSet, Job or CronJob", kind)
	}
	if err := c.Client.List(ctx, list, client.InNamespace(namespace), client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing %ss: %w", kind, err)
	}
	var out []workload.Workload
	err := meta.EachListItem(list, func(o runtime.Object) error {
		if w, ok := workload.From(o); ok && !w.Deleting {
			out = append(out, w)
		}
		return nil
	})
	slices.SortFunc(out, func(a, b workload.Workload) int { return cmp.Compare(a.Name, b.Name) })
	return out, err
}
