package main

import (
	"fmt"
	"net/http"
	goruntime "runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/answers"
	"attune.io/attune/internal/event"
	"attune.io/attune/internal/lookup"
	"attune.io/attune/internal/policy"
	"attune.io/attune/internal/workload"
	"attune.io/attune/podview"
	"attune.io/attune/recommender"
	"attune.io/attune/ui"
)

// podOf returns the pod of the test cluster from the cache.
func podOf(t *testing.T, p pages) *corev1.Pod {
	t.Helper()
	pod := &corev1.Pod{}
	require.NoError(t, p.client.Get(t.Context(), client.ObjectKey{Namespace: "shop", Name: "web-7c9f8d6b5-aaaaa"}, pod))
	return pod
}

// writer returns the client that writes to the cache, in place of the API server.
func writer(t *testing.T, p pages) client.Client {
	t.Helper()
	c, ok := p.client.(client.Client)
	require.True(t, ok)
	return c
}

// The leader computes the same savings from trimmed objects as kubectl attune savings from whole ones, at the prices
// of the defaults.
func TestPagesSavings(t *testing.T) {
	defaults := &v1alpha1.AttuneDefaults{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.DefaultsName}}
	defaults.Spec.CostPricing = &v1alpha1.CostPricing{CPUPerCoreHour: ptr.To(v1alpha1.Decimal("0.03")), Currency: "€"}
	p, whole := shown(t, defaults)
	whole.Status.Originals = nil
	settings, err := p.settingsOf(t.Context(), whole)
	require.NoError(t, err)
	sized, _, err := lookup.Workload(t.Context(), p.client, p.sized, workload.IdentityOf(whole))
	require.NoError(t, err)
	view := answers.View{Recommendation: whole, Workload: sized, Settings: settings, Pods: []*corev1.Pod{podOf(t, p)}}
	got := p.Savings(t.Context())(cachedRec(t, p))
	assert.Equal(t, answers.SavingsRowOf(answers.SavingsEntry{View: view, Figures: view.Compute()}, true), answers.SavingsRowOf(got, true))
	assert.Equal(t, view.Compute(), got.Figures)
	assert.Equal(t, policy.Pricing{CPUPerCoreHour: 0.03, Currency: "€"}, got.Settings.Pricing)
	assert.EqualValues(t, 300, got.Figures.Available[recommender.CPU], "500m to 200m of one pod")

	rec := cachedRec(t, p)
	rec.Spec.Policy.Name = "gone"
	assert.Equal(t, "the settings of policy gone are not known", p.Savings(t.Context())(rec).Figures.NotCounted[0].Message)
}

// The settings have their origins, and sent events are shown without a request to the API server.
func TestPagesBeside(t *testing.T) {
	defaults := &v1alpha1.AttuneDefaults{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.DefaultsName}}
	defaults.Spec.Memory = &v1alpha1.MemorySettings{AllowDecrease: ptr.To(true)}
	p, whole := shown(t, defaults)
	p.kept.told = event.NewSentStore(1<<20, p.clock)
	p.kept.told.Keep(nobodyListens{}).Eventf(whole, nil, "Normal", "Resized", "RightSize", "%s", "it was resized")
	got := p.Beside(t.Context(), cachedRec(t, p))
	assert.Contains(t, got.Settings, policy.Field{Path: "memory.allowDecrease", Value: "true", Level: policy.Cluster})
	assert.Contains(t, got.Settings, policy.Field{Path: "cpu.percentile", Value: "95", Level: policy.BuiltIn})
	assert.Equal(t, []event.SentEvent{{At: p.now(), Type: "Normal", Reason: "Resized", Message: "it was resized"}}, got.Events)
	require.NotNil(t, got.Saved)
}

// nobodyListens is a sink that drops events.
type nobodyListens struct{}

func (nobodyListens) Eventf(runtime.Object, runtime.Object, string, string, string, string, ...any) {}

// A node shows the last decision of the node loop, or its pods if none of them shares it.
func TestPagesNodes(t *testing.T) {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "worker"}, Status: corev1.NodeStatus{Allocatable: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("4"), corev1.ResourceMemory: resource.MustParse("8Gi")}}}
	p, _ := shown(t, node, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "another"}})
	all, err := p.Nodes(t.Context())
	require.NoError(t, err)
	assert.NotEmpty(t, all.Problem, "the node loop does not run")
	_, known, err := p.Node(t.Context(), "worker")
	require.NoError(t, err)
	assert.False(t, known)

	pod := podOf(t, p)
	pod.Spec.NodeName = "worker"
	require.NoError(t, writer(t, p).Update(t.Context(), pod))
	decided := map[string]answers.NodeAnswer{}
	p.decided = func(name string) (answers.NodeAnswer, bool) { n, known := decided[name]; return n, known }
	all, err = p.Nodes(t.Context())
	require.NoError(t, err)
	assert.Equal(t, ui.Nodes{Names: []string{"another", "worker"}, At: p.now()}, all)
	got, known, err := p.Node(t.Context(), "worker")
	require.NoError(t, err)
	require.True(t, known)
	assert.Equal(t, answers.NodeAmounts{CPU: "500m", Memory: "1Gi"}, got.Fixed)
	require.Len(t, got.Pods, 1)
	assert.Equal(t, "shop/web-7c9f8d6b5-aaaaa", got.Pods[0].Name)
	assert.False(t, got.Pods[0].Shares)

	decided["worker"] = answers.NodeAnswer{Node: "worker", Pods: []answers.NodePod{{Name: "shop/other", Shares: true, Containers: []answers.NodeContainer{{Name: "app"}}}}, Decided: &answers.NodeDecided{}}
	got, known, err = p.Node(t.Context(), "worker")
	require.NoError(t, err)
	assert.True(t, known)
	assert.Equal(t, decided["worker"], got)
	_, known, err = p.Node(t.Context(), "none")
	require.NoError(t, err)
	assert.False(t, known)

	d := &decisions{decided: knows, leads: leading(), leader: nobody, pages: ui.NewHandler(p, func(string, error) {})}
	code, body := ask(d, http.MethodGet, "/ui/nodes/worker")
	assert.Equal(t, http.StatusOK, code)
	assert.Contains(t, body, "shop/other")
}

