// Package vpaimport converts VerticalPodAutoscalers (autoscaling.k8s.io/v1) to AttunePolicies. It is pure: objects in,
// policies and sentences out. It reads VPAs without Go types, so that the binary does not link VPA's modules.
//
//   - vpaimport.go: the policy of one VPA (Import), its target and its mode.
//   - containers.go: from policies for single containers to one AttunePolicy for all.
package vpaimport

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/cmd/kubectl-attune/input"
	"attune.io/attune/internal/clip"
	"attune.io/attune/internal/policy"
	"attune.io/attune/internal/workload"
)

// vpa has the fields of a VPA's spec that Import reads.
type vpa struct {
	TargetRef struct {
		APIVersion string `json:"apiVersion"`
		Kind       string `json:"kind"`
		Name       string `json:"name"`
	} `json:"targetRef"`
	UpdatePolicy struct {
		UpdateMode string `json:"updateMode"`
	} `json:"updatePolicy"`
	ResourcePolicy struct {
		ContainerPolicies []containerPolicy `json:"containerPolicies"`
	} `json:"resourcePolicy"`
	StartupBoost *struct {
		CPU *boost `json:"cpu"`
	} `json:"startupBoost"`
}

// boost is additional CPU for a starting pod.
type boost struct {
	Type            string `json:"type"`
	Factor          int64  `json:"factor"`
	DurationSeconds int64  `json:"durationSeconds"`
}

// importer builds one policy.
type importer struct {
	vpa
	name       string
	spec       v1alpha1.AttunePolicySpec
	containers []string
	// notes has a sentence for each setting without a counterpart.
	notes []string
}

// note adds a sentence about the VPA.
func (x *importer) note(sentence string, args ...any) {
	x.notes = append(x.notes, "VerticalPodAutoscaler "+x.name+": "+fmt.Sprintf(sentence, args...))
}

// Target returns the workload that a VPA sizes; false if attune does not size its kind. A missing API group is
// accepted, as for the operator's check for VPAs.
func Target(object *unstructured.Unstructured) (workload.Identity, bool) {
	field := func(name string) string {
		value, _, _ := unstructured.NestedString(object.Object, "spec", "targetRef", name)
		return value
	}
	name, group, known := field("name"), schema.FromAPIVersionAndKind(field("apiVersion"), "").Group, v1alpha1.WorkloadKind(field("kind"))
	if name == "" || !slices.Contains(workload.Kinds, known) || group != "" && group != workload.GroupKindOf(known).Group && group != "extensions" {
		return workload.Identity{}, false
	}
	return workload.Identity{Kind: known, Namespace: object.GetNamespace(), Name: name}, true
}

// Import returns the policy of a VPA, and a sentence for each setting without a counterpart. It returns nil if no
// policy is possible, and a sentence says why. containers are the workload's containers; nil if not known.
func Import(object *unstructured.Unstructured, containers []string) (*input.Written, []string) {
	x := &importer{name: object.GetNamespace() + "/" + object.GetName(), containers: containers}
	spec, _ := object.Object["spec"].(map[string]any)
	text, err := json.Marshal(spec)
	if err == nil {
		err = json.Unmarshal(text, &x.vpa)
	}
	if err != nil {
		x.note("it is skipped, because it cannot be read: %s", clip.Text(err.Error(), workload.MostForeignText))
		return nil, x.notes
	}
	id, ok := Target(object)
	if !ok {
		x.note("it is skipped, because attune does not manage %s %q", cmp.Or(x.TargetRef.Kind, "a target without a kind,"), x.TargetRef.Name)
		return nil, x.notes
	}
	x.spec.TargetRef = v1alpha1.TargetRef{Kind: id.Kind, Name: id.Name}
	x.mode()
	x.bounds()
	x.boost()
	x.rest(spec)
	written := input.WritePolicy(input.Metadata{Name: object.GetName(), Namespace: object.GetNamespace()}, x.spec)
	made := &v1alpha1.AttunePolicy{ObjectMeta: metav1.ObjectMeta{Namespace: id.Namespace, Name: written.Metadata.Name}, Spec: x.spec}
	settings, err := policy.ResolveNew(nil, nil, made, policy.Operator{SourceNamespaces: []string{"*"}})
	if err != nil {
		x.note("its policy is invalid, correct it before you apply it: %v", err)
		settings.Doubts = nil // the error names them
	}
	for _, remark := range settings.Remarks() {
		x.note("%s", remark)
	}
	return written, x.notes
}

