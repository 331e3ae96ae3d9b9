package targets

import (
	"testing"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"attune.io/attune/internal/policy"
)

// TestTheMainContainerComesFirst checks that the first target is the main container: kubectl get shows only that one,
// and users do not look for the sidecar of a service mesh.
func TestTheMainContainerComesFirst(t *testing.T) {
	template := &corev1.PodTemplateSpec{Spec: corev1.PodSpec{
		InitContainers: []corev1.Container{{Name: "migrate"}, {Name: "istio-proxy", RestartPolicy: ptr.To(corev1.ContainerRestartPolicyAlways)}},
		Containers:     []corev1.Container{{Name: "app"}, {Name: "exporter"}, {Name: "left-out"}},
	}}
	settings := policy.Settings{}
	settings.Resize.Excluded = map[string]bool{"left-out": true}
	var names []string
	for _, c := range Sized(template, settings) {
		names = append(names, c.Name)
	}
	assert.Equal(t, []string{"app", "exporter", "istio-proxy"}, names)
	assert.Empty(t, Sized(nil, settings))
}
