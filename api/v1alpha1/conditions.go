package v1alpha1

import (
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// SetCondition sets a condition and its observedGeneration. It sets lastTransitionTime to now only if the status of the
// condition changes.
func SetCondition(conditions *[]metav1.Condition, c metav1.Condition, generation int64, now time.Time) {
	c.ObservedGeneration, c.LastTransitionTime = generation, metav1.NewTime(now)
	meta.SetStatusCondition(conditions, c)
}
