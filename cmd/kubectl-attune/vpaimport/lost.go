package vpaimport

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"attune.io/attune/api/v1alpha1"
)

// translated are the fields that the other files read, by their parent field.
var translated = map[string][]string{
	"":                                 {"targetRef", "updatePolicy", "resourcePolicy", "startupBoost", "selector"},
	"updatePolicy":                     {"updateMode"},
	"resourcePolicy":                   {"containerPolicies"},
	"resourcePolicy.containerPolicies": {"containerName", "mode", "minAllowed", "maxAllowed", "controlledValues", "controlledResources", "startupBoost"},
}

// instead says what attune does instead of a field, and what the user can do. The last five are proposals for VPA.
var instead = map[string]string{
	"recommenders":                                                      "attune computes recommendations itself. Compare them in mode Recommend before the policy acts",
	"updatePolicy.evictAfterOOMSeconds":                                 "attune answers an OOM kill at once. Nothing to do",
	"resourcePolicy.containerPolicies.oomBumpUpRatio":                   "attune learns a minimum from each OOM kill. For more headroom, set memory.overhead",
	"resourcePolicy.containerPolicies.oomMinBumpUp":                     "attune learns a minimum from each OOM kill. For more headroom, set memory.overhead",
	"resourcePolicy.containerPolicies.memoryAggregationIntervalSeconds": "attune uses all samples of metricsSource.historyWindow. Set it, e.g. to 336h",
	"resourcePolicy.containerPolicies.memoryAggregationIntervalCount":   "attune uses all samples of metricsSource.historyWindow. Set it, e.g. to 336h",

	"updatePolicy.observationPeriodSeconds":                   "start with updateStrategy.type Recommend, and change it later",
	"resourcePolicy.containerPolicies.targetCPUPercentile":    "set cpu.percentile in the container's entry",
	"resourcePolicy.containerPolicies.targetMemoryPercentile": "set memory.percentile in the container's entry",
	"resourcePolicy.containerPolicies.memoryPerCPU":           "attune sizes CPU and memory each by their own usage",
	"resourcePolicy.containerPolicies.requestToLimit":         `set cpu.limits in the container's entry, e.g. {ratio: "2"}. A memory limit keeps its ratio`,
}

// postProcessor is the prefix of annotations for VPA's recommender.
const postProcessor = "vpa-post-processor.kubernetes.io/"

// setting is a field of the VPA with its value.
type setting struct{ path, value string }

// lost notes every set field without a counterpart, once for all containers with the same value. That includes fields of
// later VPA versions.
func (x *importer) lost(object *unstructured.Unstructured, spec map[string]any) {
	x.lostIn("", spec)
	update, _ := spec["updatePolicy"].(map[string]any)
	x.lostIn("updatePolicy", update)
	in, _ := spec["resourcePolicy"].(map[string]any)
	x.lostIn("resourcePolicy", in)
	policies, _ := in["containerPolicies"].([]any)
	names := map[setting][]string{}
	var order []setting
	for _, p := range policies {
		of, _ := p.(map[string]any)
		for _, s := range untranslated("resourcePolicy.containerPolicies", of) {
			if names[s] == nil {
				order = append(order, s)
			}
			names[s] = append(names[s], fmt.Sprint(of["containerName"]))
		}
	}
	slices.SortStableFunc(order, func(a, b setting) int { return strings.Compare(a.path, b.path) })
	for _, s := range order {
		x.noteLost(s, " (container "+shown(strings.Join(names[s], ", "))+")")
	}
	annotations := object.GetAnnotations()
	for _, name := range slices.Sorted(maps.Keys(annotations)) {
		if strings.HasPrefix(name, postProcessor) {
			x.note("annotation %s: %s has no counterpart: attune sets CPU in millicores and memory in bytes, each by its usage", shown(name), shown(annotations[name]))
		}
	}
}

// lostIn notes the fields of one object.
func (x *importer) lostIn(in string, fields map[string]any) {
	for _, s := range untranslated(in, fields) {
		x.noteLost(s, "")
	}
}

// untranslated returns the fields of one object without a counterpart, sorted.
func untranslated(in string, fields map[string]any) (all []setting) {
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		if value := fields[name]; value != nil && !slices.Contains(translated[in], name) {
			text, _ := json.Marshal(value) // it was decoded from JSON
			all = append(all, setting{strings.TrimPrefix(in+"."+name, "."), shown(string(text))})
		}
	}
	return all
}

// noteLost notes one field.
func (x *importer) noteLost(s setting, of string) {
	why := instead[s.path]
	switch s.path {
	case "updatePolicy.minReplicas":
		why = x.evictions("attune never evicts the last ready replica. To keep more, use a PodDisruptionBudget")
	case "updatePolicy.evictionRequirements":
		why = x.evictions("attune evicts a pod only if its node cannot give it more CPU or memory. Nothing to do")
		if x.UpdatePolicy.UpdateMode == "InPlaceOrRecreate" && !x.evictsLikeAttune() {
			why = "its policy evicts no pod, because attune could evict more than the VerticalPodAutoscaler. To allow it, set updateStrategy.resizeMethod: InPlaceOrRecreate"
		}
	}
	if why == "" {
		why = "this version of attune does not know it"
	}
	x.note("%s%s: %s has no counterpart: %s", s.path, of, s.value, why)
}

// evictions returns the text for a policy that evicts pods, otherwise that there is nothing to limit.
func (x *importer) evictions(with string) string {
	if x.spec.UpdateStrategy.ResizeMethod != nil && *x.spec.UpdateStrategy.ResizeMethod == v1alpha1.ResizeInPlaceOrRecreate {
		return with
	}
	return "its policy evicts no pod. Nothing to do"
}
