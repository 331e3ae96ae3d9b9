package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/autoscale"
)

// TestHPA: seven workloads under the HPA controller of Kubernetes, which reads what their containers use. An HPA on
// utilization keeps the memory of its workload: CPU is lowered in place, and the number of replicas stays. With the lower
// memory request the HPA would ask for two: after its deletion the memory is lowered too. An HPA on an absolute value keeps
// nothing. With the setting Keep the memory of one fleet and the CPU of another are lowered as far as their HPAs keep two
// replicas. With Retarget the targets of two more follow their requests, and undo restores both; one is that of a ScaledObject,
// from which KEDA writes the HPA. After an OOM kill under an HPA the limit rises, and the request stays, in the pod and in new ones.
func TestHPA(t *testing.T) {
	const ns = "scaled"
	ctx := need(t)
	serveMetrics(t)
	namespace(ctx, t, ns, true)
	kept, moved, killed := newDeployment(ns, "kept", 1, idle(generous, memory(40))), newDeployment(ns, "moved", 1, idle(generous, memory(40))), newDeployment(ns, "killed", 1, idle(generous))
	fleets := keptFleets(ns)
	// A container that holds 40 MiB uses 30 % of 160Mi and 70 % of 65Mi. One that is killed at 320Mi has used 200 % of its request.
	scalers := map[*appsv1.Deployment]*autoscalingv2.HorizontalPodAutoscaler{
		kept:   scaledBy(kept, corev1.ResourceMemory, percent(45)),
		moved:  scaledBy(moved, corev1.ResourceMemory, autoscalingv2.MetricTarget{Type: autoscalingv2.AverageValueMetricType, AverageValue: ptr.To(resource.MustParse("72Mi"))}),
		killed: scaledBy(killed, corev1.ResourceMemory, percent(300)),
	}
	keeps, scaledObjects := map[*appsv1.Deployment]func(*v1alpha1.AttunePolicySpec){}, map[*appsv1.Deployment]*unstructured.Unstructured{}
	for _, f := range fleets {
		scalers[f.d], keeps[f.d], scaledObjects[f.d] = f.hpa, f.keep, f.scaled
		createFor(t, f.d)
		f.counts = countReplicas(t, f.d)
	}
	for d, hpa := range scalers {
		if keeps[d] == nil {
			createFor(t, d)
		}
		ready(ctx, t, d)
		if o := scaledObjects[d]; o != nil {
			require.NoError(t, env.client.Create(ctx, o))
			writeHPA(t, o)
			continue
		}
		require.NoError(t, env.client.Create(ctx, hpa))
	}
	for d, hpa := range scalers {
		eventually(t, "the HPA of "+d.Name+" knows its metric", func() error { return scales(ctx, hpa) })
		eventually(t, "the history of "+d.Name+" continues", func() error { return continues(ctx, &pods(ctx, t, d)[0]) })
	}
	for _, f := range fleets {
		assert.Less(t, utilization(f.hpa), f.utilization, "%s: %v", f.d.Name, f.hpa.Status)
	}
	retargeted := fleets[2:]
	followed := map[*keptFleet]func() []string{}
	for _, f := range retargeted {
		followed[f] = f.follow(t)
	}
	for d := range scalers {
		fit(t, d, func(s *v1alpha1.AttunePolicySpec) {
			s.MetricsSource.QueryStep = duration(scaledStep)
			if keep := keeps[d]; keep != nil { // its past is a day long
				s.MetricsSource.HistoryWindow = duration(24 * time.Hour)
				keep(s)
			}
		})
	}
	for d, want := range map[*appsv1.Deployment]size{kept: fittingCPU, moved: fitting, killed: fittingCPU} {
		// On a busy machine a sample of CPU comes late, and memory is resized before it.
		eventually(t, d.Name+": resized and accepted", func() error { return errors.Join(told(ctx, d, "Success", ""), carriedOut(t, d, want)) })
		eventually(t, d.Name+": new pods have the same", func() error { return createdWith(ctx, d, want) })
	}
	assert.NoError(t, holdsFor(ctx, kept, "memory", "HPA"))

	for _, f := range fleets {
		f.lowered(ctx, t)
	}
	for _, f := range retargeted {
		assert.NoError(t, f.hasTarget(ctx, 90))
		assert.Contains(t, f.written().GetAnnotations(), autoscale.OriginalTargetAnnotation)
		attune(t, "undo", "deployment/"+f.d.Name, "-n", ns)
	}
	for _, f := range retargeted {
		f.undone(ctx, t)
		assert.Empty(t, followed[f](), "%s: moments with a lower target than the requests need", f.d.Name)
	}
	for _, f := range fleets {
		f.constant(t)
	}

	t.Run("an OOM kill raises the limit alone", func(t *testing.T) {
		pod := pods(ctx, t, killed)[0]
		use(ctx, t, &pod, "memory=400")
		waitForKill(ctx, t, &pod)
		least := resource.MustParse("416Mi") // 1.3 times 320 MiB
		eventually(t, "a higher limit", func() error { return hasMemoryLimitWithin(ctx, &pod, least, resource.MustParse("512Mi")) })
		assert.Equal(t, generous.memory, sizeOf(pod.Spec.Containers[0].Resources).memory)
		eventually(t, "new pods have the limit too", func() error {
			born, err := dryRunPod(ctx, killed)
			if err == nil && born.Spec.Containers[0].Resources.Limits.Memory().Cmp(least) < 0 {
				err = fmt.Errorf("born with %v", sizeOf(born.Spec.Containers[0].Resources))
			}
			if err == nil {
				assert.Equal(t, generous.memory, sizeOf(born.Spec.Containers[0].Resources).memory)
			}
			return err
		})
	})
	for d, hpa := range scalers {
		require.NoError(t, scales(ctx, hpa))
		assert.Equal(t, ptr.Deref(hpa.Spec.MinReplicas, 1), hpa.Status.DesiredReplicas, "%s: %v", d.Name, hpa.Status)
	}
	require.NoError(t, env.client.Delete(ctx, scalers[kept]))
	// An HPA often comes back, so its block stays for a day.
	eventually(t, "the block of the deleted HPA stays", func() error {
		rec, err := recommendation(ctx, kept)
		if err == nil && (len(rec.Spec.HPABindings) != 1 || rec.Spec.HPABindings[0].Gone == nil) {
			err = fmt.Errorf("bindings %v", rec.Spec.HPABindings)
		}
		return err
	})
	assert.Equal(t, generous.memory, sizeOf(pods(ctx, t, kept)[0].Spec.Containers[0].Resources).memory)
	assert.Zero(t, pods(ctx, t, kept)[0].Status.ContainerStatuses[0].RestartCount)
}

