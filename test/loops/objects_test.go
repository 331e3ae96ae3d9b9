package loops

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"attune.io/attune/api/v1alpha1"
)

// policy creates one for all Deployments, with a spec as a user writes it.
func (w *world) policy(name, spec string) {
	w.t.Helper()
	policy := &v1alpha1.AttunePolicy{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: name}}
	policy.Spec.TargetRef.Kind = v1alpha1.KindDeployment
	require.NoError(w.t, yaml.UnmarshalStrict([]byte(spec), &policy.Spec))
	require.NoError(w.t, w.direct.Create(w.t.Context(), policy))
}

// auto is a policy that resizes at once and everything, unless more says otherwise.
func (w *world) auto(more string) {
	w.t.Helper()
	w.policy("all", "updateStrategy: {type: Auto, cooldown: 1m, safetyObservationPeriod: 1m, maxConcurrentResizes: 100%, canary: {percentage: 100}}\n"+more)
}

// sized are requests and limits, such as "cpu=1,memory=1Gi"; an empty text is none.
func sized(t *testing.T, requests, limits string) corev1.ResourceRequirements {
	t.Helper()
	return corev1.ResourceRequirements{Requests: amounts(t, requests), Limits: amounts(t, limits)}
}

func amounts(t *testing.T, text string) corev1.ResourceList {
	t.Helper()
	var list corev1.ResourceList
	for _, part := range strings.FieldsFunc(text, func(r rune) bool { return r == ',' }) {
		name, value, ok := strings.Cut(part, "=")
		require.True(t, ok, text)
		if list == nil {
			list = corev1.ResourceList{}
		}
		list[corev1.ResourceName(name)] = resource.MustParse(value)
	}
	return list
}

func template(name string, containers ...corev1.Container) (*metav1.LabelSelector, corev1.PodTemplateSpec) {
	labels := map[string]string{"app": name}
	for i := range containers {
		containers[i].Image = "example.org/app:1"
	}
	return &metav1.LabelSelector{MatchLabels: labels}, corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{Containers: containers},
	}
}

func (w *world) deployment(name string, replicas int32, containers ...corev1.Container) *appsv1.Deployment {
	w.t.Helper()
	d := &appsv1.Deployment{}
	d.Namespace, d.Name, d.Spec.Replicas = w.namespace, name, &replicas
	d.Spec.Selector, d.Spec.Template = template(name, containers...)
	require.NoError(w.t, w.direct.Create(w.t.Context(), d))
	return d
}

func (w *world) statefulSet(name string, replicas int32, containers ...corev1.Container) {
	w.t.Helper()
	s := &appsv1.StatefulSet{}
	s.Namespace, s.Name, s.Spec.Replicas, s.Spec.ServiceName = w.namespace, name, &replicas, name
	s.Spec.Selector, s.Spec.Template = template(name, containers...)
	require.NoError(w.t, w.direct.Create(w.t.Context(), s))
}

// app is one container that asks for an amount.
func (w *world) app(requests, limits string) corev1.Container {
	w.t.Helper()
	return corev1.Container{Name: "app", Resources: sized(w.t, requests, limits)}
}

func (w *world) pods() []corev1.Pod {
	w.t.Helper()
	list := &corev1.PodList{}
	require.NoError(w.t, w.direct.List(w.t.Context(), list, client.InNamespace(w.namespace)))
	return list.Items
}

// pod is the only one.
func (w *world) pod() *corev1.Pod {
	w.t.Helper()
	pods := w.pods()
	require.Len(w.t, pods, 1)
	return &pods[0]
}

func (w *world) recommendations() []v1alpha1.AttuneRecommendation {
	w.t.Helper()
	list := &v1alpha1.AttuneRecommendationList{}
	require.NoError(w.t, w.direct.List(w.t.Context(), list, client.InNamespace(w.namespace)))
	return list.Items
}

// recommendation is the only one.
func (w *world) recommendation() *v1alpha1.AttuneRecommendation {
	w.t.Helper()
	recs := w.recommendations()
	require.Len(w.t, recs, 1)
	return &recs[0]
}

func (w *world) thePolicy(name string) *v1alpha1.AttunePolicy {
	w.t.Helper()
	p := &v1alpha1.AttunePolicy{}
	require.NoError(w.t, w.direct.Get(w.t.Context(), types.NamespacedName{Namespace: w.namespace, Name: name}, p))
	return p
}

// watched is the pod whose resize is the first under way, while it is watched; else empty.
func (w *world) watched() string {
	w.t.Helper()
	records := w.recommendation().Status.Records
	if len(records) == 0 || records[0].WatchUntil == nil {
		return ""
	}
	return records[0].PodName
}

// idle: no record is open.
func (w *world) idle() bool {
	return !slices.ContainsFunc(w.recommendations(), func(r v1alpha1.AttuneRecommendation) bool { return len(r.Status.Records) > 0 })
}

// history is "result reason" of every finished resize, oldest first.
func results(rec *v1alpha1.AttuneRecommendation) []string {
	var out []string
	for _, row := range slices.Backward(rec.Status.History) {
		out = append(out, strings.TrimSpace(row.Result+" "+row.Reason))
	}
	return out
}

func cpuRequest(pod *corev1.Pod) int64 {
	return pod.Spec.Containers[0].Resources.Requests.Cpu().MilliValue()
}

func memoryLimit(pod *corev1.Pod) int64 {
	return pod.Spec.Containers[0].Resources.Limits.Memory().Value() >> 20
}

func memoryRequest(pod *corev1.Pod) int64 {
	return pod.Spec.Containers[0].Resources.Requests.Memory().Value() >> 20
}

func restarts(pod *corev1.Pod) (n int32) {
	for _, s := range pod.Status.ContainerStatuses {
		n += s.RestartCount
	}
	return n
}

// runs is what the runtime reports of a pod's only container.
func runs(pod *corev1.Pod) corev1.ResourceRequirements {
	if len(pod.Status.ContainerStatuses) == 0 || pod.Status.ContainerStatuses[0].Resources == nil {
		return corev1.ResourceRequirements{}
	}
	return *pod.Status.ContainerStatuses[0].Resources
}
