package workload

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"attune.io/attune/api/v1alpha1"
)

// Skipped reports whether the workload or its pod template opts out, and where it says so.
func (w Workload) Skipped() (where string, skipped bool) {
	if w.Annotations[v1alpha1.SkipAnnotation] == "true" {
		return w.String(), true
	}
	if w.Template != nil && w.Template.Annotations[v1alpha1.SkipAnnotation] == "true" {
		return "the pod template of " + w.String(), true
	}
	return "", false
}

// PodSkipped reports whether a pod opts out by itself; its template's annotations are on it too.
func PodSkipped(pod metav1.Object) bool {
	return pod.GetAnnotations()[v1alpha1.SkipAnnotation] == "true"
}

// Paused reports whether the workload carries the annotation that kubectl attune pause writes.
func (w Workload) Paused() bool {
	return w.Annotations[v1alpha1.PausedAnnotation] == "true"
}
