package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
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
	cmd := programCommand(everything, "attune", "Right-sizes pods: at admission, and in place while they run.", (*options).run)
	cmd.Long = cmd.Short + "\n\nWithout a command one process is the webhook and the controller, with the rights of both."
	cmd.AddCommand(
		programCommand(program{serves: true}, "webhook", "Sizes pods at admission and judges policies; it writes nothing", (*options).run),
		programCommand(program{controls: true}, "controller", "Measures, recommends and resizes running pods", (*options).run),
		checkCommand(),
		uninstallCommand(),
	)
	return cmd
}

func programCommand(p program, name, short string, run func(*options, context.Context) error) *cobra.Command {
	o := &options{program: p}
	cmd := &cobra.Command{
		Use:           name,
		Short:         short,
		Args:          cobra.NoArgs,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.validate(); err != nil {
				return err
			}
			return run(o, cmd.Context())
		},
	}
	o.register(cmd.Flags())
	cmd.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return fmt.Errorf("%w: see %s --help for the flags that there are", err, cmd.CommandPath())
	})
	return cmd
}
