package peers

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/autoscaler/vertical-pod-autoscaler/pkg/admission-controller/logic"
	vpapod "k8s.io/autoscaler/vertical-pod-autoscaler/pkg/admission-controller/resource/pod"
	"k8s.io/autoscaler/vertical-pod-autoscaler/pkg/admission-controller/resource/pod/patch"
	"k8s.io/autoscaler/vertical-pod-autoscaler/pkg/admission-controller/resource/pod/recommendation"
	vparesource "k8s.io/autoscaler/vertical-pod-autoscaler/pkg/admission-controller/resource/vpa"
	vpatypes "k8s.io/autoscaler/vertical-pod-autoscaler/pkg/apis/autoscaling.k8s.io/v1"
	controllerfetcher "k8s.io/autoscaler/vertical-pod-autoscaler/pkg/target/controller_fetcher"
	"k8s.io/autoscaler/vertical-pod-autoscaler/pkg/utils/limitrange"
	vpaapi "k8s.io/autoscaler/vertical-pod-autoscaler/pkg/utils/vpa"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/webhook/pod"
)

// known is how many workloads both have a recommendation for.
const known = 10_000

// newPod is of three containers and as bulky as a Deployment's pod is in production.
func newPod() *corev1.Pod {
	yes := true
	p := &corev1.Pod{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{
			GenerateName: "web-7c9d8b6f5-", Namespace: "shop",
			Labels:      map[string]string{"app": "web", "pod-template-hash": "7c9d8b6f5", "team": "web", "version": "web"},
			Annotations: map[string]string{"prometheus.io/scrape": "true", "checksum/config": fmt.Sprintf("%064d", 7)},
			OwnerReferences: []metav1.OwnerReference{
				{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "web-7c9d8b6f5", UID: "rs", Controller: &yes},
			},
			ManagedFields: []metav1.ManagedFieldsEntry{{
				Manager: "kube-controller-manager", Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: "v1", FieldsType: "FieldsV1",
				FieldsV1: &metav1.FieldsV1{Raw: []byte(managedFields())},
			}},
		},
		Spec: corev1.PodSpec{
			Volumes: []corev1.Volume{
				{Name: "config", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "web"}}}},
			},
			Tolerations: []corev1.Toleration{
				{Key: corev1.TaintNodeNotReady, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute},
				{Key: corev1.TaintNodeUnreachable, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute},
			},
		},
	}
	for _, name := range containerNames {
		p.Spec.Containers = append(p.Spec.Containers, container(name))
	}
	return p
}

var containerNames = []string{"app", "cache", "mesh"}

func container(name string) corev1.Container {
	probe := corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/healthz"}}
	c := corev1.Container{
		Name: name, Image: "example/" + name,
		Resources:     corev1.ResourceRequirements{Requests: amounts("500m", "1Gi"), Limits: amounts("1", "2Gi")},
		VolumeMounts:  []corev1.VolumeMount{{Name: "config", MountPath: "/etc/web"}},
		LivenessProbe: &corev1.Probe{ProbeHandler: probe, PeriodSeconds: 10}, ReadinessProbe: &corev1.Probe{ProbeHandler: probe, PeriodSeconds: 5},
		Ports: []corev1.ContainerPort{{Name: "http", ContainerPort: 8080, Protocol: corev1.ProtocolTCP}},
	}
	for i := range 10 {
		c.Env = append(c.Env, corev1.EnvVar{Name: fmt.Sprintf("SETTING_%d", i), Value: "a value of middling length"})
	}
	return c
}

func amounts(cpu, memory string) corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory)}
}

func managedFields() string {
	containers := ""
	for _, name := range containerNames {
		env := ""
		for i := range 10 {
			env += fmt.Sprintf(`"k:{\"name\":\"SETTING_%d\"}":{".":{},"f:name":{},"f:value":{}},`, i)
		}
		containers += fmt.Sprintf(`"k:{\"name\":\"%s\"}":{".":{},"f:env":{%s".":{}},"f:image":{},"f:resources":{"f:requests":{"f:cpu":{}}}},`, name, env)
	}
	return `{"f:spec":{"f:containers":{` + containers + `".":{}}}}`
}

