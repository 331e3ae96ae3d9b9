package workload

import (
	"fmt"
	"time"

	"attune.io/attune/api/v1alpha1"
)

// Skipped reports whether attune skips the workload, and why: the workload or its pod template opts out
// (attune.io/skip), is too large, or cannot be read.
func (w Workload) Skipped() (where string, skipped bool) {
	switch {
	case w.Annotations[v1alpha1.SkipAnnotation] == "true":
		return w.String(), true
	case w.Template != nil && w.Template.Annotations[v1alpha1.SkipAnnotation] == "true":
		return "the pod template of " + w.String(), true
	case w.TooLarge():
		return w.String() + ", which is too large", true
	case w.Unreadable != "":
		return w.String() + ", whose pod template cannot be read: " + w.Unreadable, true
	}
	return "", false
}

// Paused reports whether the workload has the annotation that kubectl attune pause writes.
func (w Workload) Paused() bool {
	return w.Annotations[v1alpha1.PausedAnnotation] == "true"
}

// Stopped reports whether a user stopped attune for the workload with kubectl attune pause or undo.
func (w Workload) Stopped() bool {
	_, undone, _ := w.Undo()
	return w.Paused() || undone
}

// Undo returns the time in the annotation that kubectl attune undo writes. asked is true while the annotation exists:
// no resize of the workload starts, even if the time is invalid. An error is one sentence with the expected format of
// the time.
func (w Workload) Undo() (at time.Time, asked bool, err error) {
	const shown = 40
	text, asked := w.Annotations[v1alpha1.UndoAnnotation]
	if !asked {
		return time.Time{}, false, nil
	}
	at, err = time.Parse(time.RFC3339, text)
	if err != nil {
		return time.Time{}, true, fmt.Errorf("the annotation %s of %s is %.*q, which is not a time such as 2026-01-31T15:04:05Z: attune restores and resizes nothing. Run kubectl attune undo or kubectl attune resume",
			v1alpha1.UndoAnnotation, w, shown, text)
	}
	return at.UTC(), true, nil
}

// PromotedAt returns the time in the annotation that kubectl attune promote writes; zero: not set, or not a time. Sizes
// that were verified later are not promoted.
func (w Workload) PromotedAt() time.Time {
	at, _ := time.Parse(time.RFC3339, w.Annotations[v1alpha1.PromoteAnnotation])
	return at
}

// Annotations that exclude a pod from eviction: of Karpenter (current and former), of the Cluster Autoscaler, and of
// the Descheduler.
const (
	KarpenterDoNotDisrupt = "karpenter.sh/do-not-disrupt"
	KarpenterDoNotEvict   = "karpenter.sh/do-not-evict"
	AutoscalerSafe        = "cluster-autoscaler.kubernetes.io/safe-to-evict"
	DeschedulerPrefersNot = "descheduler.alpha.kubernetes.io/prefer-no-eviction"
)

// TooLargeAnnotation marks an object in the operator's caches that is larger than the caches keep, so that fields that
// decisions need are missing. The caches set it when they trim an object; the API server does not have it. If a user
// sets it on an object, attune skips the object, as with attune.io/skip.
const TooLargeAnnotation = "attune.io/too-large"

// Values of TooLargeAnnotation. Text: labels or scheduling constraints are missing, all containers are present. Any
// other value, such as Cut: containers are missing.
const Text, Cut = "text", "containers"

// Incomplete reports whether the annotations belong to an object with missing containers. For other objects that are
// too large, no resize starts, but attune can still revert an earlier one.
func Incomplete(annotations map[string]string) bool {
	value, large := annotations[TooLargeAnnotation]
	return large && value != Text
}

// Large reports whether the annotations belong to an object that is too large.
func Large(annotations map[string]string) bool {
	_, large := annotations[TooLargeAnnotation]
	return large
}

// TooLarge reports whether attune skips the workload because of its size.
func (w Workload) TooLarge() bool { return Large(w.Annotations) }

// WhatIsTooLarge ends the message about an object that is too large.
const WhatIsTooLarge = "is larger than the operator's limits for one object: 16 KiB of labels and scheduling constraints, 256 KiB of containers"
