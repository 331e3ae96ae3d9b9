// Command load puts the operator's process before a real API server with nodes that are played faithfully,
// and prints what it takes: memory, CPU time, writes, and how long reviews of new pods wait. Nothing is
// asserted: times are another machine's tomorrow.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"attune.io/attune/test/await"
)

// The largest cluster, of which parts are played, and the memory that the operator may take there, in bytes.
const (
	allNodes  = 5_000
	allPods   = 150_000
	allMemory = 2_000_000_000
	// A namespace has workloads of three pods each, on nodes of its own.
	workloadsEach, podsEach, nodesEach = 100, 300, 10
	// rolled is how many pods are rolled out at once.
	rolled = 1_000
)

type options struct {
	parts  string
	steady time.Duration
	// reviews are asked for this long in each way.
	reviews time.Duration
	// wrong is how long each fault of the usage source lasts.
	wrong time.Duration
}

func main() {
	var o options
	flag.StringVar(&o.parts, "parts", "0.002,0.01", "which parts of 5,000 nodes and 150,000 pods, one after another")
	flag.DurationVar(&o.steady, "steady", time.Minute, "how long it is watched while nothing happens")
	flag.DurationVar(&o.reviews, "reviews", 10*time.Second, "how long 200 reviews/s are asked for in each way")
	flag.DurationVar(&o.wrong, "wrong", 45*time.Second, "how long each fault of the usage source lasts; it is asked every 30 s")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, "load:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o options) error {
	for _, text := range strings.Split(o.parts, ",") {
		part, err := strconv.ParseFloat(text, 64)
		if err != nil || part <= 0 || part > 1 {
			return fmt.Errorf("-parts: %q is no part, use numbers from 0.002 to 1", text)
		}
		if err := play(ctx, part, o); err != nil {
			return err
		}
	}
	return nil
}

// play one size, from nothing.
func play(ctx context.Context, part float64, o options) (err error) {
	namespaces := max(1, int(part*allPods/podsEach+0.5))
	fmt.Printf("\n== %d nodes, %d pods of %d workloads: 1/%.0f of %d nodes and %d pods\n",
		namespaces*nodesEach, namespaces*podsEach, namespaces*workloadsEach, allPods/float64(namespaces*podsEach), allNodes, allPods)
	s, err := newSite(ctx, namespaces)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	for _, step := range []struct {
		what string
		do   func(context.Context, options) error
	}{
		{"the cluster", s.build}, {"the operator", s.begin}, {"nothing happens", s.rest}, {"a rollout", s.rollout},
		{"200 reviews/s", s.review}, {"a usage source that is wrong", s.doubt},
	} {
		if err := step.do(ctx, o); err != nil {
			return fmt.Errorf("%s: %w", step.what, err)
		}
	}
	return nil
}

// say a figure.
func say(what, format string, args ...any) {
	fmt.Printf("%-28s %s\n", what, fmt.Sprintf(format, args...))
}

// awaited looks again until it holds.
func awaited(ctx context.Context, what string, holds func() error) error {
	const patience = 30 * time.Minute
	return await.Until(ctx, what, patience, 250*time.Millisecond, func(context.Context) error { return holds() })
}
