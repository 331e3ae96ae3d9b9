package main

import (
	"context"

	"attune.io/attune/internal/explain"
	"attune.io/attune/internal/savings"
	"attune.io/attune/internal/workload"
)

// views reads what the selected workloads are explained and judged by, without their pods. Settings are read once for each
// policy, templates once for each kind.
func (e *environment) views(ctx context.Context, arguments []string) (r reach, all []savings.View, err error) {
	if r, err = e.recommendations(ctx, arguments); err != nil {
		return r, nil, err
	}
	templates, err := r.templates(ctx)
	if err != nil {
		return r, nil, err
	}
	all = make([]savings.View, len(r.recs))
	for i := range r.recs {
		all[i] = savings.View{Recommendation: &r.recs[i], Workload: templates[workload.IdentityOf(&r.recs[i])]}
		if all[i].Settings, err = r.settings(ctx, &r.recs[i]); err != nil {
			return r, nil, err
		}
	}
	return r, all, nil
}

// explained is a workload's recommendation, compared with the pod template.
type explained struct {
	savings.View
	// answer has the same containers in the same order as the recommendation.
	answer explain.Explanation
}

// explainSelected explains the recommendations of the named workloads, else of every workload in scope, against
// the workloads' templates.
func (e *environment) explainSelected(ctx context.Context, arguments []string) (reach, []explained, error) {
	r, views, err := e.views(ctx, arguments)
	if err != nil {
		return r, nil, err
	}
	all := make([]explained, len(views))
	for i, view := range views {
		all[i].View = view
		if all[i].answer, err = explain.Of(view, e.now()).Explain(); err != nil {
			return r, nil, err
		}
	}
	return r, all, nil
}
