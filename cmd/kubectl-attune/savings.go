package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"attune.io/attune/cmd/kubectl-attune/output"
	"attune.io/attune/internal/answers"
	"attune.io/attune/internal/workload"
	"attune.io/attune/podview"
)

// newSavings returns the command savings. It needs the right to list recommendations. Workloads, policies, defaults
// and pods are optional: figures without them are not counted, and the answer says so.
func newSavings(env *environment) *cobra.Command {
	return &cobra.Command{
		Use:   "savings [KIND/NAME...]",
		Short: "Show what running pods save now, and what the targets would save",
		Long: "Show what running pods save now (saved), and what the targets would save once they are applied (available).\n" +
			"With -A, it also estimates how many nodes could be removed.\n\n" +
			"Both are sums of requests over all replicas; negative savings are increases. Blocked and skipped resources are not\n" +
			"counted; the output has their number. " + answers.NodeAutoscalerText + "\n" +
			"Prices are the costPricing of AttuneDefaults or AttuneNamespaceDefaults, for a month of 730 hours.",
		Example:           "  kubectl attune savings -A\n  kubectl attune savings deployment/web -o wide",
		ValidArgsFunction: env.completesWorkloads(0),
		RunE:              func(cmd *cobra.Command, args []string) error { return runSavings(cmd.Context(), env, args) },
	}
}

// runSavings prints the savings of the selected workloads.
func runSavings(ctx context.Context, env *environment, args []string) error {
	r, views, err := env.views(ctx, args)
	if err != nil {
		return err
	}
	pods, all, err := r.pods(ctx, podview.Running, "saved amounts are not known, and available amounts are computed from the templates")
	if err != nil {
		return err
	}
	entries, figures := make([]answers.SavingsEntry, len(views)), map[*corev1.Pod]answers.SavingsFigures{}
	for i, view := range views {
		view.Pods = pods[workload.IdentityOf(view.Recommendation)]
		entries[i] = answers.SavingsEntry{View: view, Figures: view.Compute()}
		for _, pod := range view.Pods {
			figures[pod] = view.OfPod(pod)
		}
	}
	if len(entries) == 0 {
		env.printNote("no recommendations found; kubectl attune status shows the policies")
	}
	answer := output.Savings{SavingsReport: answers.NewSavingsReport(entries, pods != nil)}
	if pods != nil && env.scope.all && env.scope.selector == "" && len(args) == 0 {
		if answer.Nodes, err = r.removableNodes(ctx, all, figures); err != nil {
			return err
		}
	}
	return env.print(answer)
}

// removableNodes counts the nodes. pods are all pods of the cluster, figures belong to the pods with a recommendation.
// It returns nil with a note if the user may not list the nodes.
func (r reach) removableNodes(ctx context.Context, pods []*corev1.Pod, figures map[*corev1.Pod]answers.SavingsFigures) (*output.Nodes, error) {
	var list corev1.NodeList
	err := r.List(ctx, &list)
	if apierrors.IsForbidden(err) {
		r.env.printNote("removable nodes are not shown: %v", err)
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("listing the nodes: %w", err)
	}
	if len(list.Items) == 0 {
		return nil, nil
	}
	nodes := podview.Pointers(list.Items)
	count := func(less func(answers.SavingsFigures) answers.SavedAmounts) int {
		return answers.RemovableNodes(nodes, pods, func(pod *corev1.Pod) answers.SavedAmounts { return less(figures[pod]) })
	}
	return &output.Nodes{
		Nodes:     len(nodes),
		Removable: count(func(answers.SavingsFigures) answers.SavedAmounts { return answers.SavedAmounts{} }),
		Before: count(func(f answers.SavingsFigures) answers.SavedAmounts {
			return answers.SavedAmounts{-f.Saved[0], -f.Saved[1]}
		}),
		After: count(func(f answers.SavingsFigures) answers.SavedAmounts { return f.Available }),
	}, nil
}
