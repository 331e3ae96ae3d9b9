package autoscale

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"attune.io/attune/internal/workload"
)

// VPAKind is the kind of VerticalPodAutoscalers. They are read without Go types, since not every cluster has them.
var VPAKind = schema.GroupVersionKind{Group: "autoscaling.k8s.io", Version: "v1", Kind: "VerticalPodAutoscaler"}

// VPAModeOff is the one mode in which a VPA changes nothing.
const VPAModeOff = "Off"

// Sizes reports whether a VPA sizes the workload: the workload is its target, and its mode is any but Off. A VPA
// without a mode changes pods, and one that cannot be read counts as one without a mode.
func Sizes(vpa *unstructured.Unstructured, w workload.Workload) bool {
	return ofVPA(vpa).names(w) && field(vpa, "updatePolicy", "updateMode") != VPAModeOff
}

// field reads a string below spec; empty where it is missing or has another type.
func field(vpa *unstructured.Unstructured, path ...string) string {
	value, _, _ := unstructured.NestedString(vpa.Object, append([]string{"spec"}, path...)...)
	return value
}
