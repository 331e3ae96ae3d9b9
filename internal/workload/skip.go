package workload

import (
	"fmt"
	"time"

	"attune.io/attune/api/v1alpha1"
)

// Skipped reports whether the workload or its pod template opts out (attune.io/skip), or is too large, and where
// that is written.
func (w Workload) Skipped() (where string, skipped bool) {
	if w.Annotations[v1alpha1.SkipAnnotation] == "true" {
		return w.String(), true
	}
	if w.Template != nil && w.Template.Annotations[v1alpha1.SkipAnnotation] == "true" {
		return "the pod template of " + w.String(), true
	}
	if w.TooLarge() {
		return w.String() + ", which is too large", true
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
