package workload

import (
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"attune.io/attune/api/v1alpha1"
)

// Object is any API object that a client can read and write. It has the same methods as controller-runtime's
// client.Object, which this package must not import.
type Object interface {
	metav1.Object
	runtime.Object
}

// List is any list that a client can read.
type List interface {
	metav1.ListInterface
	runtime.Object
}

// Kinds of workloads that are sized.
var Kinds = []v1alpha1.WorkloadKind{
	v1alpha1.KindDeployment, v1alpha1.KindStatefulSet, v1alpha1.KindDaemonSet,
	v1alpha1.KindReplicaSet, v1alpha1.KindJob, v1alpha1.KindCronJob,
}

// NewObject returns an empty object of a kind; nil for a kind that is not sized.
func NewObject(kind v1alpha1.WorkloadKind) Object {
	switch kind {
	case v1alpha1.KindDeployment:
		return &appsv1.Deployment{}
	case v1alpha1.KindStatefulSet:
		return &appsv1.StatefulSet{}
	case v1alpha1.KindDaemonSet:
		return &appsv1.DaemonSet{}
	case v1alpha1.KindReplicaSet:
		return &appsv1.ReplicaSet{}
	case v1alpha1.KindJob:
		return &batchv1.Job{}
	case v1alpha1.KindCronJob:
		return &batchv1.CronJob{}
	}
	return nil
}

// NewList returns an empty list of a kind; nil for a kind that is not sized.
func NewList(kind v1alpha1.WorkloadKind) List {
	switch kind {
	case v1alpha1.KindDeployment:
		return &appsv1.DeploymentList{}
	case v1alpha1.KindStatefulSet:
		return &appsv1.StatefulSetList{}
	case v1alpha1.KindDaemonSet:
		return &appsv1.DaemonSetList{}
	case v1alpha1.KindReplicaSet:
		return &appsv1.ReplicaSetList{}
	case v1alpha1.KindJob:
		return &batchv1.JobList{}
	case v1alpha1.KindCronJob:
		return &batchv1.CronJobList{}
	}
	return nil
}