// keptFleet is a workload of two replicas with the setting Keep for the resource that its HPA scales on.
type keptFleet struct {
	d   *appsv1.Deployment
	hpa *autoscalingv2.HorizontalPodAutoscaler
	// scaled is the ScaledObject from which KEDA writes the HPA; nil: a user writes it.
	scaled *unstructured.Unstructured
	keep   func(*v1alpha1.AttunePolicySpec)
	// lowest and highest bound the smallest request with which the HPA keeps two replicas.
	lowest, highest string
	// utilization, in percent, is what the HPA sees at least with that request, and less than that before.
	utilization int32
	// counts ends the count of replicas and returns it.
	counts func() []int32
}

// large is what the fleets whose CPU is kept request.
var large = size{cpu: "200m", memory: generous.memory, cpuLimit: "400m", memoryLimit: generous.memoryLimit}

// keptFleets: one used 50 MiB of 160, the others 50m of 200, in a past of a day. HPAs ask for a third replica above 45 % and its
// tolerance of a tenth: at 50 % of 100. A margin of a fifth comes on top, and 2 % for what the history may be off by. Now
// they use 40 MiB and 30m.
func keptFleets(ns string) []*keptFleet {
	granted := newDeployment(ns, "granted", 2, idle(generous, memory(40)))
	burns := corev1.EnvVar{Name: "CPU_MILLICORES", Value: "30"}
	steady, retargeted := newDeployment(ns, "steady", 2, idle(large, burns)), newDeployment(ns, "retargeted", 2, idle(large, burns))
	retarget := func(s *v1alpha1.AttunePolicySpec) { s.CPU.HPA, s.CPU.MaxAllowed = ptr.To(v1alpha1.HPARetarget), nil }
	fleets := []*keptFleet{
		{d: granted, hpa: scaledBy(granted, corev1.ResourceMemory, percent(45)), lowest: "120Mi", highest: "130Mi", utilization: 30,
			keep: func(s *v1alpha1.AttunePolicySpec) { s.Memory.HPA, s.Memory.MaxAllowed = ptr.To(v1alpha1.HPAKeep), nil }},
		{d: steady, hpa: scaledBy(steady, corev1.ResourceCPU, percent(45)), lowest: "120m", highest: "130m", utilization: 22,
			keep: func(s *v1alpha1.AttunePolicySpec) { s.CPU.HPA, s.CPU.MaxAllowed = ptr.To(v1alpha1.HPAKeep), nil }},
		// 45 % of 200m are 90 % of 100m, and attune writes no higher target. Below, the history proves the requests at 90 %.
		{d: retargeted, hpa: scaledBy(retargeted, corev1.ResourceCPU, percent(45)), lowest: "60m", highest: "65m", utilization: 22,
			keep: retarget},
	}
	queue := *fleets[2]
	queue.d = newDeployment(ns, "queue", 2, idle(large, burns))
	queue.scaled = scaledObject(queue.d, 45)
	queue.hpa = scaledBy(queue.d, corev1.ResourceCPU, percent(45))
	queue.hpa.Name = "keda-hpa-queue"
	fleets = append(fleets, &queue)
	for _, f := range fleets {
		f.hpa.Spec.MinReplicas = ptr.To[int32](2)
	}
	return fleets
}

