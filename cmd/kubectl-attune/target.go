package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/pflag"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/cmd/kubectl-attune/input"
	"attune.io/attune/internal/lookup"
	"attune.io/attune/internal/policy"
	"attune.io/attune/internal/workload"
)

// parseWorkloads parses the workloads on a command line. All of them are in the namespace of -n.
func (e *environment) parseWorkloads(arguments []string) ([]workload.Identity, error) {
	if e.scope.all {
		return nil, errors.New("workload names cannot be combined with -A: specify the namespace with -n")
	}
	namespace, err := e.namespace()
	if err != nil {
		return nil, err
	}
	named := make([]workload.Identity, 0, len(arguments))
	for _, argument := range arguments {
		id, err := input.ParseWorkload(argument, namespace)
		if err != nil {
			return nil, err
		}
		named = append(named, id)
	}
	return named, nil
}

// scope is the part of the cluster that -A and -l select.
type scope struct {
	// all is -A: every namespace.
	all bool
	// selector is -l as given; empty means not set.
	selector string
}

// addFlags adds -A and -l. -n belongs to the connection flags, as in kubectl.
func (s *scope) addFlags(flags *pflag.FlagSet) {
	flags.BoolVarP(&s.all, "all-namespaces", "A", false, "Use all namespaces")
	flags.StringVarP(&s.selector, "selector", "l", "", "Label selector, e.g. tier=api: for policies in status and backtest, for workloads in all other commands")
}

// reach is the part of the cluster that a verb reads, with the user's own rights. It belongs to one run.
type reach struct {
	client.Client
	// env receives notes about objects that cannot be read.
	env *environment
	// namespace is empty for all namespaces, as for the client.
	namespace string
	// selector is the selector of -l; nil if not set.
	selector labels.Selector
	// recs are the recommendations that the command line names or selects, once the verb has read them.
	recs []v1alpha1.AttuneRecommendation
	// known caches the settings by policy; nil if they cannot be known.
	known map[client.ObjectKey]*policy.Settings
}

// reach creates the client, and reads -n, -A and -l.
func (e *environment) reach() (r reach, err error) {
	r.env, r.known = e, map[client.ObjectKey]*policy.Settings{}
	if r.Client, err = e.cluster.Client(); err != nil {
		return r, err
	}
	if r.namespace, err = e.namespace(); err != nil {
		return r, err
	}
	r.selector, err = e.scope.labelSelector()
	return r, err
}

// namespace returns the namespace of -n; empty with -A, which means all namespaces to the client.
func (e *environment) namespace() (string, error) {
	if e.scope.all {
		return "", nil
	}
	return e.cluster.Namespace()
}

// labelSelector parses -l; nil if not set.
func (s scope) labelSelector() (labels.Selector, error) {
	if s.selector == "" {
		return nil, nil
	}
	selector, err := labels.Parse(s.selector)
	if err != nil {
		return nil, fmt.Errorf("-l %q is not a valid label selector (%w): write e.g. -l tier=api", s.selector, err)
	}
	return selector, nil
}

// within returns the list options for a namespace and a selector. It omits a nil selector, because the client would
// treat it as a selector that matches nothing.
func within(namespace string, selector labels.Selector) []client.ListOption {
	options := []client.ListOption{client.InNamespace(namespace)}
	if selector != nil {
		options = append(options, client.MatchingLabelsSelector{Selector: selector})
	}
	return options
}

// getWorkload reads one workload, and also returns its object for a patch. A missing workload is an error with
// advice.
func getWorkload(ctx context.Context, c client.Client, id workload.Identity) (workload.Workload, client.Object, error) {
	kind, sized, err := kindOf(c, id.Kind)
	if err != nil {
		return workload.Workload{}, nil, err
	}
	id.Kind = kind
	found, object, err := lookup.Workload(ctx, c, sized, id)
	if apierrors.IsNotFound(err) {
		return workload.Workload{}, nil, fmt.Errorf("%s does not exist in namespace %s: check the name, or choose the namespace with -n", id, id.Namespace)
	}
	return found, object, err
}

