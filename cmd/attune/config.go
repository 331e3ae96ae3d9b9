package main

import (
	"context"

	"k8s.io/client-go/rest"

	"attune.io/attune/internal/policy"
)

// Config is what the operator is built from: its flags, and what this process found beside them. It is complete: what is
// built reads it, and nothing changes it.
type Config struct {
	Options
	// api is how the API server is asked.
	api *rest.Config
	// watched namespaces; none: all of them.
	watched namespaces
	// leftOut are those that were to be watched and may not be.
	leftOut leftOut
	// historyBytes and reviewBytes bound what histories and reviews in flight may take; no historyBytes: they are unbounded.
	historyBytes, reviewBytes int64
}

// Complete asks the API server what it takes to run with valid options.
func (o *Options) Complete(ctx context.Context, api *rest.Config) (Config, error) {
	c := Config{Options: *o, api: api, historyBytes: historyBytes(), reviewBytes: reviewBytes()}
	if len(o.process.watched) == 0 {
		return c, nil
	}
	may, err := askMayWatch(api, o.program.watchedKinds())
	if err != nil {
		return Config{}, err
	}
	var left namespaces
	if c.watched, left, err = o.process.watched.split(ctx, may); err != nil {
		return Config{}, err
	}
	c.leftOut = newLeftOut(left, may)
	return c, nil
}

// operator is what policies are allowed.
func (o *Options) operator() policy.Operator {
	return policy.Operator{SourceNamespaces: o.policies.sources, Steps: o.policies.steps, RateWindow: o.policies.rate, SomeNamespaces: len(o.process.watched) > 0}
}