// lowered waits until all pods have the smallest request and the HPA sees it.
func (f *keptFleet) lowered(ctx context.Context, t *testing.T) {
	t.Helper()
	name := f.hpa.Spec.Metrics[0].Resource.Name
	lowest, highest := resource.MustParse(f.lowest), resource.MustParse(f.highest)
	eventually(t, f.d.Name+" has the smallest request that keeps two replicas", func() error {
		for _, pod := range pods(ctx, t, f.d) {
			if err := settled(t, &pod); err != nil {
				return err
			}
			if r := pod.Spec.Containers[0].Resources.Requests[name]; r.Cmp(lowest) < 0 || r.Cmp(highest) > 0 {
				return fmt.Errorf("%s requests %s", pod.Name, &r)
			}
		}
		return nil
	})
	eventually(t, "the HPA of "+f.d.Name+" sees the smaller requests", func() error {
		if err := scales(ctx, f.hpa); err != nil {
			return err
		}
		if utilization(f.hpa) < f.utilization {
			return fmt.Errorf("status %v", f.hpa.Status)
		}
		return nil
	})
	for _, pod := range pods(ctx, t, f.d) {
		assert.Zero(t, pod.Status.ContainerStatuses[0].RestartCount, pod.Name)
	}
}

// constant ends the count of replicas: there were always two.
func (f *keptFleet) constant(t *testing.T) {
	t.Helper()
	seen := f.counts()
	t.Logf("%s: %d %% of the request after the resize, replicas %v in %d seconds", f.d.Name, utilization(f.hpa), slices.Compact(slices.Clone(seen)), len(seen))
	assert.Greater(t, len(seen), 30, "%s: a number each second", f.d.Name)
	assert.Equal(t, []int32{2}, slices.Compact(seen), "%s: replicas, each second", f.d.Name)
}

