package integration

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/autoscale"
	"attune.io/attune/internal/workload"
	"attune.io/attune/test/kubelet"
	"attune.io/attune/test/plane"
)

// stage is a namespace with a played node and played controllers, for loops that run in a manager.
type stage struct {
	t         *testing.T
	namespace string
	direct    client.Client
	node      *kubelet.Node
	plane     *plane.Plane
}

func newStage(t *testing.T, options kubelet.Options) *stage {
	t.Helper()
	s := &stage{t: t, direct: newClient(t)}
	s.namespace = newNamespace(t, s.direct)
	var err error
	s.node, err = kubelet.NewNode(t.Context(), s.direct, s.namespace, options)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.direct.Delete(context.WithoutCancel(t.Context()), s.node.Object())) })
	s.plane = &plane.Plane{
		Client: s.direct, Namespaces: []string{s.namespace}, Nodes: []string{s.namespace},
		Without: plane.AllBut(plane.Collector, plane.Lifecycle, plane.Deployments, plane.ReplicaSets, plane.Scheduler),
	}
	return s
}

// policy creates one for all Deployments, with a spec as a user writes it.
func (s *stage) policy(name, spec string) {
	s.t.Helper()
	u := policyWith(s.t, spec)
	u.SetNamespace(s.namespace)
	u.SetName(name)
	require.NoError(s.t, s.direct.Create(s.t.Context(), u))
}

func (s *stage) thePolicy(name string) *v1alpha1.AttunePolicy {
	s.t.Helper()
	p := &v1alpha1.AttunePolicy{}
	require.NoError(s.t, s.direct.Get(s.t.Context(), client.ObjectKey{Namespace: s.namespace, Name: name}, p))
	return p
}

func (s *stage) deployment(name string, replicas int32, of corev1.Container) {
	s.t.Helper()
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: name}}
	d.Spec.Replicas = &replicas
	d.Spec.Selector, d.Spec.Template = template(name, of)
	require.NoError(s.t, s.direct.Create(s.t.Context(), d))
}

func (s *stage) scale(name string, replicas int32) {
	s.t.Helper()
	d := &appsv1.Deployment{}
	require.NoError(s.t, s.direct.Get(s.t.Context(), client.ObjectKey{Namespace: s.namespace, Name: name}, d))
	d.Spec.Replicas = &replicas
	require.NoError(s.t, s.direct.Update(s.t.Context(), d))
}

func (s *stage) pods() []corev1.Pod {
	s.t.Helper()
	list := &corev1.PodList{}
	require.NoError(s.t, s.direct.List(s.t.Context(), list, client.InNamespace(s.namespace)))
	return list.Items
}

// cpuOf the pods, by name, in millicores.
func (s *stage) cpuOf() map[string]int64 {
	s.t.Helper()
	of := map[string]int64{}
	for _, pod := range s.pods() {
		of[pod.Name] = cpuRequest(&pod)
	}
	return of
}

func cpuRequest(pod *corev1.Pod) int64 {
	return pod.Spec.Containers[0].Resources.Requests.Cpu().MilliValue()
}

// container requests amounts, such as "cpu=1,memory=1Gi".
func container(t *testing.T, requests string) corev1.Container {
	t.Helper()
	list := corev1.ResourceList{}
	for part := range strings.SplitSeq(requests, ",") {
		name, value, ok := strings.Cut(part, "=")
		require.True(t, ok, requests)
		list[corev1.ResourceName(name)] = resource.MustParse(value)
	}
	return corev1.Container{Name: "app", Image: "example.org/app:1", Resources: corev1.ResourceRequirements{Requests: list}}
}

func template(name string, of corev1.Container) (*metav1.LabelSelector, corev1.PodTemplateSpec) {
	labels := map[string]string{"app": name}
	return &metav1.LabelSelector{MatchLabels: labels}, corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{Containers: []corev1.Container{of}},
	}
}

// none is a namespace without HPAs and VPAs.
type none struct{}

func (none) Of(context.Context, workload.Workload) (autoscale.Holds, error) {
	return autoscale.Holds{}, nil
}
