package lifecycle_test

import (
	"encoding/json"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"attune.io/attune/api/v1alpha1"
	. "attune.io/attune/resize"
	. "attune.io/attune/resize/lifecycle"
)

// createdAt returns a pod of Deployment web that requests 500m of CPU.
func createdAt(name string, at time.Time) *corev1.Pod {
	pod := ofDeployment(name)
	pod.CreationTimestamp = metav1.NewTime(at)
	return pod
}

func sizedAt(name string, at time.Time) *corev1.Pod {
	return with(createdAt(name, at), func(p *corev1.Pod) {
		p.Annotations = map[string]string{v1alpha1.SeededAnnotation: `{"recommendation":"deployment-web"}`}
	})
}

// judge calls JudgeSuccessor with a status that has no records.
func judge(tries []v1alpha1.Try, history []v1alpha1.HistoryEntry, pods []*corev1.Pod, seed *v1alpha1.Seed, now time.Time) []v1alpha1.Try {
	return JudgeSuccessor(&v1alpha1.AttuneRecommendationStatus{Tries: tries, History: history}, pods, seed, decodedAnnotation, now)
}

// decodedAnnotation decodes the annotation of the webhook; nil: it is not set or cannot be read.
func decodedAnnotation(pod *corev1.Pod) *v1alpha1.Seeded {
	note := &v1alpha1.Seeded{}
	if json.Unmarshal([]byte(pod.Annotations[v1alpha1.SeededAnnotation]), note) != nil {
		return nil
	}
	return note
}

// twoCPU is a seed that gives container app 2 CPU.
var twoCPU = &v1alpha1.Seed{Containers: []v1alpha1.ContainerSeed{{Name: "app", CPURequest: ptr.To(resource.MustParse("2"))}}}

// evictedPods returns the history of a workload whose last pod attune evicted at a time, before other resizes.
func evictedPods(at time.Time) []v1alpha1.HistoryEntry {
	return []v1alpha1.HistoryEntry{
		{Result: ResultSuccess, Timestamp: metav1.NewTime(at.Add(time.Minute))},
		{Result: ResultEvicted, Timestamp: metav1.NewTime(at)},
		{Result: ResultEvicted, Timestamp: metav1.NewTime(at.Add(-time.Hour))},
	}
}

func TestJudgeSuccessorStopsEvictions(t *testing.T) {
	old, evicted := createdAt("web-1", noon.Add(-24*time.Hour)), noon.Add(-time.Minute)
	for name, c := range map[string]struct {
		history []v1alpha1.HistoryEntry
		pods    []*corev1.Pod
		seed    *v1alpha1.Seed
		stops   bool
	}{
		"the successor was not sized":                 {evictedPods(evicted), []*corev1.Pod{old, createdAt("web-2", evicted)}, twoCPU, true},
		"it was created before the record was closed": {evictedPods(evicted), []*corev1.Pod{createdAt("web-2", evicted.Add(-30*time.Second)), old}, twoCPU, true},
		"it was sized":                     {evictedPods(evicted), []*corev1.Pod{old, sizedAt("web-2", evicted)}, twoCPU, false},
		"a newer one was sized":            {evictedPods(evicted), []*corev1.Pod{sizedAt("web-3", noon), createdAt("web-2", evicted)}, twoCPU, false},
		"one of the same second was sized": {evictedPods(evicted), []*corev1.Pod{createdAt("web-2", noon), sizedAt("web-3", noon), createdAt("web-4", noon)}, twoCPU, false},
		"it does not exist yet":            {evictedPods(evicted), []*corev1.Pod{old}, twoCPU, false},
		"no pods":                          {evictedPods(evicted), nil, twoCPU, false},
		"it is being deleted": {evictedPods(evicted), []*corev1.Pod{old, with(createdAt("web-2", evicted), func(p *corev1.Pod) {
			p.DeletionTimestamp = &metav1.Time{Time: noon}
		})}, twoCPU, false},
		"its template gives the same":       {evictedPods(evicted), []*corev1.Pod{createdAt("web-2", evicted)}, &v1alpha1.Seed{Containers: []v1alpha1.ContainerSeed{{Name: "app", CPURequest: ptr.To(resource.MustParse("500m"))}}}, false},
		"no seed":                           {evictedPods(evicted), []*corev1.Pod{createdAt("web-2", evicted)}, nil, false},
		"attune evicted no pod":             {evictedPods(evicted)[:1], []*corev1.Pod{createdAt("web-2", evicted)}, twoCPU, false},
		"attune evicted one yesterday":      {evictedPods(noon.Add(-24 * time.Hour)), []*corev1.Pod{createdAt("web-2", evicted)}, twoCPU, false},
		"a pod of a later rollout or pause": {evictedPods(noon.Add(-10 * time.Minute)), []*corev1.Pod{createdAt("web-2", evicted)}, twoCPU, false},
		"it was lowered since": {evictedPods(evicted), []*corev1.Pod{with(createdAt("web-2", evicted), func(p *corev1.Pod) {
			p.Generation = 2
		})}, twoCPU, false},
		"a pod from before the eviction": {evictedPods(evicted), []*corev1.Pod{createdAt("web-2", evicted.Add(-5*time.Minute))}, twoCPU, false},
	} {
		t.Run(name, func(t *testing.T) {
			tries := judge(nil, c.history, c.pods, c.seed, noon)
			if !c.stops {
				assert.Empty(t, tries)
				return
			}
			assert.Equal(t, []v1alpha1.Try{{
				What: v1alpha1.TryEviction, Pod: "web-2", PodUID: "web-2", Reason: ReasonLastSuccessor, Times: 1,
				Since: metav1.NewTime(noon), Until: metav1.NewTime(noon.Add(24 * time.Hour)),
			}}, tries)
		})
	}
}

