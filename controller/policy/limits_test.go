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

	"attune.io/attune/recommender"
	"attune.io/attune/usage/history"
)

// constant is a history of constant memory.
type constant struct{ *past }

func (constant) Highest(history.Key, recommender.Resource, time.Time, time.Time) (recommender.Usage, bool) {
	return 400 * mi, true
}

// News does not change: no usage is new.
func (constant) News(history.Key) uint64 { return 1 }

// The loop stores the memory limits of the running pods when they change, and writes nothing for them while they do not.
func TestLoopStoresTheLimitsInForce(t *testing.T) {
	f := newFleet(t, 1)
	f.History = constant{newPast()}
	run := func(name, limit string) {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop", Name: "app-000000-5d4f8c7b9-" + name, Labels: map[string]string{"pod-template-hash": "5d4f8c7b9"},
			Generation: 1, CreationTimestamp: metav1.NewTime(f.clock.Now()),
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "app-000000-5d4f8c7b9", Controller: ptr.To(true)}},
		}}
		pod.Spec.Containers = []corev1.Container{{Name: "app", Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{"memory": resource.MustParse(limit)}}}}
		pod.Status.Phase = corev1.PodRunning
		f.memory.put(client.Object(pod))
	}
	stored := func() (out []string) {
		for _, l := range f.memory.recommendations("shop")[0].Spec.Containers[0].MemoryLimits {
			out = append(out, l.Limit.String()+" "+l.Usage.String())
		}
		return out
	}
	run("aaaaa", "4Gi")
	f.pass(t)
	require.Empty(t, stored(), "no limit is raised")
	rec := f.memory.recommendations("shop")[0].DeepCopy()
	rec.Spec.Containers[0].Target.MemoryLimit = ptr.To(resource.MustParse("6Gi"))
	f.memory.put(client.Object(rec))
	f.clock.SetTime(f.clock.Now().Add(6 * time.Minute))
	f.pass(t)
	require.Equal(t, []string{"4Gi <nil>"}, stored())

	f.clock.SetTime(f.clock.Now().Add(12 * time.Minute))
	f.memory.written()
	f.pass(t)
	assert.Zero(t, f.memory.written(), "the same limit")

	f.clock.SetTime(f.clock.Now().Add(2 * time.Hour))
	run("bbbbb", "5Gi")
	f.pass(t)
	assert.Equal(t, []string{"4Gi 400Mi", "5Gi <nil>"}, stored())

	f.pass(t)
	run("ccccc", "6Gi")
	f.pass(t)
	assert.Equal(t, []string{"6Gi <nil>"}, stored(), "the decision of the last pass ends with the limits, although no usage is new")
}
