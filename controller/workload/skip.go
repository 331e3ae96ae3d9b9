package workload

import (
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/event"
	"attune.io/attune/resize"
)

// asked are refusals that a person or the operator itself brought about, and that are told elsewhere: a pause, a mode,
// an annotation, an undo.
var asked = []string{resize.ReasonPaused, resize.ReasonWorkloadPaused, resize.ReasonMode, resize.ReasonSkipped, reasonUndone}

// skip tells of a refusal that a person may have to do something about, once: again only when the condition
// ResizeBlocked is to say something else. What passes by itself is only in the condition, but for quotas, which pass
// when there is less in use; their figures move all the time and are no news.
func (d *decision) skip(refusal *resize.Refusal) {
	if refusal == nil || slices.Contains(asked, refusal.Reason) || refusal.Transient && refusal.Reason != resize.ReasonQuota {
		return
	}
	known := meta.FindStatusCondition(d.status.Conditions, v1alpha1.ConditionResizeBlocked)
	same := known != nil && known.Status == metav1.ConditionTrue && known.Reason == refusal.Reason
	if same && (refusal.Transient || known.Message == refusal.Message) {
		return
	}
	d.tell(event.Warning(v1alpha1.EventResizeSkipped, "%s", refusal.Message))
}
