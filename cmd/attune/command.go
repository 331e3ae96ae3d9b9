package main

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"os"

	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"attune.io/attune/internal/answers"
)

// program selects the parts of the operator that a process runs. Each part needs its own rights, and a process has
// only the rights of its parts (docs/security-model.md).
type program struct {
	// serves is true if the process serves the webhooks.
	serves bool
	// controls is true if the process runs the loops, on one replica at a time, and issues the self-signed
	// certificate.
	controls bool
}

// everything is the program of attune without a subcommand. Its process has the rights of both programs.
var everything = program{serves: true, controls: true}

// command returns the root command, which runs the operator as one process. Each program is a subcommand.
func command() *cobra.Command {
	cmd := programCommand(everything, "attune", "Right-sizes pods: at admission, and in place while they run.")
	cmd.Long = cmd.Short + "\n\nWithout a command, one process runs the webhook and the controller, with the rights of both."
	cmd.AddCommand(
		programCommand(program{serves: true}, "webhook", "Sets the resources of new pods and validates policies; writes nothing"),
		programCommand(program{controls: true}, "controller", "Measures usage, recommends resources and resizes running pods"),
		checkCommand(),
		uninstallCommand(),
		versionCommand(),
	)
	return cmd
}

// versionCommand returns the command that prints the version of the program.
func versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Prints version, commit and Go version",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			text, err := answers.BuildVersion().Human(false)
			fmt.Fprint(cmd.OutOrStdout(), "attune "+text)
			return err
		},
	}
}

// programCommand returns the command of one program. It does not know the flags of other programs, so a flag without
// effect is an error.
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
		return fmt.Errorf("%w: run %s --help for the list of flags", err, cmd.CommandPath())
	})
	return cmd
}

// clusterConfig returns the configuration of the connection to the API server.
func clusterConfig() (*rest.Config, error) {
	config, err := ctrl.GetConfig()
	if err != nil {
		return nil, err
	}
	return withoutProxy(config), nil
}

// withoutProxy makes a pod connect to the API server directly. HTTPS_PROXY is for a usage source: most proxies do not
// reach the addresses of Services.
func withoutProxy(config *rest.Config) *rest.Config {
	if config.Proxy == nil && os.Getenv("KUBERNETES_SERVICE_HOST") != "" {
		config.Proxy = func(*http.Request) (*url.URL, error) { return nil, nil }
	}
	return config
}

// run builds the operator from validated flags and runs it until the context ends. It sets the logger first, because
// libraries log as soon as they are used. It sets the memory limits before the caches fill.
func run(ctx context.Context, o *Options) error {
	logger, err := newLogger(o.process.logLevel)
	if err != nil {
		return err
	}
	ctrl.SetLogger(logger)
	if err := sparing(); err != nil {
		return err
	}
	api, err := clusterConfig()
	if err != nil {
		return fmt.Errorf("finding the API server: %w", err)
	}
	// All clients below use this configuration, so change it before the first client exists.
	api.Wrap(evictionsAtOnce)
	api.UserAgent = "attune"
	// From here on use Config instead of the flags.
	config, err := o.Complete(ctx, api)
	if err != nil {
		return err
	}
	// This is controller-runtime's registry, so that the metrics of its own parts are served too.
	system, err := NewSystem(ctx, config, metrics.Registry)
	if err != nil {
		return err
	}
	return system.Run(ctx)
}
