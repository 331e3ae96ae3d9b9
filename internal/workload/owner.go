package workload

import (
	"regexp"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/selection"

	"attune.io/attune/api/v1alpha1"
)

// Lookup answers what a pod's own metadata does not contain.
type Lookup interface {
	// JobOwner is the name of the CronJob that a Job belongs to, empty for a Job that stands alone.
	// known is false where the Job has not been seen.
	JobOwner(namespace, job string) (cronJob string, known bool)
}

// ArgoHashLabel names the template of a Rollout from which a pod was made, as the label pod-template-hash does for a
// Deployment.
const ArgoHashLabel = "rollouts-pod-template-hash"

// Whole selects the ReplicaSets that stand alone. There are many times as many that belong to Deployments and Argo
// Rollouts, which keep those of earlier generations; no loop needs these, so the caches leave them out.
func Whole() labels.Selector {
	var whole labels.Requirements
	for _, label := range []string{appsv1.DefaultDeploymentUniqueLabelKey, ArgoHashLabel} {
		absent, err := labels.NewRequirement(label, selection.DoesNotExist, nil)
		if err != nil {
			panic("a label's name: " + err.Error())
		}
		whole = append(whole, *absent)
	}
	return labels.NewSelector().Add(whole...)
}

// OwnerOf returns the workload to which a pod belongs, from the pod's controller reference and labels alone. It
// works at admission, where the pod has neither name nor namespace yet: the namespace is that of the request. It
// returns false for a pod without a controller, or with one of a kind that attune does not size. The controller of
// any other kind of a custom resource counts as a workload.
//
// lookup may be nil. A Job that it does not know counts as a CronJob's if its name has the form that the CronJob
// controller gives (ofJob).
func OwnerOf(pod metav1.Object, namespace string, lookup Lookup) (Identity, bool) {
	owner := metav1.GetControllerOfNoCopy(pod)
	if owner == nil {
		return Identity{}, false
	}
	kind, name := v1alpha1.WorkloadKind(owner.Kind), owner.Name
	switch groupKind(owner) {
	case GroupKindOf(v1alpha1.KindStatefulSet), GroupKindOf(v1alpha1.KindDaemonSet):
	case GroupKindOf(v1alpha1.KindReplicaSet):
		kind, name = ofReplicaSet(name, pod.GetLabels())
	case GroupKindOf(v1alpha1.KindJob):
		kind, name = ofJob(namespace, name, lookup)
	default:
		// Whether the operator sizes the kind, only it knows: others have no recommendations.
		var ok bool
		if kind, ok = KindOf(groupKind(owner)); !ok || !IsScaled(kind) {
			return Identity{}, false
		}
	}
	return Identity{Kind: kind, Namespace: namespace, Name: name}, name != ""
}

// ofReplicaSet distinguishes a Deployment's or a Rollout's ReplicaSet, named <owner>-<hash>, from one that stands
// alone.
func ofReplicaSet(name string, labels map[string]string) (v1alpha1.WorkloadKind, string) {
	for _, of := range []struct {
		kind  v1alpha1.WorkloadKind
		label string
	}{{v1alpha1.KindRollout, ArgoHashLabel}, {v1alpha1.KindDeployment, appsv1.DefaultDeploymentUniqueLabelKey}} {
		hash := labels[of.label]
		if owner, ok := strings.CutSuffix(name, "-"+hash); ok && hash != "" && owner != "" {
			return of.kind, owner
		}
	}
	return v1alpha1.KindReplicaSet, name
}

// cronJobsJob is how the CronJob controller names a Job: the CronJob's name and the scheduled time in
// minutes since 1970, which has eight digits until the year 2160.
var cronJobsJob = regexp.MustCompile(`^(.+)-([0-9]{8})$`)

// leastMinute and mostMinute are the years 2017 and 2084. A date as a number, such as 20261119, is below them, so
// a Job that is named by its date is not taken for a CronJob's.
const leastMinute, mostMinute = 25_000_000, 60_000_000

// ofJob returns the CronJob of a Job, or the Job itself. What lookup knows goes before the form of the name.
func ofJob(namespace, name string, lookup Lookup) (v1alpha1.WorkloadKind, string) {
	if lookup != nil {
		if cronJob, known := lookup.JobOwner(namespace, name); known {
			if cronJob == "" {
				return v1alpha1.KindJob, name
			}
			return v1alpha1.KindCronJob, cronJob
		}
	}
	if match := cronJobsJob.FindStringSubmatch(name); match != nil && scheduled(match[2]) {
		return v1alpha1.KindCronJob, match[1]
	}
	return v1alpha1.KindJob, name
}

// scheduled reports whether the digits are a minute at which a CronJob may have been due.
func scheduled(digits string) bool {
	minute, err := strconv.Atoi(digits)
	return err == nil && minute >= leastMinute && minute <= mostMinute
}

// groupKind returns the group and kind without the version. The group matters, as others have kinds of the same
// name (OpenKruise's StatefulSet).
func groupKind(owner *metav1.OwnerReference) schema.GroupKind {
	gv, err := schema.ParseGroupVersion(owner.APIVersion)
	if err != nil {
		return schema.GroupKind{}
	}
	return schema.GroupKind{Group: gv.Group, Kind: owner.Kind}
}

// Names of the indexes that the loops share: PodsByWorkload of pods by their workload, PodsByNode of pods by their node,
// JobsByCronJob of Jobs by the CronJob that they are a part of.
const (
	PodsByWorkload = "attune.workload"
	PodsByNode     = "attune.node"
	JobsByCronJob  = "attune.cronjob"
)

// IndexOf returns a pod's value in PodsByWorkload: its workload, or its Job for the pod of a Job, even if that
// belongs to a CronJob. The index is computed once for each pod, and the owner of the Job may become known only
// later.
func IndexOf(pod metav1.Object) []string {
	id, ok := OwnerOf(pod, pod.GetNamespace(), itself{})
	if !ok {
		return nil
	}
	return []string{id.String()}
}

// IndexOfJob returns a Job's value in JobsByCronJob; none for a Job that stands alone, and for other objects.
func IndexOfJob(job runtime.Object) []string {
	if w, ok := From(job); ok && w.Kind == v1alpha1.KindJob && w.Part() {
		return []string{w.OwnedBy.Name}
	}
	return nil
}

// itself is a Lookup that takes every Job for one that stands alone.
type itself struct{}

func (itself) JobOwner(string, string) (string, bool) { return "", true }
