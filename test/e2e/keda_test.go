package e2e

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/autoscale"
	"attune.io/attune/test/cluster"
)

var onKEDA = flag.Bool("keda", false, "change targets of ScaledObjects before KEDA's own controller")

// kedaTest has a process and a cluster for itself where it is asked for.
const kedaTest = "TestKEDA"

// scaledByKEDA is its cluster. The operator begins before there are ScaledObjects.
func scaledByKEDA() installation {
	return installation{settings: append(slices.Clone(settings), "hpa.retarget=true"), options: cluster.Options{
		KEDA: true, Prometheus: true, CertManager: true, Backfill: backfill(), NodeCPU: "1900m", NodeMemory: "8Gi",
	}}
}

// TestKEDA: KEDA's own controller writes the HPA of a ScaledObject whose target follows the requests. Requests are not lowered
// while KEDA is late. undo restores the target of the user.
func TestKEDA(t *testing.T) {
	if !*onKEDA {
		t.Skip("KEDA's controller has to be built first: -keda asks for it (make test-keda)")
	}
	alone(t, retargetsKEDA)
}

func retargetsKEDA(t *testing.T) {
	const ns = "scaled"
	ctx := t.Context()
	serveMetrics(t)
	namespace(ctx, t, ns, true)
	out, err := env.cluster.Command(ctx, "kubectl", "apply", "--server-side", "-f", env.cluster.Tools.KEDACRD()).CombinedOutput()
	require.NoError(t, err, "%s", out)
	signal := startKEDA(t)
	fleets := keptFleets(ns)
	f := fleets[len(fleets)-1]
	start(t, f.d)
	f.counts = countReplicas(t, f.d)
	within(t, settle, "the ScaledObject is created", func() error { return env.client.Create(ctx, f.scaled.DeepCopy()) })
	eventually(t, "KEDA creates an HPA, which knows its metric", func() error { return scales(ctx, f.hpa) })
	f.isLike(ctx, t)
	eventually(t, "the history continues", func() error { return continues(ctx, &pods(ctx, t, f.d)[0]) })
	followed := f.follow(t)

	require.NoError(t, signal(syscall.SIGSTOP))
	fit(t, f.d, func(s *v1alpha1.AttunePolicySpec) {
		s.MetricsSource.QueryStep, s.MetricsSource.HistoryWindow = duration(scaledStep), duration(24*time.Hour)
		f.keep(s)
	})
	eventually(t, "the requests wait for KEDA", func() error {
		return blockedBy(ctx, f.d, "HPA", "HorizontalPodAutoscaler keda-hpa-queue has the target 45 %, and the resize waits until it has")
	})
	for _, pod := range pods(ctx, t, f.d) {
		assert.Equal(t, large.cpu, sizeOf(pod.Spec.Containers[0].Resources).cpu)
	}
	raised, err := triggerOf(ctx, f.scaled)
	require.NoError(t, err)
	assert.Greater(t, raised, int32(45))
	require.NoError(t, f.hpaHas(ctx, 45))
	require.NoError(t, signal(syscall.SIGCONT))
	f.lowered(ctx, t)
	require.NoError(t, f.hasTarget(ctx, 90))
	f.isLike(ctx, t)

	attune(t, "undo", "deployment/queue", "-n", ns)
	f.undone(ctx, t)
	f.isLike(ctx, t)
	assert.Empty(t, followed(), "moments with a lower target than the requests need")
	f.constant(t)
}

// startKEDA starts KEDA's controller in the cluster's network, and returns what sends it a signal.
func startKEDA(t *testing.T) func(os.Signal) error {
	t.Helper()
	var log bytes.Buffer
	cmd := env.cluster.Command(t.Context(), env.cluster.Tools.KEDAOperator(), "--kubeconfig="+env.cluster.Kubeconfig)
	cmd.Stdout, cmd.Stderr = &log, &log
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		endProgram(t, cmd, "keda", &log)
		if t.Failed() {
			_, _ = os.Stderr.Write(log.Bytes()[max(0, log.Len()-1<<14):])
		}
	})
	return cmd.Process.Signal
}

// isLike: the HPA that KEDA has written is the one that writeHPA writes for other stories.
func (f *keptFleet) isLike(ctx context.Context, t *testing.T) {
	t.Helper()
	target, err := triggerOf(ctx, f.scaled)
	require.NoError(t, err)
	require.NoError(t, env.client.Get(ctx, client.ObjectKeyFromObject(f.hpa), f.hpa))
	like := hpaOf(f.scaled, target)
	assert.Equal(t, like.OwnerReferences, f.hpa.OwnerReferences)
	assert.Equal(t, like.Spec, f.hpa.Spec)
	assert.Equal(t, like.Annotations, f.hpa.Annotations)
	assert.Subset(t, f.hpa.Labels, like.Labels)
}

