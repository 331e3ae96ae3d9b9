package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"attune.io/attune/internal/workload"
)

// annotation is what a verb writes on a workload, with the user's own rights. The plugin writes nothing else; the
// operator acts on the annotations.
type annotation struct {
	// done is the word for the result in the answer, such as "paused".
	done string
	// after is a sentence below the answer that says what the verb does not do; empty: none.
	after string
	// of returns the annotations for a workload, by name; a nil value removes one.
	of func(context.Context, client.Client, workload.Workload) (map[string]*string, error)
}

// always returns an annotation.of that writes one annotation on every workload.
func always(key, value string) func(context.Context, client.Client, workload.Workload) (map[string]*string, error) {
	return func(context.Context, client.Client, workload.Workload) (map[string]*string, error) {
		return map[string]*string{key: &value}, nil
	}
}

// annotateReport is the answer of pause, resume and undo.
// Its JSON, with -o json:
//
//	{"workloads": [{
//	  "namespace": "shop", "kind": "Deployment", "name": "web",
//	  "done": "paused", "changed": true
//	}]}
type annotateReport struct {
	// Workloads that were annotated, in order; never nil.
	Workloads []annotatedWorkload `json:"workloads"`
	// after is annotation.after.
	after string
}

// annotatedWorkload is one workload of the answer.
type annotatedWorkload struct {
	// Namespace, Kind and Name identify it.
	Namespace string `json:"namespace"`
	// Kind is such as Deployment.
	Kind string `json:"kind"`
	// Name of the workload.
	Name string `json:"name"`
	// Done is paused, resumed or being put back.
	Done string `json:"done"`
	// Changed is false where the workload had the annotations already.
	Changed bool `json:"changed"`
}

// Human implements document.
// It writes one sentence for each workload, with "already" where nothing was changed.
func (r annotateReport) Human(bool) (string, error) {
	var text strings.Builder
	for _, a := range r.Workloads {
		already := ""
		if !a.Changed {
			already = "already "
		}
		fmt.Fprintf(&text, "%s/%s in namespace %s is %s%s\n", a.Kind, a.Name, a.Namespace, already, a.Done)
	}
	if r.after != "" && len(r.Workloads) > 0 {
		text.WriteString(r.after + "\n")
	}
	return text.String(), nil
}

// annotate writes the annotations on the workloads that the command line names or selects. It stops at the first
// error, and prints what was done before.
func (e *environment) annotate(ctx context.Context, arguments []string, write annotation) error {
	r, targets, err := e.targets(ctx, arguments)
	if err != nil {
		return err
	}
	report := annotateReport{Workloads: []annotatedWorkload{}, after: write.after}
	for _, id := range targets {
		changed, annotateErr := write.on(ctx, r, id)
		// The first error ends the loop. The workloads after it are not touched, and are missing in the answer.
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

// targets returns the named workloads, or those with a recommendation that -l selects, or with -A alone all of them.
// None of the three is an error: a verb that writes must not act on all workloads by omission.
func (e *environment) targets(ctx context.Context, arguments []string) (r reach, selected []workload.Identity, err error) {
	switch named := len(arguments) > 0; {
	case named && e.scope.selector != "":
		return r, nil, errors.New("name the workloads or select them with -l, not both")
	case named:
		if r, err = e.reach(); err == nil {
			selected, err = e.parseWorkloads(arguments)
		}
		return r, selected, err
	case e.scope.selector == "" && !e.scope.all:
		return r, nil, errors.New("which workload? write KIND/NAME, e.g. deployment/web, select some with -l, or all with -A")
	}
	if r, err = e.recommendations(ctx, nil); err == nil && e.scope.selector == "" { // a recommendation outlives its workload by a week
		err = r.keepExisting(ctx)
	}
	// A selector that matches nothing is an error here, since nothing was written.
	if err == nil && len(r.recs) == 0 {
		err = fmt.Errorf("%s selects no workload that has a recommendation", cmp.Or(strings.TrimSuffix("-l "+e.scope.selector, "-l "), "-A"))
	}
	for i := range r.recs {
		selected = append(selected, workload.IdentityOf(&r.recs[i]))
	}
	return r, selected, err
}

// on writes the annotations on one workload, and returns whether that changed it. A workload that belongs to
// another one, such as a Deployment's ReplicaSet, is refused: the operator reads the annotations of the owner.
// The field manager of the patch is kubectl-attune, which shows in managedFields where an annotation came from.
func (a annotation) on(ctx context.Context, c client.Client, id workload.Identity) (bool, error) {
	found, object, err := getWorkload(ctx, c, id)
	if err != nil {
		return false, err
	}
	// An annotation on a part would be accepted by the API server and ignored by the operator.
	if found.Part() {
		return false, fmt.Errorf("%s belongs to %s/%s, which is sized as a whole: name that one", id, found.OwnedBy.Kind, found.OwnedBy.Name)
	}
	wanted, err := a.of(ctx, c, found)
	if err != nil {
		return false, err
	}
	// Only what differs is written: a patch without a change would still need the right, and would be in the audit
	// log.
	maps.DeleteFunc(wanted, func(key string, value *string) bool {
		old, set := found.Annotations[key]
		return set == (value != nil) && (!set || old == *value)
	})
	if len(wanted) == 0 {
		return false, nil
	}
	// A merge patch removes an annotation whose value is null. It touches no other field, so it cannot conflict.
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": wanted}})
	if err != nil {
		return false, err
	}
	if err := c.Patch(ctx, object, client.RawPatch(types.MergePatchType, patch), client.FieldOwner("kubectl-attune")); err != nil {
		return false, fmt.Errorf("writing the annotation %s on %s: %w", strings.Join(slices.Sorted(maps.Keys(wanted)), " and "), id, err)
	}
	return true, nil
}