// mode translates the update mode. A VPA without a mode changes pods.
func (x *importer) mode() {
	update := &v1alpha1.UpdateStrategy{Type: new(v1alpha1.UpdateAuto)}
	x.spec.UpdateStrategy = update
	switch mode := x.UpdatePolicy.UpdateMode; mode {
	case "Off":
		*update.Type = v1alpha1.UpdateRecommend
	case "Initial":
		*update.Type = v1alpha1.UpdateInitial
	case "InPlaceOrRecreate":
		update.ResizeMethod = new(v1alpha1.ResizeInPlaceOrRecreate)
	case "InPlace":
	case "", "Auto", "Recreate":
		x.note("mode %s evicts pods, but attune resizes them in place: to evict pods that do not fit their node, set updateStrategy.resizeMethod to InPlaceOrRecreate", cmp.Or(mode, "Auto"))
	default:
		*update.Type = v1alpha1.UpdateRecommend
		x.note("updateMode %q is unknown, so its policy only recommends", mode)
	}
}

// recommend makes the policy only recommend, because a policy that acts would change more than the VPA.
func (x *importer) recommend(why string, args ...any) {
	*x.spec.UpdateStrategy.Type = v1alpha1.UpdateRecommend
	x.note("its policy only recommends (updateStrategy.type Recommend), because it would change more than the VerticalPodAutoscaler: "+why, args...)
}

// boost translates the startup boost for all containers.
func (x *importer) boost() {
	if x.StartupBoost == nil || x.StartupBoost.CPU == nil {
		return
	}
	b := x.StartupBoost.CPU
	span := time.Duration(b.DurationSeconds) * time.Second
	if b.Type != "Factor" && b.Type != "" || b.Factor < 1 || b.Factor > v1alpha1.MaxBoost || span < time.Second || span > time.Hour {
		x.note("its startupBoost has no counterpart: attune supports a factor from 1 to %d for a duration between 1s and 1h", v1alpha1.MaxBoost)
		return
	}
	input.Made(&x.spec.CPU).StartupBoost = &v1alpha1.StartupBoost{Multiplier: v1alpha1.Decimal(strconv.FormatInt(b.Factor, 10)), Duration: v1alpha1.Duration{Duration: metav1.Duration{Duration: span}}}
}

// translated are the fields with a counterpart, by their parent field.
var translated = map[string][]string{
	"":                                 {"targetRef", "updatePolicy", "resourcePolicy", "startupBoost"},
	"updatePolicy":                     {"updateMode"},
	"resourcePolicy":                   {"containerPolicies"},
	"resourcePolicy.containerPolicies": {"containerName", "mode", "minAllowed", "maxAllowed", "controlledValues", "controlledResources"},
}

// instead completes the sentence about a field with attune's replacement.
var instead = map[string]string{
	"recommenders":                                                      ": attune computes recommendations itself",
	"updatePolicy.minReplicas":                                          ": attune never evicts the last ready replica",
	"updatePolicy.evictionRequirements":                                 ": updateStrategy limits changes by cooldowns, caps per resize and schedules",
	"updatePolicy.evictAfterOOMSeconds":                                 ": attune reacts to an OOM kill immediately",
	"resourcePolicy.containerPolicies.oomBumpUpRatio":                   ": attune learns a minimum from an OOM kill",
	"resourcePolicy.containerPolicies.oomMinBumpUp":                     ": attune learns a minimum from an OOM kill",
	"resourcePolicy.containerPolicies.memoryAggregationIntervalSeconds": ": metricsSource.historyWindow sets how much history attune uses",
	"resourcePolicy.containerPolicies.memoryAggregationIntervalCount":   ": metricsSource.historyWindow sets how much history attune uses",
	"resourcePolicy.containerPolicies.startupBoost":                     ": cpu.startupBoost applies to all containers",
}

// rest notes every set field without a counterpart, once each. That includes fields of later VPA versions.
func (x *importer) rest(spec map[string]any) {
	said := map[string]bool{}
	x.noteUntranslated("", spec, said)
	for _, in := range []string{"updatePolicy", "resourcePolicy"} {
		fields, _ := spec[in].(map[string]any)
		x.noteUntranslated(in, fields, said)
		policies, _ := fields["containerPolicies"].([]any)
		for _, p := range policies {
			of, _ := p.(map[string]any)
			x.noteUntranslated(in+".containerPolicies", of, said)
		}
	}
}

// noteUntranslated notes the fields of one object.
func (x *importer) noteUntranslated(in string, fields map[string]any, said map[string]bool) {
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		path := strings.TrimPrefix(in+"."+name, ".")
		if slices.Contains(translated[in], name) || said[path] {
			continue
		}
		said[path] = true
		x.note("%s has no counterpart%s", path, instead[path])
	}
}