// The row stays after the history has lost the eviction, until a pod was sized or the day is over.
func TestJudgeSuccessorLiftsTheStop(t *testing.T) {
	evicted := noon.Add(-time.Minute)
	other := v1alpha1.Try{What: v1alpha1.TryMemoryLimit, Until: metav1.NewTime(noon.Add(time.Hour))}
	pods := []*corev1.Pod{createdAt("web-2", evicted)}
	stopped := judge([]v1alpha1.Try{other}, evictedPods(evicted), pods, twoCPU, noon)
	require.Len(t, stopped, 2)
	assert.Equal(t, stopped, judge(stopped, evictedPods(evicted), pods, twoCPU, noon.Add(time.Hour)), "it does not move")
	assert.Equal(t, stopped, judge(stopped, nil, pods, twoCPU, noon.Add(23*time.Hour)), "the history has other rows by now")
	assert.Equal(t, stopped, judge(stopped, nil, nil, twoCPU, noon), "scaled to zero")

	later := append(slices.Clone(pods), sizedAt("web-3", noon.Add(time.Hour)))
	assert.Equal(t, []v1alpha1.Try{other}, judge(stopped, evictedPods(evicted), later, twoCPU, noon.Add(time.Hour)))
	require.Len(t, stopped, 2, "the argument does not change")

	pod := ofDeployment("web-1")
	e := evictable(t, pod)
	e.Tries = stopped
	refusal := MayEvict(pod, e)
	require.NotNil(t, refusal)
	assert.Equal(t, ReasonLastSuccessor, refusal.Reason)
	assert.Equal(t, noon.Add(24*time.Hour), refusal.Until)
	assert.Equal(t, "pod web-2, created after the last eviction, was not sized at admission; check the webhook with kubectl attune doctor, other webhooks that change pods, and the quotas and LimitRanges of the namespace; "+
		"attune evicts again once a new pod of the workload is sized at admission, or after "+noon.Add(24*time.Hour).UTC().Format(time.RFC3339), refusal.Message)
	assert.NotNil(t, Stays(pod, e), "the node chooses another pod")

	next := evictedPods(noon.Add(26*time.Hour - time.Minute))
	again := judge(stopped, next, []*corev1.Pod{createdAt("web-5", noon.Add(26*time.Hour-time.Minute))}, twoCPU, noon.Add(26*time.Hour))
	require.Len(t, again, 2, "one row of a workload")
	assert.Equal(t, "web-5", again[1].Pod)
}