// undone waits until undo has restored the original requests and the original target.
func (f *keptFleet) undone(ctx context.Context, t *testing.T) {
	t.Helper()
	eventually(t, f.d.Name+": the original requests and the original target", func() error {
		return errors.Join(carriedOut(t, f.d, large), f.hasTarget(ctx, 45))
	})
	assert.NotContains(t, f.hpa.Annotations, autoscale.OriginalTargetAnnotation)
	assert.NotContains(t, f.written().GetAnnotations(), autoscale.OriginalTargetAnnotation)
}

// written is the object whose target attune writes.
func (f *keptFleet) written() client.Object {
	if f.scaled != nil {
		return f.scaled
	}
	return f.hpa
}

// hasTarget: the HPA has a target, and so has the ScaledObject of which KEDA copies it.
func (f *keptFleet) hasTarget(ctx context.Context, want int32) error {
	if f.scaled != nil {
		if err := hasTrigger(ctx, f.scaled, want); err != nil {
			return err
		}
	}
	return f.hpaHas(ctx, want)
}

func (f *keptFleet) hpaHas(ctx context.Context, want int32) error {
	if err := env.client.Get(ctx, client.ObjectKeyFromObject(f.hpa), f.hpa); err != nil {
		return err
	}
	if has := *f.hpa.Spec.Metrics[0].Resource.Target.AverageUtilization; has != want {
		return fmt.Errorf("target %d, want %d", has, want)
	}
	return nil
}

// follow reads each second the target of the HPA and the requests of the pods, until the returned function is called. That
// returns the moments with a lower target than belongs to the requests: one with which the HPA scales at less usage per pod
// than originally, at less than 45 % of 200m, less half a percentage point, as targets are whole; or the highest, 90 %.
func (f *keptFleet) follow(t *testing.T) func() []string {
	t.Helper()
	const original = 45 * 200
	return eachSecond(t, func(ctx context.Context) (wrong string, seen bool) {
		before, list, after := f.hpa.DeepCopy(), &corev1.PodList{}, f.hpa.DeepCopy() // the target changes before or after the requests
		if errors.Join(env.client.Get(ctx, client.ObjectKeyFromObject(before), before),
			env.client.List(ctx, list, client.InNamespace(f.d.Namespace), client.MatchingLabels(f.d.Spec.Selector.MatchLabels)),
			env.client.Get(ctx, client.ObjectKeyFromObject(after), after)) != nil {
			return "", false
		}
		target := max(*before.Spec.Metrics[0].Resource.Target.AverageUtilization, *after.Spec.Metrics[0].Resource.Target.AverageUtilization)
		sum, n := int64(0), int64(0)
		for _, pod := range list.Items {
			sum, n = sum+pod.Spec.Containers[0].Resources.Requests.Cpu().MilliValue(), n+1
		}
		mean := float64(sum) / float64(max(1, n))
		return fmt.Sprintf("target %d, mean request %.0fm", target, mean), target < 90 && (float64(target)+0.5)*mean < original
	})
}

// utilization is what an HPA has computed of its first metric, in percent; 0: nothing yet.
func utilization(hpa *autoscalingv2.HorizontalPodAutoscaler) int32 {
	return ptr.Deref(hpa.Status.CurrentMetrics[0].Resource.Current.AverageUtilization, 0)
}

// scaledStep is the queryStep of the policies. The past in Prometheus ends before the tests start. When it is too old to act
// on (recommender.NotRunning), a resize of a running pod waits for the pod's own sample: 5 minutes with the default step.
const scaledStep = time.Minute

// continues: Prometheus has the CPU usage of a pod at the end of the newest step, so that the history has a sample of both
// resources, and both are resized together.
func continues(ctx context.Context, pod *corev1.Pod) error {
	_, err := env.cluster.Query(ctx, fmt.Sprintf(`max(rate(container_cpu_usage_seconds_total{namespace=%q,pod=%q,container="app"}[1m] @ %d))`,
		pod.Namespace, pod.Name, time.Now().Truncate(scaledStep).Unix()))
	return err
}

