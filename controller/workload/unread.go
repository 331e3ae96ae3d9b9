package workload

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/log"

	"attune.io/attune/resize"
)

// What a pass could not read or settle, as the metric names it.
const (
	whatAutoscalers = "autoscalers"
	whatNamespace   = "namespace"
	whatNode        = "node"
	whatNodes       = "nodes"
	whatPod         = "pod"
	whatRoom        = "room"
	whatUnsettled   = "unsettled"
)

// notKnown counts a failed look, and makes it the reason why nothing is begun that rests on it.
func notKnown(ctx context.Context, what string, err error) *resize.Refusal {
	incomplete.WithLabelValues(what).Inc()
	log.FromContext(ctx).Error(err, "A pass goes on without what it could not read; nothing new rests on that", "what", what)
	return &resize.Refusal{Reason: resize.ReasonNotKnown, Transient: true, PodWide: true,
		Message: fmt.Sprintf("what it rests on could not be read, and is asked for again: %v", err)}
}
