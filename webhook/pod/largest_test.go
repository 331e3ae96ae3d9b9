package pod

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/podview"
	"attune.io/attune/recommender"
)

// upTo limits the pods of a recommendation: "cpu=2 memory=4Gi" of requests and limits.
func upTo(t *testing.T, rec *v1alpha1.AttuneRecommendation, bounds string) *Recommendation {
	t.Helper()
	size := podview.ReadSpec(res(t, bounds))
	for r := range size {
		size[r].Limit = size[r].Request
	}
	rec.Spec.Seed.LargestPod = podview.ToResources(size)
	return Read(rec)
}

// A created pod requests no more than the largest node on which it may run has, or its template requests.
func TestSeedKeepsWithinTheLargestNode(t *testing.T) {
	boost := func(s *v1alpha1.ContainerSeed) { s.CPUBoost = &v1alpha1.CPUBoost{Multiplier: "3"} }
	raises := func(s *v1alpha1.ContainerSeed) { s.RaiseOnly = true }
	stays := func(s *v1alpha1.ContainerSeed) { s.CPULimitFollows, s.MemoryLimitFollows = false, false }
	for name, tc := range map[string]struct {
		has, cpu, memory string
		edit             func(*v1alpha1.ContainerSeed)
		most             string
		overhead         string
		want, held       string
	}{
		"within":                                  {has: "cpu=1 memory=1Gi", cpu: "2", memory: "4Gi", most: "cpu=2 memory=4Gi", want: "cpu=2 memory=4Gi"},
		"CPU above":                               {has: "cpu=100m memory=200Mi", cpu: "2160m", memory: "3Gi", most: "cpu=2 memory=4Gi", want: "cpu=100m memory=3Gi", held: "the pod would request 2160m of cpu, but the largest node on which it may run has 2"},
		"memory above":                            {has: "cpu=100m memory=200Mi/400Mi", cpu: "1", memory: "10Ti", most: "cpu=2 memory=4Gi", want: "cpu=1 memory=200Mi/400Mi", held: "the pod would request 10Ti of memory, but the largest node on which it may run has 4Gi"},
		"a glitch of 1,600 cores":                 {has: "cpu=100m/2 memory=1Gi", cpu: "1600", most: "cpu=64", want: "cpu=100m/2 memory=1Gi", held: "the pod would request 1600 of cpu, but the largest node on which it may run has 64"},
		"the overhead counts":                     {has: "cpu=100m memory=1Gi", cpu: "1800m", most: "cpu=2", overhead: "250m", want: "cpu=100m memory=1Gi", held: "the pod would request 2050m of cpu, but the largest node on which it may run has 2"},
		"the template has more already":           {has: "cpu=4 memory=1Gi", cpu: "3", most: "cpu=2", want: "cpu=3 memory=1Gi"},
		"the template has more and is raised":     {has: "cpu=3 memory=1Gi", cpu: "4", most: "cpu=2", want: "cpu=3 memory=1Gi", held: "the pod would request 4 of cpu, but the largest node on which it may run has 2"},
		"no bound":                                {has: "cpu=1 memory=1Gi", cpu: "100", want: "cpu=100 memory=1Gi"},
		"the boost alone is above":                {has: "cpu=500m memory=1Gi", cpu: "1", edit: boost, most: "cpu=2", want: "cpu=1 memory=1Gi"},
		"boost and seed are above":                {has: "cpu=500m memory=1Gi", cpu: "3", edit: boost, most: "cpu=2", want: "cpu=500m memory=1Gi", held: "the pod would request 9 of cpu, but the largest node on which it may run has 2"},
		"raise only":                              {has: "cpu=500m memory=1Gi", cpu: "3", edit: raises, most: "cpu=2", want: "cpu=500m memory=1Gi", held: "the pod would request 3 of cpu, but the largest node on which it may run has 2"},
		"BestEffort stays":                        {has: "", cpu: "3", memory: "1Gi", most: "cpu=2 memory=512Mi", want: "", held: "the pod would request 3 of cpu, but the largest node on which it may run has 2"},
		"Guaranteed":                              {has: "cpu=1/1 memory=1Gi/1Gi", cpu: "3", memory: "2Gi", most: "cpu=2 memory=4Gi", want: "cpu=1/1 memory=2Gi/2Gi", held: "the pod would request 3 of cpu, but the largest node on which it may run has 2"},
		"whole cores are rounded past it":         {has: "cpu=1/1 memory=1Gi/1Gi", cpu: "1700m", most: "cpu=1900m", want: "cpu=1/1 memory=1Gi/1Gi", held: "the pod would request 2 of cpu, but the largest node on which it may run has 1900m"},
		"a limit above the node":                  {has: "cpu=3/6 memory=2Gi/3Gi", cpu: "5", memory: "3Gi", most: "cpu=8 memory=4Gi", want: "cpu=5/8 memory=3Gi/4Gi"},
		"a placeholder request":                   {has: "cpu=20m/1 memory=16Mi/512Mi", cpu: "983m", memory: "498Mi", most: "cpu=8 memory=4Gi", want: "cpu=983m/1966m memory=498Mi/996Mi"},
		"a limit equal to its request":            {has: "cpu=3/6 memory=2Gi/3Gi", cpu: "5", memory: "4Gi", most: "cpu=5 memory=4Gi", want: "cpu=5/6 memory=4Gi/4097Mi"},
		"a limit above the node, the request too": {has: "cpu=1 memory=1Gi/8Gi", memory: "2Gi", most: "memory=1Gi", want: "cpu=1 memory=1Gi/8Gi", held: "the pod would request 2Gi of memory, but the largest node on which it may run has 1Gi"},
		"the template's limit is above the node":  {has: "cpu=1 memory=1Gi/64Gi", memory: "2Gi", most: "memory=32Gi", want: "cpu=1 memory=2Gi/64Gi"},
		"such a limit follows a lower request":    {has: "cpu=1 memory=1Gi/64Gi", memory: "768Mi", most: "memory=32Gi", want: "cpu=1 memory=768Mi/48Gi"},
		"limits that stay":                        {has: "cpu=1/128 memory=1Gi", cpu: "2", edit: stays, most: "cpu=8", want: "cpu=2/128 memory=1Gi"},
	} {
		t.Run(name, func(t *testing.T) {
			seed := seedFor(t, "app", tc.cpu, tc.memory)
			if tc.edit != nil {
				tc.edit(&seed)
			}
			rec := upTo(t, recommendation(seed), tc.most)
			pod := podOf(container(t, "app", tc.has))
			if tc.overhead != "" {
				pod.Spec.Overhead = corev1.ResourceList{"cpu": resource.MustParse(tc.overhead)}
			}

			d := SeedPod(view(t, pod), rec, &Namespace{}, now)

			after := applied(t, pod, d)
			assert.Equal(t, []string{tc.want}, resources(after))
			if tc.held == "" {
				assert.Empty(t, d.Blocked)
			} else {
				require.NotEmpty(t, d.Blocked)
				assert.Equal(t, NodeCapacity, d.Blocked[0].Reason)
				assert.Equal(t, tc.held, d.Blocked[0].Message)
			}
			assert.Equal(t, podview.QOSClass(pod) == corev1.PodQOSBestEffort && tc.want == "", podview.QOSClass(after) == corev1.PodQOSBestEffort)
			assertStable(t, after, rec, &Namespace{})
		})
	}
}

