package main

import (
	"context"

	"k8s.io/client-go/rest"

	"attune.io/attune/internal/policy"
)

// Config is what the operator is built from: its flags, and what Complete found out beside them. It is complete
// when it is made, and nothing changes it.
type Config struct {
	// Options are the flags, which have been validated.
	Options
	// api is the connection to the API server.
	api *rest.Config
	// watched are the namespaces in the caches; empty: all of them. They are a part of Options.process.watched.
	watched namespaces
	// waits end the process when what the flags name and it cannot watch may be watched.
	waits []unserved
	// kinds are the workloads that are watched.
	kinds kinds
	// historyBytes bounds what histories take in memory; 0: history.DefaultMaxBytes. reviewBytes bounds the
	// reviews that are handled at the same time.
	historyBytes, reviewBytes int64
}

// Complete makes the Config of valid Options. It asks the API server which kinds of workloads it serves, and which
// namespaces may be watched, where the flags name any. An error means that the API server does not answer, or that none of them may be watched.
func (o *Options) Complete(ctx context.Context, api *rest.Config) (Config, error) {
	c := Config{Options: *o, api: api, historyBytes: historyBytes(), reviewBytes: int64(partOfLimit(8, mostReviewBytes))}
	var err error
	if c.kinds, err = o.askKinds(ctx, api); err != nil {
		return Config{}, err
	}
	if len(o.process.watched) > 0 {
		may, err := askMayWatch(api, o.program.watchedKinds(c.kinds))
		if err != nil {
			return Config{}, err
		}
		var left namespaces
		if c.watched, left, err = o.process.watched.split(ctx, may); err != nil {
			return Config{}, err
		}
		if len(left) > 0 {
			c.waits = append(c.waits, leftOut(left, may))
		}
	}
	if o.program.controls && !c.kinds.Rollouts {
		c.waits = append(c.waits, noRollouts(c))
	}
	if len(c.kinds.Left) > 0 {
		c.waits = append(c.waits, noScaled(c))
	}
	return c, nil
}

// operator returns what the operator allows policies, for policy.Resolve.
func (o *Options) operator() policy.Operator {
	return policy.Operator{SourceNamespaces: o.policies.sources, Steps: o.policies.steps, RateWindow: o.policies.rate,
		Namespace: o.process.namespace, SomeNamespaces: len(o.process.watched) > 0}
}
