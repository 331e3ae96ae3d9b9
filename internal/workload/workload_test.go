package workload_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/workload"
)

func ptr[T any](v T) *T { return &v }

func meta() metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Name: "api", Namespace: "shop", UID: "uid", Generation: 3,
		Labels: map[string]string{"tier": "api"}, Annotations: map[string]string{"a": "b"},
		CreationTimestamp: metav1.NewTime(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)),
	}
}

func template() corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "app"}}}}
}

func TestFrom(t *testing.T) {
	for name, c := range map[string]struct {
		object   runtime.Object
		kind     v1alpha1.WorkloadKind
		replicas int32
	}{
		"Deployment":  {&appsv1.Deployment{ObjectMeta: meta(), Spec: appsv1.DeploymentSpec{Replicas: ptr[int32](3), Template: template()}, Status: appsv1.DeploymentStatus{ObservedGeneration: 3}}, "Deployment", 3},
		"by default":  {&appsv1.Deployment{ObjectMeta: meta(), Spec: appsv1.DeploymentSpec{Template: template()}, Status: appsv1.DeploymentStatus{ObservedGeneration: 3}}, "Deployment", 1},
		"scaled away": {&appsv1.Deployment{ObjectMeta: meta(), Spec: appsv1.DeploymentSpec{Replicas: ptr[int32](0), Template: template()}, Status: appsv1.DeploymentStatus{ObservedGeneration: 3}}, "Deployment", 0},
		"StatefulSet": {&appsv1.StatefulSet{ObjectMeta: meta(), Spec: appsv1.StatefulSetSpec{Replicas: ptr[int32](2), Template: template()}, Status: appsv1.StatefulSetStatus{ObservedGeneration: 3}}, "StatefulSet", 2},
		"DaemonSet":   {&appsv1.DaemonSet{ObjectMeta: meta(), Spec: appsv1.DaemonSetSpec{Template: template()}, Status: appsv1.DaemonSetStatus{ObservedGeneration: 3, DesiredNumberScheduled: 7}}, "DaemonSet", 7},
		"ReplicaSet":  {&appsv1.ReplicaSet{ObjectMeta: meta(), Spec: appsv1.ReplicaSetSpec{Replicas: ptr[int32](4), Template: template()}, Status: appsv1.ReplicaSetStatus{ObservedGeneration: 3}}, "ReplicaSet", 4},
		"Job":         {&batchv1.Job{ObjectMeta: meta(), Spec: batchv1.JobSpec{Parallelism: ptr[int32](5), Template: template()}}, "Job", 5},
		"CronJob":     {&batchv1.CronJob{ObjectMeta: meta(), Spec: batchv1.CronJobSpec{JobTemplate: batchv1.JobTemplateSpec{Spec: batchv1.JobSpec{Template: template()}}}}, "CronJob", 1},
	} {
		t.Run(name, func(t *testing.T) {
			w, ok := workload.From(c.object)
			require.True(t, ok)
			assert.Equal(t, workload.Identity{Kind: c.kind, Namespace: "shop", Name: "api"}, w.Identity)
			assert.Equal(t, types.UID("uid"), w.UID)
			assert.Equal(t, "api", w.Labels["tier"])
			assert.Equal(t, "b", w.Annotations["a"])
			assert.Equal(t, c.replicas, w.Replicas)
			assert.Equal(t, "app", w.Template.Spec.Containers[0].Name)
			assert.Equal(t, time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), w.Created.UTC())
			assert.False(t, w.Rollout.InProgress, w.Rollout.Reason)
			assert.False(t, w.Deleting)
			assert.False(t, w.Part())
		})
	}
	_, ok := workload.From(&corev1.Pod{})
	assert.False(t, ok)
}

