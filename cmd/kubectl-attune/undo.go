package main

import (
	"time"

	"github.com/spf13/cobra"

	"attune.io/attune/api/v1alpha1"
)

func newUndo(env *environment) *cobra.Command {
	return &cobra.Command{
		Use:   "undo KIND/NAME... | -l SELECTOR",
		Short: "Put running pods back to their original resources",
		Long: "Put running pods back to their original resources, in place.\n\n" +
			"It writes the annotation attune.io/undo with the time on the workload, with your own rights; the\n" +
			"operator carries it out. Pause the workload as well, or it will be sized again.",
		Example: "  kubectl attune pause deployment/web && kubectl attune undo deployment/web",
		RunE: func(cmd *cobra.Command, args []string) error {
			at := env.now().UTC().Format(time.RFC3339)
			return env.annotate(cmd.Context(), args, annotation{key: v1alpha1.UndoAnnotation, value: new(at), done: "being put back"})
		},
	}
}
