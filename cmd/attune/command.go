package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

// program selects what a process does of the operator. Each part needs rights of its own, and a process has the
// rights of its parts alone (docs/security-model.md).
type program struct {
	// serves is true where the process serves the webhooks.
	serves bool
	// controls is true where the process runs the loops, on one replica at a time, and issues the self-signed
	// certificate.
	controls bool
}

// everything is the program of attune without a command.
// Its process has the rights of both programs.
var everything = program{serves: true, controls: true}

// command makes the root command, which is the operator as one process, with a command below it for each program.
func command() *cobra.Command {
	cmd := programCommand(everything, "attune", "Right-sizes pods: at admission, and in place while they run.")
	cmd.Long = cmd.Short + "\n\nWithout a command one process is the webhook and the controller, with the rights of both."
	cmd.AddCommand(
		programCommand(program{serves: true}, "webhook", "Sizes pods at admission and judges policies; it writes nothing"),
		programCommand(program{controls: true}, "controller", "Measures, recommends and resizes running pods"),
		checkCommand(),
		uninstallCommand(),
	)
	return cmd
}

// programCommand makes the command of one program. Flags of other programs are unknown to it, so that a flag that
// would have no effect is an error.
func programCommand(p program, name, short string) *cobra.Command {
	o := &Options{program: p}
	cmd := &cobra.Command{
		Use:           name,
		Short:         short,
		Args:          cobra.NoArgs,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.Validate(); err != nil {
				return err
			}
			return run(cmd.Context(), o)
		},
	}
	o.register(cmd.Flags())
	cmd.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return fmt.Errorf("%w: see %s --help for the flags that there are", err, cmd.CommandPath())
	})
	return cmd
}

// run builds the operator from flags that are valid, and runs it until the context ends. The logger comes first,
// because the libraries log as soon as they are used; the memory limits come before the caches are filled.
func run(ctx context.Context, o *Options) error {
	logger, err := newLogger(o.process.logLevel)
	if err != nil {
		return err
	}
	ctrl.SetLogger(logger)
	if err := sparing(); err != nil {
		return err
	}
	api, err := ctrl.GetConfig()
	if err != nil {
		return fmt.Errorf("finding the API server: %w", err)
	}
	// Everything below asks the API server with this configuration, so it is changed here, before the first client
	// exists.
	api.Wrap(evictionsAtOnce)
	api.UserAgent = "attune"
	// From here on the flags are not read again: Config has them, and what was found out beside them.
	config, err := o.Complete(ctx, api)
	if err != nil {
		return err
	}
	// controller-runtime's registry, so that the metrics of its own parts are served too.
	system, err := NewSystem(ctx, config, metrics.Registry)
	if err != nil {
		return err
	}
	return system.Run(ctx)
}
