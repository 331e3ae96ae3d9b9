package workload

import (
	"cmp"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"attune.io/attune/api/v1alpha1"
)

// Workload has the fields of a workload of any kind that decisions need. From returns it. Its maps and its template
// belong to the object, which may be in a shared cache: do not change them.
type Workload struct {
	Identity
	// UID of the object.
	UID types.UID
	// Version is the resource version of the object. With appends the version of the template's object.
	Version string
	// Labels and Annotations are the object's, not those of its pods.
	Labels      map[string]string
	Annotations map[string]string
	// Template of its pods; nil if another object has it (TemplateOf), or if it cannot be read.
	Template *corev1.PodTemplateSpec
	// TemplateOf is the workload that has the pod template; the zero value if this workload has its own.
	TemplateOf Identity
	// Unreadable is why Template is nil; empty if there is a template, or if the template of TemplateOf will be added.
	Unreadable string
	// Selector of the pods of a Deployment, StatefulSet or ReplicaSet, which an HPA lists them by; nil for other kinds.
	Selector *metav1.LabelSelector
	// Replicas is the desired number of pods: the parallelism of a Job or CronJob, the number of nodes of a DaemonSet.
	Replicas int32
	// Rollout in progress; the zero value for Jobs and CronJobs.
	Rollout Rollout
	// Created is the creation time of the object.
	Created time.Time
	// OwnedBy is the controller of the workload, such as the Deployment of a ReplicaSet; the zero value if it has no
	// controller.
	OwnedBy Owner
	// Deleting is true while the object is being deleted.
	Deleting bool
	// Queue is the Kueue queue of a Job or CronJob, in which Kueue counts the requests of the template; empty: none. Older
	// versions of Kueue do not mark the pods.
	Queue string
	// Ended is true for a Job that creates no more pods.
	Ended bool
	// Rejected is the condition ReplicaFailure with the reason FailedCreate. It is the zero value if the pods are
	// created, or if the kind has no such condition.
	Rejected Rejected
}

// KueueQueue is the label that names the Kueue queue of a workload.
const KueueQueue = "kueue.x-k8s.io/queue-name"

// Rejected is why the API server does not create the pods of a workload.
type Rejected struct {
	// Since is when the first pod was rejected; zero if no pod is rejected.
	Since time.Time
	// Message is the API server's message, shortened.
	Message string
}

// Owner is the controller of a workload.
type Owner struct {
	schema.GroupKind
	// Name of the controller; empty if there is no controller.
	Name string
}

// From converts an object to a Workload; false if the object is not a workload.
func From(object runtime.Object) (Workload, bool) {
	switch o := object.(type) {
	case *appsv1.Deployment:
		deployment := read(v1alpha1.KindDeployment, o, &o.Spec.Template, ptr.Deref(o.Spec.Replicas, 1), ofDeployment(o))
		deployment.Selector = o.Spec.Selector
		if i := slices.IndexFunc(o.Status.Conditions, FailsToCreate); i >= 0 {
			deployment.Rejected = Rejected{o.Status.Conditions[i].LastTransitionTime.Time, o.Status.Conditions[i].Message}
		}
		return deployment, true
	case *appsv1.StatefulSet:
		set := read(v1alpha1.KindStatefulSet, o, &o.Spec.Template, ptr.Deref(o.Spec.Replicas, 1), ofStatefulSet(o))
		set.Selector = o.Spec.Selector
		return set, true
	case *appsv1.DaemonSet:
		return read(v1alpha1.KindDaemonSet, o, &o.Spec.Template, o.Status.DesiredNumberScheduled, ofDaemonSet(o)), true
	case *appsv1.ReplicaSet:
		set := read(v1alpha1.KindReplicaSet, o, &o.Spec.Template, ptr.Deref(o.Spec.Replicas, 1), unobserved(o.Generation, o.Status.ObservedGeneration))
		set.Selector = o.Spec.Selector
		return set, true
	case *batchv1.Job:
		job := read(v1alpha1.KindJob, o, &o.Spec.Template, ptr.Deref(o.Spec.Parallelism, 1), Rollout{})
		job.Ended, job.Queue = JobEnded(o), o.Labels[KueueQueue]
		return job, true
	case *batchv1.CronJob:
		job := &o.Spec.JobTemplate.Spec
		cron := read(v1alpha1.KindCronJob, o, &job.Template, ptr.Deref(job.Parallelism, 1), Rollout{})
		cron.Queue = o.Spec.JobTemplate.Labels[KueueQueue]
		return cron, true
	case *ArgoRollout:
		return ofRollout(o), true
	case *ScaledObject:
		return ofScaled(o)
	}
	return Workload{}, false
}

// FailsToCreate reports whether a Deployment's condition says that its pods are rejected.
func FailsToCreate(c appsv1.DeploymentCondition) bool {
	return c.Type == appsv1.DeploymentReplicaFailure && c.Status == corev1.ConditionTrue && c.Reason == FailedCreate
}

// FailedCreate is the reason of the condition, and of the events of other kinds, if the API server did not create a
// pod.
const FailedCreate = "FailedCreate"

