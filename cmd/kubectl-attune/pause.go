package main

import (
	"github.com/spf13/cobra"

	"attune.io/attune/api/v1alpha1"
)

// newPause makes the verb pause. To pause a paused workload changes nothing.
// It needs the right to patch the workloads. With -l it also needs the right to list recommendations and
// workloads.
// Only the value "true" is written; the operator reads the annotation at its next pass over the workload.
func newPause(env *environment) *cobra.Command {
	return &cobra.Command{
		Use:   "pause KIND/NAME... | -l SELECTOR",
		Short: "Stop new resizes and seeds of a workload",
		Long: "Stop new resizes and seeds of a workload. Resizes that are being watched go on being watched,\n" +
			"and are reverted if they harm.\n\n" +
			"It writes the annotation attune.io/paused on the workload, with your own rights. spec.paused on an\n" +
			"AttunePolicy, AttuneNamespaceDefaults or AttuneDefaults pauses more at once.",
		Example: "  kubectl attune pause deployment/web\n  kubectl attune pause -l tier=api",
		RunE: func(cmd *cobra.Command, args []string) error {
			return env.annotate(cmd.Context(), args, annotation{done: "paused", of: always(v1alpha1.PausedAnnotation, "true")})
		},
	}
}
