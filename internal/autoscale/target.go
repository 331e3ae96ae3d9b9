package autoscale

import (
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/workload"
)

// target is what an autoscaler says it scales or sizes.
type target struct{ apiVersion, kind, name string }

// names reports whether the target is the workload, or the custom object that the workload belongs to:
// its scale is then the workload's.
func (t target) names(w workload.Workload) bool {
	return t.is(schema.GroupKind{Group: groupOf(w.Kind), Kind: string(w.Kind)}, w.Name) ||
		w.OwnedBy.Name != "" && t.is(w.OwnedBy.GroupKind, w.OwnedBy.Name)
}

// is leaves the version out. An apiVersion that is missing, or of the group that Deployments once were
// in, counts as the right one: not every autoscaler reads it, and a hold too many does no harm.
func (t target) is(kind schema.GroupKind, name string) bool {
	const formerGroup = "extensions"
	if t.kind != kind.Kind || t.name != name {
		return false
	}
	group := schema.FromAPIVersionAndKind(t.apiVersion, t.kind).Group
	return t.apiVersion == "" || group == kind.Group || group == formerGroup
}

func groupOf(kind v1alpha1.WorkloadKind) string {
	switch kind {
	case v1alpha1.KindJob, v1alpha1.KindCronJob:
		return batchv1.GroupName
	}
	return appsv1.GroupName
}
