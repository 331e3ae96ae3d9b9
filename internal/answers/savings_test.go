package answers

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/policy"
	"attune.io/attune/internal/workload"
	"attune.io/attune/podview"
	"attune.io/attune/recommender"
)

const cpu, memory = recommender.CPU, recommender.Memory

// size has only requests.
func size(millicores, bytes recommender.Amount) recommender.Size {
	return recommender.Size{cpu: {Request: millicores}, memory: {Request: bytes}}
}

func containers(sizes ...recommender.Size) (all []corev1.Container) {
	for i, s := range sizes {
		all = append(all, corev1.Container{Name: fmt.Sprint("c", i), Resources: podview.ToRequirements(s)})
	}
	return all
}

// view has a Deployment with this template and a recommendation with this target.
func view(t testing.TB, replicas int32, template, target recommender.Size) View {
	t.Helper()
	settings, err := policy.Resolve(nil, nil, nil)
	require.NoError(t, err)
	settings.Recommender.Of[memory].AllowDecrease = true
	return View{
		Recommendation: &v1alpha1.AttuneRecommendation{Spec: v1alpha1.AttuneRecommendationSpec{
			Policy:     v1alpha1.PolicyRef{Name: "api"},
			Containers: []v1alpha1.ContainerTarget{{Name: "c0", Target: podview.ToResources(target)}},
		}},
		Workload: workload.Workload{
			Identity: workload.Identity{Kind: v1alpha1.KindDeployment, Namespace: "shop", Name: "web"}, Replicas: replicas,
			Template: &corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: containers(template)}},
		},
		Settings: &settings,
	}
}

// running adds a pod of a template hash with this size.
func (v *View) running(hash string, has recommender.Size) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("pod-", len(v.Pods)), Labels: map[string]string{"pod-template-hash": hash}},
		Spec: corev1.PodSpec{Containers: containers(has)}}
	v.Pods = append(v.Pods, pod)
	return pod
}

func TestSavedAndAvailableAddUp(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	amount := func() recommender.Amount { return 1 + recommender.Amount(random.Int64N(1<<40)) }
	for range 200 {
		template, target := size(amount(), amount()), size(amount(), amount())
		v := view(t, int32(random.IntN(6)), template, target)
		for range random.IntN(int(v.Workload.Replicas) + 1) {
			v.running("1", size(amount(), amount()))
		}
		got := v.Compute()
		assert.Equal(t, got.Saved, v.Saved())
		assert.Empty(t, got.NotCounted)
		for _, r := range recommender.Resources {
			want, known := SavedOf(template[r].Request, target[r].Request, v.Workload.Replicas)
			require.True(t, known)
			assert.Equal(t, want, got.Saved[r]+got.Available[r])
		}
	}
}

func TestOriginalsOfOtherTemplates(t *testing.T) {
	v := view(t, 2, size(500, 1<<30), size(200, 1<<30))
	v.Recommendation.Status.Originals = []v1alpha1.Originals{
		{TemplateHash: "old", Containers: []v1alpha1.ContainerResources{{Name: "c0", Resources: podview.ToResources(size(900, 1<<30))}}},
		{TemplateHash: "old", Containers: []v1alpha1.ContainerResources{{Name: "c0", Resources: podview.ToResources(size(1000, 1<<30))}}},
	}
	v.running("old", size(250, 1<<30))
	assert.Equal(t, SavedAmounts{750, 0}, v.Compute().Saved, "the newest original")
	v.running("new", size(600, 1<<30))
	assert.Equal(t, SavedAmounts{650, 0}, v.Compute().Saved, "growth of the second pod against the template")
	v.Workload.Rollout.InProgress = true
	assert.Equal(t, SavedAmounts{750, 0}, v.Compute().Saved, "during a rollout the template may be another one")
}

