package main

import (
	"context"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"attune.io/attune/internal/explain"
)

// newDiff makes the verb diff. Its finding is any difference, so that a CI job can keep manifests up to date.
// It needs the same rights as recommendations.
func newDiff(env *environment) *cobra.Command {
	return &cobra.Command{
		Use:   "diff [KIND/NAME...]",
		Short: "Show where the templates' resources differ from what is recommended",
		Long: "Show where the templates' resources differ from what is recommended: what to write into the\n" +
			"manifests of workloads that are kept in Git.\n\n" +
			"A finding (exit code 2) is any difference. What is held is none, nor is a change that is too small\n" +
			"to be made: recommendations shows both.",
		Example: "  kubectl attune diff -n shop\n  kubectl attune diff deployment/web -o json",
		RunE:    func(cmd *cobra.Command, args []string) error { return runDiff(cmd.Context(), env, args) },
	}
}

// runDiff prints the differences of the selected workloads. A workload without a readable template is left out
// with a note.
func runDiff(ctx context.Context, env *environment, args []string) error {
	all, err := env.explainSelected(ctx, args)
	if err != nil {
		return err
	}
	answer := diffReport{Differences: []difference{}}
	for _, one := range all {
		// Without the template everything would differ, which would be a false finding.
		if one.workload.Template == nil {
			w := one.answer.Workload
			env.note("%s/%s in namespace %s is left out: its template is not there", w.Kind, w.Name, w.Namespace)
			continue
		}
		answer.add(one.answer)
	}
	if err := env.print(answer); err != nil {
		return err
	}
	if len(answer.Differences) > 0 {
		return errFinding
	}
	return nil
}

// diffReport is the answer of diff.
// Its JSON, with -o json:
//
//	{"differences": [{
//	  "namespace": "shop", "kind": "Deployment", "workload": "web",
//	  "container": "app", "field": "requests.cpu",
//	  "current": "500m", "target": "200m"
//	}]}
type diffReport struct {
	// Differences by workload, container and field; never nil.
	Differences []difference `json:"differences"`
}

// difference is one value of a template for which another one is recommended.
type difference struct {
	// Namespace, Kind and Workload identify the workload.
	Namespace string `json:"namespace"`
	// Kind is such as Deployment.
	Kind string `json:"kind"`
	// Workload is its name.
	Workload string `json:"workload"`
	// Container is its name in the pod template.
	Container string `json:"container"`
	// Field is the path under the container's resources, such as requests.cpu.
	Field string `json:"field"`
	// Current is the template's value; null where it sets none.
	Current *string `json:"current"`
	// Target is the recommended value.
	Target string `json:"target"`
}

// add appends the differences of one workload.
func (r *diffReport) add(explained explain.Explanation) {
	for _, container := range explained.Containers {
		for _, field := range container.Differences() {
			r.Differences = append(r.Differences, difference{
				Namespace: explained.Workload.Namespace,
				Kind:      explained.Workload.Kind,
				Workload:  explained.Workload.Name,
				Container: container.Name,
				Field:     field.Name,
				Current:   field.Current,
				Target:    *field.Target,
			})
		}
	}
}

// Human implements document.
// It writes lines in the style of diff -u: one heading for each container, a minus line for the template's value
// where there is one, and a plus line for the target. -o wide changes nothing.
func (r diffReport) Human(w io.Writer, _ bool) error {
	var shown difference
	for _, d := range r.Differences {
		if !slices.Equal(d.container(), shown.container()) {
			fmt.Fprintf(w, "--- %s/%s in namespace %s, container %s: template\n+++ recommended\n", d.Kind, d.Workload, d.Namespace, d.Container)
			shown = d
		}
		if d.Current != nil {
			fmt.Fprintf(w, "-resources.%s: %s\n", d.Field, *d.Current)
		}
		if _, err := fmt.Fprintf(w, "+resources.%s: %s\n", d.Field, d.Target); err != nil {
			return err
		}
	}
	return nil
}

// container identifies the container that a difference belongs to. Human writes one heading for each.
func (d difference) container() []string {
	return []string{d.Namespace, d.Kind, d.Workload, d.Container}
}
