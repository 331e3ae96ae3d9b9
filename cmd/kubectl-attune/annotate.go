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

// annotation is a change of annotations on a workload, with the user's own rights. The plugin writes nothing but
// annotations; the operator acts on them.
type annotation struct {
	// done is the result in the answer, such as "paused".
	done string
	// after is a sentence below the answer that says what the verb does not change; empty: none.
	after string
	// of returns the annotations for a workload by name; a nil value removes one.
	of func(context.Context, client.Client, workload.Workload) (map[string]*string, error)
}

// always returns an annotation.of that sets the same annotation on every workload.
func always(key, value string) func(context.Context, client.Client, workload.Workload) (map[string]*string, error) {
	return func(context.Context, client.Client, workload.Workload) (map[string]*string, error) {
		return map[string]*string{key: &value}, nil
	}
}

// annotateReport is the answer of pause, resume and undo. Its JSON, with -o json:
//
//	{"workloads": [{
//	  "namespace": "shop", "kind": "Deployment", "name": "web",
//	  "done": "paused", "changed": true
//	}]}
type annotateReport struct {
	// Workloads are the annotated workloads, in order; never nil.
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
	// Done is paused, resumed or being restored.
	Done string `json:"done"`
	// Changed is false if the workload had the annotations already.
	Changed bool `json:"changed"`
}

// Human implements document. It writes one sentence for each workload, with "already" if nothing was changed.
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
// error, and prints the results up to that point.
func (e *environment) annotate(ctx context.Context, arguments []string, write annotation) error {
	r, targets, err := e.targets(ctx, arguments)
	if err != nil {
		return err
	}
	report := annotateReport{Workloads: []annotatedWorkload{}, after: write.after}
	for _, id := range targets {
		changed, annotateErr := write.on(ctx, r, id)
		// The answer omits the workloads after the first error, because they are not changed.
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

// targets returns the named workloads, or the workloads with a recommendation that -l or only -A selects. Without any
// of the three it returns an error: a verb that writes must not act on all workloads by default.
func (e *environment) targets(ctx context.Context, arguments []string) (r reach, selected []workload.Identity, err error) {
	switch named := len(arguments) > 0; {
	case named && e.scope.selector != "":
		return r, nil, errors.New("workload names cannot be combined with -l: specify one of them")
	case named:
		if r, err = e.reach(); err == nil {
			selected, err = e.parseWorkloads(arguments)
		}
		return r, selected, err
	case e.scope.selector == "" && !e.scope.all:
		return r, nil, errors.New("no workload specified: write KIND/NAME, e.g. deployment/web, or use -l to select some, or -A for all")
	}
	if r, err = e.recommendations(ctx, nil); err == nil && e.scope.selector == "" { // a recommendation outlives its workload by a week
		err = r.keepExisting(ctx)
	}
	// A selector without a match is an error here, because nothing was written.
	if err == nil && len(r.recs) == 0 {
		err = fmt.Errorf("%s selects no workload with a recommendation", cmp.Or(strings.TrimSuffix("-l "+e.scope.selector, "-l "), "-A"))
	}
	for i := range r.recs {
		selected = append(selected, workload.IdentityOf(&r.recs[i]))
	}
	return r, selected, err
}

// fieldManager shows in managedFields that the plugin wrote an annotation. It must not begin with "kubectl": Flux's
// kustomize-controller takes the fields of such managers over, and then removes them.
const fieldManager = "attune-cli"

// on writes the annotations on one workload and reports whether that changed it. It rejects a workload that belongs to
// another one, such as a Deployment's ReplicaSet, because the operator reads the annotations of the owner.
func (a annotation) on(ctx context.Context, c client.Client, id workload.Identity) (bool, error) {
	found, object, err := getWorkload(ctx, c, id)
	if err != nil {
		return false, err
	}
	// The API server would accept an annotation on a part, but the operator would ignore it.
	if found.Part() {
		return false, fmt.Errorf("%s belongs to %s/%s, which attune manages as a whole: specify that one", id, found.OwnedBy.Kind, found.OwnedBy.Name)
	}
	wanted, err := a.of(ctx, c, found)
	if err != nil {
		return false, err
	}
	// Write only the differences: a patch without a change would still need the right, and appear in the audit log.
	maps.DeleteFunc(wanted, func(key string, value *string) bool {
		old, set := found.Annotations[key]
		return set == (value != nil) && (!set || old == *value)
	})
	if len(wanted) == 0 {
		return false, nil
	}
	// A merge patch removes an annotation whose value is null. It changes no other field, so it cannot conflict.
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": wanted}})
	if err != nil {
		return false, err
	}
	if err := c.Patch(ctx, object, client.RawPatch(types.MergePatchType, patch), client.FieldOwner(fieldManager)); err != nil {
		return false, fmt.Errorf("writing the annotation %s on %s: %w", strings.Join(slices.Sorted(maps.Keys(wanted)), " and "), id, err)
	}
	return true, nil
}
