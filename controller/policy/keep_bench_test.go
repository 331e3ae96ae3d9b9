package policy

import (
	"context"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/autoscale"
	"attune.io/attune/internal/workload"
	"attune.io/attune/usage"
	"attune.io/attune/usage/history"
)

// scaledFleet is a fleet of which each workload has four or five pods below an HPA of its own.
type scaledFleet struct {
	*fleet
	history *history.Store
}

func newScaledFleet(tb testing.TB, workloads int, setting v1alpha1.HPAHandling) scaledFleet {
	tb.Helper()
	f := newFleet(tb, workloads)
	p := &v1alpha1.AttunePolicy{}
	require.NoError(tb, f.memory.Get(context.Background(), f.request.NamespacedName, p))
	p.Spec.CPU = &v1alpha1.CPUSettings{ResourceSettings: v1alpha1.ResourceSettings{HPA: &setting}}
	require.NoError(tb, f.memory.Update(context.Background(), p))
	pods, scalers := indexedPods{f.memory, map[string][]corev1.Pod{}}, scalersByName{}
	for i := range workloads {
		d := deployment(fleetName(i))
		hpa := autoscalingv2.HorizontalPodAutoscaler{ObjectMeta: metav1.ObjectMeta{Namespace: d.Namespace, Name: d.Name}, Spec: autoscalingv2.HorizontalPodAutoscalerSpec{
			ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: d.Name},
			MinReplicas:    ptr.To[int32](4), MaxReplicas: 20,
		}}
		target := autoscalingv2.MetricTarget{Type: autoscalingv2.UtilizationMetricType, AverageUtilization: ptr.To[int32](70)}
		hpa.Spec.Metrics = []autoscalingv2.MetricSpec{{Type: autoscalingv2.ResourceMetricSourceType, Resource: &autoscalingv2.ResourceMetricSource{Name: corev1.ResourceCPU, Target: target}}}
		scalers[d.Name] = []autoscalingv2.HorizontalPodAutoscaler{hpa}
		for j := range 4 {
			pod := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: d.Namespace, Name: podOf(i, j), UID: types.UID(podOf(i, j)), Labels: d.Labels}, Spec: *d.Spec.Template.Spec.DeepCopy()}
			pod.Labels = map[string]string{"app": d.Name, "pod-template-hash": "5d4f8c7b9"}
			pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: d.Name + "-5d4f8c7b9", UID: "uid", Controller: ptr.To(true)}}
			pod.Status = corev1.PodStatus{Phase: corev1.PodRunning}
			for _, key := range workload.IndexOf(&pod) {
				pods.by[d.Namespace+"/"+key] = append(pods.by[d.Namespace+"/"+key], pod)
			}
		}
	}
	out := scaledFleet{f, history.New(history.Options{MaxBytes: 8 << 30, Dial: func(usage.SourceSettings) (usage.Source, error) {
		return scaledUsage{newUsual(workloads)}, nil
	}})}
	f.Client, f.Autoscalers, f.History, f.most = pods, scalers, out.history, workloads
	return out
}

func podOf(i, j int) string {
	return fmt.Sprintf("%s-5d4f8c7b9-x2x4%c", fleetName(i), "bcdfghjklmnpqr"[j])
}

func (f scaledFleet) refresh() {
	for f.history.Refresh(context.Background(), f.clock.Now()) {
	}
}

// kept counts the workloads with a proven range.
func (f scaledFleet) kept() (n int) {
	for _, rec := range f.memory.recommendations("shop") {
		if len(rec.Spec.Containers) > 0 && len(rec.Spec.Containers[0].Kept) > 0 {
			n++
		}
	}
	return n
}

// indexedPods lists pods by the index of their workload, as an informer's cache does.
type indexedPods struct {
	*memory
	by map[string][]corev1.Pod
}

func (i indexedPods) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	o := (&client.ListOptions{}).ApplyOptions(opts)
	if pods, is := list.(*corev1.PodList); is && o.FieldSelector != nil {
		pods.Items = i.by[o.Namespace+"/"+o.FieldSelector.Requirements()[0].Value]
		return nil
	}
	return i.memory.List(ctx, list, opts...)
}

// scalersByName are HPAs by the name of their workload.
type scalersByName map[string][]autoscalingv2.HorizontalPodAutoscaler

func (s scalersByName) Of(_ context.Context, w workload.Workload) (autoscale.Holds, error) {
	return autoscale.Autoscalers{HPAs: s[w.Name]}.Of(w), nil
}

// scaledUsage is that of four pods of each workload, and of a fifth in the second half of each day.
type scaledUsage struct{ *usual }

func (u scaledUsage) Read(ctx context.Context, query usage.Query, yield func(usage.Series)) (usage.Report, error) {
	i := 0
	return u.usual.Read(ctx, query, func(s usage.Series) {
		for j := range 4 {
			s.Pod = podOf(i, j)
			yield(s)
		}
		const day = 24 * 60 * 60 * 1000
		for d := query.Start.UnixMilli() / day; d <= query.End.UnixMilli()/day; d++ {
			second := func(of []usage.Sample) (some []usage.Sample) {
				for _, s := range of {
					if s.At/day == d && s.At%day >= day/2 {
						some = append(some, s)
					}
				}
				return some
			}
			yield(usage.Series{Namespace: s.Namespace, Pod: podOf(i, 4+int(d%10)), Container: s.Container, CPU: second(s.CPU), Memory: second(s.Memory)})
		}
		i++
	})
}

// BenchmarkScaledPass is a pass over 1,000 workloads below HPAs, with the settings Keep and Block: without news, and with
// a sample that the pass before did not have. The difference of the settings is what the proofs cost, with all that they need.
func BenchmarkScaledPass(b *testing.B) {
	for _, setting := range []v1alpha1.HPAHandling{v1alpha1.HPAKeep, v1alpha1.HPABlock} {
		b.Run(string(setting)+" at rest", func(b *testing.B) { benchmarkScaled(b, setting, 0) })
		b.Run(string(setting)+" with new data", func(b *testing.B) { benchmarkScaled(b, setting, 5*time.Minute) })
	}
}

func benchmarkScaled(b *testing.B, setting v1alpha1.HPAHandling, apart time.Duration) {
	const workloads = 1000
	f := newScaledFleet(b, workloads, setting)
	f.pass(b)
	f.refresh()
	f.pass(b)
	f.pass(b)
	if kept := f.kept(); (kept == workloads) != (setting == v1alpha1.HPAKeep) {
		b.Fatal(kept, "workloads have a proven range: ", f.memory.recommendations("shop")[0].Spec.Containers[0].Holds)
	}
	f.memory.written()
	b.ReportAllocs()
	var passes, writes int
	var spent time.Duration
	for b.Loop() {
		b.StopTimer()
		f.clock.SetTime(f.clock.Now().Add(apart))
		f.refresh()
		runtime.GC()
		b.StartTimer()
		before := processorTime(b)
		f.pass(b)
		spent += processorTime(b) - before
		writes += f.memory.written()
		passes++
	}
	reportPasses(b, passes*workloads, writes, spent, apart == 0)
}
