package answers

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/workload"
)

// Blocked is one workload or resource that attune does not size. Container and Resource are empty if the whole workload
// is blocked.
type Blocked struct {
	// Workload is KIND/NAME, such as Deployment/web.
	Workload string `json:"workload"`
	// Container of the workload.
	Container string `json:"container"`
	// Resource is cpu or memory; empty if both are blocked.
	Resource string `json:"resource"`
	// Reason is a CamelCase word.
	Reason string `json:"reason"`
	// Message is a sentence: it has the figures, or what unblocks the resource.
	Message string `json:"message"`
}

// Readiness is the condition Ready of a policy.
type Readiness struct {
	// Ready is True, False or Unknown.
	Ready string `json:"ready"`
	// Reason and Message come from the condition. If the condition is not set, Message says that the operator has not
	// reconciled the policy yet.
	Reason  string `json:"reason"`
	Message string `json:"message"`
	// NeedsPerson is true if the policy needs attention. A user has to act.
	NeedsPerson bool `json:"needsAttention"`
}

// SeedBlocked is the Reason of a workload whose new pods are not sized; the Message ends with spec.seedBlocked.
const SeedBlocked = "SeedBlocked"

// SourceWarning begins the warnings about the usage source at the end of the message of a policy's condition Ready.
const SourceWarning = "; warning from the usage source: "

// Remarks returns what the message of a policy's condition Ready remarks about the policy while it is ready, and about
// its usage source; empty: nothing.
func Remarks(ready *metav1.Condition) (own, source string) {
	message, source, _ := strings.Cut(ready.Message, SourceWarning)
	if ready.Status == metav1.ConditionTrue {
		_, own, _ = strings.Cut(message, "; ")
	}
	return own, source
}

// UnseenGrace is how long a running operator may take to reconcile a new policy. After that, the policy needs
// attention: the operator may not run at all.
const UnseenGrace = 5 * time.Minute

// ReadinessOf returns whether a policy is ready. The policy needs attention if the operator does not run, if the policy
// cannot work, or if its resizes cause regressions too often.
func ReadinessOf(policy *v1alpha1.AttunePolicy, now time.Time) Readiness {
	r := Readiness{Ready: string(metav1.ConditionUnknown), Message: "the operator has not reconciled it yet"}
	if ready := meta.FindStatusCondition(policy.Status.Conditions, v1alpha1.ConditionReady); ready != nil {
		r.Ready, r.Reason, r.Message = string(ready.Status), ready.Reason, ready.Message
	}
	unseen := r.Ready == string(metav1.ConditionUnknown) && now.Sub(policy.CreationTimestamp.Time) > UnseenGrace
	// InsufficientData clears with time and a user chose Paused: neither needs attention.
	broken := r.Ready == string(metav1.ConditionFalse) && r.Reason != v1alpha1.ReasonInsufficientData && r.Reason != v1alpha1.ReasonPaused
	r.NeedsPerson = unseen || broken || meta.IsStatusConditionTrue(policy.Status.Conditions, v1alpha1.ConditionDegraded)
	return r
}

// BlockedOfPolicy returns the workloads that another policy sizes, from the status of the policy. The result is never
// nil, so that the JSON has an empty list.
func BlockedOfPolicy(policy *v1alpha1.AttunePolicy) []Blocked {
	blocked := []Blocked{}
	for _, conflict := range policy.Status.Conflicts {
		blocked = append(blocked, Blocked{
			Workload: conflict.Workload,
			Reason:   v1alpha1.ReasonConflict,
			Message:  fmt.Sprintf("policy %s manages it: %s", conflict.Winner, conflict.Reason),
		})
	}
	return blocked
}

// BlockedOfWorkload returns the blocks of one workload: a pause, conditions of its recommendation, holds of single
// resources, and a blocked seed. Blocks of the whole workload come before blocks of one resource.
func BlockedOfWorkload(rec *v1alpha1.AttuneRecommendation) []Blocked {
	name := workload.IdentityOf(rec).String()
	var blocked []Blocked
	if why, paused := PausedBy(rec); paused {
		blocked = append(blocked, Blocked{Workload: name, Reason: v1alpha1.ReasonPaused, Message: why})
	}
	for _, kind := range []string{v1alpha1.ConditionResizeBlocked, v1alpha1.ConditionDegraded} {
		if c := meta.FindStatusCondition(rec.Status.Conditions, kind); c != nil && c.Status == metav1.ConditionTrue {
			blocked = append(blocked, Blocked{Workload: name, Reason: c.Reason, Message: c.Message})
		}
	}
	for _, container := range rec.Spec.Containers {
		for _, h := range container.Holds {
			blocked = append(blocked, Blocked{Workload: name, Container: container.Name, Resource: h.Resource, Reason: h.Reason, Message: h.Message})
		}
	}
	if why := rec.Spec.SeedBlocked; !seedOff(why) && !slices.ContainsFunc(blocked, func(b Blocked) bool { return b.Reason == why }) {
		blocked = append(blocked, Blocked{Workload: name, Reason: SeedBlocked, Message: "new pods keep the resources of their template: " + why})
	}
	return blocked
}

// seedOff reports that a user chose not to size new pods, by the mode or by admission, or that the resources' holds say
// why they are not sized ("Blocked").
func seedOff(why string) bool {
	return why == "" || why == "Blocked" || why == v1alpha1.ReasonAdmissionDisabled || strings.HasPrefix(why, "Mode")
}

// PausedBy returns why a workload is paused. A pause by the operator has its reason in the status and takes precedence
// over a pause by a user: an annotation, or spec.paused.
func PausedBy(rec *v1alpha1.AttuneRecommendation) (why string, paused bool) {
	switch {
	case rec.Status.Paused != nil:
		return rec.Status.Paused.Reason, true
	case rec.Status.Phase == v1alpha1.PhasePaused:
		return "paused by the annotation " + v1alpha1.PausedAnnotation + " or " + v1alpha1.UndoAnnotation + ", or by spec.paused of its policy or of the defaults", true
	}
	return "", false
}
