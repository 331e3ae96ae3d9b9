package autoscale

import (
	"fmt"
	"slices"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"attune.io/attune/internal/workload"
	"attune.io/attune/podview"
	"attune.io/attune/recommender"
	"attune.io/attune/recommender/replicas"
)

// Binding is one request on which a HorizontalPodAutoscaler scales.
type Binding struct {
	// HPA is the autoscaler's name.
	HPA string
	// ScaledObject is the name of the KEDA ScaledObject that creates the HPA, if only the ScaledObject says so: KEDA
	// deletes the HPA of a paused one. Empty: the HPA itself says so.
	ScaledObject string
	// Container of the request; empty for every container of the pod.
	Container string
	// Resource of the request.
	Resource recommender.Resource
	// Percent is the target utilization in percent of the request; 0 if not known.
	Percent int32
	// Original is the target as its user wrote it, in percent of the original request; 0: it is Percent.
	Original int32
	// refused is why attune must not change the target, also if the operator may; empty: it may.
	refused string
	// Gone is since when the HPA no longer scales the workload, in UTC; zero: it does.
	Gone time.Time
	// object is what is known of the object that attune writes.
	object writtenObject
	// fixed: the HPA cannot change the number of replicas at present, and attune has changed its target.
	fixed bool
}

// writtenObject is the HPA or ScaledObject whose target attune writes.
type writtenObject struct {
	// owner is the ScaledObject from which KEDA creates the HPA; empty: a user created the HPA.
	owner string
	// uid is empty if the object is not known.
	uid types.UID
	// live is its target, which Percent follows.
	live int32
	// rewritten: attune has changed the target, or a user since then.
	rewritten bool
	// foreign is why the original target is not known: another writer changed the target after attune had, or the annotation
	// is not readable. Empty: it is known.
	foreign string
	// path is where the target is; only set with an annotation.
	path string
	// note is the annotation. renewed: the live target is a new original one, and the annotation is to be removed. adopted: a
	// user wrote it together with the request that belongs to it.
	note             Rewritten
	renewed, adopted bool
	// request is the request of a pod to which the original target belongs, in millicores; 0: not known.
	request int64
	// noteLost: only the annotation was removed. The recommendation still has the original target.
	noteLost bool
}

// defaultPercent is the target CPU utilization of an HPA without metrics: the default of the autoscaling API.
const defaultPercent = 80

// Bindings returns the requests of a workload on which an HPA scales by utilization. Utilization is usage divided by
// request, so another request leads to another number of replicas. Other metrics (average values, pods, objects,
// external) do not depend on requests.
//
// An HPA with equal minReplicas and maxReplicas holds nothing: it cannot change the number of replicas. If it was
// different within the last day, the stored binding holds (Holds.WithStored).
func Bindings(hpa *autoscalingv2.HorizontalPodAutoscaler, w workload.Workload) []Binding {
	if fixed(hpa) {
		return nil
	}
	return bindingsOf(hpa, w)
}

// bindingsOf is Bindings, also of an HPA with equal minReplicas and maxReplicas.
func bindingsOf(hpa *autoscalingv2.HorizontalPodAutoscaler, w workload.Workload) []Binding {
	if !ofHPA(hpa).names(w) {
		return nil
	}
	if len(hpa.Spec.Metrics) == 0 {
		return []Binding{{HPA: hpa.Name, Resource: recommender.CPU, Percent: defaultPercent}}
	}
	var bindings []Binding
	for i := range hpa.Spec.Metrics {
		if b, ok := binding(&hpa.Spec.Metrics[i]); ok {
			b.HPA = hpa.Name
			bindings = append(bindings, b)
		}
	}
	return bindings
}

// fixed reports whether an HPA cannot change the number of replicas.
func fixed(hpa *autoscalingv2.HorizontalPodAutoscaler) bool {
	return ptr.Deref(hpa.Spec.MinReplicas, 1) == hpa.Spec.MaxReplicas
}

