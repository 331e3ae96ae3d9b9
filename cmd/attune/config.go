package main

import (
	"context"
	"fmt"
	"os"
	"runtime/debug"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"attune.io/attune/internal/policy"
)

// Config is what the operator is built from: its flags, and what Complete found out beside them. It is complete
// when it is made, and nothing changes it.
type Config struct {
	// Options are the flags, which have been validated.
	Options
	// api is the connection to the API server.
	api connection
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

// connection is the API server, as the process asks it beside the manager's client.
type connection struct {
	config  *rest.Config
	clients kubernetes.Interface
	// served answers within a time of its own: its methods take no context.
	served discovery.DiscoveryInterface
}

func connect(config *rest.Config) (connection, error) {
	clients, err := kubernetes.NewForConfig(config)
	if err != nil {
		return connection{}, err
	}
	served, err := discovery.NewDiscoveryClientForConfig(config)
	return connection{config, clients, served}, err
}

// Complete makes the Config of valid Options. It asks the API server which kinds of workloads it serves, and which
// namespaces may be watched, where the flags name any. An error means that the API server does not answer, or that none of them may be watched.
func (o *Options) Complete(ctx context.Context, config *rest.Config) (Config, error) {
	api, err := connect(config)
	if err != nil {
		return Config{}, err
	}
	c := Config{Options: *o, api: api, historyBytes: historyBytes(), reviewBytes: int64(partOfLimit(8, mostReviewBytes))}
	if c.kinds, err = o.askKinds(ctx, api); err != nil {
		return Config{}, err
	}
	if len(o.process.watched) > 0 {
		may := api.mayWatch(o.program.watchedKinds(c.kinds)...)
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
	of := o.policies
	of.Namespace, of.SomeNamespaces = o.process.namespace, len(o.process.watched) > 0
	return of
}

// garbagePercent is GOGC: how much garbage may be kept, in percent of the live memory. Most live memory is caches
// and histories, which change slowly, so more frequent collection costs little CPU time and saves much memory.
const garbagePercent = 50

// memoryVariable is the environment variable with the container's memory limit, as a quantity. The chart sets it;
// where it is absent, the limit is not known.
const memoryVariable = "MEMORY_LIMIT"

// sparing configures the garbage collector to use little memory, and to work harder near the container's limit.
// The variables GOGC and GOMEMLIMIT of Go take precedence.
func sparing() error {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(garbagePercent)
	}
	limit, err := memoryLimit()
	if err != nil || limit == 0 || os.Getenv("GOMEMLIMIT") != "" {
		return err
	}
	// A tenth is left for what the runtime does not manage, such as the pages of the program and of files.
	debug.SetMemoryLimit(limit / 10 * 9)
	return nil
}

// memoryLimit returns the container's memory limit in bytes; 0 where it is not known. An error names the variable.
func memoryLimit() (int64, error) {
	limit := os.Getenv(memoryVariable)
	if limit == "" {
		return 0, nil
	}
	bytes, err := resource.ParseQuantity(limit)
	if err != nil || bytes.Sign() <= 0 {
		return 0, fmt.Errorf("%s: %q is no amount of memory, such as 512Mi", memoryVariable, limit)
	}
	return bytes.Value(), nil
}

// historyBytes returns how many bytes histories may take: a third of the memory limit, since caches and answers in
// flight take the rest. 0: the limit is not known.
func historyBytes() int64 {
	limit, _ := memoryLimit() // sparing has said what is wrong
	return limit / 3
}

// mostReviewBytes bounds what all reviews in flight take together, in bytes: some hundreds of usual ones. Where the memory
// limit is small, they take an eighth of it.
const mostReviewBytes = 64 << 20

// partOfLimit returns how many bytes a store may take: a part of the memory limit, such as a sixteenth, and most of them at most.
func partOfLimit(part, most int) int {
	limit, err := memoryLimit()
	if err != nil || limit == 0 {
		return most
	}
	return int(min(limit/int64(part), int64(most)))
}
