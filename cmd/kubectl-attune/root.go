package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"attune.io/attune/cmd/kubectl-attune/terminal"
)

// Exit codes.
// exitFinding lets a script tell a finding from a failure. Only status, diff, backtest and doctor have findings.
const (
	exitOK      = 0
	exitError   = 1
	exitFinding = 2
)

// errFinding ends a run that did its work and found something at which a CI job should stop. It is not printed.
var errFinding = errors.New("finding")

// environment is everything that a verb may use: its streams, the time, the cluster, and the flags that all verbs
// have. Tests replace all of them. It belongs to one run.
type environment struct {
	// IOStreams are stdin, stdout and stderr. run wraps the last two.
	genericiooptions.IOStreams
	// terminal is stderr where that is a terminal, else nil. Unlike ErrOut it takes control characters.
	terminal io.Writer
	// utf8: the terminal shows Unicode, by its locale.
	utf8 bool
	// asks: stdin is a terminal, so that questions have somebody who answers them.
	asks bool
	// now returns the present time.
	now func() time.Time
	// cluster connects to the API server when a verb asks for it.
	cluster cluster
	// scope holds -A and -l, format holds -o.
	scope scope
	// format is the value of -o; table where it was not given.
	format format
	// watch is nil without -w.
	watch *terminal.Watch
	// said holds the notes that were written.
	said map[string]bool
}

// note writes a line to stderr, once in a run. It is for everything that is not the answer, so that stdout stays parseable.
func (e *environment) note(text string, args ...any) {
	if line := fmt.Sprintf(text, args...); !e.said[line] {
		e.said[line] = true
		fmt.Fprintln(e.ErrOut, line)
	}
}

// watchEvery is how often a verb with -w looks again.
const watchEvery = 2 * time.Second

// watched adds -w to a verb: it is repeated until it is interrupted, and written again when it has changed.
func (e *environment) watched(command *cobra.Command) *cobra.Command {
	asked, once := command.Flags().BoolP("watch", "w", false, "Go on, and write the answer again when it has changed"), command.RunE
	command.RunE = func(cmd *cobra.Command, args []string) error {
		if !*asked {
			return once(cmd, args)
		}
		e.watch = terminal.NewWatch(watchEvery)
		return e.watch.Run(cmd.Context(), errFinding, func() error { return once(cmd, args) })
	}
	return command
}

// run carries out one command line and returns its exit code. All output goes through escaping.
func run(ctx context.Context, env *environment, args []string) int {
	// Every text may hold what others wrote into objects of the cluster, errors included.
	env.Out, env.ErrOut = terminal.Escaping{Writer: env.Out}, terminal.Escaping{Writer: env.ErrOut}
	env.said = map[string]bool{}
	root := newRoot(env)
	root.SetArgs(args)
	root.SetIn(env.In)
	root.SetOut(env.Out)
	root.SetErr(env.ErrOut)
	// A finding has printed its answer already; an error has not, so it is written here.
	switch err := root.ExecuteContext(ctx); {
	case err == nil:
		return exitOK
	case errors.Is(err, errFinding):
		return exitFinding
	default:
		env.note("error: %s", plain(err))
		return exitError
	}
}

// verbs are in the order of the help page.
// Each function makes one command. A verb that is missing here does not exist.
var verbs = []func(*environment) *cobra.Command{
	newStatus, newRecommendations, newSavings, newExplain, newDiff, newHistory, newPause, newResume, newUndo, newNode, newUI, newBacktest, newDoctor, newImport, newWizard,
}

// newRoot makes the command kubectl-attune with its verbs and the flags that all of them have.
// The default format is set before its flag is registered: pflag shows it in the help.
func newRoot(env *environment) *cobra.Command {
	root := &cobra.Command{
		Use:   "kubectl-attune",
		Short: "See, explain and steer what attune does to your workloads",
		Long: "See, explain and steer what attune does to your workloads.\n\n" +
			"Exit codes: 0 ok, 1 error, 2 finding (the help of each verb says what counts as one).\n" +
			"kubectl's other connection flags, such as --as-group and --cluster, work as well.",
		Annotations: map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl attune"},
		// Before a verb does anything: pause and undo write.
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			return env.format.fits(cmd.Name())
		},
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return fmt.Errorf("%w: see %s --help", err, cmd.CommandPath())
	})
	env.format = formatTable
	env.cluster.AddFlags(root.PersistentFlags())
	env.scope.addFlags(root.PersistentFlags())
	root.PersistentFlags().VarP(&env.format, "output", "o", "table, wide, json or yaml; backtest: html too; recommendations: krr too")
	for _, verb := range verbs {
		root.AddCommand(verb(env))
	}
	return root
}
