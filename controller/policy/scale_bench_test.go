package policy

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
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
	"attune.io/attune/internal/effective"
	"attune.io/attune/recommender"
	"attune.io/attune/resize"
	"attune.io/attune/usage"
	"attune.io/attune/usage/store"
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
		objects = append(objects, deployment(fmt.Sprintf("app-%06d", i)))
	}
	m := newMemory(objects...)
	f := &fleet{memory: m, clock: clock, request: ctrl.Request{NamespacedName: client.ObjectKeyFromObject(policy)}}
	f.Controller = &Controller{Client: m, History: newPast(), Clock: clock, Settings: effective.Reader{Client: m}}
	return f
}

func (f *fleet) pass(tb testing.TB) {
	tb.Helper()
	_, err := f.Reconcile(context.Background(), f.request)
	require.NoError(tb, err)
}

// deployment is as bulky as one is in production.
func deployment(name string) *appsv1.Deployment {
	container := corev1.Container{Name: "app", Image: "example.org/" + name + ":1", Resources: resize.ToRequirements(recommender.Size{
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

// past is a history that is the same for each 16th workload and moves with the clock.
type past struct{ profiles [16]recommender.Profile }

func newPast() *past {
	p := &past{}
	random := rand.New(rand.NewPCG(1, 2))
	for i := range p.profiles {
		var steps []recommender.StepUsage
		for at := today.Add(-7 * 24 * time.Hour); !at.After(today); at = at.Add(5 * time.Minute) {
			steps = append(steps, recommender.StepUsage{At: at, CPUCores: 0.2 * random.Float64(), MemoryBytes: 3e8 * (1 + random.Float64())})
		}
		p.profiles[i] = recommender.NewProfile(steps, 5*time.Minute)
	}
	return p
}

func (*past) Want(store.Interest)   {}
func (*past) Forget(string, string) {}
func (*past) State(usage.SourceSettings) (store.State, bool) {
	return store.State{BackfillProgress: 1}, true
}

func (p *past) Profile(key store.Key, now time.Time) (recommender.Profile, bool) {
	profile := p.profiles[int(key.Workload[len(key.Workload)-1])%len(p.profiles)]
	later := now.Truncate(5 * time.Minute).Sub(profile.Last)
	profile.First, profile.Last = profile.First.Add(later), profile.Last.Add(later)
	for r := range profile.Of {
		profile.Of[r].First, profile.Of[r].Last = profile.Of[r].First.Add(later), profile.Of[r].Last.Add(later)
	}
	return profile, true
}

// BenchmarkPass is one pass of the policy loop where every workload has its recommendation and no target
// has changed, which is nearly every pass: its cost is to be the same for each workload, however many.
func BenchmarkPass(b *testing.B) {
	for _, containers := range []int{1_000, 10_000, 100_000} {
		b.Run(fmt.Sprint(containers, " containers"), func(b *testing.B) {
			f := newFleet(b, containers)
			f.pass(b)
			f.memory.written()
			b.ReportAllocs()
			passes, before := 0, processorTime(b)
			for b.Loop() {
				f.pass(b)
				passes++
			}
			spent := processorTime(b) - before
			b.ReportMetric(float64(spent.Nanoseconds())/float64(passes*containers), "cpu-ns/workload")
			if n := f.memory.written(); n > 0 {
				b.Fatal(n, "writes although nothing has changed")
			}
		})
	}
}

// processorTime is what this process has used of all cores, garbage collection included.
func processorTime(b *testing.B) time.Duration {
	b.Helper()
	var used syscall.Rusage
	require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &used))
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// BenchmarkPolicyStatus is a policy's status, computed and written as the patch that the API server gets.
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

func (p *past) Highest(store.Key, recommender.Resource, time.Time, time.Time) (recommender.Usage, bool) {
	return 0, false
}
