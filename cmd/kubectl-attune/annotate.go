package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"attune.io/attune/internal/workload"
)

// annotation is what a verb writes on a workload, with the user's own rights: annotations are all that the
// plugin ever writes. The operator acts on them.
type annotation struct {
	// done says what was done, such as "paused".
	done string
	// of a workload: the annotations by name; a nil value takes one away.
	of func(context.Context, client.Client, workload.Workload) (map[string]*string, error)
}

// always writes one annotation, whatever the workload.
func always(key, value string) func(context.Context, client.Client, workload.Workload) (map[string]*string, error) {
	return func(context.Context, client.Client, workload.Workload) (map[string]*string, error) {
		return map[string]*string{key: &value}, nil
	}
}

// annotateReport is the answer of pause, resume and undo.
type annotateReport struct {
	Workloads []annotatedWorkload `json:"workloads"`
}

type annotatedWorkload struct {
	Namespace string `json:"namespace"`
	Kind      string `json:"kind"`
	Name      string `json:"name"`
	Done      string `json:"done"`
	// Changed is false where the workload was so already.
	Changed bool `json:"changed"`
}

// Human implements document.
func (r annotateReport) Human(w io.Writer, _ bool) error {
	for _, a := range r.Workloads {
		already := ""
		if !a.Changed {
			already = "already "
		}
		if _, err := fmt.Fprintf(w, "%s/%s in namespace %s is %s%s\n", a.Kind, a.Name, a.Namespace, already, a.Done); err != nil {
			return err
		}
	}
	return nil
}

// annotate writes the annotation on the workloads that the command line names or selects. What was done
// before an error is printed all the same.
func (e *environment) annotate(ctx context.Context, arguments []string, write annotation) error {
	c, err := e.cluster.Client()
	if err != nil {
		return err
	}
	targets, err := e.targets(ctx, c, arguments)
	if err != nil {
		return err
	}
	report := annotateReport{Workloads: []annotatedWorkload{}}
	for _, id := range targets {
		changed, annotateErr := write.on(ctx, c, id)
		if annotateErr != nil {
			err = annotateErr
			break
		}
		report.Workloads = append(report.Workloads, annotatedWorkload{
			Namespace: id.Namespace, Kind: string(id.Kind), Name: id.Name, Done: write.done, Changed: changed,
		})
	}
	return errors.Join(e.print(report), err)
}

// targets are the named workloads, or those that -l selects of the ones with a recommendation.
func (e *environment) targets(ctx context.Context, c client.Client, arguments []string) ([]workload.Identity, error) {
	switch named := len(arguments) > 0; {
	case named && e.scope.selector != "":
		return nil, errors.New("name the workloads or select them with -l, not both")
	case named:
		return e.parseWorkloads(arguments)
	case e.scope.selector == "":
		return nil, errors.New("which workload? write KIND/NAME, e.g. deployment/web, or select some with -l")
	}
	recs, err := e.selectRecommendations(ctx, c, nil)
	if err != nil {
		return nil, err
	}
	if len(recs) == 0 {
		return nil, fmt.Errorf("-l %s selects no workload that has a recommendation", e.scope.selector)
	}
	selected := make([]workload.Identity, len(recs))
	for i := range recs {
		selected[i] = workload.IdentityOf(&recs[i])
	}
	return selected, nil
}

// on writes the annotation on one workload and reports whether that changed it.
func (a annotation) on(ctx context.Context, c client.Client, id workload.Identity) (bool, error) {
	found, object, err := getWorkload(ctx, c, id)
	if err != nil {
		return false, err
	}
	if found.Part() {
		return false, fmt.Errorf("%s belongs to %s/%s, which is sized as a whole: name that one", id, found.OwnedBy.Kind, found.OwnedBy.Name)
	}
	wanted, err := a.of(ctx, c, found)
	if err != nil {
		return false, err
	}
	maps.DeleteFunc(wanted, func(key string, value *string) bool {
		old, set := found.Annotations[key]
		return set == (value != nil) && (!set || old == *value)
	})
	if len(wanted) == 0 {
		return false, nil
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": wanted}})
	if err != nil {
		return false, err
	}
	if err := c.Patch(ctx, object, client.RawPatch(types.MergePatchType, patch), client.FieldOwner("kubectl-attune")); err != nil {
		return false, fmt.Errorf("writing the annotation %s on %s: %w", strings.Join(slices.Sorted(maps.Keys(wanted)), " and "), id, err)
	}
	return true, nil
}
