package main

import (
	"time"

	"github.com/spf13/cobra"

	"attune.io/attune/api/v1alpha1"
)

// newUndo makes the verb undo. The annotation's value is the present time, so that a second undo is another value
// and is carried out again.
// It needs the same rights as pause. The verb returns when the annotation is written; the operator resizes the
// pods later.
func newUndo(env *environment) *cobra.Command {
	return &cobra.Command{
		Use:   "undo KIND/NAME... | -l SELECTOR",
		Short: "Put running pods back to their original resources",
		Long: "Put running pods back to their original resources, in place.\n\n" +
			"It writes the annotation attune.io/undo with the time on the workload, with your own rights; the\n" +
			"operator carries it out, once, in place. As long as the annotation is there, nothing new is done to\n" +
			"the workload and its new pods are as their template says; kubectl attune resume takes it away.",
		Example: "  kubectl attune undo deployment/web\n  kubectl attune resume deployment/web",
		RunE: func(cmd *cobra.Command, args []string) error {
			at := env.now().UTC().Format(time.RFC3339)
			return env.annotate(cmd.Context(), args, annotation{done: "being put back", of: always(v1alpha1.UndoAnnotation, at)})
		},
	}
}
