package autoscale

import (
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/workload"
)

// target is what an autoscaler says it scales or sizes.
type target struct{ apiVersion, kind, name string }

// key is equal for all targets that may be the same object: an index finds few by it, and names tells.
func (t target) key() string { return t.kind + "/" + t.name }

// TargetKey of a HorizontalPodAutoscaler or VerticalPodAutoscaler, to index them by; empty for anything else.
func TargetKey(o runtime.Object) string {
	switch o := o.(type) {
	case *autoscalingv2.HorizontalPodAutoscaler:
		return ofHPA(o).key()
	case *unstructured.Unstructured:
		return ofVPA(o).key()
	}
	return ""
}

// TargetKeys are those that an autoscaler of the workload may have.
func TargetKeys(w workload.Workload) []string {
	keys := []string{target{kind: string(w.Kind), name: w.Name}.key()}
	if w.OwnedBy.Name != "" {
		keys = append(keys, target{kind: w.OwnedBy.Kind, name: w.OwnedBy.Name}.key())
	}
	return keys
}

func ofHPA(hpa *autoscalingv2.HorizontalPodAutoscaler) target {
	of := hpa.Spec.ScaleTargetRef
	return target{of.APIVersion, of.Kind, of.Name}
}

func ofVPA(vpa *unstructured.Unstructured) target {
	return target{field(vpa, "targetRef", "apiVersion"), field(vpa, "targetRef", "kind"), field(vpa, "targetRef", "name")}
}

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
