package pod

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"attune.io/attune/api/v1alpha1"
)

var now = time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)

// res parses "cpu=100m/200m memory=1Gi/2Gi": request/limit, either of which may be missing.
func res(t testing.TB, text string) corev1.ResourceRequirements {
	t.Helper()
	out := corev1.ResourceRequirements{}
	for _, part := range strings.Fields(text) {
		name, amounts, _ := strings.Cut(part, "=")
		request, limit, _ := strings.Cut(amounts, "/")
		out.Requests = put(t, out.Requests, name, request)
		out.Limits = put(t, out.Limits, name, limit)
	}
	return out
}

func put(t testing.TB, list corev1.ResourceList, name, amount string) corev1.ResourceList {
	t.Helper()
	if amount == "" {
		return list
	}
	q, err := resource.ParseQuantity(amount)
	require.NoError(t, err)
	if list == nil {
		list = corev1.ResourceList{}
	}
	list[corev1.ResourceName(name)] = q
	return list
}

// text is the inverse of res, for CPU and memory.
func text(r corev1.ResourceRequirements) string {
	var parts []string
	for _, name := range []corev1.ResourceName{"cpu", "memory"} {
		request, asked := r.Requests[name]
		limit, limited := r.Limits[name]
		part := string(name) + "="
		if asked {
			part += request.String()
		}
		if limited {
			part += "/" + limit.String()
		}
		if asked || limited {
			parts = append(parts, part)
		}
	}
	return strings.Join(parts, " ")
}

func container(t testing.TB, name, resources string) corev1.Container {
	t.Helper()
	return corev1.Container{Name: name, Image: "example/" + name, Resources: res(t, resources)}
}

func sidecar(t testing.TB, name, resources string) corev1.Container {
	t.Helper()
	always := corev1.ContainerRestartPolicyAlways
	c := container(t, name, resources)
	c.RestartPolicy = &always
	return c
}

// podOf is a pod of Deployment web as the API server sends it to a webhook.
func podOf(containers ...corev1.Container) *corev1.Pod {
	controller := true
	return &corev1.Pod{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{
			GenerateName: "web-7c9d8b6f5-",
			Labels:       map[string]string{"pod-template-hash": "7c9d8b6f5"},
			OwnerReferences: []metav1.OwnerReference{
				{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "web-7c9d8b6f5", UID: "rs", Controller: &controller},
			},
		},
		Spec: corev1.PodSpec{Containers: containers},
	}
}

func amountOf(t testing.TB, amount string) *resource.Quantity {
	t.Helper()
	if amount == "" {
		return nil
	}
	q, err := resource.ParseQuantity(amount)
	require.NoError(t, err)
	return &q
}

// seedFor is a seed of requests "cpu memory" (a dash: none), with limits that follow, which may lower.
func seedFor(t testing.TB, name, cpu, memory string) v1alpha1.ContainerSeed {
	t.Helper()
	return v1alpha1.ContainerSeed{
		Name: name, CPURequest: amountOf(t, cpu), MemoryRequest: amountOf(t, memory),
		CPULimitFollows: true, MemoryLimitFollows: true, AllowMemoryDecrease: true,
	}
}

func recommendation(seeds ...v1alpha1.ContainerSeed) *v1alpha1.AttuneRecommendation {
	return &v1alpha1.AttuneRecommendation{
		ObjectMeta: metav1.ObjectMeta{Name: "deployment-web", Namespace: "shop"},
		Spec: v1alpha1.AttuneRecommendationSpec{
			Workload: v1alpha1.WorkloadRef{Kind: v1alpha1.KindDeployment, Name: "web"},
			Seed: &v1alpha1.Seed{
				Revision: "r1", ValidUntil: metav1.NewTime(now.Add(time.Hour)), Containers: seeds,
			},
		},
	}
}

// view is the pod as the webhook decodes it.
func view(t testing.TB, pod *corev1.Pod) *Pod {
	t.Helper()
	raw, err := json.Marshal(pod)
	require.NoError(t, err)
	var p Pod
	require.NoError(t, json.Unmarshal(raw, &p))
	return &p
}

// applied is the pod after a decision's patch, as the API server would apply it.
func applied(t testing.TB, pod *corev1.Pod, d Decision) *corev1.Pod {
	t.Helper()
	raw, err := json.Marshal(pod)
	require.NoError(t, err)
	return patched(t, raw, d.Patch)
}

// resources are all containers' resources in the order of the pod, init containers first.
func resources(pod *corev1.Pod) []string {
	var out []string
	for _, c := range pod.Spec.InitContainers {
		out = append(out, text(c.Resources))
	}
	for _, c := range pod.Spec.Containers {
		out = append(out, text(c.Resources))
	}
	return out
}