// review is what the API server sends for the pod.
func review(tb testing.TB) []byte {
	tb.Helper()
	raw, err := json.Marshal(newPod())
	require.NoError(tb, err)
	kind, of := metav1.GroupVersionKind{Version: "v1", Kind: "Pod"}, metav1.GroupVersionResource{Version: "v1", Resource: "pods"}
	body, err := json.Marshal(admissionv1.AdmissionReview{
		TypeMeta: metav1.TypeMeta{APIVersion: "admission.k8s.io/v1", Kind: "AdmissionReview"},
		Request: &admissionv1.AdmissionRequest{
			UID: "705ab4f5-6393-11e8-b7cc-42010a800002", Namespace: "shop", Operation: admissionv1.Create,
			Kind: kind, RequestKind: &kind, Resource: of, RequestResource: &of,
			UserInfo: authenticationv1.UserInfo{Username: "system:serviceaccount:kube-system:replicaset-controller", Groups: []string{"system:serviceaccounts"}},
			Object:   runtime.RawExtension{Raw: raw},
		},
	})
	require.NoError(tb, err)
	return body
}

func workloadName(i int) string {
	if i == 0 {
		return "web"
	}
	return fmt.Sprintf("web-%d", i)
}

// ourRecommendation of a workload lowers every container.
func ourRecommendation(workload string) *v1alpha1.AttuneRecommendation {
	rec := &v1alpha1.AttuneRecommendation{ObjectMeta: metav1.ObjectMeta{Name: "deployment-" + workload, Namespace: "shop"}}
	rec.Spec.Workload = v1alpha1.WorkloadRef{Kind: v1alpha1.KindDeployment, Name: workload}
	rec.Spec.Seed = &v1alpha1.Seed{Revision: "r1", ValidUntil: metav1.NewTime(now.Add(time.Hour))}
	for _, name := range containerNames {
		cpu, memory := resource.MustParse("250m"), resource.MustParse("512Mi")
		rec.Spec.Seed.Containers = append(rec.Spec.Seed.Containers, v1alpha1.ContainerSeed{
			Name: name, CPURequest: &cpu, MemoryRequest: &memory, CPULimitFollows: true, MemoryLimitFollows: true, AllowMemoryDecrease: true,
		})
	}
	return rec
}

// theirRecommendation is the same, as VPA has it.
func theirRecommendation(workload string) *vpatypes.VerticalPodAutoscaler {
	mode := vpatypes.UpdateModeInitial
	v := &vpatypes.VerticalPodAutoscaler{
		ObjectMeta: metav1.ObjectMeta{Name: workload, Namespace: "shop"},
		Spec: vpatypes.VerticalPodAutoscalerSpec{
			TargetRef:    &autoscalingv1.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: workload},
			UpdatePolicy: &vpatypes.PodUpdatePolicy{UpdateMode: &mode},
		},
		Status: vpatypes.VerticalPodAutoscalerStatus{Recommendation: &vpatypes.RecommendedPodResources{}},
	}
	for _, name := range containerNames {
		v.Status.Recommendation.ContainerRecommendations = append(v.Status.Recommendation.ContainerRecommendations, vpatypes.RecommendedContainerResources{
			ContainerName: name, Target: amounts("250m", "512Mi"), LowerBound: amounts("100m", "256Mi"), UpperBound: amounts("1", "2Gi"),
		})
	}
	return v
}

// fixed is a clock that stands.
type fixed struct{ clock.PassiveClock }

func (fixed) Now() time.Time                { return now }
func (fixed) Since(time.Time) time.Duration { return 0 }

// everyPod is what VPA asks the API server, answered at once.
type everyPod struct{}

