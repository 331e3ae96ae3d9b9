// Command kubectl-attune is the kubectl plugin. It shows what attune recommends, explains it, and pauses, resumes or
// undoes it with the user's own rights.
//
// A command line is processed in this order:
//
//  1. run (root.go) parses it and calls one verb: status, recommendations, savings, explain, diff, history, pause,
//     resume, undo, node, ui, backtest, doctor, import, wizard, version.
//  2. The verb selects recommendations or workloads by names, -n, -A and -l (selection.go, target.go).
//  3. It builds an answer, a document, from objects of the API server or from files (explain_files.go).
//  4. print writes the document as a table, JSON or YAML (output.go).
//
// Answers go to stdout, all other output to stderr. The exit code is 0, 1 for an error, and 2 for a finding, at which a
// CI job should stop. The JSON of the answers is a contract; the tables may change (docs/cli.md).
//
// The plugin writes only annotations (annotate.go). It shows the operator's recommendations for workloads in the
// cluster, and does not compute its own. Start reading at root.go.
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

// main connects run with the process. It exits last, after it has removed the signal handler.
func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	streams := genericiooptions.IOStreams{In: os.Stdin, Out: os.Stdout, ErrOut: os.Stderr}
	colours := &terminal.Coloured{Writer: os.Stdout}
	if term.IsTerminal(int(os.Stdout.Fd())) && terminal.WantsColour(os.Getenv) {
		streams.Out = colours
	}
	env := &environment{IOStreams: streams, now: time.Now, renewal: renewal, cluster: newKubeconfig(), asks: term.IsTerminal(int(os.Stdin.Fd())), utf8: output.UTF8(os.Getenv)}
	if term.IsTerminal(int(os.Stderr.Fd())) {
		env.terminal = os.Stderr
	}
	code := run(ctx, env, os.Args[1:])
	_ = colours.Close() // no output is left for an error
	stop()
	os.Exit(code)
}
