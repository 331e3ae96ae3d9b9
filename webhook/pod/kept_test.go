package pod

import (
	"testing"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/constraint"
)

// TestNewPodsStayWithinTheRangeThatKeepsTheReplicas: what a LimitRange or the template makes of a seed has to be within
// the range too. Otherwise the pod keeps the request of its template.
func TestNewPodsStayWithinTheRangeThatKeepsTheReplicas(t *testing.T) {
	for name, c := range map[string]struct {
		least, most    string
		template, want string
		seed           func(v1alpha1.ContainerSeed) v1alpha1.ContainerSeed
		ranges         []corev1.LimitRangeItem
		blocked        bool
	}{
		"within":                             {least: "200m", template: "cpu=500m/1 memory=1Gi", want: "cpu=250m/500m memory=1Gi"},
		"below":                              {least: "251m", template: "cpu=500m/1 memory=1Gi", want: "cpu=500m/1 memory=1Gi", blocked: true},
		"above":                              {least: "100m", most: "249m", template: "cpu=200m/1 memory=1Gi", want: "cpu=200m/1 memory=1Gi", blocked: true},
		"a LimitRange raises it out of it":   {least: "200m", most: "260m", template: "cpu=500m/1 memory=1Gi", want: "cpu=500m/1 memory=1Gi", ranges: []corev1.LimitRangeItem{{Type: "Container", Min: cpu("300m")}}, blocked: true},
		"a LimitRange raises it within":      {least: "200m", template: "cpu=500m/1 memory=1Gi", want: "cpu=300m/500m memory=1Gi", ranges: []corev1.LimitRangeItem{{Type: "Container", Min: cpu("300m")}}},
		"a Guaranteed pod":                   {least: "200m", template: "cpu=500m/500m memory=1Gi/1Gi", want: "cpu=250m/250m memory=1Gi/1Gi"},
		"a Guaranteed pod, below":            {least: "300m", template: "cpu=500m/500m memory=1Gi/1Gi", want: "cpu=500m/500m memory=1Gi/1Gi", blocked: true},
		"nothing but raises, template above": {least: "200m", most: "400m", template: "cpu=500m/1 memory=1Gi", want: "cpu=500m/1 memory=1Gi", seed: raiseOnly},
	} {
		t.Run(name, func(t *testing.T) {
			pod := podOf(container(t, "app", c.template))
			ns := &Namespace{Bounds: constraint.BoundsOf([]*corev1.LimitRange{{Spec: corev1.LimitRangeSpec{Limits: c.ranges}}})}
			seed := seedFor(t, "app", "250m", "")
			if c.seed != nil {
				seed = c.seed(seed)
			}
			of := recommendation(seed)
			of.Spec.Containers = []v1alpha1.ContainerTarget{{Name: "app", Kept: []v1alpha1.KeptRequest{{
				Resource: "cpu", Least: *amountOf(t, c.least), Most: amountOf(t, c.most),
			}}}}
			rec := Read(of)
			d := SeedPod(view(t, pod), rec, ns, now)
			after := applied(t, pod, d)
			assert.Equal(t, c.want, text(after.Spec.Containers[0].Resources))
			assertStable(t, after, rec, ns)
			var reasons []Reason
			for _, b := range d.Blocked {
				reasons = append(reasons, b.Reason)
			}
			if c.blocked {
				assert.Equal(t, []Reason{HPA}, reasons)
			} else {
				assert.Empty(t, reasons)
			}
		})
	}
}
