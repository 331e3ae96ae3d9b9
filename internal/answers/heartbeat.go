package answers

import (
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// States of a Heartbeat.
const (
	Running    = "Running"
	NotRunning = "NotRunning"
	// UnknownState means that the lease could not be read, or does not exist in the namespace.
	UnknownState = "Unknown"
)

// Heartbeat says whether the operator runs, by the lease of its leader, which renews it every 2 s. Its JSON:
//
//	{"state": "NotRunning", "since": "2026-03-02T11:00:00Z", "message": "…"}
type Heartbeat struct {
	// State is Running, NotRunning or Unknown.
	State string `json:"state"`
	// Since is the last renewal of the lease; nil unless the operator is not running. The time of a running operator
	// changes every 2 s, and is not part of an answer.
	Since *time.Time `json:"since,omitempty"`
	// Message is one sentence; empty while the operator runs.
	Message string `json:"message,omitempty"`
}

// mostSilent is the age of the last renewal from which the operator counts as not running. A change of the leader takes
// up to 17 s.
const mostSilent = 60 * time.Second

// HeartbeatOf returns the heartbeat of the operator in a namespace. lease is nil if it does not exist or cannot be read
// (err). renewed is true if the lease was renewed between two reads: then the operator runs, whatever the clocks show.
func HeartbeatOf(namespace string, lease *coordinationv1.Lease, err error, renewed bool, now time.Time) Heartbeat {
	name := "lease " + namespace + "/" + LeaseName
	switch {
	case apierrors.IsForbidden(err):
		return Heartbeat{State: UnknownState, Message: "operator unknown: missing permission to get " + name}
	case err != nil:
		return Heartbeat{State: UnknownState, Message: fmt.Sprintf("operator unknown: cannot read %s: %v", name, err)}
	case lease == nil:
		return Heartbeat{State: UnknownState, Message: "operator unknown: " + name + " does not exist: specify --operator-namespace"}
	case lease.Spec.RenewTime == nil:
		return Heartbeat{State: NotRunning, Message: "operator not running: " + name + " was never renewed"}
	}
	if last := lease.Spec.RenewTime.UTC(); !renewed && now.Sub(last) > mostSilent {
		return Heartbeat{State: NotRunning, Since: &last, Message: fmt.Sprintf("operator not running since %s (last renewal of %s)", last.Format(time.RFC3339), name)}
	}
	return Heartbeat{State: Running}
}
