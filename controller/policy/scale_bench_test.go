package policy

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/board"
	"attune.io/attune/internal/lookup"
	"attune.io/attune/podview"
	"attune.io/attune/recommender"
	"attune.io/attune/usage"
	"attune.io/attune/usage/history"
)

// fleet is one policy over many workloads of one container each, with a week of history.
type fleet struct {
	*Controller
	memory  *memory
	clock   *clocktesting.FakePassiveClock
	request ctrl.Request
}

func newFleet(tb testing.TB, workloads int) *fleet {
	tb.Helper()
	clock := clocktesting.NewFakePassiveClock(today)
	policy := &v1alpha1.AttunePolicy{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "all", UID: "policy", Generation: 1},
		Spec: v1alpha1.AttunePolicySpec{
			TargetRef:      v1alpha1.TargetRef{Kind: v1alpha1.KindDeployment},
			PolicySettings: v1alpha1.PolicySettings{UpdateStrategy: &v1alpha1.UpdateStrategy{Type: ptr.To(v1alpha1.UpdateAuto)}},
		},
	}
	objects := []client.Object{policy}
	for i := range workloads {
		objects = append(objects, deployment(fleetName(i)))
	}
	m := newMemory(objects...)
	f := &fleet{memory: m, clock: clock, request: ctrl.Request{NamespacedName: client.ObjectKeyFromObject(policy)}}
	f.Controller = &Controller{Confirmed: &board.Confirmed{}, Client: m, History: newPast(), Clock: clock, Settings: lookup.Reader{Client: m}}
	return f
}

func fleetName(i int) string { return fmt.Sprintf("app-%06d", i) }

func (f *fleet) pass(tb testing.TB) {
	tb.Helper()
	_, err := f.Reconcile(context.Background(), f.request)
	require.NoError(tb, err)
}

// deployment is as large as a Deployment in production.
func deployment(name string) *appsv1.Deployment {
	container := corev1.Container{Name: "app", Image: "example.org/" + name + ":1", Resources: podview.ToRequirements(recommender.Size{
		recommender.CPU: {Request: 500, Limit: 1000}, recommender.Memory: {Request: 512 * mi, Limit: 1024 * mi},
	})}
	for i := range 10 {
		container.Env = append(container.Env, corev1.EnvVar{Name: fmt.Sprint("SETTING_", i), Value: "a value of middling length"})
	}
	labels := map[string]string{"app": name, "team": "shop"}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, UID: "uid", Generation: 1, Labels: labels},
		Spec: appsv1.DeploymentSpec{
			Replicas: ptr.To(int32(3)), Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{Containers: []corev1.Container{container}}},
		},
		Status: appsv1.DeploymentStatus{ObservedGeneration: 1, Replicas: 3, UpdatedReplicas: 3, ReadyReplicas: 3},
	}
}

// usual is a source of one pod for each workload, with the same usage at the same time every day.
type usual struct {
	workloads   int
	swing       [288]float64
	cpu, memory []usage.Sample
}

func newUsual(workloads int) *usual {
	u := &usual{workloads: workloads}
	for i := range u.swing {
		u.swing[i] = 1 + 0.5*math.Sin(float64(i)/float64(len(u.swing))*2*math.Pi)
	}
	return u
}

func (u *usual) Read(_ context.Context, query usage.Query, yield func(usage.Series)) (usage.Report, error) {
	for i := range u.workloads {
		u.cpu, u.memory = u.cpu[:0], u.memory[:0]
		for at := query.Start; !at.After(query.End); at = at.Add(query.Step) {
			step := int(at.Unix() % 86400 / 300)
			swing := u.swing[step] + float64((i*7919+step*104729)%100)/500
			u.cpu = append(u.cpu, usage.Sample{At: at.UnixMilli(), Value: 0.1 * swing})
			u.memory = append(u.memory, usage.Sample{At: at.UnixMilli(), Value: 2e8 * swing})
		}
		pod := fleetName(i) + "-5d4f8c7b9-x2x4z"
		yield(usage.Series{Namespace: "shop", Pod: pod, Container: "app", CPU: u.cpu, Memory: u.memory})
	}
	return usage.Report{}, nil
}

