package workload

import (
	"fmt"
	"time"

	"attune.io/attune/api/v1alpha1"
)

// Skipped reports whether the workload or its pod template opts out (attune.io/skip), or is too large, and where
// that is written.
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

// Paused reports whether the workload carries the annotation that kubectl attune pause writes.
func (w Workload) Paused() bool {
	return w.Annotations[v1alpha1.PausedAnnotation] == "true"
}

// Stopped reports whether a person has the workload left alone, by kubectl attune pause or undo.
func (w Workload) Stopped() bool {
	_, undone, _ := w.Undo()
	return w.Paused() || undone
}

// Undo returns the time in the annotation that kubectl attune undo writes. asked is true while the annotation
// exists: nothing new is then done to the workload, whether the time can be read or not. An error is one sentence
// with the form that the time should have.
func (w Workload) Undo() (at time.Time, asked bool, err error) {
	const shown = 40
	text, asked := w.Annotations[v1alpha1.UndoAnnotation]
	if !asked {
		return time.Time{}, false, nil
	}
	at, err = time.Parse(time.RFC3339, text)
	if err != nil {
		return time.Time{}, true, fmt.Errorf("the annotation %s of %s is %.*q, which is no time such as 2026-01-31T15:04:05Z: nothing is undone, and nothing is resized, until kubectl attune undo or resume writes it anew",
			v1alpha1.UndoAnnotation, w, shown, text)
	}
	return at.UTC(), true, nil
}

// Annotations by which people keep a pod where it is; the first ones are those of Karpenter, now and before,
// of the Cluster Autoscaler, and of the Descheduler.
const (
	KarpenterDoNotDisrupt = "karpenter.sh/do-not-disrupt"
	KarpenterDoNotEvict   = "karpenter.sh/do-not-evict"
	AutoscalerSafe        = "cluster-autoscaler.kubernetes.io/safe-to-evict"
	DeschedulerPrefersNot = "descheduler.alpha.kubernetes.io/prefer-no-eviction"
)

// TooLargeAnnotation marks an object in the operator's caches of which more was written than the caches keep, so
// that something is missing on which decisions rest. The caches set it when they trim an object; the API server
// does not have it. A user who writes it on an object has the object left alone, as with attune.io/skip.
const TooLargeAnnotation = "attune.io/too-large"

// Values of TooLargeAnnotation. Text: labels, or fields that say where pods may run, are missing, and all
// containers are there. Any other value, such as Cut: containers are missing.
const Text, Cut = "text", "containers"

// Incomplete reports whether the annotations are of an object whose containers are not all known. With other
// objects that are too large nothing is begun, but what was begun can be taken back.
func Incomplete(annotations map[string]string) bool {
	value, large := annotations[TooLargeAnnotation]
	return large && value != Text
}

// Large reports whether the annotations are of an object that is too large.
func Large(annotations map[string]string) bool {
	_, large := annotations[TooLargeAnnotation]
	return large
}

// TooLarge reports whether the workload is left alone because of its size.
func (w Workload) TooLarge() bool { return Large(w.Annotations) }

// WhatIsTooLarge ends the message about an object that is too large.
const WhatIsTooLarge = "has more than the operator keeps of one object: 16 KiB of labels and of what says where its pods may run, 256 KiB of containers"
