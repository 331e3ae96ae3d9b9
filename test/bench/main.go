// Command bench runs the project's benchmarks, and those of its peers on the same work, and prints one
// table: what each costs, what it may cost at most, and what the peer's code takes in the same run.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
)

func main() {
	quick := flag.Bool("quick", false, "a tenth of a second for each benchmark: enough for allocations, not for times")
	flag.Parse()
	if err := run(context.Background(), *quick); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, quick bool) error {
	ceilings, err := readCeilings(ceilingsText)
	if err != nil {
		return err
	}
	root, err := filepath.Abs("..")
	if err != nil {
		return err
	}
	last := "1s"
	if quick {
		last = "100ms"
	}
	ours, err := measure(ctx, root, last, "./...")
	if err != nil {
		return err
	}
	peers, err := measure(ctx, filepath.Join(root, "test", "peers"), last, ".")
	if err != nil {
		return err
	}
	show(os.Stdout, ours, ceilings)
	compare(os.Stdout, peers)
	return nil
}
