package e2e

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/test/deploy"
)

// movedStep is short, so that what comes after a move is soon seen.
const movedStep = 10 * time.Second

// movedWorkload has a policy that looks at two hours, which Prometheus knows.
func movedWorkload(ctx context.Context, t *testing.T, namespace string) (*appsv1.Deployment, *v1alpha1.AttunePolicy) {
	t.Helper()
	d := deployment(ctx, t, namespace, "moved", 1, app("app", asked))
	return d, policyFor(ctx, t, d, v1alpha1.UpdateRecommend, func(s *v1alpha1.AttunePolicySpec) {
		s.MetricsSource = &v1alpha1.MetricsSource{
			HistoryWindow: duration(2 * time.Hour), QueryStep: duration(movedStep), RateWindow: duration(time.Minute),
		}
		s.CPU.MaxAllowed, s.Memory.MaxAllowed = nil, nil
	})
}

// sourceMoves changes the release's usage source by one value: what was known of the workload stays known, and what it
// uses afterwards is measured too. A new leader waits for two steps and two minutes before it takes what was restored
// for all that there is.
func sourceMoves(t *testing.T, d *appsv1.Deployment, policy *v1alpha1.AttunePolicy, to string) {
	ctx := t.Context()
	began := time.Now()
	var before *v1alpha1.AttuneRecommendation
	eventually(t, "the whole window known", func() (err error) {
		before, err = measuredUntil(ctx, d, policy, began.Add(-time.Minute))
		if err == nil && points(before) < 600 {
			return fmt.Errorf("%d steps", points(before))
		}
		return err
	})
	known := time.Now()
	helm(t, "upgrade", release, chart(t), "--reuse-values", "--set", "usage.source="+to, "--wait", "--timeout", "120s")
	ready(ctx, t, deploymentIn(ctx, t, deploy.Namespace, "attune"))
	moved := time.Now()
	var after *v1alpha1.AttuneRecommendation
	eventually(t, "measured after the move", func() (err error) {
		after, err = measuredUntil(ctx, d, policy, moved.Add(movedStep))
		return err
	})
	t.Logf("known before after %s, moved in %s, measured after the move in %s", known.Sub(began).Round(time.Second),
		moved.Sub(known).Round(time.Second), time.Since(moved).Round(time.Second))
	t.Logf("%d steps known before, %d after; confidence %s and %s; target %s and %s", points(before), points(after),
		before.Spec.Containers[0].Confidence, after.Spec.Containers[0].Confidence, sizeOfTarget(before), sizeOfTarget(after))
	// The first rate of a new source is a minute later than its first sample, where nobody else knows it.
	assert.Greater(t, points(after), points(before)-int(2*time.Minute/movedStep))
	// It may rise: the usage of a container's first minutes does not count, and they can be over after the move.
	assert.Greater(t, confidenceOf(t, after), confidenceOf(t, before)-0.02)
	was, is := before.Spec.Containers[0].Target, after.Spec.Containers[0].Target
	assert.InEpsilon(t, was.CPURequest.AsApproximateFloat64(), is.CPURequest.AsApproximateFloat64(), 0.03)
	assert.InEpsilon(t, was.MemoryRequest.AsApproximateFloat64(), is.MemoryRequest.AsApproximateFloat64(), 0.03)
}

// measuredUntil is the recommendation that rests on what was measured until then at least.
func measuredUntil(ctx context.Context, d *appsv1.Deployment, policy *v1alpha1.AttunePolicy, until time.Time) (*v1alpha1.AttuneRecommendation, error) {
	rec, err := recommendation(ctx, d)
	if err != nil {
		return nil, err
	}
	if rec.Spec.DataUntil == nil || rec.Spec.DataUntil.Time.Before(until) {
		return nil, errors.Join(fmt.Errorf("data until %s", rec.Spec.DataUntil), requeryUsage(ctx, policy, rec))
	}
	return rec, nil
}

func points(rec *v1alpha1.AttuneRecommendation) int { return int(rec.Spec.Containers[0].DataPoints) }

func confidenceOf(t *testing.T, rec *v1alpha1.AttuneRecommendation) float64 {
	t.Helper()
	c, err := strconv.ParseFloat(rec.Spec.Containers[0].Confidence, 64)
	require.NoError(t, err)
	return c
}

func sizeOfTarget(rec *v1alpha1.AttuneRecommendation) string {
	target := rec.Spec.Containers[0].Target
	return target.CPURequest.String() + " " + target.MemoryRequest.String()
}