// scaledObject is KEDA's of two to four replicas, by CPU utilization.
func scaledObject(d *appsv1.Deployment, percent int) *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{
		"scaleTargetRef":  map[string]any{"name": d.Name},
		"minReplicaCount": int64(2), "maxReplicaCount": int64(4),
		"triggers": []any{map[string]any{"type": "cpu", "metricType": "Utilization", "metadata": map[string]any{"value": strconv.Itoa(percent)}}},
	}}}
	o.SetGroupVersionKind(autoscale.ScaledObjectKind)
	o.SetNamespace(d.Namespace)
	o.SetName(d.Name)
	return o
}

// triggerOf is the value of a ScaledObject's first trigger, as the API server has it.
func triggerOf(ctx context.Context, o *unstructured.Unstructured) (int32, error) {
	if err := env.client.Get(ctx, client.ObjectKeyFromObject(o), o); err != nil {
		return 0, err
	}
	triggers, _, _ := unstructured.NestedSlice(o.Object, "spec", "triggers")
	trigger, _ := triggers[0].(map[string]any)
	text, _, err := unstructured.NestedString(trigger, "metadata", "value")
	if err != nil {
		return 0, err
	}
	value, err := strconv.ParseInt(text, 10, 32)
	return int32(value), err
}

// hasTrigger: the first trigger of a ScaledObject has a value.
func hasTrigger(ctx context.Context, o *unstructured.Unstructured, want int32) error {
	has, err := triggerOf(ctx, o)
	if err == nil && has != want {
		err = fmt.Errorf("trigger %d, want %d", has, want)
	}
	return err
}

// writeHPA stands in for KEDA until the test ends: each second, it writes the HPA of a ScaledObject as KEDA does
// (controllers/keda/hpa.go in KEDA 2.21). TestKEDA compares it with KEDA.
func writeHPA(t *testing.T, o *unstructured.Unstructured) {
	t.Helper()
	o = o.DeepCopy()
	failures := eachSecond(t, func(ctx context.Context) (error, bool) {
		err := writeHPAOnce(ctx, o)
		return err, err != nil && ctx.Err() == nil
	})
	t.Cleanup(func() {
		if all := failures(); len(all) > 0 {
			t.Logf("the HPA of ScaledObject %s was not written %d times: %v", o.GetName(), len(all), all[0])
		}
	})
}

// writeHPAOnce creates the HPA of a ScaledObject, or replaces the whole of it if something differs.
func writeHPAOnce(ctx context.Context, o *unstructured.Unstructured) error {
	target, err := triggerOf(ctx, o)
	if err != nil {
		return err
	}
	hpa := hpaOf(o, target)
	found := &autoscalingv2.HorizontalPodAutoscaler{}
	switch err := env.client.Get(ctx, client.ObjectKeyFromObject(hpa), found); {
	case apierrors.IsNotFound(err):
		return env.client.Create(ctx, hpa)
	case err != nil:
		return err
	case *found.Spec.Metrics[0].Resource.Target.AverageUtilization == target && maps.Equal(found.Annotations, hpa.Annotations):
		return nil
	}
	return env.client.Update(ctx, hpa)
}

// hpaOf is the HPA that KEDA writes for a ScaledObject with this target.
func hpaOf(o *unstructured.Unstructured, target int32) *autoscalingv2.HorizontalPodAutoscaler {
	hpa := &autoscalingv2.HorizontalPodAutoscaler{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: o.GetNamespace(), Name: "keda-hpa-" + o.GetName(), Annotations: o.GetAnnotations(),
			Labels:          map[string]string{"app.kubernetes.io/managed-by": "keda-operator", "app.kubernetes.io/part-of": o.GetName()},
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(o, autoscale.ScaledObjectKind)},
		},
		Spec: autoscalingv2.HorizontalPodAutoscalerSpec{
			ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: o.GetName()},
			MinReplicas:    ptr.To[int32](2), MaxReplicas: 4,
			Metrics: []autoscalingv2.MetricSpec{{
				Type:     autoscalingv2.ResourceMetricSourceType,
				Resource: &autoscalingv2.ResourceMetricSource{Name: corev1.ResourceCPU, Target: percent(target)},
			}},
		},
	}
	maps.Copy(hpa.Labels, o.GetLabels())
	return hpa
}
