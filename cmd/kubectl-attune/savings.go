package main

import (
	"context"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"

	"attune.io/attune/cmd/kubectl-attune/answers"
	"attune.io/attune/cmd/kubectl-attune/selection"
	"attune.io/attune/internal/savings"
	"attune.io/attune/internal/savings/report"
	"attune.io/attune/internal/workload"
	"attune.io/attune/podview"
)

// newSavings makes the verb savings.
// It needs the right to list recommendations. Workloads, policies, defaults and pods are optional: what cannot be read
// is not counted, and the answer says so.
func newSavings(env *environment) *cobra.Command {
	return &cobra.Command{
		Use:   "savings [KIND/NAME...]",
		Short: "Show what is saved: by the sizes of running pods, and by targets that are not applied yet",
		Long: "Show what is saved: by the sizes of running pods (realised), and by targets that are not applied yet (potential).\n" +
			"With -A it estimates how many nodes could be removed.\n\n" +
			"Both are requests, over all replicas; negative ones are growth. What is held or skipped is not counted, and the answer\n" +
			"says how much that is. " + report.Autoscaler + "\n" +
			"Prices are the costPricing of AttuneDefaults, for a month of 730 hours. There is no finding.",
		Example:           "  kubectl attune savings -A\n  kubectl attune savings deployment/web -o wide",
		ValidArgsFunction: env.completesWorkloads(0),
		RunE:              func(cmd *cobra.Command, args []string) error { return runSavings(cmd.Context(), env, args) },
	}
}

// runSavings prints what the selected workloads save.
func runSavings(ctx context.Context, env *environment, args []string) error {
	r, err := env.reach()
	if err != nil {
		return err
	}
	recs, err := env.selectRecommendations(ctx, r, args)
	if err != nil {
		return err
	}
	templates, err := env.templates(ctx, r, recs)
	if err != nil {
		return err
	}
	var cluster selection.AllPods
	pods, known, err := selection.FindPods(ctx, r, selection.PodQuery{
		Namespace: r.namespace, Kinds: kindsOf(recs), Keep: podview.Running, Every: cluster.Add, Note: env.note,
		Unknown: "what is realised is not known, and potential savings are those of the templates",
	})
	if err != nil {
		return err
	}
	settings := newSettingsReader(env, r)
	entries := make([]report.Entry, 0, len(recs))
	cluster.Of = map[*corev1.Pod]savings.Figures{}
	for i := range recs {
		id, view := workload.IdentityOf(&recs[i]), savings.View{Recommendation: &recs[i]}
		view.Workload, view.Pods = templates[id], pods[id]
		if view.Settings, err = settings.of(ctx, view.Recommendation); err != nil {
			return err
		}
		entries = append(entries, report.EntryOf(view, view.Compute()))
		for _, pod := range view.Pods {
			cluster.Of[pod] = view.OfPod(pod)
		}
	}
	if len(entries) == 0 {
		env.note("there is no recommendation to compare with: kubectl attune status shows the policies")
	}
	answer := answers.NewSavings(entries, known)
	if known && env.scope.all && env.scope.selector == "" && len(args) == 0 {
		if answer.Nodes, err = cluster.Count(ctx, r, env.note); err != nil {
			return err
		}
	}
	return env.print(answer)
}
