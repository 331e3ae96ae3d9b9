package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"attune.io/attune/cmd/kubectl-attune/connect"
	"attune.io/attune/internal/answers"
)

// newUI returns the command ui.
func newUI(env *environment) *cobra.Command {
	o := connect.UIOptions{Out: env.Out, ErrOut: env.ErrOut}
	var noOpen bool
	var operator string
	command := &cobra.Command{
		Use:   "ui",
		Short: "Open the operator's web page in a browser on this machine",
		Long: "Open the operator's web page in a browser on this machine.\n\n" +
			"The page is read-only and shows all namespaces. It needs permission to get leases and to create pods/portforward\n" +
			"in the operator's namespace. Press Ctrl-C to stop.",
		Example: "  kubectl attune ui\n  kubectl attune ui --port 9090 --no-open",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			o.Open = !noOpen
			o.Fetch = func(ctx context.Context, path string) (connect.Answer, error) { return env.page(ctx, operator, path) }
			return connect.ShowUI(cmd.Context(), o)
		},
	}
	command.Flags().IntVar(&o.Port, "port", 0, "Port on 127.0.0.1; 0 selects a free port")
	command.Flags().BoolVar(&noOpen, "no-open", false, "Print the address, but do not open a browser")
	command.Flags().StringVar(&operator, "operator-namespace", "attune-system", "Namespace of the operator")
	return command
}

// page requests a page from the leader.
func (e *environment) page(ctx context.Context, operator, path string) (answer connect.Answer, err error) {
	c, err := e.cluster.Client()
	if err != nil {
		return answer, err
	}
	pod, err := leader(ctx, c, operator)
	if err == nil {
		answer, err = e.cluster.FetchPod(ctx, operator, pod, answers.DecisionsPort, path)
	}
	if err != nil {
		err = fmt.Errorf("cannot reach the leader (needs permission to get leases and to create pods/portforward in namespace %s): %w", operator, err)
	}
	return answer, err
}