// JobEnded reports whether a Job has succeeded or failed and creates no more pods.
func JobEnded(job *batchv1.Job) bool {
	return job.Status.CompletionTime != nil || slices.ContainsFunc(job.Status.Conditions, func(c batchv1.JobCondition) bool {
		return (c.Type == batchv1.JobComplete || c.Type == batchv1.JobFailed) && c.Status == corev1.ConditionTrue
	})
}

func read(kind v1alpha1.WorkloadKind, object metav1.Object, template *corev1.PodTemplateSpec, replicas int32, rollout Rollout) Workload {
	return Workload{
		Identity:    Identity{Kind: kind, Namespace: object.GetNamespace(), Name: object.GetName()},
		UID:         object.GetUID(),
		Version:     object.GetResourceVersion(),
		Labels:      object.GetLabels(),
		Annotations: object.GetAnnotations(),
		Template:    template,
		Replicas:    replicas,
		Rollout:     rollout,
		Created:     object.GetCreationTimestamp().Time,
		OwnedBy:     ownerOf(object),
		Deleting:    object.GetDeletionTimestamp() != nil,
	}
}

func ownerOf(object metav1.Object) Owner {
	owner := metav1.GetControllerOfNoCopy(object)
	if owner == nil {
		return Owner{}
	}
	return Owner{GroupKind: groupKind(owner), Name: owner.Name}
}

// Part reports whether the workload is a part of another one, which attune sizes as a whole or not at all: the
// ReplicaSet of a Deployment or Argo Rollout, the Job of a CronJob. A workload of another custom resource is not a
// part.
func (w Workload) Part() bool {
	owner := w.OwnedBy.GroupKind
	return w.Kind == v1alpha1.KindReplicaSet && (owner == GroupKindOf(v1alpha1.KindDeployment) || owner == GroupKindOf(v1alpha1.KindRollout)) ||
		w.Kind == v1alpha1.KindJob && owner == GroupKindOf(v1alpha1.KindCronJob)
}

// Object is any API object that a client can read and write. It has the methods of controller-runtime's client.Object,
// which this package must not import.
type Object interface {
	metav1.Object
	runtime.Object
}

// List is any list that a client can read.
type List interface {
	metav1.ListInterface
	runtime.Object
}

// Kinds are the kinds of workloads that attune sizes without scaledKinds (Sized).
var Kinds = []v1alpha1.WorkloadKind{
	v1alpha1.KindDeployment, v1alpha1.KindStatefulSet, v1alpha1.KindDaemonSet,
	v1alpha1.KindReplicaSet, v1alpha1.KindJob, v1alpha1.KindCronJob, v1alpha1.KindRollout,
}

// Batch reports whether a kind runs from time to time: its pods are sized at admission, and its history counts in runs.
func Batch(kind v1alpha1.WorkloadKind) bool {
	return kind == v1alpha1.KindJob || kind == v1alpha1.KindCronJob
}

// builtIn has the API groups and types of Kinds.
var builtIn = map[v1alpha1.WorkloadKind]struct {
	group  string
	object func() Object
	list   func() List
}{
	v1alpha1.KindDeployment:  {appsv1.GroupName, func() Object { return &appsv1.Deployment{} }, func() List { return &appsv1.DeploymentList{} }},
	v1alpha1.KindStatefulSet: {appsv1.GroupName, func() Object { return &appsv1.StatefulSet{} }, func() List { return &appsv1.StatefulSetList{} }},
	v1alpha1.KindDaemonSet:   {appsv1.GroupName, func() Object { return &appsv1.DaemonSet{} }, func() List { return &appsv1.DaemonSetList{} }},
	v1alpha1.KindReplicaSet:  {appsv1.GroupName, func() Object { return &appsv1.ReplicaSet{} }, func() List { return &appsv1.ReplicaSetList{} }},
	v1alpha1.KindJob:         {batchv1.GroupName, func() Object { return &batchv1.Job{} }, func() List { return &batchv1.JobList{} }},
	v1alpha1.KindCronJob:     {batchv1.GroupName, func() Object { return &batchv1.CronJob{} }, func() List { return &batchv1.CronJobList{} }},
	v1alpha1.KindRollout:     {ArgoGroupVersion.Group, func() Object { return &ArgoRollout{} }, func() List { return &ArgoRolloutList{} }},
}

// GroupKindOf returns a kind with its API group, as owner references and autoscalers name it.
func GroupKindOf(kind v1alpha1.WorkloadKind) schema.GroupKind {
	if strings.Contains(string(kind), ".") {
		return schema.ParseGroupKind(string(kind))
	}
	return schema.GroupKind{Group: cmp.Or(builtIn[kind].group, appsv1.GroupName), Kind: string(kind)}
}

// NewObject returns an empty object of a kind in Kinds; nil for any other.
func NewObject(kind v1alpha1.WorkloadKind) Object {
	if of, ok := builtIn[kind]; ok {
		return of.object()
	}
	return nil
}

// NewList returns an empty list of a kind in Kinds; nil for any other.
func NewList(kind v1alpha1.WorkloadKind) List {
	if of, ok := builtIn[kind]; ok {
		return of.list()
	}
	return nil
}
