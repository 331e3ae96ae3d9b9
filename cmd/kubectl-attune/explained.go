package main

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/explain"
	"attune.io/attune/internal/policy"
	"attune.io/attune/internal/savings"
	"attune.io/attune/internal/workload"
)

// explained is a workload's recommendation, compared with the pod template.
type explained struct {
	// rec is the recommendation as read from the API server.
	rec *v1alpha1.AttuneRecommendation
	// workload is the zero value where it does not exist or cannot be read.
	workload workload.Workload
	// settings of its policy; nil: not known.
	settings *policy.Settings
	// answer has the same containers in the same order as rec.
	answer explain.Explanation
}

// explainSelected explains the recommendations of the named workloads, else of every workload in scope, against
// the workloads' templates.
func (e *environment) explainSelected(ctx context.Context, arguments []string) ([]explained, error) {
	c, err := e.cluster.Client()
	if err != nil {
		return nil, err
	}
	recs, err := e.selectRecommendations(ctx, c, arguments)
	if err != nil {
		return nil, err
	}
	return e.explainTemplates(ctx, c, recs)
}

// explainTemplates sets every recommendation against the template of its workload.
// Settings are read once for each policy, templates once for each kind.
func (e *environment) explainTemplates(ctx context.Context, c client.Client, recs []v1alpha1.AttuneRecommendation) ([]explained, error) {
	// Templates are read before settings. Both are needed for the next step.
	templates, err := e.templates(ctx, c, recs)
	if err != nil {
		return nil, err
	}
	settings := newSettingsReader(e, c)
	all := make([]explained, len(recs))
	for i := range recs {
		all[i].rec, all[i].workload = &recs[i], templates[workload.IdentityOf(&recs[i])]
		if all[i].settings, err = settings.of(ctx, &recs[i]); err != nil {
			return nil, err
		}
		view := savings.View{Recommendation: &recs[i], Workload: all[i].workload, Settings: all[i].settings}
		if all[i].answer, err = explain.Of(view, e.now()).Explain(); err != nil {
			return nil, err
		}
	}
	return all, nil
}
