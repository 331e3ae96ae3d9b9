package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/workload"
)

// newPromote returns the command promote. It needs the rights to get the recommendation and to patch the workload. The
// operator promotes the sizes when it next reconciles the workload.
func newPromote(env *environment) *cobra.Command {
	return &cobra.Command{
		Use:   "promote KIND/NAME... | -l SELECTOR | -A",
		Short: "Promote the verified sizes of workloads with canary.autoPromote off",
		Long: "Promote the verified sizes of workloads in mode Canary with canary.autoPromote off: attune resizes the\n" +
			"pods after the first wave, and new pods are created with the promoted size. A later target needs another\n" +
			"promotion.\n\n" +
			"It writes the annotation attune.io/promote on the workload, with your own permissions. Its value is when\n" +
			"the newest size was verified, so a second promote of the same sizes changes nothing.",
		Example:           "  kubectl attune promote deployment/web\n  kubectl attune promote -l tier=api",
		ValidArgsFunction: env.completesWorkloads(0),
		RunE: func(cmd *cobra.Command, args []string) error {
			return env.annotate(cmd.Context(), args, annotation{done: "promoted", of: env.promotion(len(args) > 0)})
		},
	}
}

// promotion returns the annotation that promotes all sizes that are verified now. A named workload without a verified
// size is an error; a selected one is skipped with a note.
func (e *environment) promotion(named bool) func(context.Context, client.Client, workload.Workload) (map[string]*string, error) {
	return func(ctx context.Context, c client.Client, w workload.Workload) (map[string]*string, error) {
		var rec v1alpha1.AttuneRecommendation
		if err := c.Get(ctx, client.ObjectKey{Namespace: w.Namespace, Name: w.RecommendationName()}, &rec); err != nil {
			return nil, fmt.Errorf("reading the recommendation of %s: %w", w, err)
		}
		var newest time.Time
		for _, v := range rec.Status.Verified {
			if v.Since.After(newest) {
				newest = v.Since.Time
			}
		}
		none := fmt.Errorf("%s has no verified size to promote yet: wait until status shows AwaitsPromotion", w)
		switch {
		case newest.IsZero() && named:
			return nil, none
		case newest.IsZero():
			e.printNote("%v", none)
			return nil, nil
		}
		return map[string]*string{v1alpha1.PromoteAnnotation: new(newest.UTC().Format(time.RFC3339))}, nil
	}
}