// BenchmarkPass is one pass of the policy loop in which every workload has its recommendation and no target has
// changed, which is nearly every pass. The cost per workload must not depend on their number.
func BenchmarkPass(b *testing.B) {
	for _, containers := range []int{1_000, 10_000, 100_000} {
		b.Run(fmt.Sprint(containers, " containers"), func(b *testing.B) { benchmarkPass(b, containers, 0) })
	}
	// Each pass finds a sample that the pass before did not have.
	b.Run("10000 containers with new data", func(b *testing.B) { benchmarkPass(b, 10_000, 5*time.Minute) })
	for _, containers := range []int{1_000, 10_000} {
		b.Run(fmt.Sprint(containers, " containers, 5 percent changed"), func(b *testing.B) { benchmarkSomeNews(b, containers, 20) })
	}
}

// benchmarkSomeNews is a pass in which one of so many workloads has changed.
func benchmarkSomeNews(b *testing.B, containers, oneOf int) {
	f := newFleet(b, containers)
	f.most = containers
	history := history.New(history.Options{MaxBytes: 8 << 30, Dial: func(usage.SourceSettings) (usage.Source, error) { return newUsual(containers), nil }})
	f.History = history
	f.pass(b)
	for history.Refresh(context.Background(), f.clock.Now()) {
	}
	for range 3 {
		f.pass(b)
	}
	b.ReportAllocs()
	var passes int
	var spent time.Duration
	for b.Loop() {
		b.StopTimer()
		for i := passes % oneOf; i < containers; i += oneOf {
			d := &appsv1.Deployment{}
			require.NoError(b, f.memory.Get(context.Background(), client.ObjectKey{Namespace: "shop", Name: fleetName(i)}, d))
			d.Annotations = map[string]string{"note": fmt.Sprint(passes)}
			require.NoError(b, f.memory.Update(context.Background(), d))
		}
		f.memory.written()
		runtime.GC()
		b.StartTimer()
		before := processorTime(b)
		f.pass(b)
		spent += processorTime(b) - before
		passes++
	}
	b.ReportMetric(float64(spent.Nanoseconds())/float64(passes*containers), "cpu-ns/workload")
	b.ReportMetric(spent.Seconds()/float64(passes), "cpu-s/pass")
}

func benchmarkPass(b *testing.B, containers int, apart time.Duration) {
	f := newFleet(b, containers)
	f.most = containers
	history := history.New(history.Options{MaxBytes: 8 << 30, Dial: func(usage.SourceSettings) (usage.Source, error) {
		return newUsual(containers), nil
	}})
	refresh := func() {
		for history.Refresh(context.Background(), f.clock.Now()) {
		}
	}
	f.History = history
	f.pass(b)
	refresh()
	f.pass(b)
	f.pass(b)
	f.memory.written()
	b.ReportAllocs()
	var passes, writes int
	var spent time.Duration
	for b.Loop() {
		if apart > 0 {
			b.StopTimer()
			f.clock.SetTime(f.clock.Now().Add(apart))
			refresh()
			f.memory.written()
			b.StartTimer()
		}
		before := processorTime(b)
		f.pass(b)
		spent += processorTime(b) - before
		writes += f.memory.written()
		passes++
	}
	reportPasses(b, passes*containers, writes, spent, apart == 0)
}

// reportPasses reports what passes took and wrote for each workload: nothing is written at rest.
func reportPasses(b *testing.B, workloads, writes int, spent time.Duration, atRest bool) {
	b.Helper()
	b.ReportMetric(float64(spent.Nanoseconds())/float64(workloads), "cpu-ns/workload")
	b.ReportMetric(float64(writes)/float64(workloads), "writes/workload")
	if atRest && writes > 0 {
		b.Fatal(writes, "writes although nothing has changed")
	}
}

// processorTime is the CPU time of this process on all cores, garbage collection included.
func processorTime(b *testing.B) time.Duration {
	b.Helper()
	var used syscall.Rusage
	require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &used))
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// BenchmarkPolicyStatus is a policy's status, computed and written as the patch for the API server.
func BenchmarkPolicyStatus(b *testing.B) {
	f := newFleet(b, 1000)
	f.pass(b)
	p := &v1alpha1.AttunePolicy{}
	require.NoError(b, f.memory.Get(context.Background(), f.request.NamespacedName, p))
	before := p.DeepCopy()
	before.Status = v1alpha1.AttunePolicyStatus{}
	b.ReportAllocs()
	for b.Loop() {
		patch, err := client.MergeFrom(before).Data(p)
		if err != nil || !json.Valid(patch) {
			b.Fatal(err)
		}
		b.SetBytes(int64(len(patch)))
	}
}
