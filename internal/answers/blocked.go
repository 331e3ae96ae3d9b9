package answers

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/workload"
)

// Blocked is one thing that is left as it is. Container and Resource are empty where the whole workload is held.
type Blocked struct {
	// Workload is KIND/NAME, such as Deployment/web.
	Workload string `json:"workload"`
	// Container of the workload, and Resource cpu or memory.
	Container string `json:"container"`
	// Resource is cpu or memory; empty where both are held.
	Resource string `json:"resource"`
	// Reason is one word, Message one sentence.
	Reason string `json:"reason"`
	// Message has the figures, or what ends the hold.
	Message string `json:"message"`
}

// Readiness is the condition Ready of a policy.
type Readiness struct {
	// Ready is True, False or Unknown.
	Ready string `json:"ready"`
	// Reason and Message are those of the condition; without one the message says that the operator has not looked yet.
	Reason  string `json:"reason"`
	Message string `json:"message"`
	// NeedsPerson is true where a person has to act.
	NeedsPerson bool `json:"needsAttention"`
}

// SeedWithheld is the Reason of a workload whose new pods are not sized; the Message is the word of spec.seedWithheld.
const SeedWithheld = "SeedWithheld"

// UnseenGrace is how long a running operator may take until it looks at a new policy. Later the policy is a
// finding: the operator may not run at all.
const UnseenGrace = 5 * time.Minute

// ReadinessOf returns whether a policy is ready. It needs a person for three causes: the operator does not run, the
// policy cannot work, or its resizes do harm too often.
func ReadinessOf(policy *v1alpha1.AttunePolicy, now time.Time) Readiness {
	r := Readiness{Ready: string(metav1.ConditionUnknown), Message: "the operator has not looked at it yet"}
	if ready := meta.FindStatusCondition(policy.Status.Conditions, v1alpha1.ConditionReady); ready != nil {
		r.Ready, r.Reason, r.Message = string(ready.Status), ready.Reason, ready.Message
	}
	unseen := r.Ready == string(metav1.ConditionUnknown) && now.Sub(policy.CreationTimestamp.Time) > UnseenGrace
	// A reason that passes with time (InsufficientData), or that was chosen (Paused), needs nobody.
	broken := r.Ready == string(metav1.ConditionFalse) && r.Reason != v1alpha1.ReasonInsufficientData && r.Reason != v1alpha1.ReasonPaused
	r.NeedsPerson = unseen || broken || meta.IsStatusConditionTrue(policy.Status.Conditions, v1alpha1.ConditionDegraded)
	return r
}

// BlockedOfPolicy returns what the policy's own status reports as held: workloads that another policy sizes.
// The result is never nil, so that the JSON has an empty list.
func BlockedOfPolicy(policy *v1alpha1.AttunePolicy) []Blocked {
	held := []Blocked{}
	for _, conflict := range policy.Status.Conflicts {
		held = append(held, Blocked{
			Workload: conflict.Workload,
			Reason:   v1alpha1.ReasonConflict,
			Message:  fmt.Sprintf("policy %s sizes it: %s", conflict.Winner, conflict.Reason),
		})
	}
	return held
}

// BlockedOfWorkload returns what is held in one workload, and why: a pause, conditions of its recommendation, holds
// of single resources, and a seed that is withheld.
// The order is that of importance: what holds the whole workload comes before what holds one resource.
func BlockedOfWorkload(rec *v1alpha1.AttuneRecommendation) []Blocked {
	name := workload.IdentityOf(rec).String()
	var held []Blocked
	if why, paused := PausedBy(rec); paused {
		held = append(held, Blocked{Workload: name, Reason: v1alpha1.ReasonPaused, Message: why})
	}
	for _, kind := range []string{v1alpha1.ConditionResizeBlocked, v1alpha1.ConditionDegraded} {
		if c := meta.FindStatusCondition(rec.Status.Conditions, kind); c != nil && c.Status == metav1.ConditionTrue {
			held = append(held, Blocked{Workload: name, Reason: c.Reason, Message: c.Message})
		}
	}
	for _, container := range rec.Spec.Containers {
		for _, h := range container.Holds {
			held = append(held, Blocked{Workload: name, Container: container.Name, Resource: h.Resource, Reason: h.Reason, Message: h.Message})
		}
	}
	if rec.Spec.SeedWithheld != "" {
		held = append(held, Blocked{Workload: name, Reason: SeedWithheld, Message: rec.Spec.SeedWithheld})
	}
	return held
}

// PausedBy returns why a workload is paused: by the operator itself, else by a user. A pause of the operator has
// its own reason in the status; the phase Paused alone means an annotation or spec.paused.
func PausedBy(rec *v1alpha1.AttuneRecommendation) (why string, paused bool) {
	switch {
	case rec.Status.Paused != nil:
		return rec.Status.Paused.Reason, true
	case rec.Status.Phase == v1alpha1.PhasePaused:
		return "its annotation " + v1alpha1.PausedAnnotation + " or " + v1alpha1.UndoAnnotation + ", or spec.paused of its policy or of the defaults", true
	}
	return "", false
}
