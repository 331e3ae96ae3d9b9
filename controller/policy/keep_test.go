package policy

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/recommender"
	"attune.io/attune/recommender/replicas"
	"attune.io/attune/usage/history"
)

// proving counts the histories that a proof reads.
type proving struct {
	*history.Store
	read int
}

func (p *proving) Spans(key history.Key, r recommender.Resource) []replicas.Span {
	p.read++
	return p.Store.Spans(key, r)
}

// A range is proven again only if something that it depends on has changed: usage, the HPA, or the request of a pod.
func TestRangesAreProvenWhenSomethingChanges(t *testing.T) {
	f := newScaledFleet(t, 2, v1alpha1.HPAKeep)
	count := &proving{Store: f.history}
	f.History = count
	f.pass(t)
	f.refresh()
	f.pass(t)
	f.pass(t)
	require.Equal(t, 2, f.kept(), "%+v", f.memory.recommendations("shop")[0].Spec.Containers)
	count.read = 0
	f.pass(t)
	assert.Zero(t, count.read, "nothing has changed")

	for _, change := range []struct {
		what string
		do   func()
		want int
	}{
		{"maxReplicas", func() { f.Autoscalers.(scalersByName)[fleetName(0)][0].Spec.MaxReplicas++ }, 1},
		{"the target", func() {
			f.Autoscalers.(scalersByName)[fleetName(0)][0].Spec.Metrics[0].Resource.Target.AverageUtilization = ptr.To[int32](71)
		}, 1},
		{"the request of a pod", func() {
			for key, pods := range f.Client.(indexedPods).by {
				f.Client.(indexedPods).by[key] = append([]corev1.Pod{*pods[0].DeepCopy()}, pods[1:]...)
				f.Client.(indexedPods).by[key][0].Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = resource.MustParse("400m")
				break
			}
		}, 1},
		{"usage", func() { f.clock.SetTime(f.clock.Now().Add(5 * time.Minute)); f.refresh() }, 2},
	} {
		count.read = 0
		change.do()
		f.pass(t)
		assert.Equal(t, change.want, count.read, change.what)
		f.pass(t) // what was written is read
		count.read = 0
		f.pass(t)
		assert.Zero(t, count.read, change.what)
	}
}

// A pod of another owner with the labels of the pods is one that the HPA counts, so that no range is proven.
func TestPodsOfOtherOwnersProveNothing(t *testing.T) {
	f := newScaledFleet(t, 2, v1alpha1.HPAKeep)
	selector := map[string]string{"app": fleetName(0)}
	d := deployment(fleetName(0))
	require.NoError(t, f.memory.Get(t.Context(), client.ObjectKeyFromObject(d), d))
	d.Spec.Selector = &metav1.LabelSelector{MatchLabels: selector}
	require.NoError(t, f.memory.Update(t.Context(), d))
	f.pass(t)
	f.refresh()
	f.pass(t)
	f.pass(t)
	require.Equal(t, 2, f.kept())

	job := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "migrate-1-abcde", Labels: selector}}
	job.OwnerReferences = []metav1.OwnerReference{{APIVersion: "batch/v1", Kind: "Job", Name: "migrate-1", Controller: ptr.To(true)}}
	job.Status.Phase = corev1.PodSucceeded
	require.NoError(t, f.memory.Create(t.Context(), job))
	f.clock.SetTime(f.clock.Now().Add(5 * time.Minute))
	f.refresh()
	f.pass(t)
	assert.Equal(t, 1, f.kept())
	holds := f.memory.recommendations("shop")[0].Spec.Containers[0].Holds
	require.NotEmpty(t, holds)
	assert.Contains(t, holds[0].Message, "the selector of the workload matches pod migrate-1-abcde too, so the HorizontalPodAutoscaler counts it")
}