func (everyPod) Fetch(context.Context, *vpatypes.VerticalPodAutoscaler) (labels.Selector, error) {
	return labels.SelectorFromSet(labels.Set{"app": "web"}), nil
}

func (everyPod) FindTopMostWellKnownOrScalable(_ context.Context, key *controllerfetcher.ControllerKeyWithAPIVersion) (*controllerfetcher.ControllerKeyWithAPIVersion, error) {
	top := *key
	top.Kind, top.Name = "Deployment", "web"
	return &top, nil
}

func calculators() []patch.Calculator {
	limits := limitrange.NewNoopLimitsCalculator()
	provider := recommendation.NewProvider(limits, vpaapi.NewCappingRecommendationProcessor(limits))
	return []patch.Calculator{patch.NewResourceUpdatesCalculator(provider, resource.QuantityValue{}), patch.NewObservedContainersCalculator()}
}

// BenchmarkSeed is a decoded pod to the patch that sizes it.
func BenchmarkSeed(b *testing.B) {
	b.Run("attune", func(b *testing.B) {
		raw, err := json.Marshal(newPod())
		require.NoError(b, err)
		var p pod.Pod
		require.NoError(b, json.Unmarshal(raw, &p))
		rec, namespace := pod.Read(ourRecommendation("web")), &pod.Namespace{}
		require.NotEmpty(b, pod.SeedPod(&p, rec, namespace, now).Patch)
		b.ReportAllocs()
		defer processor(b)()
		for b.Loop() {
			pod.SeedPod(&p, rec, namespace, now)
		}
	})
	b.Run("vpa", func(b *testing.B) {
		p, v, calculators := newPod(), theirRecommendation("web"), calculators()
		seed := func() []byte {
			var all []any
			for _, c := range calculators {
				some, err := c.CalculatePatches(p, v)
				if err != nil {
					b.Fatal(err)
				}
				for _, record := range some {
					all = append(all, record)
				}
			}
			raw, err := json.Marshal(all)
			if err != nil {
				b.Fatal(err)
			}
			return raw
		}
		require.Contains(b, string(seed()), "250m")
		b.ReportAllocs()
		defer processor(b)()
		for b.Loop() {
			seed()
		}
	})
}

// BenchmarkAdmission is a whole review, bytes in and bytes out, with 10,000 workloads known.
func BenchmarkAdmission(b *testing.B) {
	klog.SetOutput(io.Discard)
	klog.LogToStderr(false)
	body := review(b)
	b.Run("attune", func(b *testing.B) {
		index := pod.NewIndex()
		for i := range known {
			index.Set(ourRecommendation(workloadName(i)))
		}
		h := &pod.Handler{Known: index, Metrics: pod.NewMetrics(prometheus.NewRegistry()), Clock: fixed{}, Log: logr.Discard()}
		serve(b, body, h.ServeHTTP)
	})
	b.Run("vpa", func(b *testing.B) {
		indexer := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{vpaapi.TargetRefIndex: vpaapi.TargetRefIndexFunc})
		for i := range known {
			require.NoError(b, indexer.Add(theirRecommendation(workloadName(i))))
		}
		server := logic.NewAdmissionServer(vpapod.NewDefaultPreProcessor(), vparesource.NewDefaultPreProcessor(), limitrange.NewNoopLimitsCalculator(),
			vparesource.NewMatcher(indexer, everyPod{}, everyPod{}), calculators())
		serve(b, body, server.Serve)
	})
}

func serve(b *testing.B, body []byte, handle http.HandlerFunc) {
	b.Helper()
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	defer processor(b)()
	for b.Loop() {
		request := httptest.NewRequest(http.MethodPost, "/", bytes.NewReader(body))
		request.Header.Set("Content-Type", "application/json")
		answer := httptest.NewRecorder()
		handle(answer, request)
		if answer.Body.Len() < 500 {
			b.Fatal("no patch:", answer.Body.String())
		}
	}
}
