package main

import (
	"github.com/spf13/cobra"

	"attune.io/attune/api/v1alpha1"
)

func newResume(env *environment) *cobra.Command {
	return &cobra.Command{
		Use:   "resume KIND/NAME... | -l SELECTOR",
		Short: "Take back a pause",
		Long: "Take back a pause: remove the annotation attune.io/paused from the workload, with your own rights.\n" +
			"A policy or defaults with spec.paused go on pausing it.",
		Example: "  kubectl attune resume deployment/web\n  kubectl attune resume -l tier=api",
		RunE: func(cmd *cobra.Command, args []string) error {
			return env.annotate(cmd.Context(), args, annotation{key: v1alpha1.PausedAnnotation, done: "resumed"})
		},
	}
}
