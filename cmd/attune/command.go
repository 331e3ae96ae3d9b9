package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

// program is what a process does of the operator. Each part asks for rights of its own: a process that does one of them
// needs, and has, those alone.
type program struct {
	// serves the webhooks.
	serves bool
	// controls runs the loops, on one replica at a time, and issues the self-signed certificate.
	controls bool
}

var everything = program{serves: true, controls: true}

// command is the operator as one process, with a command below it for each of its programs.
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

// run builds the operator from valid flags, and runs it until the context ends.
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
	api.Wrap(evictionsAtOnce)
	api.UserAgent = "attune"
	config, err := o.Complete(ctx, api)
	if err != nil {
		return err
	}
	system, err := NewSystem(ctx, config, metrics.Registry)
	if err != nil {
		return err
	}
	return system.Run(ctx)
}