func TestPart(t *testing.T) {
	owned := func(apiVersion, kind string) metav1.ObjectMeta {
		m := meta()
		m.OwnerReferences = []metav1.OwnerReference{{APIVersion: apiVersion, Kind: kind, Name: "owner", Controller: ptr(true)}}
		return m
	}
	for name, c := range map[string]struct {
		object runtime.Object
		owner  workload.Owner
		part   bool
	}{
		"a Deployment's ReplicaSet":     {&appsv1.ReplicaSet{ObjectMeta: owned("apps/v1", "Deployment")}, workload.Owner{GroupKind: schema.GroupKind{Group: "apps", Kind: "Deployment"}, Name: "owner"}, true},
		"an Argo Rollout's":             {&appsv1.ReplicaSet{ObjectMeta: owned("argoproj.io/v1alpha1", "Rollout")}, workload.Owner{GroupKind: schema.GroupKind{Group: "argoproj.io", Kind: "Rollout"}, Name: "owner"}, true},
		"another group's Deployment":    {&appsv1.ReplicaSet{ObjectMeta: owned("example.com/v1", "Deployment")}, workload.Owner{GroupKind: schema.GroupKind{Group: "example.com", Kind: "Deployment"}, Name: "owner"}, false},
		"a CronJob's Job":               {&batchv1.Job{ObjectMeta: owned("batch/v1", "CronJob")}, workload.Owner{GroupKind: schema.GroupKind{Group: "batch", Kind: "CronJob"}, Name: "owner"}, true},
		"a Deployment of some operator": {&appsv1.Deployment{ObjectMeta: owned("example.com/v1", "App")}, workload.Owner{GroupKind: schema.GroupKind{Group: "example.com", Kind: "App"}, Name: "owner"}, false},
		"an owner that can't be read":   {&appsv1.ReplicaSet{ObjectMeta: owned("a/b/c", "Deployment")}, workload.Owner{Name: "owner"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			w, ok := workload.From(c.object)
			require.True(t, ok)
			assert.Equal(t, c.owner, w.OwnedBy)
			assert.Equal(t, c.part, w.Part())
		})
	}
}

func TestDeleting(t *testing.T) {
	m := meta()
	m.DeletionTimestamp = ptr(metav1.Now())
	w, _ := workload.From(&batchv1.Job{ObjectMeta: m})
	assert.True(t, w.Deleting)
}

