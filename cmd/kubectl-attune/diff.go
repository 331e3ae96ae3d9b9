package main

import (
	"context"

	"github.com/spf13/cobra"

	"attune.io/attune/cmd/kubectl-attune/output"
)

// newDiff returns the command diff. Any difference is a finding, so that a CI job can keep manifests up to date. It
// needs the same rights as recommendations.
func newDiff(env *environment) *cobra.Command {
	return &cobra.Command{
		Use:   "diff [KIND/NAME...]",
		Short: "Show where pod templates differ from the recommendations",
		Long: "Show where pod templates differ from the recommendations: what to write into the manifests of\n" +
			"workloads in Git.\n\n" +
			"The exit code is 2 if there are differences. Blocked resources and changes of 10 % or less are not\n" +
			"shown; recommendations shows both. With cpu.hpa: Retarget, a CPU request is shown together with the\n" +
			"target of its HorizontalPodAutoscaler that belongs to it. Change both together.",
		Example:           "  kubectl attune diff -n shop\n  kubectl attune diff deployment/web -o json",
		ValidArgsFunction: env.completesWorkloads(0),
		RunE:              func(cmd *cobra.Command, args []string) error { return runDiff(cmd.Context(), env, args) },
	}
}

// runDiff prints the differences of the selected workloads. It skips a workload without a readable template, with a
// note.
func runDiff(ctx context.Context, env *environment, args []string) error {
	_, all, err := env.explainSelected(ctx, args)
	if err != nil {
		return err
	}
	answer := output.NewDiff()
	for _, one := range all {
		// Without the template everything would differ, which would be a false finding.
		if one.Workload.Template == nil {
			w := one.answer.Workload
			env.printNote("%s/%s in namespace %s is skipped: its pod template cannot be read", w.Kind, w.Name, w.Namespace)
			continue
		}
		answer.Add(one.answer, one.Recommendation.Spec.HPABindings)
	}
	if err := env.print(answer); err != nil {
		return err
	}
	if len(answer.Differences) > 0 {
		return errFinding
	}
	return nil
}
