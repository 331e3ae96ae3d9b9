package policy

import (
	"reflect"
	"testing"

	"github.com/stretchr/testify/assert"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/loop"
)

// A rollout wakes a policy only through its Deployment.
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

// Otherwise each event of a rollout would reconcile all of a policy's workloads.
func TestEventsAreGathered(t *testing.T) {
	atOnce := map[string]bool{"AttunePolicy": true, "AttuneDefaults": true, "AttuneNamespaceDefaults": true, "PartialObjectMetadata": true}
	for _, w := range (&Controller{}).Watches() {
		if kind := reflect.TypeOf(w.Object).Elem().Name(); atOnce[kind] {
			assert.Zero(t, w.After, kind)
		} else {
			assert.Equal(t, loop.Debounce, w.After, kind)
		}
	}
}

// A policy is reconciled when a status field that it reads changes, and not for each phase of a resize.
func TestStepsOfAResizeWakeNoPolicy(t *testing.T) {
	before := &v1alpha1.AttuneRecommendation{}
	before.Status.Phase = v1alpha1.PhaseResizing
	before.Status.Records = []v1alpha1.ResizeRecord{{PodUID: "a", Phase: v1alpha1.RecordWritten}, {PodUID: "b"}}
	for name, tc := range map[string]struct {
		edit  func(*v1alpha1.AttuneRecommendationStatus)
		wakes bool
	}{
		"a record is a step further": {func(s *v1alpha1.AttuneRecommendationStatus) {
			s.Phase = v1alpha1.PhaseWatching
			s.Records = []v1alpha1.ResizeRecord{{PodUID: "a", Phase: v1alpha1.RecordWatching}, {PodUID: "b"}}
		}, false},
		"pods are at their target": {func(s *v1alpha1.AttuneRecommendationStatus) { s.Pods = &v1alpha1.PodCounts{AtTarget: 1} }, false},
		"a record is closed":       {func(s *v1alpha1.AttuneRecommendationStatus) { s.Records = s.Records[1:] }, true},
		"it cools down":            {func(s *v1alpha1.AttuneRecommendationStatus) { s.Phase = v1alpha1.PhaseCooldown }, true},
		"a floor":                  {func(s *v1alpha1.AttuneRecommendationStatus) { s.Floors = []v1alpha1.Floor{{Container: "app"}} }, true},
		"a kept size":              {func(s *v1alpha1.AttuneRecommendationStatus) { s.Verified = []v1alpha1.VerifiedResources{{Name: "app"}} }, true},
		"originals":                {func(s *v1alpha1.AttuneRecommendationStatus) { s.Originals = []v1alpha1.Originals{{TemplateHash: "a"}} }, true},
		"a bad seed":               {func(s *v1alpha1.AttuneRecommendationStatus) { s.BadSeeds = []string{"r"} }, true},
		"a pause":                  {func(s *v1alpha1.AttuneRecommendationStatus) { s.Paused = &v1alpha1.PausedState{} }, true},
		"another operator":         {func(s *v1alpha1.AttuneRecommendationStatus) { s.Operator = "b" }, true},
		"a row of the history":     {func(s *v1alpha1.AttuneRecommendationStatus) { s.History = []v1alpha1.HistoryEntry{{Pod: "a"}} }, true},
		"a condition":              {func(s *v1alpha1.AttuneRecommendationStatus) { s.Conditions = []metav1.Condition{{Type: "Degraded"}} }, true},
	} {
		after := before.DeepCopy()
		tc.edit(&after.Status)
		assert.Equal(t, tc.wakes, statusChanged().Update(event.UpdateEvent{ObjectOld: before, ObjectNew: after}), name)
	}
	assert.Len(t, before.Status.Records, 2)
	assert.Equal(t, types.UID("a"), before.Status.Records[0].PodUID, "nothing of the cache is changed")
}
