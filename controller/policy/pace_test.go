package policy

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/utils/ptr"

	"attune.io/attune/api/v1alpha1"
)

// setPercent changes a setting that changes every target.
func (f *fleet) setPercent(to int32) {
	f.change(func(s *v1alpha1.AttunePolicySpec) {
		s.CPU = &v1alpha1.CPUSettings{ResourceSettings: v1alpha1.ResourceSettings{Percentile: ptr.To(to)}}
	})
}

// Two writers, such as Argo CD and Flux, change one policy by turns each second. attune applies fewer and fewer of the
// changes, and the last one in the end.
func TestSettingsThatFlap(t *testing.T) {
	const workloads, seconds = 60, 600
	f := newFleet(t, workloads)
	f.pass(t)
	f.memory.written()
	var result time.Duration
	for second := range seconds {
		f.clock.SetTime(f.clock.Now().Add(time.Second))
		f.setPercent([]int32{90, 99}[second%2])
		r, err := f.Reconcile(context.Background(), f.request)
		require.NoError(t, err)
		result = r.RequeueAfter
	}
	assert.Less(t, f.memory.writes["patch AttuneRecommendation"], 20*workloads)
	assert.Less(t, f.memory.writes["patch status AttunePolicy"], 20)
	assert.Contains(t, f.ready().Message, "settings of the policy change")
	f.clock.SetTime(f.clock.Now().Add(result))
	f.pass(t)
	for _, rec := range f.memory.recommendations("shop") {
		require.Equal(t, f.policy().Generation, rec.Spec.Policy.Generation, "the last change is applied")
	}

	// After a calm time, a change is applied at once, and the remark goes.
	f.clock.SetTime(f.clock.Now().Add(3 * time.Minute))
	f.setPercent(95)
	f.pass(t)
	assert.Equal(t, f.policy().Generation, f.memory.recommendations("shop")[0].Spec.Policy.Generation)
	assert.NotContains(t, f.ready().Message, "settings of the policy change")
}

// A pause waits for nothing.
func TestAPauseIsAppliedAtOnce(t *testing.T) {
	f := newFleet(t, 1)
	for second := range 60 {
		f.clock.SetTime(f.clock.Now().Add(time.Second))
		f.setPercent([]int32{90, 99}[second%2])
		f.pass(t)
	}
	f.clock.SetTime(f.clock.Now().Add(time.Second))
	f.change(func(s *v1alpha1.AttunePolicySpec) { s.Paused = ptr.To(true) })
	f.pass(t)
	assert.Equal(t, v1alpha1.ReasonPaused, f.memory.recommendations("shop")[0].Spec.SeedBlocked)
}
