package workload

import (
	"fmt"
	"strconv"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"

	"attune.io/attune/api/v1alpha1"
)

// ofRollout reads an Argo Rollout. If a Deployment has its template (spec.workloadRef), the caller adds the template
// (With).
func ofRollout(o *ArgoRollout) Workload {
	w := read(v1alpha1.KindRollout, o, &o.Spec.Template, ptr.Deref(o.Spec.Replicas, 1), progressOf(o))
	ref := o.Spec.WorkloadRef
	switch {
	case o.Spec.Unreadable != "":
		w.Template, w.Unreadable = nil, o.Spec.Unreadable
	case ref == nil:
	case schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind).GroupKind() != GroupKindOf(v1alpha1.KindDeployment):
		w.Template, w.Unreadable = nil, fmt.Sprintf("spec.workloadRef refers to a %.60s, but must refer to a Deployment", ref.Kind)
	default:
		w.Template, w.TemplateOf = nil, Identity{Kind: v1alpha1.KindDeployment, Namespace: o.Namespace, Name: ref.Name}
		w.Unreadable = w.TemplateOf.String() + " of spec.workloadRef does not exist"
	}
	return w
}

// With returns the workload with the template of other, the workload that TemplateOf names. Its version combines both
// versions, so that a change of the template causes new decisions.
func (w Workload) With(other Workload) Workload {
	if w.Version != "" && other.Version != "" {
		w.Version += "," + other.Version
	} else {
		w.Version = ""
	}
	if other.TooLarge() {
		w.Unreadable = other.String() + " of spec.workloadRef is too large"
		return w
	}
	w.Template, w.Unreadable = other.Template, ""
	return w
}

// Join adds templates to the workloads that refer to another workload of the list (TemplateOf).
func Join(workloads []Workload) {
	var known map[Identity]Workload
	for i, w := range workloads {
		if w.TemplateOf == (Identity{}) {
			continue
		}
		if known == nil {
			known = make(map[Identity]Workload, len(workloads))
			for _, of := range workloads {
				known[of.Identity] = of
			}
		}
		if of, there := known[w.TemplateOf]; there {
			workloads[i] = w.With(of)
		}
	}
}

// progressOf compares the revisions: they are equal if no rollout is in progress. A rollout that was aborted or is
// paused counts as in progress until a user ends it.
func progressOf(o *ArgoRollout) Rollout {
	status := o.Status
	// Before version 1.0 the controller wrote a hash, which cannot be compared.
	if seen, err := strconv.ParseInt(status.ObservedGeneration, 10, 64); err == nil || status.ObservedGeneration == "" {
		if r := unobserved(o.Generation, seen); r.InProgress {
			return r
		}
	}
	if status.StableRS == status.CurrentPodHash {
		return Rollout{}
	}
	reason := "the stable revision is not the newest one"
	switch {
	case status.Abort:
		reason += "; the rollout was aborted"
	case status.Phase != "":
		reason += fmt.Sprintf("; its phase is %.40s", status.Phase)
		if status.Message != "" {
			reason += fmt.Sprintf(" (%s)", status.Message)
		}
	}
	return Rollout{InProgress: true, Reason: reason}
}
