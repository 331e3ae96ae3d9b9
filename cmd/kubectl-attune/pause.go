package main

import (
	"context"
	"fmt"
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
		Short: "Pause new resizes and admission sizing of workloads",
		Long: "Pause new resizes and admission sizing of workloads: new pods keep the resources of their template.\n" +
			"attune continues to observe started resizes, and reverts regressions. Pods keep their current\n" +
			"resources. After an OOM kill or a crash loop of a container below its original resources, the operator\n" +
			"restores them, unless autoRevert is false. To restore all pods now, use kubectl attune undo.\n\n" +
			"It writes the annotation attune.io/paused on the workload, with your own permissions. To pause more at\n" +
			"once, set spec.paused on an AttunePolicy, AttuneNamespaceDefaults or AttuneDefaults.",
		Example:           "  kubectl attune pause deployment/web\n  kubectl attune pause -l tier=api",
		ValidArgsFunction: env.completesWorkloads(0),
		RunE: func(cmd *cobra.Command, args []string) error {
			return env.annotate(cmd.Context(), args, annotation{done: "paused", after: afterPause, of: always(v1alpha1.PausedAnnotation, "true")})
		},
	}
}

// afterPause says what a pause does not change.
const afterPause = "Pods keep their current resources. After an OOM kill or a crash loop below the original resources, attune restores them.\n" +
	"To restore all pods now, run kubectl attune undo with the same arguments."

// newResume returns the command resume, which reverses pause and undo. It needs the same rights as pause. To end a
// pause of the operator, it also needs the right to get recommendations.
func newResume(env *environment) *cobra.Command {
	return &cobra.Command{
		Use:   "resume KIND/NAME... | -l SELECTOR | -A",
		Short: "End a pause or an undo of workloads",
		Long: "End a pause or an undo of workloads: remove the annotations attune.io/paused and attune.io/undo, with\n" +
			"your own permissions. If the operator itself paused a workload, for example because another writer\n" +
			"changes its pods, the annotation attune.io/resumed also ends that pause.\n" +
			"A workload remains paused by spec.paused of its policy or of the defaults.",
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
		e.printNote("a pause by the operator itself, if any, does not end: %v", err)
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
		Short: "Restore the original resources of running pods",
		Long: "Restore the original resources of running pods, in place.\n\n" +
			"It writes the annotation attune.io/undo with the time on the workload, with your own permissions. The\n" +
			"operator then restores each pod once. While the annotation exists, attune does not resize the workload,\n" +
			"and new pods keep the resources of their template. kubectl attune resume removes the annotation.",
		Example:           "  kubectl attune undo deployment/web\n  kubectl attune undo -A\n  kubectl attune resume deployment/web",
		ValidArgsFunction: env.completesWorkloads(0),
		RunE: func(cmd *cobra.Command, args []string) error {
			at := env.now().UTC().Format(time.RFC3339)
			return env.annotate(cmd.Context(), args, annotation{done: "being restored", of: restoration(at)})
		},
	}
}

// restoration returns the annotation of an undo at a time. Without a recommendation attune has sized no pod of the
// workload, and an undo would only keep attune away from it: that is what pause is for. A user that may not read
// recommendations gets the annotation.
func restoration(at string) func(context.Context, client.Client, workload.Workload) (map[string]*string, error) {
	return func(ctx context.Context, c client.Client, w workload.Workload) (map[string]*string, error) {
		err := c.Get(ctx, client.ObjectKey{Namespace: w.Namespace, Name: w.RecommendationName()}, &v1alpha1.AttuneRecommendation{})
		if apierrors.IsNotFound(err) {
			return nil, fmt.Errorf("nothing to undo: %s in namespace %s has no recommendation, so attune has sized none of its pods. To keep attune away, use kubectl attune pause", w.Identity, w.Namespace)
		}
		if err != nil && !apierrors.IsForbidden(err) {
			return nil, err
		}
		return map[string]*string{v1alpha1.UndoAnnotation: &at}, nil
	}
}
