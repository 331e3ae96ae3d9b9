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

// Lookup finds owners that a pod's own metadata does not contain.
type Lookup interface {
	// JobOwner returns the name of the CronJob that owns a Job, or of its identity (SharedName); empty for a standalone
	// Job. known is false if the Job is not known.
	JobOwner(namespace, job string) (owner string, known bool)
	// ReplicaSetOwner returns the Deployment or Argo Rollout that controls a ReplicaSet without a template hash: the
	// Deployment controller adopts each ReplicaSet that its selector matches, and neither renames nor labels it. known is
	// false if no such ReplicaSet is known or if it is standalone.
	ReplicaSetOwner(namespace, replicaSet string) (owner Identity, known bool)
}

// ArgoHashLabel names the template of a pod of a Rollout, as the label pod-template-hash does for a Deployment.
const ArgoHashLabel = "rollouts-pod-template-hash"

// Whole selects the standalone ReplicaSets. Deployments and Argo Rollouts own many times as many, because they keep the
// ReplicaSets of earlier revisions. No loop needs these, so the caches leave them out.
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

// OwnerOf returns the workload of a pod from the pod's controller reference and labels. It works at admission, when the
// pod has no name and no namespace yet: pass the namespace of the request. It returns false for a pod without a
// controller, or with a controller of a built-in kind that attune does not size. A controller of any other custom
// resource counts as a workload.
//
// lookup may be nil. A Job that it does not know belongs to a CronJob if its name has the format of the CronJob
// controller, otherwise to the identity in the pod's labels (ofJob).
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
		if kind == v1alpha1.KindReplicaSet && lookup != nil {
			if adopter, known := lookup.ReplicaSetOwner(namespace, name); known {
				kind, name = adopter.Kind, adopter.Name
			}
		}
	case GroupKindOf(v1alpha1.KindJob):
		kind, name = ofJob(namespace, name, pod.GetLabels(), lookup)
	default:
		// Only the operator knows whether it sizes the kind: other kinds have no recommendations.
		var ok bool
		if kind, ok = KindOf(groupKind(owner)); !ok || !IsScaled(kind) {
			return Identity{}, false
		}
	}
	return Identity{Kind: kind, Namespace: namespace, Name: name}, name != ""
}

// ofReplicaSet distinguishes the ReplicaSet of a Deployment or Rollout, named <owner>-<hash>, from a standalone one.
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

// cronJobsJob is the name format of a CronJob's Job: the name of the CronJob and the scheduled time in minutes since
// 1970, which has eight digits until the year 2160.
var cronJobsJob = regexp.MustCompile(`^(.+)-([0-9]{8})$`)

// leastMinute and mostMinute are in the years 2017 and 2084. A date as a number, such as 20261119, is below them, so a
// Job that is named by its date does not look like a CronJob's.
const leastMinute, mostMinute = 25_000_000, 60_000_000

// ofJob returns the CronJob of a Job, its identity, or the Job itself. lookup takes precedence over the format of the
// name and the labels of the pod.
func ofJob(namespace, name string, labels map[string]string, lookup Lookup) (v1alpha1.WorkloadKind, string) {
	if lookup != nil {
		if owner, known := lookup.JobOwner(namespace, name); known {
			switch {
			case owner == "":
				return v1alpha1.KindJob, name
			case isSharedName(owner):
				return v1alpha1.KindJob, owner
			}
			return v1alpha1.KindCronJob, owner
		}
	}
	if match := cronJobsJob.FindStringSubmatch(name); match != nil && scheduled(match[2]) {
		return v1alpha1.KindCronJob, match[1]
	}
	if shared := SharedIn(labels); shared != "" {
		return v1alpha1.KindJob, SharedName(shared)
	}
	return v1alpha1.KindJob, name
}

// scheduled reports whether the digits are a plausible scheduled minute of a CronJob.
func scheduled(digits string) bool {
	minute, err := strconv.Atoi(digits)
	return err == nil && minute >= leastMinute && minute <= mostMinute
}

// groupKind returns the group and kind without the version. The group matters, because other projects have kinds of the
// same name (OpenKruise's StatefulSet).
func groupKind(owner *metav1.OwnerReference) schema.GroupKind {
	gv, err := schema.ParseGroupVersion(owner.APIVersion)
	if err != nil {
		return schema.GroupKind{}
	}
	return schema.GroupKind{Group: gv.Group, Kind: owner.Kind}
}

// Names of the indexes that the loops share: PodsByWorkload has pods by workload, PodsByNode has pods by node,
// JobsByCronJob has Jobs by their CronJob or identity.
const (
	PodsByWorkload = "attune.workload"
	PodsByNode     = "attune.node"
	JobsByCronJob  = "attune.cronjob"
)

// IndexOf returns a pod's value in PodsByWorkload: its workload, or its Job for the pod of a Job, even if a CronJob
// owns the Job, and the ReplicaSet that a Deployment adopted. The index is computed once per pod, and the owner of the
// Job may become known only later.
func IndexOf(pod metav1.Object) []string {
	id, ok := OwnerOf(pod, pod.GetNamespace(), itself{})
	if !ok {
		return nil
	}
	return []string{id.String()}
}

// IndexOfJob returns a Job's value in JobsByCronJob: the name of its CronJob, or of its identity (SharedName); nil for
// a standalone Job and for other objects.
func IndexOfJob(job runtime.Object) []string {
	w, ok := From(job)
	if !ok || w.Kind != v1alpha1.KindJob {
		return nil
	}
	if w.Part() {
		return []string{w.OwnedBy.Name}
	}
	if shared := w.Shared(); shared != "" {
		return []string{SharedName(shared)}
	}
	return nil
}

// AdopterOf returns the Deployment or Argo Rollout that controls a ReplicaSet; false for a standalone one.
func AdopterOf(replicaSet *appsv1.ReplicaSet) (Identity, bool) {
	w, ok := From(replicaSet)
	kind, known := KindOf(w.OwnedBy.GroupKind)
	return Identity{Kind: kind, Namespace: w.Namespace, Name: w.OwnedBy.Name}, ok && known && w.Part()
}

// itself is a Lookup that treats every Job and every ReplicaSet without a template hash as standalone.
type itself struct{}

func (itself) JobOwner(string, string) (string, bool) { return "", true }

func (itself) ReplicaSetOwner(string, string) (Identity, bool) { return Identity{}, false }
