package main

import (
	"context"
	"fmt"
	"os"
	"runtime/debug"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"attune.io/attune/internal/policy"
	"attune.io/attune/internal/workload"
)

// Config has everything that the operator is built from: its flags and the answers of the API server. Complete
// returns it, and nothing changes it afterwards.
type Config struct {
	// Options are the validated flags.
	Options
	// api is the connection to the API server.
	api connection
	// watched are the namespaces in the caches; empty means all. They are a subset of Options.process.watched.
	watched namespaces
	// waits end the process when the operator may watch a kind or a namespace that it cannot watch yet.
	waits []unserved
	// kinds are the kinds of workloads that the process watches.
	kinds kinds
	// historyBytes limits the memory of histories; 0 means history.DefaultMaxBytes. reviewBytes limits the memory of
	// concurrent admission reviews.
	historyBytes, reviewBytes int64
}

// connection has the clients of the API server that do not use the manager.
type connection struct {
	config  *rest.Config
	clients kubernetes.Interface
	// served has a timeout of its own, because its methods take no context.
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

// Complete returns the Config of valid Options. It asks the API server which kinds of workloads it serves and, if the
// flags name namespaces, which of them the operator may watch. It returns an error if the API server does not answer,
// or if the operator may watch none of the namespaces.
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

// operator returns the limits on policies, for policy.Resolve.
func (o *Options) operator() policy.Operator {
	of := o.policies
	of.Namespace, of.SomeNamespaces = o.process.namespace, len(o.process.watched) > 0
	of.Embedded = o.program.controls && o.usage.source == sourceEmbedded
	return of
}

// admission returns in which namespaces the webhook sizes new pods.
func (o *Options) admission() workload.Admission {
	of := workload.Admission{
		Operator: o.process.namespace, Excluded: o.loops.excluded, Watched: o.process.watched, AllButDisabled: o.loops.sizedIn == workload.InAllButDisabled,
	}
	if o.loops.selector != "" {
		of.Selector, _ = labels.Parse(o.loops.selector) // Validate has checked it
	}
	return of
}

// garbagePercent is GOGC: the allowed garbage in percent of the live memory. Most live memory is caches and
// histories, which change slowly. So frequent collection costs little CPU time and saves much memory.
const garbagePercent = 50

// memoryVariable is the environment variable with the container's memory limit, as a quantity. The chart sets it. If
// it is not set, the limit is unknown.
const memoryVariable = "MEMORY_LIMIT"

// sparing makes the garbage collector use little memory, and work harder near the container's limit. Go's variables
// GOGC and GOMEMLIMIT take precedence.
func sparing() error {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(garbagePercent)
	}
	limit, err := memoryLimit()
	if err != nil || limit == 0 || os.Getenv("GOMEMLIMIT") != "" {
		return err
	}
	// A tenth is reserved for memory that the Go runtime does not manage, such as pages of the binary and of files.
	debug.SetMemoryLimit(limit / 10 * 9)
	return nil
}

// memoryLimit returns the container's memory limit in bytes; 0 if it is unknown. An error names the variable.
func memoryLimit() (int64, error) {
	limit := os.Getenv(memoryVariable)
	if limit == "" {
		return 0, nil
	}
	bytes, err := resource.ParseQuantity(limit)
	if err != nil || bytes.Sign() <= 0 {
		return 0, fmt.Errorf("%s: %q is not an amount of memory, such as 512Mi", memoryVariable, limit)
	}
	return bytes.Value(), nil
}

// historyBytes returns the memory for histories in bytes: a third of the memory limit, because caches and requests
// in flight need the rest. It returns 0 if the limit is unknown.
func historyBytes() int64 {
	limit, _ := memoryLimit() // sparing has reported the error
	return limit / 3
}

// mostReviewBytes limits the memory of all concurrent reviews, in bytes: some hundreds of typical reviews. With a
// small memory limit, they get an eighth of it.
const mostReviewBytes = 64 << 20

// partOfLimit returns the memory of a store in bytes: the memory limit divided by part, and at most most.
func partOfLimit(part, most int) int {
	limit, err := memoryLimit()
	if err != nil || limit == 0 {
		return most
	}
	return int(min(limit/int64(part), int64(most)))
}
