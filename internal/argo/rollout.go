// Package argo has the part of an Argo Rollout (argoproj.io/v1alpha1) that attune reads: the project itself would
// bring its whole controller with it.
//
// The API server checks little of a Rollout's pod template: sizes may be any text. A list with one Rollout that could
// not be decoded would be no list at all, and its cache would wait for ever. So a part that cannot be read is left
// empty, and says why (Unreadable): one object's trouble stays its own.
package argo

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion of Rollouts.
var GroupVersion = schema.GroupVersion{Group: "argoproj.io", Version: "v1alpha1"}

// Resource is how the API server names Rollouts.
const Resource = "rollouts"

// AddToScheme adds the kinds to a scheme.
func AddToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion, &Rollout{}, &RolloutList{})
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}

// Rollout is a workload whose pods are replaced step by step. Its ReplicaSets own the pods.
type Rollout struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   RolloutSpec   `json:"spec,omitempty"`
	Status RolloutStatus `json:"status,omitempty"`
}

// RolloutSpec is what is wanted.
type RolloutSpec struct {
	// Replicas wanted; nil: 1.
	Replicas *int32 `json:"replicas,omitempty"`
	// Template of the pods; empty where WorkloadRef names an object that has it.
	Template corev1.PodTemplateSpec `json:"template,omitempty"`
	// WorkloadRef names the object that has the template; nil: the Rollout has it.
	WorkloadRef *WorkloadRef `json:"workloadRef,omitempty"`
	// Unreadable is why the spec is empty; empty: it was read.
	Unreadable string `json:"-"`
}

// WorkloadRef names the object of the Rollout's namespace that has its pod template.
type WorkloadRef struct {
	APIVersion string `json:"apiVersion,omitempty"`
	Kind       string `json:"kind,omitempty"`
	Name       string `json:"name,omitempty"`
}

// RolloutStatus is how far a Rollout is.
type RolloutStatus struct {
	// ObservedGeneration is the newest generation that the controller has seen, as a decimal number. Its older
	// versions wrote a hash.
	ObservedGeneration string `json:"observedGeneration,omitempty"`
	// CurrentPodHash and StableRS are the template hashes of the newest revision and of the one to which the
	// Rollout would go back; they are the same where no rollout is in progress.
	CurrentPodHash string `json:"currentPodHash,omitempty"`
	StableRS       string `json:"stableRS,omitempty"`
	// Phase and Message are what the controller tells people, such as Paused and CanaryPauseStep.
	Phase   string `json:"phase,omitempty"`
	Message string `json:"message,omitempty"`
	// Abort is true after a rollout was given up: the stable revision runs.
	Abort bool `json:"abort,omitempty"`
}

// most is how many bytes are kept of a text that somebody else wrote.
const most = 200

// UnmarshalJSON reads a spec. It never returns an error, see the package.
func (s *RolloutSpec) UnmarshalJSON(data []byte) error {
	type plain RolloutSpec
	var read plain
	err := shortAmounts(data)
	if err == nil {
		err = json.Unmarshal(data, &read)
	}
	if err != nil {
		read = plain{Unreadable: cut(err.Error())}
	}
	*s = RolloutSpec(read)
	return nil
}

// longest is how many bytes an amount may have. The longest that makes sense has some twenty digits.
const longest = 64

// amounts are the fields of a pod template whose values are amounts, or have amounts alone below them.
var amounts = map[string]bool{"requests": true, "limits": true, "overhead": true, "sizeLimit": true, "divisor": true}

// shortAmounts refuses a spec with an amount that is too long, before it is read: the time to read one grows with the
// square of its length, seconds for a megabyte, in which no other Rollout would be read.
func shortAmounts(data []byte) error {
	var whole any
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber() // a number stays as it was written
	if err := decoder.Decode(&whole); err != nil {
		return err
	}
	return shortIn(whole, false)
}

// shortIn looks at a value and what is below it. within is true below a field of amounts.
func shortIn(value any, within bool) error {
	switch v := value.(type) {
	case map[string]any:
		for name, below := range v {
			if err := shortIn(below, within || amounts[name]); err != nil {
				return err
			}
		}
	case []any:
		for _, below := range v {
			if err := shortIn(below, within); err != nil {
				return err
			}
		}
	case json.Number:
		return shortAmount(v.String())
	case string:
		if within {
			return shortAmount(v)
		}
	}
	return nil
}

// greatExponent is one of three digits or more: comparing such an amount takes as long as writing it out.
var greatExponent = regexp.MustCompile(`[eE][-+]?[0-9]{3}`)

func shortAmount(text string) error {
	switch {
	case len(text) > longest:
		return fmt.Errorf("an amount of it has %d characters; at most %d are read", len(text), longest)
	case greatExponent.MatchString(text):
		return fmt.Errorf("the amount %s of it has too great an exponent", text)
	}
	return nil
}

// UnmarshalJSON reads a status; one that cannot be read stays empty, as before the controller has seen the Rollout.
// It never returns an error.
func (s *RolloutStatus) UnmarshalJSON(data []byte) error {
	type plain RolloutStatus
	var read plain
	*s = RolloutStatus{}
	if json.Unmarshal(data, &read) == nil {
		read.Message = cut(read.Message)
		*s = RolloutStatus(read)
	}
	return nil
}

func cut(text string) string {
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "")
}

// DeepCopyObject implements runtime.Object.
func (r *Rollout) DeepCopyObject() runtime.Object {
	if r == nil {
		return nil
	}
	return r.DeepCopy()
}

// DeepCopy returns a copy that shares nothing with the Rollout.
func (r *Rollout) DeepCopy() *Rollout {
	out := *r
	out.ObjectMeta = *r.ObjectMeta.DeepCopy()
	out.Spec.Template = *r.Spec.Template.DeepCopy()
	if r.Spec.Replicas != nil {
		replicas := *r.Spec.Replicas
		out.Spec.Replicas = &replicas
	}
	if r.Spec.WorkloadRef != nil {
		ref := *r.Spec.WorkloadRef
		out.Spec.WorkloadRef = &ref
	}
	return &out
}

// RolloutList is a list of Rollouts.
type RolloutList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Rollout `json:"items"`
}

// DeepCopyObject implements runtime.Object.
func (l *RolloutList) DeepCopyObject() runtime.Object {
	if l == nil {
		return nil
	}
	out := &RolloutList{TypeMeta: l.TypeMeta, ListMeta: *l.ListMeta.DeepCopy()}
	if l.Items != nil {
		out.Items = make([]Rollout, len(l.Items))
		for i := range l.Items {
			out.Items[i] = *l.Items[i].DeepCopy()
		}
	}
	return out
}
