package policy

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"attune.io/attune/api/v1alpha1"
)

// pruning is an API server whose CRD of recommendations is from a version without spec.policy.kind: it prunes the
// field, and only its answer shows that.
type pruning struct {
	*memory
	writes int
}

func (p *pruning) prune(o client.Object) {
	if rec, ok := o.(*v1alpha1.AttuneRecommendation); ok {
		p.writes++
		rec.Spec.Policy.Kind = ""
	}
}

func (p *pruning) Create(ctx context.Context, o client.Object, opts ...client.CreateOption) error {
	p.prune(o)
	return p.memory.Create(ctx, o, opts...)
}

func (p *pruning) Patch(ctx context.Context, o client.Object, patch client.Patch, opts ...client.PatchOption) error {
	p.prune(o)
	return p.memory.Patch(ctx, o, patch, opts...)
}

// If only a part of the chart's CRDs was applied, recommendations do not store the kind of their policy. That is
// reported, and they are not written in every pass.
func TestOldCRDOfRecommendationsIsReported(t *testing.T) {
	r := newRealm(t, "shop")
	server := &pruning{memory: r.memory}
	r.Client, r.Settings.Client = server, server
	for range 12 {
		r.all()
		r.clock.SetTime(r.clock.Now().Add(5 * time.Second))
	}
	assert.Equal(t, 1, server.writes, "once in the first minute")
	s := r.current()
	require.Len(t, s.Unready, 1)
	assert.Equal(t, v1alpha1.ReasonRecommendationRefused, s.Unready[0].Reason)
	assert.Contains(t, s.Unready[0].Message, "Deployment/web: the CRD attunerecommendations.attune.io is older than the operator and drops spec.policy.kind: apply all CRDs of the chart")

	r.Client, r.Settings.Client = r.memory, r.memory
	r.clock.SetTime(r.clock.Now().Add(2 * time.Minute))
	r.all()
	assert.Empty(t, r.current().Unready)
	assert.Equal(t, map[string]string{"shop": base}, r.sizedBy())
}
