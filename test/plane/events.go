package plane

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// failedCreate reports a pod that was rejected as an event on its owner, as its controller does. One event is repeated for
// each owner, at most once a second: another one at the same time would say nothing new, and whoever repeats steps until nothing
// is written would never end. That the event cannot be written is no matter for the controller.
func (p *Plane) failedCreate(ctx context.Context, v *view, of owner, failure error) {
	e := &corev1.Event{ObjectMeta: metav1.ObjectMeta{Namespace: of.GetNamespace(), Name: of.GetName() + ".failedcreate"}}
	known := p.Client.Get(ctx, client.ObjectKeyFromObject(e), e) == nil
	if at := stored(v.now); known && e.LastTimestamp.Equal(&at) {
		return
	}
	e.InvolvedObject = corev1.ObjectReference{APIVersion: of.apiVersion, Kind: of.kind, Namespace: of.GetNamespace(), Name: of.GetName(), UID: of.GetUID()}
	e.Reason, e.Type, e.Message = "FailedCreate", corev1.EventTypeWarning, fmt.Sprintf("Error creating: %v", failure)
	e.LastTimestamp = stored(v.now)
	e.Count++
	if known {
		_ = p.Client.Update(ctx, e)
		return
	}
	e.FirstTimestamp = e.LastTimestamp
	_ = p.Client.Create(ctx, e)
}
