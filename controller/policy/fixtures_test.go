package policy

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/policy"
	"attune.io/attune/podview"
	"attune.io/attune/recommender"
)

var (
	now   = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	today = time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)
)

const mi = 1 << 20

func mode(of v1alpha1.UpdateType) func(*v1alpha1.AttunePolicySpec) {
	return func(s *v1alpha1.AttunePolicySpec) {
		s.UpdateStrategy = &v1alpha1.UpdateStrategy{Type: ptr.To(of)}
	}
}

// initialSettings are the settings of a policy of the mode Initial.
func initialSettings(t *testing.T) policy.Settings {
	t.Helper()
	p := &v1alpha1.AttunePolicy{Spec: v1alpha1.AttunePolicySpec{TargetRef: v1alpha1.TargetRef{Kind: v1alpha1.KindDeployment}}}
	mode(v1alpha1.UpdateInitial)(&p.Spec)
	settings, err := policy.Resolve(nil, nil, p)
	require.NoError(t, err)
	return settings
}

func kill(floor int64) v1alpha1.Floor {
	return v1alpha1.Floor{Container: "app", Resource: "memory", Reason: "oomkill",
		Amount: podview.Quantity(recommender.Memory, recommender.Amount(floor)), LearnedAt: metav1.NewTime(now)}
}

func reasons(t v1alpha1.ContainerTarget) (out []string) {
	for _, h := range t.Holds {
		out = append(out, h.Resource+" "+h.Reason)
	}
	return out
}
