package answers

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
)

// A lease that was not renewed for more than a minute belongs to an operator that does not run. A lease that cannot be
// read says nothing about it.
func TestHeartbeat(t *testing.T) {
	now := time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)
	renewed := func(ago time.Duration) *coordinationv1.Lease {
		return &coordinationv1.Lease{Spec: coordinationv1.LeaseSpec{RenewTime: ptr.To(metav1.NewMicroTime(now.Add(-ago)))}}
	}
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "leases"}, LeaseName, nil)
	const name = "lease attune-system/attune.attune.io"
	for title, c := range map[string]struct {
		lease *coordinationv1.Lease
		err   error
		again bool
		want  Heartbeat
	}{
		"renewed":             {renewed(time.Second), nil, false, Heartbeat{State: Running}},
		"the leader changes":  {renewed(time.Minute), nil, false, Heartbeat{State: Running}},
		"the clock is behind": {renewed(-time.Hour), nil, false, Heartbeat{State: Running}},
		"the clock is ahead":  {renewed(time.Hour), nil, true, Heartbeat{State: Running}},
		"silent": {renewed(time.Hour), nil, false, Heartbeat{NotRunning, ptr.To(now.Add(-time.Hour)),
			"operator not running since 2026-03-02T11:00:00Z (last renewal of " + name + ")"}},
		"never renewed": {&coordinationv1.Lease{}, nil, false, Heartbeat{State: NotRunning, Message: "operator not running: " + name + " was never renewed"}},
		"no lease":      {nil, nil, false, Heartbeat{State: UnknownState, Message: "operator unknown: " + name + " does not exist: specify --operator-namespace"}},
		"no right":      {nil, forbidden, false, Heartbeat{State: UnknownState, Message: "operator unknown: missing permission to get " + name}},
		"no answer":     {nil, errors.New("EOF"), false, Heartbeat{State: UnknownState, Message: "operator unknown: cannot read " + name + ": EOF"}},
	} {
		t.Run(title, func(t *testing.T) {
			assert.Equal(t, c.want, HeartbeatOf("attune-system", c.lease, c.err, c.again, now))
		})
	}
}
