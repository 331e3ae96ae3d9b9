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
	"attune.io/attune/internal/answers"
)

// Exit codes. exitFinding lets a script distinguish a finding from a failure. Only status, diff, backtest and doctor
// have findings.
const (
	exitOK      = 0
	exitError   = 1
	exitFinding = 2
)

// errFinding ends a run that succeeded with a finding at which a CI job should stop. It is not printed.
var errFinding = errors.New("finding")

// environment is everything that a verb may use: its streams, the time, the cluster, and the flags of all verbs. Tests
// replace all of them. It belongs to one run.
type environment struct {
	// IOStreams are stdin, stdout and stderr. run wraps the last two.
	genericiooptions.IOStreams
	// terminal is stderr if that is a terminal, else nil. Unlike ErrOut, it accepts control characters.
	terminal io.Writer
	// utf8 is true if the terminal's locale is UTF-8.
	utf8 bool
	// asks is true if stdin is a terminal, so that a user can answer questions.
	asks bool
	// now returns the present time.
	now func() time.Time
	// renewal is how long to wait for the renewal of a lease that looks expired.
	renewal time.Duration
	// cluster connects to the API server when a verb needs it.
	cluster cluster
	// scope holds -A and -l.
	scope scope
	// format is the value of -o; table where it was not given.
	format format
	// watch is nil without -w.
	watch *terminal.Watch
	// said holds the notes that were written.
	said map[string]bool
}

// printNote writes a line to stderr, once in a run. All output except the answer uses it, so that stdout stays
// parseable.
func (e *environment) printNote(text string, args ...any) {
	if line := fmt.Sprintf(text, args...); !e.said[line] {
		e.said[line] = true
		fmt.Fprintln(e.ErrOut, line)
	}
}

// watchEvery is the interval of a verb with -w.
const watchEvery = 2 * time.Second

// watched adds -w to a verb, which repeats it until it is interrupted and prints the answer when it changes.
func (e *environment) watched(command *cobra.Command) *cobra.Command {
	asked, once := command.Flags().BoolP("watch", "w", false, "Check every 2 seconds, and print the result again when it changes"), command.RunE
	command.RunE = func(cmd *cobra.Command, args []string) error {
		if !*asked {
			return once(cmd, args)
		}
		e.watch = terminal.NewWatch(watchEvery)
		return e.watch.Run(cmd.Context(), errFinding, func() error { return once(cmd, args) })
	}
	return command
}

// run executes one command line and returns its exit code. It escapes all output.
func run(ctx context.Context, env *environment, args []string) int {
	// Every text may contain what other users wrote into objects of the cluster, including errors.
	env.Out, env.ErrOut = terminal.Escaping{Writer: env.Out}, terminal.Escaping{Writer: env.ErrOut}
	env.said = map[string]bool{}
	root := newRoot(env)
	root.SetArgs(args)
	root.SetIn(env.In)
	root.SetOut(env.Out)
	root.SetErr(env.ErrOut)
	// A finding has printed its answer already. An error is printed here.
	switch err := root.ExecuteContext(ctx); {
	case err == nil:
		return exitOK
	case errors.Is(err, errFinding):
		return exitFinding
	default:
		env.printNote("error: %s", plain(err))
		return exitError
	}
}

// verbs are in the order of the help page. Each function returns one command.
var verbs = []func(*environment) *cobra.Command{
	newStatus, newRecommendations, newSavings, newExplain, newDiff, newHistory, newPause, newResume, newUndo, newPromote, newNode, newUI, newBacktest, newDoctor, newImport, newWizard, newVersion,
}

// newVersion returns the command version.
func newVersion(env *environment) *cobra.Command {
	return &cobra.Command{
		Use:               "version",
		Short:             "Show the version of the plugin",
		Long:              "Show the version of the plugin, its commit, and the version of Go that built it. attune version in a pod of the operator shows\nthe operator's.",
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE:              func(*cobra.Command, []string) error { return env.print(answers.BuildVersion()) },
	}
}

// newRoot returns the command kubectl-attune with its verbs and the flags of all verbs. It sets the default format
// before it registers the flag, because pflag shows the default in the help.
func newRoot(env *environment) *cobra.Command {
	root := &cobra.Command{
		Use:   "kubectl-attune",
		Short: "Show, explain and control how attune resizes workloads",
		Long: "Show, explain and control how attune resizes workloads.\n\n" +
			"Exit codes: 0 success, 1 error, 2 finding (only status, diff, backtest and doctor; see their help).\n" +
			"kubectl's other connection flags, such as --as-group and --cluster, also work.",
		Annotations: map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl attune"},
		// Check the format before the verb runs, because pause and undo write.
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
	root.PersistentFlags().VarP(&env.format, "output", "o", "Output format. One of: table, wide, json, yaml; also html for backtest, and krr for recommendations")
	for _, verb := range verbs {
		root.AddCommand(verb(env))
	}
	return root
}
