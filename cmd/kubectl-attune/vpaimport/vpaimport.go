// Package vpaimport converts VerticalPodAutoscalers (autoscaling.k8s.io) to AttunePolicies. It is pure: objects in,
// policies and sentences out. It reads VPAs without Go types, so that the binary does not link VPA's modules.
//
//   - vpaimport.go: the policy of one VPA (Import), its target and its mode.
//   - read.go: the spec of a VPA, and what is wrong with it.
//   - containers.go: the settings of single containers.
//   - boost.go: the startup boosts of the VPA and of its containers.
//   - lost.go: a sentence for each setting that a policy cannot express.
package vpaimport

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

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
	TargetRef    targetRef `json:"targetRef"`
	UpdatePolicy struct {
		UpdateMode           word                  `json:"updateMode"`
		EvictionRequirements []evictionRequirement `json:"evictionRequirements"`
	} `json:"updatePolicy"`
	ResourcePolicy struct {
		ContainerPolicies []containerPolicy `json:"containerPolicies"`
	} `json:"resourcePolicy"`
	StartupBoost *startupBoost `json:"startupBoost"`
}

// targetRef names the workload of a VPA.
type targetRef struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Name       string `json:"name"`
}

// evictionRequirement is met if the target of one of the resources is above or below the request. A VPA evicts a pod
// only if all of its requirements are met.
type evictionRequirement struct {
	Resources         []string `json:"resources"`
	ChangeRequirement string   `json:"changeRequirement"`
}

// importer builds one policy.
type importer struct {
	vpa
	name string
	spec v1alpha1.AttunePolicySpec
	// notes has a sentence for each setting without a counterpart, mostNotes at most; omitted counts the others.
	notes   []string
	omitted int
}

// mostNotes bounds the sentences about one VPA, mostShown the bytes of a text of the VPA in them.
const mostNotes, mostShown = 48, 120

// note adds a sentence about the VPA.
func (x *importer) note(sentence string, args ...any) {
	if len(x.notes) == mostNotes {
		x.omitted++
		return
	}
	x.notes = append(x.notes, "VerticalPodAutoscaler "+x.name+": "+fmt.Sprintf(sentence, args...))
}

// allNotes returns the sentences, with the number of those that were left out.
func (x *importer) allNotes() []string {
	if x.omitted == 0 {
		return x.notes
	}
	return append(x.notes, fmt.Sprintf("VerticalPodAutoscaler %s: %d more settings are not shown: compare its policy with it", x.name, x.omitted))
}

// shown returns a text of the VPA for a sentence.
func shown(text string) string { return clip.Marked(text, mostShown) }

// Import returns the policy of a VPA, and a sentence for each setting without a counterpart. It returns nil if no
// policy is possible, and a sentence says why.
func Import(object *unstructured.Unstructured) (*input.Written, []string) {
	x := &importer{name: strings.TrimPrefix(object.GetNamespace()+"/"+cmp.Or(object.GetName(), "without a name"), "/")}
	spec, _ := object.Object["spec"].(map[string]any)
	if !x.read(spec) || !x.target(spec) {
		return nil, x.notes
	}
	x.bare(spec)
	x.mode()
	x.containers()
	x.boost()
	x.lost(object, spec)
	written := input.WritePolicy(input.Metadata{Name: x.creator(object), Namespace: object.GetNamespace()}, x.spec)
	x.check(written)
	return written, x.allNotes()
}

// check names what is wrong with the policy, by the same function as attune's webhook.
func (x *importer) check(written *input.Written) {
	made := &v1alpha1.AttunePolicy{ObjectMeta: metav1.ObjectMeta{Namespace: written.Metadata.Namespace, Name: written.Metadata.Name}, Spec: x.spec}
	settings, err := policy.ResolveNew(nil, nil, made, policy.Operator{SourceNamespaces: []string{"*"}})
	if err != nil {
		x.note("its policy is invalid, correct it before you apply it: %v", err)
		settings.Doubts = nil // the error names them
	}
	for _, remark := range settings.Remarks() {
		x.note("%s", remark)
	}
}