func TestRollout(t *testing.T) {
	deployment := func(paused bool, s appsv1.DeploymentStatus) runtime.Object {
		return &appsv1.Deployment{ObjectMeta: meta(), Spec: appsv1.DeploymentSpec{Replicas: ptr[int32](3), Paused: paused}, Status: s}
	}
	statefulSet := func(strategy appsv1.StatefulSetUpdateStrategy, s appsv1.StatefulSetStatus) runtime.Object {
		return &appsv1.StatefulSet{ObjectMeta: meta(), Spec: appsv1.StatefulSetSpec{Replicas: ptr[int32](3), UpdateStrategy: strategy}, Status: s}
	}
	partition := appsv1.StatefulSetUpdateStrategy{Type: "RollingUpdate", RollingUpdate: &appsv1.RollingUpdateStatefulSetStrategy{Partition: ptr[int32](2)}}
	noPartition := appsv1.StatefulSetUpdateStrategy{Type: "RollingUpdate", RollingUpdate: &appsv1.RollingUpdateStatefulSetStrategy{Partition: ptr[int32](0)}}
	daemonSet := func(strategy appsv1.DaemonSetUpdateStrategyType, s appsv1.DaemonSetStatus) runtime.Object {
		return &appsv1.DaemonSet{ObjectMeta: meta(), Spec: appsv1.DaemonSetSpec{UpdateStrategy: appsv1.DaemonSetUpdateStrategy{Type: strategy}}, Status: s}
	}
	for name, c := range map[string]struct {
		object runtime.Object
		want   string // empty if no rollout is in progress
	}{
		"Deployment done":                  {deployment(false, appsv1.DeploymentStatus{ObservedGeneration: 3, Replicas: 3, UpdatedReplicas: 3, AvailableReplicas: 3}), ""},
		"Deployment done but unavailable":  {deployment(false, appsv1.DeploymentStatus{ObservedGeneration: 3, Replicas: 3, UpdatedReplicas: 3, UnavailableReplicas: 3}), ""},
		"Deployment short of pods (quota)": {deployment(false, appsv1.DeploymentStatus{ObservedGeneration: 3, Replicas: 1, UpdatedReplicas: 1}), ""},
		"Deployment not yet seen":          {deployment(false, appsv1.DeploymentStatus{ObservedGeneration: 2, Replicas: 3, UpdatedReplicas: 3}), "its controller has not observed generation 3 yet"},
		"Deployment half way":              {deployment(false, appsv1.DeploymentStatus{ObservedGeneration: 3, Replicas: 4, UpdatedReplicas: 1}), "1 of 4 pods run the newest template"},
		"Deployment begun":                 {deployment(false, appsv1.DeploymentStatus{ObservedGeneration: 3, Replicas: 3, UpdatedReplicas: 0}), "0 of 3 pods run the newest template"},
		"Deployment held half way":         {deployment(true, appsv1.DeploymentStatus{ObservedGeneration: 3, Replicas: 3, UpdatedReplicas: 1}), "1 of 3 pods run the newest template; the rollout is paused (spec.paused)"},
		"Deployment paused at rest":        {deployment(true, appsv1.DeploymentStatus{ObservedGeneration: 3, Replicas: 3, UpdatedReplicas: 3}), ""},
		"StatefulSet done":                 {statefulSet(partition, appsv1.StatefulSetStatus{ObservedGeneration: 3, Replicas: 3, UpdatedReplicas: 3, CurrentRevision: "a", UpdateRevision: "a"}), ""},
		"StatefulSet replaces a pod":       {statefulSet(partition, appsv1.StatefulSetStatus{ObservedGeneration: 3, Replicas: 3, UpdatedReplicas: 2, CurrentRevision: "a", UpdateRevision: "a"}), ""},
		"StatefulSet not yet seen":         {statefulSet(partition, appsv1.StatefulSetStatus{ObservedGeneration: 2}), "its controller has not observed generation 3 yet"},
		"StatefulSet half way":             {statefulSet(noPartition, appsv1.StatefulSetStatus{ObservedGeneration: 3, Replicas: 3, UpdatedReplicas: 1, CurrentRevision: "a", UpdateRevision: "b"}), "1 of 3 pods run the newest template"},
		"StatefulSet by partition":         {statefulSet(partition, appsv1.StatefulSetStatus{ObservedGeneration: 3, Replicas: 3, UpdatedReplicas: 1, CurrentRevision: "a", UpdateRevision: "b"}), "1 of 3 pods run the newest template; partition 2 keeps pods with lower ordinals on the old template"},
		"StatefulSet on delete":            {statefulSet(appsv1.StatefulSetUpdateStrategy{Type: "OnDelete"}, appsv1.StatefulSetStatus{ObservedGeneration: 3, Replicas: 3, UpdatedReplicas: 1, CurrentRevision: "a", UpdateRevision: "b"}), "1 of 3 pods run the newest template; updateStrategy OnDelete waits for the old pods to be deleted"},
		"StatefulSet on delete, all gone":  {statefulSet(appsv1.StatefulSetUpdateStrategy{Type: "OnDelete"}, appsv1.StatefulSetStatus{ObservedGeneration: 3, Replicas: 3, UpdatedReplicas: 3, CurrentRevision: "a", UpdateRevision: "b"}), ""},
		"DaemonSet done":                   {daemonSet("RollingUpdate", appsv1.DaemonSetStatus{ObservedGeneration: 3, DesiredNumberScheduled: 5, CurrentNumberScheduled: 5, UpdatedNumberScheduled: 5}), ""},
		"DaemonSet with a new node":        {daemonSet("RollingUpdate", appsv1.DaemonSetStatus{ObservedGeneration: 3, DesiredNumberScheduled: 6, CurrentNumberScheduled: 5, UpdatedNumberScheduled: 5}), ""},
		"DaemonSet half way":               {daemonSet("RollingUpdate", appsv1.DaemonSetStatus{ObservedGeneration: 3, DesiredNumberScheduled: 5, CurrentNumberScheduled: 5, UpdatedNumberScheduled: 2}), "2 of 5 pods run the newest template"},
		"DaemonSet on delete":              {daemonSet("OnDelete", appsv1.DaemonSetStatus{ObservedGeneration: 3, DesiredNumberScheduled: 5, CurrentNumberScheduled: 5, UpdatedNumberScheduled: 2}), "2 of 5 pods run the newest template; updateStrategy OnDelete waits for the old pods to be deleted"},
		"DaemonSet not yet seen":           {daemonSet("RollingUpdate", appsv1.DaemonSetStatus{ObservedGeneration: 1}), "its controller has not observed generation 3 yet"},
		"ReplicaSet not yet seen":          {&appsv1.ReplicaSet{ObjectMeta: meta()}, "its controller has not observed generation 3 yet"},
		"a Job has none":                   {&batchv1.Job{ObjectMeta: meta()}, ""},
		"a CronJob has none":               {&batchv1.CronJob{ObjectMeta: meta()}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			w, ok := workload.From(c.object)
			require.True(t, ok)
			assert.Equal(t, c.want != "", w.Rollout.InProgress)
			assert.Equal(t, c.want, w.Rollout.Reason)
		})
	}
}

