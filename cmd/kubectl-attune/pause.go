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

// newPause returns the command pause. Pausing a paused workload changes nothing. It needs the right to patch the
// workloads. With -l it also needs the rights to list recommendations and workloads. The operator reads the annotation
// when it next reconciles the workload.
func newPause(env *environment) *cobra.Command {
	return &cobra.Command{
		Use:   "pause KIND/NAME... | -l SELECTOR | -A",
		Short: "Stop new resizes and seeds of a workload",
		Long: "Stop new resizes and seeds of a workload. Resizes that are being watched go on being watched,\n" +
			"and are reverted if they harm. Pods keep their present resources. Where an OOM kill or a crash\n" +
			"loop hits a container below its original resources, the operator restores them, unless autoRevert\n" +
			"is off. kubectl attune undo restores all pods now.\n\n" +
			"It writes the annotation attune.io/paused on the workload, with your own rights. spec.paused on an\n" +
			"AttunePolicy, AttuneNamespaceDefaults or AttuneDefaults pauses more at once.",
		Example:           "  kubectl attune pause deployment/web\n  kubectl attune pause -l tier=api",
		ValidArgsFunction: env.completesWorkloads(0),
		RunE: func(cmd *cobra.Command, args []string) error {
			return env.annotate(cmd.Context(), args, annotation{done: "paused", after: afterPause, of: always(v1alpha1.PausedAnnotation, "true")})
		},
	}
}

// afterPause says what a pause does not change.
const afterPause = "Pods keep their present resources. An OOM kill or a crash loop below the original resources restores them.\n" +
	"To restore all pods now: kubectl attune undo, with the same arguments."

// newResume returns the command resume, which reverses pause and undo. It needs the same rights as pause. To end a
// pause of the operator, it also needs the right to get recommendations.
func newResume(env *environment) *cobra.Command {
	return &cobra.Command{
		Use:   "resume KIND/NAME... | -l SELECTOR | -A",
		Short: "Take back a pause or an undo",
		Long: "Take back a pause or an undo: remove the annotations attune.io/paused and attune.io/undo from the\n" +
			"workload, with your own rights. Where the operator itself has paused it, because another writer\n" +
			"changes the same pods, attune.io/resumed ends that pause too.\n" +
			"A policy or defaults with spec.paused go on pausing it.",
		Example:           "  kubectl attune resume deployment/web\n  kubectl attune resume -l tier=api",
		ValidArgsFunction: env.completesWorkloads(0),
		RunE: func(cmd *cobra.Command, args []string) error {
			return env.annotate(cmd.Context(), args, annotation{done: "resumed", of: env.resumption})
		},
	}
}

// resumption returns the annotations that end a pause. It removes the annotations of pause and undo. If the operator
// has paused the workload itself, it adds attune.io/resumed with the time. A user that may not read recommendations
// gets a note and only the first part.
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

// newUndo returns the command undo. The annotation's value is the present time, so a second undo has another value and
// runs again. It needs the same rights as pause. The verb returns after the annotation is written; the operator
// resizes the pods later.
func newUndo(env *environment) *cobra.Command {
	return &cobra.Command{
		Use:   "undo KIND/NAME... | -l SELECTOR | -A",
		Short: "Put running pods back to their original resources",
		Long: "Put running pods back to their original resources, in place.\n\n" +
			"It writes the annotation attune.io/undo with the time on the workload, with your own rights; the\n" +
			"operator carries it out, once, in place. As long as the annotation is there, nothing new is done to\n" +
			"the workload and its new pods are as their template says; kubectl attune resume takes it away.",
		Example:           "  kubectl attune undo deployment/web\n  kubectl attune undo -A\n  kubectl attune resume deployment/web",
		ValidArgsFunction: env.completesWorkloads(0),
		RunE: func(cmd *cobra.Command, args []string) error {
			at := env.now().UTC().Format(time.RFC3339)
			return env.annotate(cmd.Context(), args, annotation{done: "being put back", of: always(v1alpha1.UndoAnnotation, at)})
		},
	}
}
