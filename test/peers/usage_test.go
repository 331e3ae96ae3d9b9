package peers

import (
	"context"
	"fmt"
	"math"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	vpatypes "k8s.io/autoscaler/vertical-pod-autoscaler/pkg/apis/autoscaling.k8s.io/v1"
	"k8s.io/autoscaler/vertical-pod-autoscaler/pkg/recommender/logic"
	vpa "k8s.io/autoscaler/vertical-pod-autoscaler/pkg/recommender/model"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/policy"
	"attune.io/attune/recommender"
	"attune.io/attune/usage"
	"attune.io/attune/usage/history"
)

// Both keep eight days. VPA is given a sample a minute, as its metrics come; attune one every five, which is
// the highest of the step.
const (
	days    = 8
	oursIs  = 5 * time.Minute
	theirIs = time.Minute
)

var now = time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)

// usageOf is what the container with a number uses at a time, in cores and bytes: a day's swing and noise.
func usageOf(container int, at time.Time) (cores, bytes float64) {
	minute := int(at.Unix() / 60)
	swing := 1 + 0.5*math.Sin(float64(minute%1440)/1440*2*math.Pi) + float64((container*7919+minute*104729)%100)/500
	return 0.1 * swing, 2e8 * swing
}

// ours is a source with one pod for each workload, under other names after each rollout.
type ours struct {
	containers, rollout int
	// pods by container, and what was yielded of them.
	pods                      []string
	samples                   int
	cpu, memory, cores, bytes []usage.Sample
}

func (o *ours) roll() {
	o.rollout++
	o.pods = o.pods[:0]
	for i := range o.containers {
		o.pods = append(o.pods, fmt.Sprintf("app-%05d-%010d-abcde", i, o.rollout))
	}
}

func (o *ours) Read(_ context.Context, query usage.Query, yield func(usage.Series)) (usage.Report, error) {
	o.cores, o.bytes = o.cores[:0], o.bytes[:0]
	for at := query.Start; !at.After(query.End); at = at.Add(query.Step) {
		cores, bytes := usageOf(0, at)
		o.cores, o.bytes = append(o.cores, usage.Sample{At: at.UnixMilli(), Value: cores}), append(o.bytes, usage.Sample{At: at.UnixMilli(), Value: bytes})
	}
	for i, pod := range o.pods {
		// What a source's answer costs is not what is measured: the same numbers in another order.
		o.cpu, o.memory = append(o.cpu[:0], o.cores...), append(o.memory[:0], o.bytes...)
		for n := range o.cpu {
			o.cpu[n].Value = o.cores[(n+i)%len(o.cores)].Value
			o.memory[n].Value = o.bytes[(n+i)%len(o.bytes)].Value
		}
		o.samples += len(o.cpu) + len(o.memory)
		yield(usage.Series{Namespace: "shop", Pod: pod, Container: "app", CPU: o.cpu})
		yield(usage.Series{Namespace: "shop", Pod: pod, Container: "app", Memory: o.memory})
	}
	return usage.Report{}, nil
}

func (o *ours) key(container int) history.Key {
	return history.Key{Source: source().Digest(), Namespace: "shop", Kind: v1alpha1.KindDeployment, Workload: fmt.Sprintf("app-%05d", container), Container: "app"}
}

func source() usage.SourceSettings {
	return usage.SourceSettings{HistoryWindow: days * 24 * time.Hour, QueryStep: oursIs, RateWindow: oursIs}
}

// filled is a store that has read all that the source has.
func (o *ours) filled() *history.Store {
	o.roll()
	interest := history.Interest{Policy: "all", Namespace: "shop", Source: source()}
	for i := range o.containers {
		interest.Workloads = append(interest.Workloads, history.Workload{Kind: v1alpha1.KindDeployment, Name: o.key(i).Workload, Containers: []string{"app"}})
	}
	s := history.New(history.Options{MaxBytes: 8 << 30, Dial: func(usage.SourceSettings) (usage.Source, error) { return o, nil }})
	s.Want(interest)
	for s.Refresh(context.Background(), now) {
	}
	return s
}

// profiles asks for each, as the policy loop does.
func (o *ours) profiles(tb testing.TB, s *history.Store, at time.Time) {
	tb.Helper()
	for i := range o.containers {
		_, known := s.Profile(o.key(i), at)
		require.True(tb, known)
	}
}