// scalerOf reads the bounds and the tolerances of an HPA.
func scalerOf(hpa *autoscalingv2.HorizontalPodAutoscaler, tolerance float64) replicas.Scaler {
	s := replicas.Scaler{Min: ptr.Deref(hpa.Spec.MinReplicas, 1), Max: hpa.Spec.MaxReplicas, Up: tolerance, Down: tolerance}
	of := func(rules *autoscalingv2.HPAScalingRules, to *float64) {
		if rules != nil && rules.Tolerance != nil {
			*to = rules.Tolerance.AsApproximateFloat64()
		}
	}
	if b := hpa.Spec.Behavior; b != nil {
		of(b.ScaleUp, &s.Up)
		of(b.ScaleDown, &s.Down)
	}
	return s
}

// binding reads one metric; false if the metric does not depend on requests.
func binding(m *autoscalingv2.MetricSpec) (Binding, bool) {
	switch {
	case m.Type == autoscalingv2.ResourceMetricSourceType && m.Resource != nil:
		return utilization("", m.Resource.Name, m.Resource.Target)
	case m.Type == autoscalingv2.ContainerResourceMetricSourceType && m.ContainerResource != nil:
		return utilization(m.ContainerResource.Container, m.ContainerResource.Name, m.ContainerResource.Target)
	}
	return Binding{}, false
}

// utilization checks the values instead of the target's type, as the HPA controller does.
func utilization(container string, name corev1.ResourceName, t autoscalingv2.MetricTarget) (Binding, bool) {
	r, ok := resourceOf(string(name))
	if !ok || t.AverageValue != nil {
		return Binding{}, false
	}
	return Binding{Container: container, Resource: r, Percent: ptr.Deref(t.AverageUtilization, 0)}, true
}

// resourceOf returns a resource by its name in Kubernetes; false: attune does not size it.
func resourceOf(name string) (recommender.Resource, bool) {
	i := slices.IndexFunc(recommender.Resources[:], func(r recommender.Resource) bool { return string(podview.NameOf(r)) == name })
	return recommender.Resource(max(i, 0)), i >= 0
}

// binds reports whether the binding applies to a resource of a container.
func (b Binding) binds(container string, r recommender.Resource) bool {
	return b.Resource == r && (b.Container == "" || b.Container == container)
}

// throughOwner says why the pods that an HPA counts are not known: it scales a custom object that owns the workload. Empty: it
// scales the workload.
func throughOwner(hpa *autoscalingv2.HorizontalPodAutoscaler, w workload.Workload) string {
	of := ofHPA(hpa)
	if of.is(workload.GroupKindOf(w.Kind), w.Name) {
		return ""
	}
	return fmt.Sprintf("HorizontalPodAutoscaler %s scales %s %s, which may have other workloads too", hpa.Name, of.kind, of.name)
}

// String returns one sentence: why attune does not change the request.
func (b Binding) String() string { return b.because("") }

// because is String, with why no range of requests is proven to keep the number of replicas; empty: none was searched.
func (b Binding) because(why string) string {
	if why == "" {
		why = "another request would change the number of replicas"
	}
	of, at := "", ""
	if b.Container != "" {
		of = " of container " + b.Container
	}
	if b.Percent > 0 {
		at = fmt.Sprintf(" (target %d %% of the request)", b.Percent)
	}
	if b.Original > 0 && b.Original != b.Percent {
		at = fmt.Sprintf(" (target %d %% of the request, originally %d %%)", b.Percent, b.Original)
	}
	return fmt.Sprintf("HorizontalPodAutoscaler %s scales on the %s utilization%s%s: %s", b.name(), b.Resource, of, at, why)
}

// name returns the name of the HPA, and why it blocks although it may not exist.
func (b Binding) name() string {
	switch {
	case !b.Gone.IsZero():
		return fmt.Sprintf("%s (gone, or with equal minReplicas and maxReplicas, since %s; in case it comes back, the block stays until %s)",
			b.HPA, b.Gone.Format(time.RFC3339), b.Gone.Add(blockedFor).Format(time.RFC3339))
	case b.fixed:
		return b.HPA + " (with equal minReplicas and maxReplicas; the block stays until it has its original target)"
	case b.ScaledObject != "":
		return fmt.Sprintf("%s (of ScaledObject %s, also while it is paused)", b.HPA, b.ScaledObject)
	}
	return b.HPA
}