func percent(of int32) autoscalingv2.MetricTarget {
	return autoscalingv2.MetricTarget{Type: autoscalingv2.UtilizationMetricType, AverageUtilization: &of}
}

// scaledBy is an HPA of one to four replicas, by a resource that they use.
func scaledBy(d *appsv1.Deployment, by corev1.ResourceName, target autoscalingv2.MetricTarget) *autoscalingv2.HorizontalPodAutoscaler {
	return &autoscalingv2.HorizontalPodAutoscaler{
		ObjectMeta: metav1.ObjectMeta{Namespace: d.Namespace, Name: d.Name},
		Spec: autoscalingv2.HorizontalPodAutoscalerSpec{
			ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: d.Name},
			MaxReplicas:    4,
			Metrics: []autoscalingv2.MetricSpec{{
				Type:     autoscalingv2.ResourceMetricSourceType,
				Resource: &autoscalingv2.ResourceMetricSource{Name: by, Target: target},
			}},
		},
	}
}

// scales: the HPA controller computes the number of replicas from what their containers use.
func scales(ctx context.Context, hpa *autoscalingv2.HorizontalPodAutoscaler) error {
	if err := env.client.Get(ctx, client.ObjectKeyFromObject(hpa), hpa); err != nil {
		return err
	}
	for _, c := range hpa.Status.Conditions {
		if c.Type == autoscalingv2.ScalingActive && c.Status == corev1.ConditionTrue && len(hpa.Status.CurrentMetrics) == 1 {
			return nil
		}
	}
	return fmt.Errorf("status %v", hpa.Status)
}

// countReplicas reads each second how many replicas a Deployment should have, until the returned function is called.
func countReplicas(t *testing.T, d *appsv1.Deployment) func() []int32 {
	t.Helper()
	return eachSecond(t, func(ctx context.Context) (int32, bool) {
		now := &appsv1.Deployment{}
		if err := env.client.Get(ctx, client.ObjectKeyFromObject(d), now); err != nil {
			return 0, false
		}
		return *now.Spec.Replicas, true
	})
}

// eachSecond collects what is seen, until the returned function is called.
func eachSecond[T any](t *testing.T, see func(context.Context) (T, bool)) func() []T {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var all []T
	done := make(chan struct{})
	go func() {
		defer close(done)
		for tick := time.NewTicker(time.Second); ; {
			if one, seen := see(ctx); seen {
				all = append(all, one)
			}
			select {
			case <-tick.C:
			case <-ctx.Done():
				tick.Stop()
				return
			}
		}
	}()
	return func() []T { cancel(); <-done; return all }
}

// holdsFor: the recommendation of a workload says why a resource of its container is not applied.
func holdsFor(ctx context.Context, d *appsv1.Deployment, r, reason string) error {
	rec, err := recommendation(ctx, d)
	if err != nil {
		return err
	}
	for _, h := range rec.Spec.Containers[0].Holds {
		if h.Resource == r && h.Reason == reason {
			return nil
		}
	}
	return fmt.Errorf("holds %v", rec.Spec.Containers[0].Holds)
}

// metricsGroup is the API by which HPAs learn what containers use.
const metricsGroup = "/apis/metrics.k8s.io/v1beta1"