// A pod that attune never resized has saved nothing: its template may have changed later, for example in a ReplicaSet,
// which keeps its pods.
func TestPodsThatAttuneNeverSizedSaveNothing(t *testing.T) {
	v := view(t, 1, size(500, 2<<30), size(200, 1<<30))
	v.running("1", size(300, 1<<30))
	pod := v.Pods[0]
	pod.Generation = 1
	assert.Zero(t, v.Compute().Saved)
	assert.Equal(t, SavedAmounts{100, 0}, v.Compute().Available)
	pod.Annotations = map[string]string{v1alpha1.SeededAnnotation: "{}"}
	assert.Equal(t, SavedAmounts{200, 1 << 30}, v.Compute().Saved, "it was born with another size")
	pod.Annotations, pod.Generation = nil, 2
	assert.Equal(t, SavedAmounts{200, 1 << 30}, v.Compute().Saved, "it was resized")
}

func TestNotCountedResources(t *testing.T) {
	hold := func(resource, reason string) func(*View) {
		return func(v *View) {
			v.Recommendation.Spec.Containers[0].Holds = []v1alpha1.Hold{{Resource: resource, Reason: reason, Message: "why"}}
		}
	}
	all := SavingsFigures{Saved: SavedAmounts{250, 0}, Available: SavedAmounts{50, 1 << 29}}
	saved := SavedAmounts{250, 0}
	cases := map[string]struct {
		change func(*View)
		want   SavingsFigures
	}{
		"nothing holds": {func(*View) {}, all},
		"HPA on CPU": {hold("cpu", "HPA"), SavingsFigures{Saved: saved, Available: SavedAmounts{0, 1 << 29},
			NotCounted: []NotCounted{{"c0", "cpu", "HPA", "why"}}, HPA: []HPAFigures{{Proof: "None", Saved: saved, Blocked: SavedAmounts{50, 0}}}}},
		"VPA: what pods have is its doing": {hold("cpu", "VPA"), SavingsFigures{Available: SavedAmounts{0, 1 << 29}, NotCounted: []NotCounted{{"c0", "cpu", "VPA", "why"}}}},
		"no pod runs now":                  {hold("cpu", "NotRunning"), all},
		"memory may not be lowered": {func(v *View) { v.Settings.Recommender.Of[memory].AllowDecrease = false },
			SavingsFigures{Saved: saved, Available: SavedAmounts{50, 0}, NotCounted: []NotCounted{{"c0", "memory", "AllowDecrease", "memory is lowered only with allowDecrease"}}}},
		"no target": {func(v *View) {
			v.Recommendation.Spec.Containers[0].Target.MemoryRequest = nil
			hold("memory", "NoData")(v)
		}, SavingsFigures{Saved: saved, Available: SavedAmounts{50, 0}, NotCounted: []NotCounted{{"c0", "memory", "NoData", "why"}}}},
		"the workload is skipped": {func(v *View) { v.Workload.Annotations = map[string]string{v1alpha1.SkipAnnotation: "true"} },
			SavingsFigures{NotCounted: []NotCounted{{"", "", ReasonSkipped, "Deployment/web is skipped"}}}},
		"its pod is skipped": {func(v *View) { v.Pods[0].Annotations = map[string]string{v1alpha1.SkipAnnotation: "true"} },
			SavingsFigures{NotCounted: []NotCounted{{"", "", ReasonSkipped, "pod pod-0 and possibly other pods are skipped"}}}},
		"paused by a person": {func(v *View) { v.Workload.Annotations = map[string]string{v1alpha1.PausedAnnotation: "true"} },
			SavingsFigures{Saved: saved, NotCounted: []NotCounted{{"", "", "Paused", "the workload, its policy or the defaults are paused, or an undo was requested"}}}},
		"paused by itself": {func(v *View) { v.Recommendation.Status.Paused = &v1alpha1.PausedState{Reason: "another writer"} },
			SavingsFigures{Saved: saved, NotCounted: []NotCounted{{"", "", "Paused", "another writer"}}}},
		"strategy Node": {func(v *View) { v.Recommendation.Spec.Strategy = v1alpha1.StrategyNode },
			SavingsFigures{Saved: saved, NotCounted: []NotCounted{{"", "", ReasonOnItsNode, "the resources of pods are decided on their node: run kubectl attune node NAME"}}}},
		"the settings are not known": {func(v *View) { v.Settings = nil },
			SavingsFigures{Saved: saved, NotCounted: []NotCounted{{"", "", ReasonUnknown, "the settings of policy api are not known"}}}},
		"the workload is gone": {func(v *View) { v.Workload = workload.Workload{} },
			SavingsFigures{NotCounted: []NotCounted{{"", "", ReasonUnknown, "the workload does not exist, or cannot be read"}}}},
		"no request": {func(v *View) { v.Pods[0].Spec.Containers[0].Resources = corev1.ResourceRequirements{} },
			SavingsFigures{NotCounted: []NotCounted{{"c0", "cpu", ReasonUnknown, "the container has no request to compare with"}, {"c0", "memory", ReasonUnknown, "the container has no request to compare with"}}}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			v := view(t, 1, size(500, 1<<30), size(200, 1<<29))
			v.running("1", size(250, 1<<30))
			c.change(&v)
			assert.Equal(t, c.want, v.Compute())
		})
	}
}

