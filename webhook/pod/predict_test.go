package pod

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/recommender"
)

// The prediction for a template equals what the webhook gives the pod after the API server's defaults: requests from
// limits, and the defaults of a LimitRange.
func TestPredictionEqualsAdmission(t *testing.T) {
	defaults := func(limits, requests string) []*corev1.LimitRange {
		return []*corev1.LimitRange{{Spec: corev1.LimitRangeSpec{Limits: []corev1.LimitRangeItem{{
			Type: corev1.LimitTypeContainer, Default: res(t, limits).Requests, DefaultRequest: res(t, requests).Requests,
		}}}}}
	}
	for name, tc := range map[string]struct {
		template, arrives string
		limits            []*corev1.LimitRange
	}{
		"limits alone":                        {"cpu=/1 memory=/1Gi", "cpu=1/1 memory=1Gi/1Gi", nil},
		"a memory limit alone":                {"cpu=1 memory=/1Gi", "cpu=1 memory=1Gi/1Gi", nil},
		"default requests":                    {"", "cpu=500m memory=1Gi", defaults("", "cpu=500m memory=1Gi")},
		"default limits":                      {"cpu=1 memory=1Gi", "cpu=1/2 memory=1Gi/2Gi", defaults("cpu=2 memory=2Gi", "")},
		"both":                                {"cpu=100m", "cpu=100m/2 memory=1Gi/2Gi", defaults("cpu=2 memory=2Gi", "cpu=1 memory=1Gi")},
		"a limit before a default request":    {"memory=/3Gi", "cpu=1 memory=3Gi/3Gi", defaults("", "cpu=1 memory=1Gi")},
		"defaults that make a pod Guaranteed": {"", "cpu=1/1 memory=1Gi/1Gi", defaults("cpu=1 memory=1Gi", "cpu=1 memory=1Gi")},
		"what is said is left as it is":       {"cpu=1/2 memory=1Gi/2Gi", "cpu=1/2 memory=1Gi/2Gi", defaults("cpu=4 memory=4Gi", "cpu=2 memory=2Gi")},
	} {
		t.Run(name, func(t *testing.T) {
			cpu, memory := resource.MustParse("200m"), resource.MustParse("300Mi")
			for _, lowered := range []bool{false, true} {
				rec := &v1alpha1.AttuneRecommendation{Spec: v1alpha1.AttuneRecommendationSpec{Seed: &v1alpha1.Seed{
					ValidUntil: metav1.NewTime(now.Add(time.Hour)),
					Containers: []v1alpha1.ContainerSeed{{
						Name: "app", CPURequest: &cpu, MemoryRequest: &memory, CPULimitFollows: true, AllowMemoryDecrease: lowered, RaiseOnly: !lowered,
					}},
				}}}
				template := &corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Resources: res(t, tc.template)}}}}
				arrives := &corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Resources: res(t, tc.arrives)}}}}
				said, err := PredictSeed(template, Read(rec), tc.limits, now)
				require.NoError(t, err)
				// A pod that has all of it needs no defaults.
				want, err := PredictSeed(arrives, Read(rec), tc.limits, now)
				require.NoError(t, err)
				assert.Equal(t, want, said, "lowered: %v", lowered)
				assert.NotEmpty(t, said)
				assert.Equal(t, tc.template, text(template.Spec.Containers[0].Resources), "the template is only read")
			}
		})
	}
}

// A seed with a floor for the memory limit and no request changes the request of a Guaranteed pod, and of no other.
func TestPredictionOfRaisedLimits(t *testing.T) {
	for name, c := range map[string]struct {
		template string
		request  string
		seeded   bool
	}{
		"request and limit are equal":  {"cpu=1/1 memory=400Mi/400Mi", "548Mi", true},
		"the request is less":          {"cpu=1/1 memory=300Mi/400Mi", "300Mi", false},
		"the limit is above the floor": {"cpu=1/1 memory=1Gi/1Gi", "1Gi", false},
		"there is no limit":            {"cpu=1 memory=400Mi", "400Mi", false},
		"the class is Burstable":       {"cpu=1 memory=400Mi/400Mi", "400Mi", false},
	} {
		t.Run(name, func(t *testing.T) {
			floor, request := resource.MustParse("548Mi"), resource.MustParse(c.request)
			rec := &v1alpha1.AttuneRecommendation{Spec: v1alpha1.AttuneRecommendationSpec{Seed: &v1alpha1.Seed{
				ValidUntil: metav1.NewTime(now.Add(time.Hour)),
				Containers: []v1alpha1.ContainerSeed{{Name: "app", MemoryLimitFloor: &floor, MemoryLimitFollows: true, CPULimitFollows: true}},
			}}}
			template := &corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Resources: res(t, c.template)}}}}
			said, err := PredictSeed(template, Read(rec), nil, now)
			require.NoError(t, err)
			require.Len(t, said, 1)
			assert.Equal(t, recommender.Amount(request.Value()), said[0].Requests[recommender.Memory])
			assert.Equal(t, [2]bool{false, c.seeded}, said[0].Seeded)
		})
	}
}
