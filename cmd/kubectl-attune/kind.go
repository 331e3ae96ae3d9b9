package main

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/scaled"
	"attune.io/attune/internal/workload"
)

// kindOf returns a kind as its objects have it, for one that was written in lower case or as a resource, and what the
// client needs to read its objects. An error is one sentence about a kind that the API server does not serve.
func kindOf(c client.Client, kind v1alpha1.WorkloadKind) (v1alpha1.WorkloadKind, workload.Sized, error) {
	sized := workload.Sized{Rollouts: true}
	if !workload.IsScaled(kind) {
		return kind, sized, nil
	}
	found, err := findKind(c.RESTMapper(), workload.GroupKindOf(kind))
	if meta.IsNoMatchError(err) {
		// The error itself is of attune's own kinds elsewhere, and says there what to install.
		return kind, sized, notServed{kind}
	}
	if err != nil {
		return kind, sized, fmt.Errorf("asking the API server for %s: %w", kind, err)
	}
	known, ok := workload.KindOf(found.GroupKind())
	if !ok {
		return kind, sized, fmt.Errorf("%s is no kind that attune sizes", kind)
	}
	if object, err := c.Scheme().New(found); err == nil {
		if _, added := object.(*scaled.Object); !added { // it has a Go type of its own, as a NetworkPolicy
			return kind, sized, fmt.Errorf("%s is no kind that attune sizes", kind)
		}
	}
	scaled.AddToScheme(c.Scheme(), found)
	sized.Scaled = []schema.GroupVersionKind{found}
	return known, sized, nil
}

// notServed says that the API server does not serve a kind.
type notServed struct{ Kind v1alpha1.WorkloadKind }

func (n notServed) Error() string {
	return fmt.Sprintf("the API server serves no %s: write KIND.GROUP of a kind that it serves", n.Kind)
}

func findKind(mapper meta.RESTMapper, kind schema.GroupKind) (schema.GroupVersionKind, error) {
	mapping, err := mapper.RESTMapping(kind)
	if err == nil {
		// A mapping by a name in lower case has the kind in lower case; that of its resource is right.
		return mapper.KindFor(mapping.Resource)
	}
	if !meta.IsNoMatchError(err) {
		return schema.GroupVersionKind{}, err
	}
	return mapper.KindFor(schema.GroupVersionResource{Group: kind.Group, Resource: strings.ToLower(kind.Kind)})
}
