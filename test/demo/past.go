package main

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/workload"
	"attune.io/attune/test/deploy"
	"attune.io/attune/usage/codec"
	"attune.io/attune/usage/history"
)

// operator is the user that the operator writes as.
const operator = "system:serviceaccount:" + deploy.Namespace + ":attune"

// importPast gives all workloads a past: the operator takes it from the AttuneRecommendations, as after a restart, once a
// policy selects the workloads. Nobody but the operator may write these, so they are written in its name.
func (d *demo) importPast(ctx context.Context, now time.Time) error {
	config, err := d.cluster.RESTConfig()
	if err != nil {
		return err
	}
	config.Impersonate = rest.ImpersonationConfig{UserName: operator}
	as, err := newClient(config)
	if err != nil {
		return err
	}
	for _, h := range habits {
		if err := as.Create(ctx, h.recommendation(now)); err != nil {
			return fmt.Errorf("importing the past of %s: %w", h.workload, err)
		}
	}
	return nil
}

// recommendation has the past of a workload, and no targets.
func (h habit) recommendation(now time.Time) *v1alpha1.AttuneRecommendation {
	id := workload.Identity{Namespace: namespace, Kind: v1alpha1.KindDeployment, Name: h.workload}
	rec := &v1alpha1.AttuneRecommendation{ObjectMeta: metav1.ObjectMeta{
		Namespace: namespace, Name: id.RecommendationName(), Labels: id.RecommendationLabels(),
	}}
	rec.Spec = v1alpha1.AttuneRecommendationSpec{
		Workload: v1alpha1.WorkloadRef{Kind: id.Kind, Name: id.Name}, Policy: v1alpha1.PolicyRef{Name: h.policy}, Mode: v1alpha1.UpdateObserve,
		Checkpoints: []v1alpha1.Checkpoint{{Name: container, At: metav1.NewTime(now), Data: codec.PackCheckpoint(h.past(now), history.MaxCheckpoint)}},
	}
	return rec
}
