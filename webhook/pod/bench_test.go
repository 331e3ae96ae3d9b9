package pod

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/clock"

	"attune.io/attune/api/v1alpha1"
)

// typicalPod has three containers, and the size of a Deployment's pod in production.
func typicalPod(t testing.TB) *corev1.Pod {
	t.Helper()
	pod := podOf(
		container(t, "app", "cpu=500m/1 memory=1Gi/2Gi"),
		container(t, "cache", "cpu=250m memory=512Mi/512Mi"),
		container(t, "mesh", "cpu=100m/2 memory=128Mi/1Gi"),
	)
	pod.Namespace = "shop"
	for _, key := range []string{"app", "version", "team", "app.kubernetes.io/name", "app.kubernetes.io/part-of"} {
		pod.Labels[key] = "web"
	}
	pod.Annotations = map[string]string{"prometheus.io/scrape": "true", "checksum/config": fmt.Sprintf("%064d", 7)}
	for i := range pod.Spec.Containers {
		fill(&pod.Spec.Containers[i])
	}
	pod.Spec.Volumes = []corev1.Volume{
		{Name: "config", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "web"}}}},
		{Name: "kube-api-access-x", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{}}},
	}
	pod.Spec.Tolerations = []corev1.Toleration{
		{Key: corev1.TaintNodeNotReady, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute},
		{Key: corev1.TaintNodeUnreachable, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute},
	}
	pod.ManagedFields = []metav1.ManagedFieldsEntry{{
		Manager: "kube-controller-manager", Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: "v1", FieldsType: "FieldsV1",
		FieldsV1: metav1.NewFieldsV1(managedFields()),
	}}
	return pod
}

func fill(c *corev1.Container) {
	for i := range 10 {
		c.Env = append(c.Env, corev1.EnvVar{Name: fmt.Sprintf("SETTING_%d", i), Value: "a value of middling length"})
	}
	c.VolumeMounts = []corev1.VolumeMount{
		{Name: "config", MountPath: "/etc/web"},
		{Name: "kube-api-access-x", MountPath: "/var/run/secrets/kubernetes.io/serviceaccount", ReadOnly: true},
	}
	probe := corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/healthz"}}
	c.LivenessProbe = &corev1.Probe{ProbeHandler: probe, PeriodSeconds: 10}
	c.ReadinessProbe = &corev1.Probe{ProbeHandler: probe, PeriodSeconds: 5}
	c.Ports = []corev1.ContainerPort{{Name: "http", ContainerPort: 8080, Protocol: corev1.ProtocolTCP}}
}

func managedFields() string {
	containers := ""
	for _, name := range []string{"app", "cache", "mesh"} {
		env := ""
		for i := range 10 {
			env += fmt.Sprintf(`"k:{\"name\":\"SETTING_%d\"}":{".":{},"f:name":{},"f:value":{}},`, i)
		}
		containers += fmt.Sprintf(`"k:{\"name\":\"%s\"}":{".":{},"f:env":{%s".":{}},"f:image":{},"f:resources":{"f:requests":{"f:cpu":{}}}},`, name, env)
	}
	return `{"f:spec":{"f:containers":{` + containers + `".":{}}}}`
}

// reviewOf is the API server's review of a pod.
func reviewOf(t testing.TB, pod *corev1.Pod) []byte {
	t.Helper()
	raw, err := json.Marshal(pod)
	require.NoError(t, err)
	dry := false
	body, err := json.Marshal(admissionv1.AdmissionReview{
		TypeMeta: metav1.TypeMeta{APIVersion: "admission.k8s.io/v1", Kind: "AdmissionReview"},
		Request: &admissionv1.AdmissionRequest{
			UID: "705ab4f5-6393-11e8-b7cc-42010a800002", Namespace: pod.Namespace, Operation: admissionv1.Create, DryRun: &dry,
			Kind: metav1.GroupVersionKind{Version: "v1", Kind: "Pod"}, Resource: metav1.GroupVersionResource{Version: "v1", Resource: "pods"},
			UserInfo: authenticationv1.UserInfo{Username: "system:serviceaccount:kube-system:replicaset-controller", Groups: []string{"system:serviceaccounts"}},
			Object:   runtime.RawExtension{Raw: raw},
		},
	})
	require.NoError(t, err)
	return body
}

func typicalSeed(t testing.TB) *v1alpha1.AttuneRecommendation {
	t.Helper()
	return recommendation(seedFor(t, "app", "250m", "256Mi"), seedFor(t, "cache", "150m", "300Mi"), seedFor(t, "mesh", "50m", "64Mi"))
}

func fleet(t testing.TB, workloads int) *Index {
	t.Helper()
	x := NewIndex()
	for i := range workloads {
		rec := typicalSeed(t)
		rec.Spec.Workload.Name = fmt.Sprintf("web-%d", i)
		rec.Name = "deployment-" + rec.Spec.Workload.Name
		x.Set(rec)
	}
	x.Set(typicalSeed(t))
	x.Set(&corev1.LimitRange{ObjectMeta: metav1.ObjectMeta{Name: "limits", Namespace: "shop"}, Spec: corev1.LimitRangeSpec{Limits: []corev1.LimitRangeItem{
		{Type: corev1.LimitTypeContainer, Min: corev1.ResourceList{"cpu": resource.MustParse("10m")}},
	}}})
	return x
}

func handler(t testing.TB, known Known, passive clock.PassiveClock) *Handler {
	t.Helper()
	return &Handler{Known: known, Metrics: NewMetrics(prometheus.NewRegistry()), Clock: passive, Log: logr.Discard()}
}

func BenchmarkAdmission(b *testing.B) {
	x := fleet(b, 10_000)
	h := handler(b, x, fixed(now))
	body := reviewOf(b, typicalPod(b))
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		answer, err := h.Answer(body)
		if err != nil || len(answer) < 500 {
			b.Fatal(string(answer), err)
		}
	}
}

func BenchmarkSeed(b *testing.B) {
	rec, p, ns := Read(typicalSeed(b)), view(b, typicalPod(b)), &Namespace{}
	b.ReportAllocs()
	for b.Loop() {
		if d := SeedPod(p, rec, ns, now); d.Reason != Seeded {
			b.Fatal(d.Reason)
		}
	}
}

// fixed is a clock that does not move.
type fixed time.Time

func (f fixed) Now() time.Time                  { return time.Time(f) }
func (f fixed) Since(t time.Time) time.Duration { return time.Time(f).Sub(t) }