// What says that a rollout makes no progress, and which pods are its newest.
func TestRolloutStands(t *testing.T) {
	since := metav1.NewTime(time.Unix(1000, 0))
	deployment := func(status corev1.ConditionStatus, reason string) runtime.Object {
		return &appsv1.Deployment{ObjectMeta: meta(), Status: appsv1.DeploymentStatus{ObservedGeneration: 3, Replicas: 4, UpdatedReplicas: 1,
			Conditions: []appsv1.DeploymentCondition{{Type: appsv1.DeploymentProgressing, Status: status, Reason: reason, LastTransitionTime: since}}}}
	}
	const text = "1 of 4 pods run the newest template"
	for name, c := range map[string]struct {
		object runtime.Object
		want   workload.Rollout
	}{
		"progresses": {deployment("True", "ReplicaSetUpdated"), workload.Rollout{InProgress: true, Reason: text, Updated: 1, Progresses: true}},
		"given up": {deployment("False", "ProgressDeadlineExceeded"), workload.Rollout{
			InProgress: true, Reason: text + "; the Deployment made no progress within progressDeadlineSeconds", Updated: 1, Halted: true, HaltedSince: since.Time,
		}},
		"the last rollout is over": {deployment("True", "NewReplicaSetAvailable"), workload.Rollout{InProgress: true, Reason: text, Updated: 1}},
		"DaemonSet": {&appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{appsv1.DeprecatedTemplateGeneration: "7"}},
			Status: appsv1.DaemonSetStatus{CurrentNumberScheduled: 4, UpdatedNumberScheduled: 1}},
			workload.Rollout{InProgress: true, Reason: text, Updated: 1, Label: "pod-template-generation", Newest: "7"}},
		"StatefulSet": {&appsv1.StatefulSet{Status: appsv1.StatefulSetStatus{Replicas: 4, UpdatedReplicas: 1, UpdateRevision: "web-b", CurrentRevision: "web-a"}},
			workload.Rollout{InProgress: true, Reason: text, Updated: 1, Label: appsv1.ControllerRevisionHashLabelKey, Newest: "web-b"}},
	} {
		t.Run(name, func(t *testing.T) {
			w, _ := workload.From(c.object)
			assert.Equal(t, c.want, w.Rollout)
		})
	}
}

func TestSkipped(t *testing.T) {
	skip := map[string]string{v1alpha1.SkipAnnotation: "true"}
	w := workload.Workload{Identity: workload.Identity{Kind: "Deployment", Name: "api"}, Template: &corev1.PodTemplateSpec{}}
	_, skipped := w.Skipped()
	assert.False(t, skipped)

	w.Annotations = map[string]string{v1alpha1.SkipAnnotation: "false"}
	_, skipped = w.Skipped()
	assert.False(t, skipped, "only true skips")

	w.Annotations = skip
	where, skipped := w.Skipped()
	assert.True(t, skipped)
	assert.Equal(t, "Deployment/api", where)

	w.Annotations, w.Template.Annotations = nil, skip
	where, skipped = w.Skipped()
	assert.True(t, skipped)
	assert.Equal(t, "the pod template of Deployment/api", where)
}

func TestPaused(t *testing.T) {
	assert.True(t, workload.Workload{Annotations: map[string]string{v1alpha1.PausedAnnotation: "true"}}.Paused())
	assert.False(t, workload.Workload{Annotations: map[string]string{v1alpha1.PausedAnnotation: "yes"}}.Paused())
}
