package policy

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"attune.io/attune/api/v1alpha1"
)

// A rollout wakes nobody but by its Deployment.
func TestPartsOfAWorkloadWakeNoPolicy(t *testing.T) {
	owned := func(apiVersion, kind string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Name: "web-1", OwnerReferences: []metav1.OwnerReference{{
			APIVersion: apiVersion, Kind: kind, Name: "web", Controller: ptr.To(true),
		}}}
	}
	for _, c := range []struct {
		object client.Object
		wakes  bool
	}{
		{&appsv1.Deployment{}, true},
		{&appsv1.ReplicaSet{}, true},
		{&appsv1.ReplicaSet{ObjectMeta: owned("apps/v1", "Deployment")}, false},
		{&appsv1.ReplicaSet{ObjectMeta: owned("argoproj.io/v1alpha1", "Rollout")}, false},
		{&appsv1.StatefulSet{ObjectMeta: owned("db.example.com/v1", "Database")}, true},
		{&batchv1.CronJob{}, true},
		{&batchv1.Job{}, true},
		{&batchv1.Job{ObjectMeta: owned("batch/v1", "CronJob")}, false},
	} {
		assert.Equal(t, c.wakes, whole().Update(event.UpdateEvent{ObjectOld: c.object, ObjectNew: c.object}), "%T %v", c.object, c.object.GetOwnerReferences())
	}
}

// noted is a queue that only notes what is to be looked at, and when.
type noted struct {
	queue
	after map[string]time.Duration
}

func (n noted) AddAfter(request reconcile.Request, after time.Duration) {
	n.after[request.Name] = after
}

// Each event of a rollout would be a look at all of a policy's workloads.
func TestEventsAreGathered(t *testing.T) {
	of := func(policy string) *v1alpha1.AttuneRecommendation {
		rec := &v1alpha1.AttuneRecommendation{}
		rec.Spec.Policy.Name = policy
		return rec
	}
	n := noted{after: map[string]time.Duration{}}
	gather := later(policyOf)
	gather.Create(t.Context(), event.CreateEvent{Object: of("created")}, n)
	gather.Update(t.Context(), event.UpdateEvent{ObjectOld: of("before"), ObjectNew: of("updated")}, n)
	gather.Delete(t.Context(), event.DeleteEvent{Object: of("deleted")}, n)
	assert.Equal(t, map[string]time.Duration{"created": debounce, "updated": debounce, "deleted": debounce}, n.after)
}
