package policy

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/policy"
	"attune.io/attune/usage"
	"attune.io/attune/usage/recent"
)

// followed records the last interest.
type followed struct {
	Recent
	last recent.Interest
}

func (f *followed) Want(of recent.Interest) { f.last = of }

// The bases of pods that share a node come from the operator's own source, also if a policy names a server.
func TestBasesComeFromTheOperatorsSource(t *testing.T) {
	settings := policy.Settings{Strategy: v1alpha1.StrategyNode}
	settings.Resize.Mode = v1alpha1.UpdateAuto
	settings.Source = usage.SourceSettings{
		Prometheus: &v1alpha1.PrometheusSource{Address: "http://mine"}, Namespace: "shop", Labels: map[string]string{"a": "b"}, RateWindow: time.Minute,
	}
	for _, ofPolicy := range []bool{false, true} {
		settings.Source.OfPolicy = ofPolicy
		var to followed
		follow(&to, &v1alpha1.AttunePolicy{}, settings, matched{}, nil)
		want := settings.Source
		if ofPolicy {
			want = usage.SourceSettings{RateWindow: time.Minute}
		}
		assert.Equal(t, want, to.last.Source)
	}
}
