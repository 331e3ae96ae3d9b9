package autoscale

import (
	"cmp"
	"strconv"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"attune.io/attune/internal/workload"
)

// ScaledObjectKind is the kind of KEDA's ScaledObjects, from which KEDA creates HPAs. They are unstructured, because not
// every cluster has the CRD.
var ScaledObjectKind = schema.GroupVersionKind{Group: "keda.sh", Version: "v1alpha1", Kind: "ScaledObject"}

// ScaledObjectBindings returns the requests of a workload on which a ScaledObject scales by utilization, as bindings of
// the HPA that KEDA creates for it. Its annotations that pause it do not matter: it will be resumed one day.
func ScaledObjectBindings(o *unstructured.Unstructured, w workload.Workload) (bindings []Binding) {
	if !ofScaledObject(o).names(w) {
		return nil
	}
	hpa := cmp.Or(field(o, "advanced", "horizontalPodAutoscalerConfig", "name"), "keda-hpa-"+o.GetName())
	triggers, _, _ := unstructured.NestedFieldNoCopy(o.Object, "spec", "triggers")
	list, _ := triggers.([]any)
	for i := range list {
		trigger, _ := list[i].(map[string]any)
		if b, ok := triggerBinding(trigger); ok {
			b.HPA, b.ScaledObject = hpa, o.GetName()
			bindings = append(bindings, b)
		}
	}
	return bindings
}

// triggerBinding reads one trigger; false if it does not depend on requests. An unreadable trigger holds: an unnecessary
// hold is harmless.
func triggerBinding(trigger map[string]any) (Binding, bool) {
	text := func(path ...string) string {
		value, _, _ := unstructured.NestedString(trigger, path...)
		return value
	}
	r, ok := resourceOf(text("type"))
	// metadata.type is its name before KEDA 2.7.
	if !ok || cmp.Or(text("metricType"), text("metadata", "type")) == "AverageValue" {
		return Binding{}, false
	}
	percent, _ := strconv.ParseInt(text("metadata", "value"), 10, 32)
	return Binding{Container: text("metadata", "containerName"), Resource: r, Percent: int32(max(percent, 0))}, true
}

// ofScaledObject returns the target of a ScaledObject. KEDA's default is a Deployment.
func ofScaledObject(o *unstructured.Unstructured) target {
	kind := cmp.Or(field(o, "scaleTargetRef", "kind"), "Deployment")
	return target{field(o, "scaleTargetRef", "apiVersion"), kind, field(o, "scaleTargetRef", "name")}
}
