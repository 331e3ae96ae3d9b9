package traces

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/trim"
)

// explained is a recommendation with two containers, as the API server has it.
func explained(number int) *v1alpha1.AttuneRecommendation {
	of := func(resource string) (steps []v1alpha1.Step) {
		for _, name := range []string{"percentile", "margin", "burst", "confidence", "floor", "bounds"} {
			steps = append(steps, v1alpha1.Step{
				Resource: resource, Name: name, Before: fmt.Sprintf("%dm", 100+number%900), After: fmt.Sprintf("%dm", 120+number%700),
				Reason: fmt.Sprintf("95th percentile of %d steps is %dm, 20 %% more for safety", 1500+number%500, 90+number%800),
			})
		}
		return steps
	}
	both := append(of("cpu"), of("memory")...)
	return &v1alpha1.AttuneRecommendation{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: fmt.Sprintf("deployment-web-%d", number), UID: types.UID(fmt.Sprintf("uid-%d", number)), Generation: 1},
		Spec:       v1alpha1.AttuneRecommendationSpec{Containers: []v1alpha1.ContainerTarget{{Name: "app", Steps: both}, {Name: "proxy", Steps: of("cpu")}}},
	}
}

// The cache has no steps, and the object with those that are kept is the one that the API server has.
func TestStepsOfACachedObject(t *testing.T) {
	s := New(1 << 20)
	whole := explained(1)
	cached, err := s.Before(trim.Object)(whole.DeepCopy())
	require.NoError(t, err)
	rec := cached.(*v1alpha1.AttuneRecommendation)
	require.Len(t, rec.Spec.Containers[0].Steps, 2, "those that metrics use")
	got, kept := s.Of(rec)
	require.True(t, kept)
	assert.Equal(t, whole.Spec, got.Spec)
	assert.Len(t, rec.Spec.Containers[0].Steps, 2, "the cache's own object is as it was")

	rec.Generation = 2
	_, kept = s.Of(rec)
	assert.False(t, kept, "the steps of another generation explain other targets")
}

// Objects without steps and of other kinds are transformed, and nothing is kept of them.
func TestNothingToKeep(t *testing.T) {
	s := New(1 << 20)
	for _, o := range []any{&v1alpha1.AttuneRecommendation{}, &v1alpha1.AttunePolicy{}, "text"} {
		_, err := s.Before(trim.Object)(o)
		require.NoError(t, err)
	}
	assert.Zero(t, s.Bytes())
	_, kept := s.Of(&v1alpha1.AttuneRecommendation{})
	assert.True(t, kept, "no container, no step")
	_, kept = (*Store)(nil).Of(explained(1))
	assert.False(t, kept)
}

// many is a recommendation of so many containers.
func many(containers int) *v1alpha1.AttuneRecommendation {
	rec := explained(1)
	for range containers - len(rec.Spec.Containers) {
		rec.Spec.Containers = append(rec.Spec.Containers, rec.Spec.Containers[0])
	}
	return rec
}

// A workload of as many containers as are sized has its steps.
func TestManyContainers(t *testing.T) {
	s, rec := New(1<<20), many(64)
	s.keep(rec)
	got, kept := s.Of(rec)
	require.True(t, kept)
	assert.Equal(t, rec.Spec, got.Spec)
}

// Steps that are not kept are packed once for each generation, and not at every change of the status.
func TestTooManySteps(t *testing.T) {
	s, rec := New(1<<20), many(1000)
	s.keep(rec)
	_, kept := s.Of(rec)
	assert.False(t, kept)
	assert.Zero(t, testing.AllocsPerRun(10, func() { s.keep(rec) }))
	rec.Generation, rec.Spec = 2, explained(1).Spec
	s.keep(rec)
	_, kept = s.Of(rec)
	assert.True(t, kept, "the next generation has few")
}

// The bound holds however many objects come and however often they change, and the newest are kept.
func TestBound(t *testing.T) {
	const most = 64 << 10
	s := New(most)
	for round := range int64(2) {
		for i := range 1000 {
			rec := explained(i)
			rec.Generation += round
			s.keep(rec)
			require.LessOrEqual(t, s.Bytes(), most)
		}
	}
	last := explained(999)
	last.Generation++
	_, kept := s.Of(last)
	assert.True(t, kept)
	assert.Equal(t, len(s.kept), s.order.Len())
	assert.Greater(t, s.order.Len(), 50)
}

func BenchmarkKeep(b *testing.B) {
	s := New(16 << 20)
	recs := make([]*v1alpha1.AttuneRecommendation, 5000)
	for i := range recs {
		recs[i] = explained(i)
	}
	b.ReportAllocs()
	n := 0
	for b.Loop() {
		rec := recs[n%len(recs)]
		rec.Generation++
		s.keep(rec)
		n++
	}
	b.ReportMetric(float64(s.Bytes())/float64(s.order.Len()), "B/recommendation")
}