// listWorkloads lists the workloads of one kind by identity. An empty namespace means all namespaces, a nil selector
// any labels. The result includes parts of other workloads, such as a Deployment's ReplicaSets.
func listWorkloads(ctx context.Context, c client.Client, kind v1alpha1.WorkloadKind, namespace string, selector labels.Selector) (map[workload.Identity]workload.Workload, error) {
	kind, sized, err := kindOf(c, kind)
	if err != nil {
		return nil, err
	}
	list := sized.NewList(kind)
	if err := c.List(ctx, list, within(namespace, selector)...); err != nil {
		return nil, fmt.Errorf("listing workloads of kind %s: %w", kind, err)
	}
	objects, err := meta.ExtractList(list)
	if err != nil {
		return nil, err
	}
	found := map[workload.Identity]workload.Workload{}
	referred := false
	for _, object := range objects {
		// Every object of the list is a workload; ok guards against kinds that package workload does not know.
		if w, ok := workload.From(object); ok {
			referred = referred || w.TemplateOf != (workload.Identity{})
			// The newest Job of an identity stands for all of them.
			if id := w.RecommendedAs(); id == w.Identity {
				found[id] = w
			} else if !found[id].Created.After(w.Created) {
				found[id] = w.AsShared()
			}
		}
	}
	if !referred {
		return found, nil
	}
	// Some workloads take their templates from Deployments.
	deployments, err := listWorkloads(ctx, c, v1alpha1.KindDeployment, namespace, nil)
	for id, w := range found {
		if of, known := deployments[w.TemplateOf]; known {
			found[id] = w.With(of)
		}
	}
	return found, err
}

// kindOf returns the canonical form of a kind that was written in lower case or as a resource, and what the client
// needs to read its objects. It returns an error with one sentence if the API server does not serve the kind.
func kindOf(c client.Client, kind v1alpha1.WorkloadKind) (v1alpha1.WorkloadKind, workload.Sized, error) {
	sized := workload.Sized{Rollouts: true}
	if !workload.IsScaled(kind) {
		return kind, sized, nil
	}
	found, err := findKind(c.RESTMapper(), workload.GroupKindOf(kind))
	if meta.IsNoMatchError(err) {
		// Replace the error, because plain would take it for missing kinds of attune and advise to install them.
		return kind, sized, notServed{kind}
	}
	if err != nil {
		return kind, sized, fmt.Errorf("looking up the kind %s: %w", kind, err)
	}
	known, ok := workload.KindOf(found.GroupKind())
	if !ok {
		return kind, sized, fmt.Errorf("%s is not a kind that attune manages", kind)
	}
	if object, err := c.Scheme().New(found); err == nil {
		if _, added := object.(*workload.ScaledObject); !added { // it has its own Go type, for example NetworkPolicy
			return kind, sized, fmt.Errorf("%s is not a kind that attune manages", kind)
		}
	}
	workload.AddScaledToScheme(c.Scheme(), found)
	sized.Scaled = []schema.GroupVersionKind{found}
	return known, sized, nil
}

// notServed is the error for a kind that the API server does not serve.
type notServed struct{ Kind v1alpha1.WorkloadKind }

func (n notServed) Error() string {
	return fmt.Sprintf("the API server does not have the kind %s: write KIND.GROUP of an existing kind, e.g. cloneset.apps.kruise.io", n.Kind)
}

func findKind(mapper meta.RESTMapper, kind schema.GroupKind) (schema.GroupVersionKind, error) {
	mapping, err := mapper.RESTMapping(kind)
	if err == nil {
		// For a lower-case name, the mapping has the kind in lower case. Its resource gives the right spelling.
		return mapper.KindFor(mapping.Resource)
	}
	if !meta.IsNoMatchError(err) {
		return schema.GroupVersionKind{}, err
	}
	return mapper.KindFor(schema.GroupVersionResource{Group: kind.Group, Resource: strings.ToLower(kind.Kind)})
}
