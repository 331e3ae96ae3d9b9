package policy

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/policy"
)

// worthWriting tells whether a new spec differs from the stored one in anything that anybody acts
// on. Figures in explanations move with every step of history, and a write for each would be most of
// what the API server gets from us.
func worthWriting(stored, wanted v1alpha1.AttuneRecommendationSpec, settings policy.Settings, now time.Time) bool {
	if needsRenewal(stored, wanted, settings, now) {
		return true
	}
	return !equality.Semantic.DeepEqual(essence(stored), essence(wanted))
}

// needsRenewal: the seed is half way through its life, or the newest sample that readers see is half
// way to being called stale.
func needsRenewal(stored, wanted v1alpha1.AttuneRecommendationSpec, settings policy.Settings, now time.Time) bool {
	if stored.Seed != nil && wanted.Seed != nil && stored.Seed.ValidUntil.Time.Before(now.Add(seedLifetime/2)) {
		return true
	}
	if stored.DataUntil == nil || wanted.DataUntil == nil {
		return stored.DataUntil != wanted.DataUntil
	}
	return wanted.DataUntil.Sub(stored.DataUntil.Time) > settings.Recommender.StaleAfter()/2
}

// essence drops what may drift without consequence. It changes nothing of the spec, and shares the rest
// with it.
func essence(spec v1alpha1.AttuneRecommendationSpec) v1alpha1.AttuneRecommendationSpec {
	spec.DataUntil, spec.Checkpoints = nil, nil
	if spec.Seed != nil {
		seed := *spec.Seed
		seed.ValidUntil = metav1.Time{}
		spec.Seed = &seed
	}
	spec.Containers = slices.Clone(spec.Containers)
	for i := range spec.Containers {
		c := &spec.Containers[i]
		c.Steps, c.Confidence, c.DataPoints = nil, "", 0
		c.Holds = slices.Clone(c.Holds)
		for j := range c.Holds {
			c.Holds[j].Message = ""
		}
	}
	return spec
}