// serveMetrics serves that API from the kubelets' measurements, which Prometheus has, until the test ends.
func serveMetrics(t *testing.T) {
	t.Helper()
	const name, address, port = "e2e-metrics", "172.30.0.1", 9443
	ctx := t.Context()
	listener, err := env.cluster.Listen(ctx, "tcp", fmt.Sprintf("%s:%d", address, port))
	require.NoError(t, err)
	server := httptest.NewUnstartedServer(http.HandlerFunc(serveMetric))
	require.NoError(t, server.Listener.Close())
	server.Listener = listener
	server.StartTLS()
	t.Cleanup(server.Close)

	named := metav1.ObjectMeta{Namespace: "kube-system", Name: name}
	endpoints := &discoveryv1.EndpointSlice{
		ObjectMeta: named, AddressType: discoveryv1.AddressTypeIPv4,
		Endpoints: []discoveryv1.Endpoint{{Addresses: []string{address}, Conditions: discoveryv1.EndpointConditions{Ready: ptr.To(true)}}},
		Ports:     []discoveryv1.EndpointPort{{Name: ptr.To("https"), Port: ptr.To[int32](port), Protocol: ptr.To(corev1.ProtocolTCP)}},
	}
	endpoints.Labels = map[string]string{discoveryv1.LabelServiceName: name}
	api := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService", "metadata": map[string]any{"name": "v1beta1.metrics.k8s.io"},
		"spec": map[string]any{
			"group": "metrics.k8s.io", "version": "v1beta1", "groupPriorityMinimum": int64(100), "versionPriority": int64(100),
			"insecureSkipTLSVerify": true, "service": map[string]any{"namespace": named.Namespace, "name": name},
		},
	}}
	for _, o := range []client.Object{
		&corev1.Service{ObjectMeta: named, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Name: "https", Port: 443}}}}, endpoints, api,
	} {
		require.NoError(t, env.client.Create(ctx, o))
		t.Cleanup(func() { assert.NoError(t, env.client.Delete(context.WithoutCancel(ctx), o)) })
	}
}

// serveMetric answers what kinds there are, and lists the metrics of the pods of a namespace.
func serveMetric(w http.ResponseWriter, r *http.Request) {
	ns, found := strings.CutPrefix(r.URL.Path, metricsGroup+"/namespaces/")
	answer := map[string]any{"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": "metrics.k8s.io/v1beta1", "resources": []any{
		map[string]any{"name": "pods", "singularName": "", "namespaced": true, "kind": "PodMetrics", "verbs": []string{"get", "list"}},
	}}
	if found {
		items, err := metricsOfPods(r.Context(), strings.TrimSuffix(ns, "/pods"), r.URL.Query().Get("labelSelector"))
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		answer = map[string]any{"kind": "PodMetricsList", "apiVersion": "metrics.k8s.io/v1beta1", "metadata": map[string]any{}, "items": items}
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(answer) // an error is that of the connection
}

// metricsOfPods are the PodMetrics of a namespace's pods. Pods that were not measured yet have none.
func metricsOfPods(ctx context.Context, ns, selector string) ([]any, error) {
	selects, err := labels.Parse(selector)
	list := &corev1.PodList{}
	if err = errors.Join(err, env.client.List(ctx, list, client.InNamespace(ns), client.MatchingLabelsSelector{Selector: selects})); err != nil {
		return nil, err
	}
	items := []any{}
	for _, pod := range list.Items {
		of := fmt.Sprintf(`namespace=%q,pod=%q,container="app"`, ns, pod.Name)
		memory, err := env.cluster.Query(ctx, "max(container_memory_working_set_bytes{"+of+"})")
		cpu, wrong := env.cluster.Query(ctx, "max(rate(container_cpu_usage_seconds_total{"+of+"}[1m]))")
		if errors.Join(err, wrong) != nil {
			continue
		}
		items = append(items, map[string]any{
			"metadata":  map[string]any{"namespace": ns, "name": pod.Name, "labels": pod.Labels},
			"timestamp": time.Now().UTC().Format(time.RFC3339), "window": "1m",
			"containers": []any{map[string]any{"name": "app", "usage": map[string]string{
				"memory": strconv.FormatFloat(memory, 'f', 0, 64), "cpu": strconv.FormatFloat(cpu*1e9, 'f', 0, 64) + "n",
			}}},
		})
	}
	return items, nil
}
