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
		text := func(path ...string) string {
			value, _, _ := unstructured.NestedString(trigger, path...)
			return value
		}
		r, ok := resourceOf(text("type"))
		// metadata.type is its name before KEDA 2.7. An unreadable trigger holds: an unnecessary hold is harmless.
		if !ok || cmp.Or(text("metricType"), text("metadata", "type")) == "AverageValue" {
			continue
		}
		percent, _ := strconv.ParseInt(text("metadata", "value"), 10, 32)
		b := Binding{HPA: hpa, ScaledObject: o.GetName(), Container: text("metadata", "containerName"), Resource: r, Percent: int32(max(percent, 0))}
		bindings = append(bindings, b)
	}
	return bindings
}

// ofScaledObject returns the target of a ScaledObject. KEDA's default is a Deployment.
func ofScaledObject(o *unstructured.Unstructured) target {
	kind := cmp.Or(field(o, "scaleTargetRef", "kind"), "Deployment")
	return target{field(o, "scaleTargetRef", "apiVersion"), kind, field(o, "scaleTargetRef", "name")}
}
