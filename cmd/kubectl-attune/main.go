// Command kubectl-attune is the kubectl plugin: it shows what attune recommends, explains it, and
// pauses, resumes or undoes it with the user's own rights. Answers go to stdout, everything else to
// stderr; the exit code is 0, 1 for an error and 2 for a finding.
package main

import (
	"context"
	"os"
	"os/signal"
	"time"

	"k8s.io/cli-runtime/pkg/genericiooptions"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	streams := genericiooptions.IOStreams{In: os.Stdin, Out: os.Stdout, ErrOut: os.Stderr}
	code := run(ctx, &environment{IOStreams: streams, now: time.Now, cluster: newKubeconfig()}, os.Args[1:])
	stop()
	os.Exit(code)
}
