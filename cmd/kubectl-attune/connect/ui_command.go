package connect

import (
	"context"
	"io"

	"github.com/spf13/cobra"
)

// NewUI makes the verb ui. fetch asks the leader of the operator in a namespace for a path.
func NewUI(out, errOut io.Writer, fetch func(ctx context.Context, operator, path string) (Answer, error)) *cobra.Command {
	var o UIOptions
	var noOpen bool
	var operator string
	command := &cobra.Command{
		Use:   "ui",
		Short: "Show the operator's web page in a browser, on this machine alone",
		Long: "Show the operator's web page in a browser, on this machine alone.\n\n" +
			"The page is read-only and shows every namespace. It takes the rights to get leases and to create pods/portforward\n" +
			"in the operator's namespace. There is no finding. Ctrl-C ends it.",
		Example: "  kubectl attune ui\n  kubectl attune ui --port 9090 --no-open",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			o.Open, o.Out, o.ErrOut = !noOpen, out, errOut
			o.Fetch = func(ctx context.Context, path string) (Answer, error) { return fetch(ctx, operator, path) }
			return ShowUI(cmd.Context(), o)
		},
	}
	command.Flags().IntVar(&o.Port, "port", 0, "Port on 127.0.0.1; 0 takes one that is free")
	command.Flags().BoolVar(&noOpen, "no-open", false, "Print the address and open no browser")
	command.Flags().StringVar(&operator, "operator-namespace", "attune-system", "Namespace of the operator, whose leader is asked")
	return command
}
