package main

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/client-go/metadata"
	ctrl "sigs.k8s.io/controller-runtime"

	"attune.io/attune/internal/uninstall"
)

// uninstallTimeout is shorter than the deadline of the chart's Job, so that the Job's log has the reason of a
// failure.
const uninstallTimeout = 3 * time.Minute

// uninstallCommand makes the command that helm runs before it uninstalls the chart (see internal/uninstall).
func uninstallCommand() *cobra.Command {
	o := uninstall.Options{}
	cmd := &cobra.Command{
		Use:   "uninstall",
		Short: "Stops the operator and takes its finalizers off; pods stay as they are",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			o.Out = cmd.OutOrStdout()
			return runUninstall(cmd.Context(), o)
		},
	}
	cmd.Flags().StringVar(&o.Namespace, "namespace", "", "the operator's namespace")
	cmd.Flags().StringSliceVar(&o.Deployments, "deployment", nil, "Deployments of the operator")
	cmd.Flags().StringVar(&o.Selector, "selector", "", "selector of the operator's pods")
	cmd.Flags().StringSliceVar(&o.Watched, "watch-namespaces", nil, "namespaces that the operator watched; empty: all")
	return cmd
}

// runUninstall refuses an empty selector: it would select every pod of the namespace, and wait for them for ever.
func runUninstall(ctx context.Context, o uninstall.Options) error {
	if o.Namespace == "" || o.Selector == "" {
		return errors.New("--namespace and --selector are needed: they say which pods are the operator's")
	}
	config, err := ctrl.GetConfig()
	if err != nil {
		return err
	}
	api, err := metadata.NewForConfig(config)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, uninstallTimeout)
	defer cancel()
	return uninstall.Run(ctx, api, o)
}
