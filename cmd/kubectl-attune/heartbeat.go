package main

import (
	"context"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"attune.io/attune/internal/answers"
)

// renewal is more than two periods of the leader's renewals (2 s).
const renewal = 5 * time.Second

// readLease reads the lease of the operator's leader; nil if it does not exist or cannot be read. A lease that looks
// expired is read again after env.renewal: if it was renewed meanwhile, the user's clock and the leader's differ.
func readLease(ctx context.Context, c client.Reader, operator string, env *environment) (lease *coordinationv1.Lease, renewed bool, err error) {
	key := client.ObjectKey{Namespace: operator, Name: answers.LeaseName}
	lease = &coordinationv1.Lease{}
	if err := c.Get(ctx, key, lease); err != nil {
		return nil, false, client.IgnoreNotFound(err)
	}
	if answers.HeartbeatOf(operator, lease, nil, false, env.now()).State != answers.NotRunning {
		return lease, false, nil
	}
	select {
	case <-ctx.Done():
		return lease, false, ctx.Err()
	case <-time.After(env.renewal):
	}
	again := &coordinationv1.Lease{}
	if err := c.Get(ctx, key, again); err != nil {
		return lease, false, nil //nolint:nilerr // the first answer is as good
	}
	return again, again.Spec.RenewTime != nil && !again.Spec.RenewTime.Equal(lease.Spec.RenewTime), nil
}
