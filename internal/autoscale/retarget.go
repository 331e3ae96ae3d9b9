package autoscale

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"attune.io/attune/recommender"
)

// OriginalTargetAnnotation is on the HPA or ScaledObject whose target attune rewrites (Rewritten).
const OriginalTargetAnnotation = "attune.io/original-target"

// leastStabilization is the shortest window of scaleDown, in seconds, with which a target may be rewritten. A rewritten
// target is too high for at most one sync of the HPA, which the window covers. defaultStabilization is Kubernetes' own.
const leastStabilization, defaultStabilization = 60, 300

// Rewritten is the value of OriginalTargetAnnotation.
type Rewritten struct {
	// Metric is cpu, or cpu/<container> for the metric of a container.
	Metric string `json:"metric"`
	// Original is the target of the user, and Written the one that attune wrote.
	Original int32 `json:"original"`
	Written  int32 `json:"written"`
}

// OriginalTarget returns the target of an HPA as its user wrote it, in percent of the original request, for a binding of
// the HPA to CPU. why says why attune must not rewrite the target; empty: it may.
//
// An HPA of KEDA has its original target on the ScaledObject (ScaledObjectOriginalTarget).
func OriginalTarget(hpa *autoscalingv2.HorizontalPodAutoscaler, of Binding) (original int32, why string) {
	name := "HorizontalPodAutoscaler " + hpa.Name
	stored, found, readable := rewrittenOf(hpa)
	switch owner := foreignOwner(hpa, ScaledObjectKind.Kind); {
	case owner != "":
		return of.Percent, name + " belongs to " + owner + ", which would write its target back"
	case ptr.Deref(hpa.Spec.MinReplicas, 1) < 1:
		return of.Percent, name + " has minReplicas 0"
	case metrics(hpa) > 1:
		return of.Percent, name + " has more than one target of CPU utilization"
	case stabilization(hpa) < leastStabilization:
		return of.Percent, fmt.Sprintf("%s waits only %d s before it scales down (behavior.scaleDown.stabilizationWindowSeconds); at least %d s are needed",
			name, stabilization(hpa), leastStabilization)
	}
	return originalOf(name, of, stored, found, readable)
}

// originalOf returns the original target of an object that may be rewritten, from its annotation and its live target.
func originalOf(name string, of Binding, stored Rewritten, found, readable bool) (original int32, why string) {
	switch {
	case of.Resource != recommender.CPU:
		return of.Percent, "attune rewrites targets of CPU only"
	case of.Percent < 1:
		return of.Percent, "the target of " + name + " is not set"
	case !found:
		return of.Percent, ""
	case !readable:
		return of.Percent, fmt.Sprintf("the annotation %s of %s is not readable. Check the target, and remove the annotation", OriginalTargetAnnotation, name)
	case stored.Metric != of.metric():
		return of.Percent, fmt.Sprintf("the annotation %s of %s is for the metric %s. Check the target, and remove the annotation",
			OriginalTargetAnnotation, name, stored.Metric)
	case of.Percent != stored.Written && of.Percent != stored.Original:
		return of.Percent, fmt.Sprintf("the target of %s is %d %%: it was changed after attune had rewritten it from %d %% to %d %%. To continue with %d %% of the original request, remove the annotation %s",
			name, of.Percent, stored.Original, stored.Written, of.Percent, OriginalTargetAnnotation)
	}
	return stored.Original, ""
}

// metric is the name of the binding's metric in Rewritten.
func (b Binding) metric() string {
	if b.Container == "" {
		return b.Resource.String()
	}
	return b.Resource.String() + "/" + b.Container
}

// rewrittenOf reads the annotation of an object. readable is false if its value is none that attune writes.
func rewrittenOf(o metav1.Object) (r Rewritten, found, readable bool) {
	value, found := o.GetAnnotations()[OriginalTargetAnnotation]
	err := json.Unmarshal([]byte(value), &r)
	return r, found, err == nil && r.Original >= 1 && r.Written >= 1 && r.Metric != ""
}

// metrics counts the targets of CPU utilization of an HPA.
func metrics(hpa *autoscalingv2.HorizontalPodAutoscaler) (n int) {
	for i := range hpa.Spec.Metrics {
		if b, ok := binding(&hpa.Spec.Metrics[i]); ok && b.Resource == recommender.CPU {
			n++
		}
	}
	return n
}

func stabilization(hpa *autoscalingv2.HorizontalPodAutoscaler) int32 {
	if b := hpa.Spec.Behavior; b != nil && b.ScaleDown != nil {
		return ptr.Deref(b.ScaleDown.StabilizationWindowSeconds, defaultStabilization)
	}
	return defaultStabilization
}

// continuous are programs that write the manifests of their users back: parts of the names under which they write, and
// the labels and annotations by which they know their objects.
var continuous = []struct {
	name     string
	managers []string
	marks    []string
}{
	{"Argo CD", []string{"argocd-controller", "argocd-application-controller"}, []string{"argocd.argoproj.io/tracking-id"}},
	{"Flux", []string{"kustomize-controller", "helm-controller", "flux"},
		[]string{"kustomize.toolkit.fluxcd.io/name", "helm.toolkit.fluxcd.io/name"}},
	{"Config Sync", []string{"configsync"}, []string{"configmanagement.gke.io/managed"}},
	{"Fleet", []string{"fleetagent"}, []string{"objectset.rio.cattle.io/id"}},
}

// foreignOwner returns which program writes the spec of an object back; empty: none is known. An owner of the kind except
// is none.
func foreignOwner(o metav1.Object, except string) string {
	for _, owner := range o.GetOwnerReferences() {
		if owner.Kind != except {
			return owner.Kind + " " + owner.Name
		}
	}
	for _, program := range continuous {
		marked := func(mark string) bool {
			_, label := o.GetLabels()[mark]
			_, annotation := o.GetAnnotations()[mark]
			return label || annotation
		}
		writes := func(f metav1.ManagedFieldsEntry) bool {
			return slices.ContainsFunc(program.managers, func(m string) bool { return strings.Contains(f.Manager, m) }) &&
				f.FieldsV1 != nil && strings.Contains(f.FieldsV1.GetRawString(), `"f:spec"`)
		}
		if slices.ContainsFunc(program.marks, marked) || slices.ContainsFunc(o.GetManagedFields(), writes) {
			return program.name
		}
	}
	return ""
}