// The operator may have stopped between the eviction and the end of its record. The record has the time of the eviction.
func TestJudgeSuccessorReadsTheOpenRecord(t *testing.T) {
	evicted := noon.Add(-time.Hour)
	gone, successor := ofDeployment("web-1"), createdAt("web-2", evicted.Add(time.Second))
	gone.DeletionTimestamp = &metav1.Time{Time: evicted}
	for name, c := range map[string]struct {
		edit  func(*v1alpha1.ResizeRecord)
		pods  []*corev1.Pod
		stops bool
	}{
		"the pod is gone":                {nil, []*corev1.Pod{successor}, true},
		"the pod is being deleted":       {nil, []*corev1.Pod{gone, successor}, true},
		"the pod is not deleted":         {nil, []*corev1.Pod{ofDeployment("web-1"), successor}, false},
		"the eviction was denied":        {func(r *v1alpha1.ResizeRecord) { r.Phase = v1alpha1.RecordEvictionDenied }, []*corev1.Pod{successor}, false},
		"the record has no deadline":     {func(r *v1alpha1.ResizeRecord) { r.Deadline = nil }, []*corev1.Pod{successor}, false},
		"the successor was sized":        {nil, []*corev1.Pod{sizedAt("web-2", evicted.Add(time.Second))}, false},
		"a pod from before the eviction": {nil, []*corev1.Pod{createdAt("web-2", evicted.Add(-5*time.Minute))}, false},
		"its creation was retried":       {nil, []*corev1.Pod{createdAt("web-2", evicted.Add(10*time.Minute-time.Second))}, true},
		"a pod of a later rollout":       {nil, []*corev1.Pod{successor, createdAt("web-3", evicted.Add(10*time.Minute))}, false},
	} {
		t.Run(name, func(t *testing.T) {
			r := v1alpha1.ResizeRecord{PodName: "web-1", PodUID: gone.UID, Phase: v1alpha1.RecordEvicting, Deadline: &metav1.Time{Time: evicted.Add(time.Minute)}}
			if c.edit != nil {
				c.edit(&r)
			}
			tries := JudgeSuccessor(&v1alpha1.AttuneRecommendationStatus{Records: []v1alpha1.ResizeRecord{r}}, c.pods, twoCPU, decodedAnnotation, noon)
			assert.Equal(t, c.stops, len(tries) == 1, "%v", tries)
		})
	}
}

// Another webhook may write the template's resources again after attune's webhook has sized the pod. The annotation then
// stays, but it does not show that the pod was sized.
func TestJudgeSuccessorReadsTheResourcesOfAnAnnotatedPod(t *testing.T) {
	evicted := noon.Add(-time.Minute)
	seed := twoCPU.DeepCopy()
	seed.Revision = "r1"
	const was = `{"recommendation":"deployment-web","revision":"r1","original":[{"name":"app","cpuRequest":"500m","memoryRequest":"512Mi"}]}`
	for name, c := range map[string]struct {
		note  string
		edit  func(*corev1.Pod)
		seed  *v1alpha1.Seed
		stops bool
	}{
		"it has its original resources":                       {was, func(*corev1.Pod) {}, seed, true},
		"it has less than its original":                       {was, requests("400m"), seed, true},
		"it has more, but less than the seed":                 {was, requests("1900m"), seed, false},
		"it has what the seed gives":                          {was, requests("2"), seed, false},
		"it was resized since":                                {was, func(p *corev1.Pod) { p.Generation = 2 }, seed, false},
		"its generation is not known":                         {was, func(p *corev1.Pod) { p.Generation = 0 }, seed, false},
		"another seed sized it":                               {`{"revision":"r0","original":[{"name":"app","cpuRequest":"500m"}]}`, func(*corev1.Pod) {}, seed, false},
		"no seed":                                             {was, func(*corev1.Pod) {}, nil, false},
		"the annotation cannot be read":                       {`{"revision":`, func(*corev1.Pod) {}, seed, true},
		"nor can that of a pod that has the seed's resources": {`{"revision":`, requests("2"), seed, false},
		"the annotation has another container":                {`{"revision":"r1","original":[{"name":"sidecar","cpuRequest":"500m"}]}`, func(*corev1.Pod) {}, seed, false},
		"the seed raised nothing":                             {`{"revision":"r1","original":[{"name":"app","cpuRequest":"3"}]}`, func(*corev1.Pod) {}, seed, false},
	} {
		t.Run(name, func(t *testing.T) {
			pod := createdAt("web-2", evicted)
			pod.Annotations, pod.Generation = map[string]string{v1alpha1.SeededAnnotation: c.note}, 1
			c.edit(pod)
			tries := judge(nil, evictedPods(evicted), []*corev1.Pod{pod}, c.seed, noon)
			assert.Equal(t, c.stops, len(tries) == 1, "%v", tries)
			if c.stops {
				assert.Equal(t, tries, judge(tries, evictedPods(evicted), []*corev1.Pod{pod}, c.seed, noon.Add(time.Hour)), "it does not lift the stop either")
			}
		})
	}
}

// requests sets the CPU request of container app.
func requests(cpu string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = resource.MustParse(cpu)
	}
}
