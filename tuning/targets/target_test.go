package targets

import (
	"testing"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"attune.io/attune/internal/policy"
)

// TestTheMainContainerComesFirst: the columns of kubectl get show the first container, and a service mesh's sidecar is none
// that anybody looks for.
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