// theirs is VPA's model of pods with one container each.
type theirs struct {
	vpa.ClusterState
	containers, rollout int
	ids                 []vpa.ContainerID
}

func newTheirs(containers int) *theirs {
	return &theirs{ClusterState: vpa.NewClusterState(10 * time.Minute), containers: containers}
}

// roll replaces every pod by one of another template.
func (t *theirs) roll(tb testing.TB) {
	tb.Helper()
	for _, id := range t.ids {
		t.DeletePod(id.PodID)
	}
	t.rollout++
	t.ids = t.ids[:0]
	for i := range t.containers {
		app, hash := fmt.Sprintf("app-%05d", i), fmt.Sprintf("%010d", t.rollout)
		t.want(tb, app)
		id := vpa.ContainerID{PodID: vpa.PodID{Namespace: "shop", PodName: app + "-" + hash + "-abcde"}, ContainerName: "app"}
		t.AddOrUpdatePod(id.PodID, labels.Set{"app": app, "pod-template-hash": hash}, corev1.PodRunning)
		request := vpa.Resources{vpa.ResourceCPU: vpa.CPUAmountFromCores(0.5), vpa.ResourceMemory: vpa.MemoryAmountFromBytes(5e8)}
		require.NoError(tb, t.AddOrUpdateContainer(id, request))
		t.ids = append(t.ids, id)
	}
}

// want has VPA recommend for a workload: what nobody wants is not judged by its quality metrics.
func (t *theirs) want(tb testing.TB, workload string) {
	tb.Helper()
	mode := vpatypes.UpdateModeInitial
	object := &vpatypes.VerticalPodAutoscaler{
		ObjectMeta: metav1.ObjectMeta{Name: workload, Namespace: "shop"},
		Spec: vpatypes.VerticalPodAutoscalerSpec{
			TargetRef:    &autoscalingv1.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: workload},
			UpdatePolicy: &vpatypes.PodUpdatePolicy{UpdateMode: &mode},
		},
	}
	require.NoError(tb, t.AddOrUpdateVpa(object, labels.SelectorFromSet(labels.Set{"app": workload})))
}

// add is one sample of CPU and one of memory.
func (t *theirs) add(tb testing.TB, container int, at time.Time) {
	cores, bytes := usageOf(container, at)
	cpu := vpa.ContainerUsageSampleWithKey{Container: t.ids[container], ContainerUsageSample: vpa.ContainerUsageSample{
		MeasureStart: at, Usage: vpa.CPUAmountFromCores(cores), Resource: vpa.ResourceCPU,
	}}
	memory := cpu
	memory.Usage, memory.Resource = vpa.MemoryAmountFromBytes(bytes), vpa.ResourceMemory
	if err := t.AddSample(&cpu); err != nil {
		tb.Fatal(err)
	}
	if err := t.AddSample(&memory); err != nil {
		tb.Fatal(err)
	}
}

func (t *theirs) during(tb testing.TB, from, to time.Time) {
	for at := from; at.Before(to); at = at.Add(theirIs) {
		for i := range t.containers {
			t.add(tb, i, at)
		}
	}
}

// BenchmarkIngest is one sample into the model; an operation is a sample.
func BenchmarkIngest(b *testing.B) {
	const containers = 1000
	b.Run("attune", func(b *testing.B) {
		o := &ours{containers: containers}
		s := o.filled()
		at := now
		o.samples = 0
		b.ReportAllocs()
		b.ResetTimer()
		defer processor(b)()
		for o.samples < b.N {
			at = at.Add(oursIs)
			s.Refresh(context.Background(), at)
		}
	})
	b.Run("vpa", func(b *testing.B) {
		t := newTheirs(containers)
		t.roll(b)
		t.during(b, now.Add(-6*time.Hour), now)
		b.ReportAllocs()
		b.ResetTimer()
		defer processor(b)()
		for n := 0; n < b.N; n += 2 {
			t.add(b, n/2%containers, now.Add(time.Duration(n/2/containers)*theirIs))
		}
	})
}

