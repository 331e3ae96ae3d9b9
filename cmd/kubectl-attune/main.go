// Command kubectl-attune is the kubectl plugin. It shows what attune recommends, explains it, and pauses, resumes
// or undoes it with the user's own rights.
//
// A command line takes this way:
//
//  1. run (root.go) parses it and calls one verb: status, recommendations, savings, explain, diff, history, pause,
//     resume, undo, node, ui, backtest, doctor, import, wizard.
//  2. The verb selects recommendations or workloads by names, -n, -A and -l (selection.go, target.go).
//  3. It makes an answer, a document, from objects of the API server or from files (explain_files.go).
//  4. print writes the document as a table, JSON or YAML (output.go).
//
// Answers go to stdout, everything else to stderr. The exit code is 0, 1 for an error, and 2 for a finding, at
// which a CI job should stop. The JSON of the answers is a contract; the tables may change (docs/cli.md).
//
// The plugin writes nothing but annotations (annotate.go), and it computes no recommendation of its own for a
// workload in the cluster. Start reading at root.go.
package main

import (
	"context"
	"os"
	"os/signal"
	"time"

	"golang.org/x/term"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"attune.io/attune/cmd/kubectl-attune/output"
	"attune.io/attune/cmd/kubectl-attune/terminal"
)

// main connects run with the process. The exit code is set last, after the context's handler has been removed.
func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	streams := genericiooptions.IOStreams{In: os.Stdin, Out: os.Stdout, ErrOut: os.Stderr}
	colours := &terminal.Coloured{Writer: os.Stdout}
	if term.IsTerminal(int(os.Stdout.Fd())) && terminal.WantsColour(os.Getenv) {
		streams.Out = colours
	}
	env := &environment{IOStreams: streams, now: time.Now, cluster: newKubeconfig(), asks: term.IsTerminal(int(os.Stdin.Fd())), utf8: output.UTF8(os.Getenv)}
	if term.IsTerminal(int(os.Stderr.Fd())) {
		env.terminal = os.Stderr
	}
	code := run(ctx, env, os.Args[1:])
	_ = colours.Close() // nobody is left to be told
	stop()
	os.Exit(code)
}
