package workload

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/log"

	"attune.io/attune/resize"
)

// What a pass could not read or settle: the values of the label what of attune_pass_incomplete_total.
const (
	whatAutoscalers = "autoscalers"
	whatNamespace   = "namespace"
	whatNode        = "node"
	whatNodes       = "nodes"
	whatPod         = "pod"
	whatRoom        = "room"
	whatUnsettled   = "unsettled"
)

// notKnown counts and logs a failed read, and returns it as the refusal of everything that depends on it.
// It is transient: it is read again in the next pass.
func notKnown(ctx context.Context, what string, err error) *resize.Refusal {
	incomplete.WithLabelValues(what).Inc()
	log.FromContext(ctx).Error(err, "A pass goes on without what it could not read; nothing new rests on that", "what", what)
	return &resize.Refusal{Reason: resize.ReasonNotKnown, Transient: true, PodWide: true,
		Message: fmt.Sprintf("what it rests on could not be read, and is asked for again: %v", err)}
}