// BenchmarkProfileMemory is the heap that a container takes after eight days, and what each rollout adds.
func BenchmarkProfileMemory(b *testing.B) {
	const containers, rollouts = 100, 8
	b.Run("attune", func(b *testing.B) {
		for b.Loop() {
			o := &ours{containers: containers}
			o.roll()
			before := heap()
			s := o.filled()
			o.profiles(b, s, now)
			settled := heap()
			at := now
			for range rollouts {
				o.roll()
				at = at.Add(oursIs)
				s.Refresh(context.Background(), at)
			}
			o.profiles(b, s, at)
			weigh(b, before, settled, heap(), containers, rollouts)
			runtime.KeepAlive(s)
		}
	})
	b.Run("vpa", func(b *testing.B) {
		for b.Loop() {
			before := heap()
			t := newTheirs(containers)
			t.roll(b)
			t.during(b, now.Add(-days*24*time.Hour), now)
			settled := heap()
			at := now
			for range rollouts {
				t.roll(b)
				t.during(b, at, at.Add(oursIs))
				at = at.Add(oursIs)
			}
			weigh(b, before, settled, heap(), containers, rollouts)
			runtime.KeepAlive(t)
		}
	})
}

func weigh(b *testing.B, before, settled, rolled int64, containers, rollouts int) {
	b.Helper()
	b.ReportMetric(float64(settled-before)/float64(containers), "bytes/container")
	b.ReportMetric(float64(rolled-settled)/float64(containers*rollouts), "bytes/rollout")
}

func heap() int64 {
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}

// BenchmarkRecommend is one container's recommendation from eight days of samples: attune's with and without
// the steps that explain it, VPA's with its bounds.
func BenchmarkRecommend(b *testing.B) {
	o := &ours{containers: 2}
	profile, known := o.filled().Profile(o.key(1), now)
	require.True(b, known)
	settings, err := policy.Resolve(nil, nil, nil)
	require.NoError(b, err)
	in := recommender.Input{Container: "app", Profile: profile, Settings: settings.Recommender, Now: now}
	in.Original = recommender.Size{{Request: 500, Limit: 1000}, {Request: 512 << 20, Limit: 1 << 30}}
	require.NotZero(b, recommender.Target(in).Target[recommender.CPU].Request)
	b.Run("attune", func(b *testing.B) {
		b.ReportAllocs()
		defer processor(b)()
		for b.Loop() {
			recommender.Target(in)
		}
	})
	b.Run("attune explained", func(b *testing.B) {
		b.ReportAllocs()
		defer processor(b)()
		for b.Loop() {
			recommender.Recommend(in)
		}
	})
	states := vpa.ContainerNameToAggregateStateMap{"app": vpa.NewAggregateContainerState()}
	for at := now.Add(-days * 24 * time.Hour); at.Before(now); at = at.Add(theirIs) {
		cores, bytes := usageOf(1, at)
		states["app"].AddSample(&vpa.ContainerUsageSample{MeasureStart: at, Usage: vpa.CPUAmountFromCores(cores), Resource: vpa.ResourceCPU})
		if at.Truncate(24 * time.Hour).Equal(at) {
			states["app"].AddSample(&vpa.ContainerUsageSample{MeasureStart: at, Usage: vpa.MemoryAmountFromBytes(bytes), Resource: vpa.ResourceMemory})
		}
	}
	estimate := logic.CreatePodResourceRecommender(logic.RecommendationConfig{
		SafetyMarginFraction: 0.15, PodMinCPUMillicores: 25, PodMinMemoryMb: 250,
		TargetCPUPercentile: 0.9, LowerBoundCPUPercentile: 0.5, UpperBoundCPUPercentile: 0.95, ConfidenceIntervalCPU: 24 * time.Hour,
		TargetMemoryPercentile: 0.9, LowerBoundMemoryPercentile: 0.5, UpperBoundMemoryPercentile: 0.95, ConfidenceIntervalMemory: 24 * time.Hour,
	})
	require.NotZero(b, estimate.GetRecommendedPodResources(states)["app"].Target[vpa.ResourceCPU])
	b.Run("vpa", func(b *testing.B) {
		b.ReportAllocs()
		defer processor(b)()
		for b.Loop() {
			estimate.GetRecommendedPodResources(states)
		}
	})
}
