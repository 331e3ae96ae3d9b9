package main

import (
	"context"
	"errors"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/cmd/kubectl-attune/connect"
	"attune.io/attune/cmd/kubectl-attune/output"
	"attune.io/attune/internal/answers"
	"attune.io/attune/internal/lookup"
	"attune.io/attune/internal/policy"
	"attune.io/attune/internal/workload"
	"attune.io/attune/podview"
	"attune.io/attune/recommender"
)

// newExplain returns the command explain, which takes either a workload or files. For a workload it needs the right to
// get its recommendation; policy, template and pods add to the answer if the user may read them. For files it needs no
// cluster. The JSON of the answer is answers.Explanation.
func newExplain(env *environment) *cobra.Command {
	var files offlineFlags
	command := &cobra.Command{
		Use:   "explain KIND/NAME | --usage FILE --policy FILE --current AMOUNTS",
		Short: "Explain the recommendations of a workload step by step",
		Long: "Explain the recommendations of a workload step by step.\n\n" +
			"With KIND/NAME, it shows what the operator computed, the next resize of each running pod, and the usage\n" +
			"of the last day if the AttuneRecommendation stores it. With files, it computes the same without a\n" +
			"cluster; each series of the usage file is one container.",
		Example: "  kubectl attune explain deployment/web\n" +
			"  kubectl attune explain --usage samples.csv.gz --policy policy.yaml --current cpu=500m,memory=1Gi --limits cpu=1,memory=2Gi",
		ValidArgsFunction: env.completesWorkloads(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case files.given() && len(args) > 0:
				return errors.New("a workload cannot be combined with files (--usage, --policy, --current): specify one of them")
			case files.given():
				return explainFiles(env, files)
			}
			return explainWorkload(cmd.Context(), env, args)
		},
	}
	files.addTo(command.Flags())
	return command
}

// explainWorkload explains a workload of the cluster. It omits the parts that the user may not read (policy, template,
// pods), with a note each. It rejects -l, because an explanation is long.
func explainWorkload(ctx context.Context, env *environment, args []string) error {
	if len(args) != 1 || env.scope.selector != "" {
		return errors.New("explain takes one workload: write KIND/NAME, e.g. deployment/web, or give files with --usage, --policy and --current")
	}
	r, views, err := env.views(ctx, args)
	if err != nil {
		return err
	}
	view := views[0]
	var fields []policy.Field
	if view.Settings != nil {
		if fields, err = r.fields(ctx, view.Recommendation); err != nil {
			return err
		}
	}
	pods, _, err := r.pods(ctx, podview.Running, "running pods are not shown")
	if err != nil {
		return err
	}
	view.Pods = pods[workload.IdentityOf(view.Recommendation)]
	if view.HasLimitRule() {
		if view.LimitRanges, view.Quotas, err = lookup.Constraints(ctx, r, r.namespace); err != nil {
			env.printNote("whether a LimitRange or a quota keeps CPU limits is not shown: %v", err)
		}
	}
	answer, err := answers.Explain(view, fields, env.now())
	if err != nil {
		return err
	}
	answer.Workload.Sharing = r.sharing(ctx, view.Recommendation)
	env.drawUsage(view.Recommendation, answer.Containers)
	return env.print(answer)
}

// sharing counts the workloads that have the kind and the identity of a recommendation; 0: it has no identity, or the
// recommendations cannot be listed.
func (r reach) sharing(ctx context.Context, rec *v1alpha1.AttuneRecommendation) (n int) {
	var list v1alpha1.AttuneRecommendationList
	if rec.Spec.Identity == "" || r.List(ctx, &list, client.InNamespace(rec.Namespace)) != nil {
		return 0
	}
	for _, other := range list.Items {
		if other.Spec.Identity == rec.Spec.Identity && other.Spec.Workload.Kind == rec.Spec.Workload.Kind {
			n++
		}
	}
	return n
}

// drawUsage adds the containers' usage of the last day, if the recommendation stores it.
func (e *environment) drawUsage(rec *v1alpha1.AttuneRecommendation, containers []answers.ExplainedContainer) {
	kept, err := connect.Stored(rec, connect.Span{From: e.now().Add(-output.SparklineSpan), To: e.now()})
	if err != nil {
		e.printNote("usage is not shown: %v", err)
	}
	for i := range containers {
		for _, r := range recommender.Resources {
			containers[i].Usage[r] = output.Sparkline(kept[containers[i].Name].Samples, r, e.now(), e.utf8)
		}
	}
}

// fields returns the settings of a recommendation's policy with the level that set each.
func (r reach) fields(ctx context.Context, rec *v1alpha1.AttuneRecommendation) ([]policy.Field, error) {
	reader := policies(r)
	own, err := reader.Of(ctx, rec)
	if err != nil {
		return nil, err
	}
	if ready := meta.FindStatusCondition(own.Status.Conditions, v1alpha1.ConditionReady); ready != nil {
		if remarks, _ := answers.Remarks(ready); remarks != "" {
			r.env.printNote("policy %s: %s", own.Name, answers.InLine(remarks))
		}
	}
	return reader.Fields(ctx, own)
}