// target sets the target of the policy; false: attune cannot size it. As for the operator's check for VPAs, an API
// group that is not set and the former group of Deployments are accepted.
func (x *importer) target(spec map[string]any) bool {
	ref := x.TargetRef
	switch _, selects := spec["selector"]; {
	case ref.Name == "" && selects:
		x.note("it is skipped: it has a selector (autoscaling.k8s.io/v1beta1) and no targetRef. Set targetRef to its workload")
		return false
	case ref.Name == "" && spec["podLabelSelector"] != nil:
		x.note("it is skipped: it selects pods (podLabelSelector) and has no targetRef. Set targetRef to their workload")
		return false
	case ref.Name == "" || ref.Kind == "":
		x.note("it is skipped: its targetRef has no kind or no name")
		return false
	}
	group := schema.FromAPIVersionAndKind(ref.APIVersion, "").Group
	kind := v1alpha1.WorkloadKind(ref.Kind)
	if known := slices.Contains(workload.Kinds, kind); !known || group != "" && group != "extensions" && group != workload.GroupKindOf(kind).Group {
		var sized bool
		if kind, sized = workload.KindOf(schema.GroupKind{Group: group, Kind: ref.Kind}); !sized {
			x.note("it is skipped: attune does not size %s %q. Set targetRef to a workload that attune sizes: %s", shown(ref.Kind), shown(ref.Name), input.SizedKinds)
			return false
		}
		if workload.IsScaled(kind) {
			x.note("targetRef: attune sizes %s only if the chart's value scaledKinds names it. If it creates a StatefulSet or a Deployment, such as an object of an operator, "+
				"set the policy's targetRef to that one", kind)
		}
	}
	x.spec.TargetRef = v1alpha1.TargetRef{Kind: kind, Name: ref.Name}
	return true
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
		if x.evictsLikeAttune() {
			update.ResizeMethod = new(v1alpha1.ResizeInPlaceOrRecreate)
		}
	case "InPlace":
	case "", "Auto", "Recreate":
		x.note("updateMode %s evicts pods. attune's updateStrategy.type Auto resizes them in place and never evicts them, unless you set updateStrategy.resizeMethod: InPlaceOrRecreate",
			cmp.Or(mode, "Recreate (not set)"))
	default:
		*update.Type = v1alpha1.UpdateRecommend
		x.note("updateMode %q is unknown, so its policy only recommends. Set updateStrategy.type", shown(string(mode)))
	}
}

// evictsLikeAttune reports whether attune's evictions meet the VPA's requirements: attune evicts a pod only if its node
// cannot give it more.
func (x *importer) evictsLikeAttune() bool {
	return !slices.ContainsFunc(x.UpdatePolicy.EvictionRequirements, func(r evictionRequirement) bool {
		return r.ChangeRequirement != "TargetHigherThanRequests" || !slices.Contains(r.Resources, "cpu") || !slices.Contains(r.Resources, "memory")
	})
}

// recommend makes the policy only recommend, because a policy that acts would change more than the VPA.
func (x *importer) recommend(why string, args ...any) {
	*x.spec.UpdateStrategy.Type = v1alpha1.UpdateRecommend
	x.note("its policy only recommends (updateStrategy.type Recommend), because it would change more than the VerticalPodAutoscaler: "+why, args...)
}

// creator returns the name of the policy, and names the program that creates the VPA again after a deletion.
func (x *importer) creator(object *unstructured.Unstructured) string {
	name, acts := cmp.Or(object.GetName(), x.TargetRef.Name), x.UpdatePolicy.UpdateMode != "Off"
	labels, owner := object.GetLabels(), metav1.GetControllerOf(object)
	switch goldilocks := labels["source"] == "goldilocks" && labels["creator"] == "Fairwinds"; {
	case goldilocks:
		name = cmp.Or(strings.TrimPrefix(name, "goldilocks-"), name)
		if acts {
			x.note("Goldilocks creates it, also after a deletion. To stop it, set the annotation goldilocks.fairwinds.com/vpa-update-mode of the workload or its namespace to off")
		}
	case owner != nil && acts:
		x.note("%s %s owns it and may change it back. To stop it, change its mode there", shown(owner.Kind), shown(owner.Name))
	}
	return name
}