// The sampler records the highest request and limit of the running pods, the target and OOM kills, once per change.
func TestSampler(t *testing.T) {
	p, _ := shown(t)
	p.kept.trails = event.NewTrailStore(1 << 20)
	clock := clocktesting.NewFakeClock(p.now())
	s := &sampler{pages: p, clock: clock}
	key := event.TrailKey{Namespace: "shop", Kind: v1alpha1.KindDeployment, Workload: "web", Container: "app"}
	require.NoError(t, s.round(t.Context(), clock.Now()))
	first := event.TrailPoint{At: clock.Now().UnixMilli(), TrailValues: event.TrailValues{Request: 500, Target: 200}}
	assert.Equal(t, []event.TrailPoint{first}, p.kept.trails.Of(key).Points[recommender.CPU])

	pod, killed := podOf(t, p), clock.Now().Add(-time.Minute)
	pod.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = resource.MustParse("250m")
	require.NoError(t, writer(t, p).Update(t.Context(), pod))
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "app", LastTerminationState: corev1.ContainerState{
		Terminated: &corev1.ContainerStateTerminated{Reason: "OOMKilled", ExitCode: 137, FinishedAt: metav1.NewTime(killed)},
	}}}
	require.NoError(t, writer(t, p).Status().Update(t.Context(), pod))
	for range 3 {
		clock.Step(sampledEach)
		require.NoError(t, s.round(t.Context(), clock.Now()))
	}
	got := p.kept.trails.Of(key)
	assert.Equal(t, []event.TrailPoint{first, {At: first.At + sampledEach.Milliseconds(), TrailValues: event.TrailValues{Request: 250, Target: 200}}}, got.Points[recommender.CPU])
	assert.Equal(t, []int64{killed.UnixMilli()}, got.Kills)

	ofNode := &corev1.ContainerStateTerminated{Reason: "OOMKilled", ExitCode: 137, FinishedAt: metav1.NewTime(clock.Now())}
	pod.Status.ContainerStatuses[0].LastTerminationState.Terminated = ofNode
	require.NoError(t, writer(t, p).Status().Update(t.Context(), pod))
	rec := cachedRec(t, p)
	rec.Status.Floors = []v1alpha1.Floor{{Container: "app", Resource: "memory", Reason: "nodekill", LearnedAt: ofNode.FinishedAt, Evidence: podview.Evidence(ofNode)}}
	require.NoError(t, writer(t, p).Update(t.Context(), rec))
	require.NoError(t, s.round(t.Context(), clock.Now()))
	assert.Equal(t, []int64{killed.UnixMilli()}, p.kept.trails.Of(key).Kills, "a kill of the node is none of the container")

	require.NoError(t, writer(t, p).Delete(t.Context(), cachedRec(t, p)))
	require.NoError(t, s.round(t.Context(), clock.Now().Add(time.Minute)))
	assert.Zero(t, p.kept.trails.Bytes(), "what is gone is forgotten")
}

// The settings of a cluster policy differ in each namespace. A savings page keeps the settings of one namespace at a
// time: they take 3.5 KB each, 17 MB for 5,000 namespaces, and up to four pages render at once.
func TestSavingsKeepTheSettingsOfOneNamespace(t *testing.T) {
	p, whole := shown(t, &v1alpha1.AttuneClusterPolicy{ObjectMeta: metav1.ObjectMeta{Name: "base", UID: "base"}})
	p.settings.Clusterwide = true
	rec := whole.DeepCopy()
	rec.Spec.Policy = v1alpha1.PolicyRef{Kind: v1alpha1.PolicyKindCluster, Name: "base"}
	heap := func() int64 {
		goruntime.GC()
		var m goruntime.MemStats
		goruntime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	of := p.Savings(t.Context())
	require.Empty(t, of(rec).Figures.NotCounted, "the settings are found")
	before := heap()
	const namespaces = 1000
	for i := range namespaces {
		rec.Namespace = fmt.Sprint("ns-", i)
		of(rec)
	}
	assert.Less(t, heap()-before, int64(namespaces*300), "bytes of a namespace")
	goruntime.KeepAlive(of)
}