// A CronJob reserves nothing between its runs; the replicas of a Deployment reserve their requests all the time.
func TestReplicasThatDoNotRun(t *testing.T) {
	v := view(t, 3, size(500, 1<<30), size(200, 1<<30))
	assert.Equal(t, SavedAmounts{900, 0}, v.Compute().Available)
	v.Workload.Kind = v1alpha1.KindCronJob
	assert.Zero(t, v.Compute().Available)
}

func TestAmountsThatNoMachineHasStayInBounds(t *testing.T) {
	for _, c := range []struct {
		from, to recommender.Amount
		replicas int32
		want     recommender.Amount
	}{
		{recommender.MaxAmount, 1, math.MaxInt32, recommender.MaxAmount},
		{1, recommender.MaxAmount, math.MaxInt32, -recommender.MaxAmount},
		{500, 200, 3, 900}, {200, 500, 3, -900}, {500, 200, -1, 0},
	} {
		got, known := SavedOf(c.from, c.to, c.replicas)
		assert.True(t, known)
		assert.Equal(t, c.want, got)
	}
	_, known := SavedOf(0, 200, 3)
	assert.False(t, known)
}

func TestTheMonthHas730Hours(t *testing.T) {
	amount, priced := MonthlyPrice(SavedAmounts{1500, -(1 << 31)}, policy.Pricing{CPUPerCoreHour: 0.03, MemoryPerGiBHour: 0.004, Currency: "€"})
	assert.True(t, priced)
	assert.Equal(t, "€27.01", FormatMoney(amount, "€"))
	_, priced = MonthlyPrice(SavedAmounts{1500, 0}, policy.Pricing{})
	assert.False(t, priced)
}

// With thousands of workloads with unreal amounts, the sum saturates and keeps its sign.
func TestSumsStayInBounds(t *testing.T) {
	var saved, grown SavedAmounts
	for range 5000 {
		saved = saved.Plus(SavedAmounts{recommender.MaxAmount, 8 << 50})
		grown = grown.Plus(SavedAmounts{-recommender.MaxAmount, -8 << 50})
	}
	assert.Equal(t, SavedAmounts{recommender.MaxAmount, recommender.MaxAmount}, saved)
	assert.Equal(t, SavedAmounts{-recommender.MaxAmount, -recommender.MaxAmount}, grown)
	assert.Equal(t, SavedAmounts{recommender.MaxAmount, -recommender.MaxAmount}, SavedAmounts{math.MaxInt64, math.MinInt64}.Plus(SavedAmounts{math.MaxInt64, math.MinInt64}))

	v := view(t, 5000, size(1, 8<<50), size(1, 1))
	v.Recommendation.Status.Originals = []v1alpha1.Originals{{TemplateHash: "1", Containers: []v1alpha1.ContainerResources{{Name: "c0", Resources: podview.ToResources(size(1, 8<<50))}}}}
	for range 2000 {
		v.running("1", size(1, 1))
	}
	assert.Equal(t, recommender.MaxAmount, v.Compute().Saved[memory])
}

// BenchmarkCompute uses a workload with three pods.
func BenchmarkCompute(b *testing.B) {
	v := view(b, 3, size(500, 1<<30), size(200, 1<<29))
	for range 3 {
		v.running("1", size(250, 1<<30))
	}
	b.ReportAllocs()
	for b.Loop() {
		v.Compute()
	}
}