// The sum counts as in the scheduler: sidecars with the containers after them, init containers if they are more.
func TestLargestNodeBoundsThePodAsAWhole(t *testing.T) {
	rec := upTo(t, recommendation(seedFor(t, "app", "1500m", ""), seedFor(t, "mesh", "600m", "")), "cpu=2")
	pod := podOf(container(t, "app", "cpu=100m"))
	pod.Spec.InitContainers = []corev1.Container{sidecar(t, "mesh", "cpu=100m"), container(t, "setup", "cpu=1")}
	d := SeedPod(view(t, pod), rec, &Namespace{}, now)
	assert.Equal(t, []Blocked{{Resource: recommender.CPU, Reason: NodeCapacity, Message: "the pod would request 2100m of cpu, but the largest node on which it may run has 2"}}, d.Blocked)
	assert.Equal(t, NodeCapacity, d.Reason)
	assert.Empty(t, d.Patch)

	// attune does not raise an init container that needs more than all others together.
	pod.Spec.InitContainers[1].Resources = res(t, "cpu=3")
	d = SeedPod(view(t, pod), rec, &Namespace{}, now)
	assert.Equal(t, []string{"cpu=100m", "cpu=3", "cpu=100m"}, resources(applied(t, pod, d)), "the sidecar would add to the step of the init container")
}

// Another webhook adds a container after the first call, and the pod fits no node any more: it gets the resources
// that it was created with.
func TestReinvocationBeyondTheLargestNode(t *testing.T) {
	rec := upTo(t, recommendation(seedFor(t, "app", "3", "256Mi")), "cpu=4")
	pod := podOf(container(t, "app", "cpu=1 memory=1Gi"))
	first := applied(t, pod, SeedPod(view(t, pod), rec, &Namespace{}, now))
	require.Equal(t, []string{"cpu=3 memory=256Mi"}, resources(first))

	first.Spec.Containers = append(first.Spec.Containers, container(t, "mesh", "cpu=2"))
	second := applied(t, first, SeedPod(view(t, first), rec, &Namespace{}, now))

	assert.Equal(t, []string{"cpu=1 memory=256Mi", "cpu=2"}, resources(second))
	assert.Equal(t, "cpu=1 memory=1Gi", originalOf(t, second))
	assertStable(t, second, rec, &Namespace{})
}

// The prediction of the next pod is within the largest node too.
func TestPredictionWithinLargestNode(t *testing.T) {
	rec := upTo(t, recommendation(seedFor(t, "app", "3", "1Ki")), "cpu=2")
	predicted, err := PredictSeed(&corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{container(t, "app", "cpu=1 memory=1Gi")}}}, rec, nil, now)
	require.NoError(t, err)
	assert.Equal(t, []Predicted{{Name: "app", Requests: [2]recommender.Amount{1000, 4 << 20}, Seeded: [2]bool{true, true}}}, predicted)
}
