package policy

import (
	"testing"

	"github.com/stretchr/testify/assert"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
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