// wide has a workload with that many containers and pods.
func wide(tb testing.TB, containersOf, pods int) View {
	v := view(tb, int32(pods), size(500, 1<<30), size(200, 1<<29))
	sizes := make([]recommender.Size, containersOf)
	target := v.Recommendation.Spec.Containers[0]
	v.Recommendation.Spec.Containers = nil
	for i := range sizes {
		sizes[i], target.Name = size(250, 1<<30), fmt.Sprint("c", i)
		v.Recommendation.Spec.Containers = append(v.Recommendation.Spec.Containers, target)
	}
	v.Workload.Template.Spec.Containers = containers(sizes...)
	for range pods {
		v.running("1", recommender.Size{}).Spec.Containers = containers(sizes...)
	}
	return v
}

// A pod is read once, regardless of the number of its containers.
func TestPodsAreNotReadForEachContainer(t *testing.T) {
	allocations := func(containers int) float64 {
		v := wide(t, containers, 100)
		return testing.AllocsPerRun(5, func() { v.Compute() })
	}
	assert.Less(t, allocations(16), 8*allocations(1))
}

// NotCounted is sorted by container, regardless of the pod in which it appears first.
func TestNotCountedIsInOrderOfContainers(t *testing.T) {
	v := wide(t, 2, 2)
	v.Pods[0].Spec.Containers[1].Resources, v.Pods[1].Spec.Containers[0].Resources = corev1.ResourceRequirements{}, corev1.ResourceRequirements{}
	var told []string
	for _, n := range v.Compute().NotCounted {
		told = append(told, n.Container+" "+n.Resource)
	}
	assert.Equal(t, []string{"c0 cpu", "c0 memory", "c1 cpu", "c1 memory"}, told)
}

// kept is a range of CPU requests in which an HPA keeps the number of replicas.
func kept(least string) v1alpha1.KeptRequest {
	return v1alpha1.KeptRequest{Resource: "cpu", Least: resource.MustParse(least), HPAs: []string{"web"}}
}

// Requests on which HPAs scale: the figures of the granted ones are a part of all, those of blocked ones are not.
func TestSavingsBelowAnHPA(t *testing.T) {
	granted := view(t, 3, size(1000, 2<<30), size(500, 1<<30))
	granted.Recommendation.Spec.Containers[0].Kept = []v1alpha1.KeptRequest{kept("462m")}
	granted.running("1", size(700, 2<<30))
	granted.running("1", size(500, 1<<30))
	blocked := view(t, 2, size(1000, 2<<30), size(400, 1<<30))
	blocked.Recommendation.Spec.Containers[0].Holds = []v1alpha1.Hold{{Resource: "cpu", Reason: "HPA"}, {Resource: "memory", Reason: "NoData"}}
	free := view(t, 1, size(1000, 2<<30), size(300, 2<<30))

	assert.Equal(t, []HPAFigures{{Proof: "Keep", Saved: SavedAmounts{800, 0}, Available: SavedAmounts{700, 0}}}, granted.Compute().HPA)
	assert.Equal(t, []HPAFigures{{Proof: "None", Blocked: SavedAmounts{1200, 0}}}, blocked.Compute().HPA)
	assert.Empty(t, free.Compute().HPA)

	var entries []SavingsEntry
	for _, v := range []View{blocked, granted, granted, free} {
		entries = append(entries, SavingsEntry{v, v.Compute()})
	}
	total := NewSavingsReport(entries, true).Total
	assert.Equal(t, []string{
		"Saved already: 1600m of CPU and 2Gi of memory.",
		"Available, not applied yet: 2100m of CPU and 4Gi of memory.",
		"Not counted: 2 blocked resources.",
		"Of these, granted below HorizontalPodAutoscalers by Keep (2 workloads): saved 1600m of CPU and 0 of memory, available 1400m of CPU and 0 of memory.",
		"Blocked by HorizontalPodAutoscalers (1 workload), not counted: 1200m of CPU and 0 of memory.",
	}, total.Sentences())
	assert.Nil(t, total.HPA[0].Blocked)
	assert.Nil(t, total.HPA[1].Available)
	assert.Nil(t, NewSavingsReport(entries, false).Total.HPA[0].Saved, "the pods are not known")
}
