package main

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/workload"
)

// heldByPolicy returns what the policy's own status reports as held: workloads that another policy sizes.
// The result is never nil, so that the JSON has an empty list.
func heldByPolicy(policy *v1alpha1.AttunePolicy) []heldThing {
	held := []heldThing{}
	for _, conflict := range policy.Status.Conflicts {
		held = append(held, heldThing{
			Workload: conflict.Workload,
			Reason:   v1alpha1.ReasonConflict,
			Message:  fmt.Sprintf("policy %s sizes it: %s", conflict.Winner, conflict.Reason),
		})
	}
	return held
}

// heldByWorkload returns what is held in one workload, and why: a pause, conditions of its recommendation, holds
// of single resources, and a seed that is withheld.
// The order is that of importance: what holds the whole workload comes before what holds one resource.
func heldByWorkload(rec *v1alpha1.AttuneRecommendation) []heldThing {
	name := workload.IdentityOf(rec).String()
	var held []heldThing
	if why, paused := pausedBy(rec); paused {
		held = append(held, heldThing{Workload: name, Reason: v1alpha1.ReasonPaused, Message: why})
	}
	for _, kind := range []string{v1alpha1.ConditionResizeBlocked, v1alpha1.ConditionDegraded} {
		if c := meta.FindStatusCondition(rec.Status.Conditions, kind); c != nil && c.Status == metav1.ConditionTrue {
			held = append(held, heldThing{Workload: name, Reason: c.Reason, Message: c.Message})
		}
	}
	for _, container := range rec.Spec.Containers {
		for _, h := range container.Holds {
			held = append(held, heldThing{Workload: name, Container: container.Name, Resource: h.Resource, Reason: h.Reason, Message: h.Message})
		}
	}
	if rec.Spec.SeedWithheld != "" {
		held = append(held, heldThing{Workload: name, Reason: "SeedWithheld", Message: rec.Spec.SeedWithheld})
	}
	return held
}

// pausedBy returns why a workload is paused: by the operator itself, else by a user. A pause of the operator has
// its own reason in the status; the phase Paused alone means an annotation or spec.paused.
func pausedBy(rec *v1alpha1.AttuneRecommendation) (why string, paused bool) {
	switch {
	case rec.Status.Paused != nil:
		return rec.Status.Paused.Reason, true
	case rec.Status.Phase == v1alpha1.PhasePaused:
		return "its annotation " + v1alpha1.PausedAnnotation + " or " + v1alpha1.UndoAnnotation + ", or spec.paused of its policy or of the defaults", true
	}
	return "", false
}
