package targets

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/recommender"
)

var today = time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)

func generation(hash, cpu string, ago time.Duration) v1alpha1.Originals {
	q := resource.MustParse(cpu)
	return v1alpha1.Originals{
		TemplateHash: hash, Since: &metav1.Time{Time: today.Add(-ago)},
		Containers: []v1alpha1.ContainerResources{{Name: "app", Resources: v1alpha1.Resources{CPURequest: &q}}},
	}
}

// createdWith is a generation whose pods another webhook or the platform created with another request.
func createdWith(o v1alpha1.Originals, cpu string) v1alpha1.Originals {
	o.Template = o.Containers
	o.Containers = generation("", cpu, 0).Containers
	return o
}

func TestARequestThatAPersonChangedIsMeant(t *testing.T) {
	const hour = time.Hour
	tests := map[string]struct {
		originals []v1alpha1.Originals
		request   string
		want      recommender.Amount
	}{
		"never seen before":               {nil, "500m", 0},
		"one generation":                  {[]v1alpha1.Originals{generation("a", "500m", hour)}, "500m", 0},
		"changed, no pod of it yet":       {[]v1alpha1.Originals{generation("a", "500m", 9*hour)}, "800m", 800},
		"lowered, no pod of it yet":       {[]v1alpha1.Originals{generation("a", "500m", 9*hour)}, "200m", 200},
		"changed an hour ago":             {[]v1alpha1.Originals{generation("a", "500m", 9*hour), generation("b", "800m", hour)}, "800m", 800},
		"changed four hours ago":          {[]v1alpha1.Originals{generation("a", "500m", 9*hour), generation("b", "800m", 4*hour)}, "800m", 0},
		"another generation, same size":   {[]v1alpha1.Originals{generation("a", "500m", 9*hour), generation("b", "500m", hour)}, "500m", 0},
		"rolled back":                     {[]v1alpha1.Originals{generation("a", "500m", 9*hour), generation("b", "800m", hour)}, "500m", 0},
		"a platform rounds the pods up":   {[]v1alpha1.Originals{createdWith(generation("a", "120m", 9*hour), "250m")}, "120m", 0},
		"a booster differs by pod":        {[]v1alpha1.Originals{createdWith(generation("a", "500m", 9*hour), "2"), createdWith(generation("b", "500m", hour), "4")}, "500m", 0},
		"changed under a booster":         {[]v1alpha1.Originals{createdWith(generation("a", "500m", 9*hour), "2"), createdWith(generation("b", "800m", hour), "2")}, "800m", 800},
		"changed under a booster, long":   {[]v1alpha1.Originals{createdWith(generation("a", "500m", 9*hour), "2"), createdWith(generation("b", "800m", 4*hour), "2")}, "800m", 0},
		"changed, no pod under a booster": {[]v1alpha1.Originals{createdWith(generation("a", "500m", 9*hour), "2")}, "800m", 800},
		"the template asks nothing":       {[]v1alpha1.Originals{generation("a", "500m", 9*hour)}, "0", 0},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			v := View{Now: today, Status: v1alpha1.AttuneRecommendationStatus{Originals: test.originals}}
			v.Settings.Recommender.MinimumDataPoints, v.Settings.Recommender.QueryStep = 48, 5*time.Minute
			c := corev1.Container{Name: "app", Resources: corev1.ResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(test.request)},
			}}
			assert.Equal(t, test.want, v.templateOverride(&c, recommender.CPU))
		})
	}
}

func TestSteadyTargets(t *testing.T) {
	target := func(cpu string) v1alpha1.ContainerTarget {
		q := resource.MustParse(cpu)
		return v1alpha1.ContainerTarget{Name: "app", Target: v1alpha1.Resources{CPURequest: &q}}
	}
	stored := []v1alpha1.ContainerTarget{target("100m")}
	for cpu, want := range map[string]string{
		"100m": "100m", "99m": "100m", "98m": "100m", "97m": "97m", "101m": "101m", "50m": "50m",
	} {
		got := damp(stored, target(cpu)).Target.CPURequest
		assert.Equal(t, want, got.String(), "from 100m to %s", cpu)
	}
	assert.Equal(t, "99m", damp(nil, target("99m")).Target.CPURequest.String())
	gone := v1alpha1.ContainerTarget{Name: "app"}
	assert.Nil(t, damp(stored, gone).Target.CPURequest, "a target that is withdrawn")
}
