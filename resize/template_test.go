package resize_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"attune.io/attune/podview"
)

func labelled(pairs ...string) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{}}}
	for i := 0; i < len(pairs); i += 2 {
		pod.Labels[pairs[i]] = pairs[i+1]
	}
	return pod
}

func TestTemplateHashByLabel(t *testing.T) {
	assert.Equal(t, "7d4b", podview.TemplateHash(labelled("pod-template-hash", "7d4b", "controller-revision-hash", "x")))
	assert.Equal(t, "db-6c", podview.TemplateHash(labelled("controller-revision-hash", "db-6c")))
	assert.Equal(t, podview.TemplateHash(labelled()), podview.TemplateHash(labelled("batch.kubernetes.io/controller-uid", "job-uid")), "all Jobs of a CronJob have its template")
	assert.True(t, podview.GenerationNamed(labelled("controller-revision-hash", "db-6c")))
	assert.False(t, podview.GenerationNamed(labelled("batch.kubernetes.io/controller-uid", "job-uid")))
}

// TestTemplateHashByProgram: a resize must not change the template generation of a pod.
func TestTemplateHashByProgram(t *testing.T) {
	pod := func(change func(*corev1.Container)) string {
		p := labelled()
		p.Spec.Containers = []corev1.Container{{Name: "app", Image: "app:1", Command: []string{"run"}, Args: []string{"a", "b"}}, {Name: "sidecar", Image: "s:1"}}
		change(&p.Spec.Containers[0])
		return podview.TemplateHash(p)
	}
	hash := pod(func(*corev1.Container) {})
	assert.NotEmpty(t, hash)
	assert.Equal(t, hash, pod(func(c *corev1.Container) { c.Resources.Requests = corev1.ResourceList{} }))
	for name, change := range map[string]func(*corev1.Container){
		"image":    func(c *corev1.Container) { c.Image = "app:2" },
		"name":     func(c *corev1.Container) { c.Name = "web" },
		"command":  func(c *corev1.Container) { c.Command = nil },
		"args":     func(c *corev1.Container) { c.Args = []string{"a b"} },
		"boundary": func(c *corev1.Container) { c.Command, c.Args = []string{"run", "a"}, []string{"b"} },
	} {
		assert.NotEqual(t, hash, pod(change), name)
	}
}

func TestSameProgram(t *testing.T) {
	app := corev1.Container{Name: "app", Image: "app:1", Args: []string{"a"}}
	template := &corev1.PodSpec{Containers: []corev1.Container{app}}
	pod := labelled()
	pod.Spec.Containers = []corev1.Container{{Name: "proxy", Image: "proxy:1"}, app}
	assert.True(t, podview.SameProgram(pod, template), "something added a container")
	pod.Spec.Containers[1].Image = "app:2"
	assert.False(t, podview.SameProgram(pod, template))
	pod.Spec.Containers = pod.Spec.Containers[:1]
	assert.False(t, podview.SameProgram(pod, template), "it lacks one")
}
