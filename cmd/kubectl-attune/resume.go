package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/workload"
)

// newResume makes the verb resume, which undoes pause and undo.
// It needs the same rights as pause, and the right to get recommendations for a pause of the operator.
func newResume(env *environment) *cobra.Command {
	return &cobra.Command{
		Use:   "resume KIND/NAME... | -l SELECTOR",
		Short: "Take back a pause or an undo",
		Long: "Take back a pause or an undo: remove the annotations attune.io/paused and attune.io/undo from the\n" +
			"workload, with your own rights. Where the operator itself has paused it, because another writer\n" +
			"changes the same pods, attune.io/resumed ends that pause too.\n" +
			"A policy or defaults with spec.paused go on pausing it.",
		Example: "  kubectl attune resume deployment/web\n  kubectl attune resume -l tier=api",
		RunE: func(cmd *cobra.Command, args []string) error {
			return env.annotate(cmd.Context(), args, annotation{done: "resumed", of: env.resumption})
		},
	}
}

// resumption returns the annotations that end a pause: it removes those of pause and undo, and adds
// attune.io/resumed with the time where the operator has paused the workload by itself. A user who may not read
// recommendations gets a note, and the first part is done all the same.
func (e *environment) resumption(ctx context.Context, c client.Client, w workload.Workload) (map[string]*string, error) {
	// A nil value removes the annotation.
	wanted := map[string]*string{v1alpha1.PausedAnnotation: nil, v1alpha1.UndoAnnotation: nil}
	var rec v1alpha1.AttuneRecommendation
	err := c.Get(ctx, client.ObjectKey{Namespace: w.Namespace, Name: w.RecommendationName()}, &rec)
	switch {
	case apierrors.IsForbidden(err):
		e.note("a pause of the operator's own, if there is one, goes on: %v", err)
	case client.IgnoreNotFound(err) != nil:
		return nil, err
	case rec.Status.Paused != nil:
		wanted[v1alpha1.ResumedAnnotation] = new(e.now().UTC().Format(time.RFC3339))
	}
	return wanted, nil
}
