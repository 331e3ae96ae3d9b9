package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/utils/clock"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/loop"
	"attune.io/attune/internal/workload"
)

// mostScaled limits the kinds of --scaled-kinds, because each needs a cache.
const mostScaled = 16

// scaledKinds are the resources of --scaled-kinds.
type scaledKinds []schema.GroupVersionResource

// parseScaled parses RESOURCE.VERSION.GROUP, the full form of a resource in kubectl. An error is one sentence about
// the flag.
func parseScaled(flags []string) (scaledKinds, error) {
	if len(flags) > mostScaled {
		return nil, fmt.Errorf("--scaled-kinds has %d resources: use at most %d", len(flags), mostScaled)
	}
	var all scaledKinds
	for _, text := range flags {
		resource, _ := schema.ParseResourceArg(text)
		switch {
		case resource == nil || resource.Resource == "" || resource.Version == "" || !strings.Contains(resource.Group, "."):
			return nil, fmt.Errorf("--scaled-kinds %q is not RESOURCE.VERSION.GROUP, such as clonesets.v1alpha1.apps.kruise.io", text)
		case resource.Group == workload.ArgoGroupVersion.Group && resource.Resource == workload.ArgoResource:
			return nil, fmt.Errorf("--scaled-kinds %q is not needed: attune manages Argo Rollouts already (targetRef.kind: Rollout); remove it", text)
		}
		all = append(all, *resource)
	}
	return all, nil
}

// kinds are the kinds of workloads that a process watches.
type kinds struct {
	workload.Sized
	// resources has the resource of each kind in Sized.Scaled.
	resources []schema.GroupResource
}

// askKinds asks the API server which kinds of workloads the program can watch. It returns an error if the API server
// does not answer.
func (o *Options) askKinds(ctx context.Context, api connection) (kinds, error) {
	var found kinds
	var err error
	if found.Rollouts, err = o.program.watchesRollouts(ctx, api, o.process.watched); err != nil || !o.program.controls {
		return found, err
	}
	wanted, err := parseScaled(o.loops.scaled)
	if err != nil {
		return found, err
	}
	return found, found.add(ctx, wanted, asked{api.served, api.mayWatchEverywhere(o.process.watched), listKind(api.served, o.process.watched)})
}

// asked has the checks for a kind of --scaled-kinds.
type asked struct {
	served loop.Served
	// may reports whether the operator may list and watch a resource.
	may func(context.Context, schema.GroupResource) (bool, error)
	// list returns the kind of a resource's list objects.
	list func(context.Context, schema.GroupVersionResource) (string, error)
}

// add looks up the kinds of the resources. Kinds that cannot be sized go to Left, with a reason.
func (k *kinds) add(ctx context.Context, resources scaledKinds, api asked) error {
	for _, of := range resources {
		kind, why, err := api.kindOf(ctx, of)
		if err != nil {
			return err
		}
		if why == "" {
			why = k.confused(kind.GroupKind())
		}
		if why != "" {
			named := of.Resource + "." + of.Version + "." + of.Group
			k.Left = append(k.Left, workload.Left{Resource: named, Group: of.Group, Why: why})
			continue
		}
		k.Scaled, k.resources = append(k.Scaled, kind), append(k.resources, of.GroupResource())
	}
	return nil
}

// kindOf returns the kind of a resource, or the reason why it cannot be sized. It returns an error if the API server
// does not answer.
func (a asked) kindOf(ctx context.Context, of schema.GroupVersionResource) (kind schema.GroupVersionKind, why string, err error) {
	list, err := a.served.ServerResourcesForGroupVersion(of.GroupVersion().String())
	switch {
	case apierrors.IsNotFound(err):
		return kind, "the API server does not serve it", nil
	case errors.As(err, new(apierrors.APIStatus)):
		// The answer about one group, for example an unavailable aggregated API, must not affect other kinds.
		return kind, fmt.Sprintf("the server of its API group does not answer: %.200s", err), nil
	case err != nil:
		return kind, "", fmt.Errorf("asking the API server for %s: %w", of, err)
	}
	at := func(name string) int {
		return slices.IndexFunc(list.APIResources, func(r metav1.APIResource) bool { return r.Name == name })
	}
	i := at(of.Resource)
	if i < 0 {
		return kind, "the API server does not serve it", nil
	}
	kind = of.GroupVersion().WithKind(list.APIResources[i].Kind)
	if _, ok := workload.KindOf(kind.GroupKind()); !ok {
		return kind, fmt.Sprintf("its kind %s has more than 63 characters, or characters that a kind cannot have", kind.GroupKind()), nil
	}
	if !list.APIResources[i].Namespaced {
		return kind, "its objects are not namespaced", nil
	}
	if at(of.Resource+"/scale") < 0 {
		return kind, "it has no subresource /scale, so its objects may not be workloads", nil
	}
	if ok, err := a.may(ctx, of.GroupResource()); err != nil || !ok {
		return kind, "the operator may not list and watch it: upgrade the release with the value scaledKinds", err
	}
	// A resource that cannot be listed, or with lists of another kind, would never sync its cache and end the
	// process.
	switch lists, err := a.list(ctx, of); {
	case err != nil:
		return kind, fmt.Sprintf("it cannot be listed: %.200s", err), nil
	case lists != kind.Kind+"List":
		return kind, fmt.Sprintf("its list has the kind %.63s, not %sList", lists, kind.Kind), nil
	}
	return kind, "", nil
}

// confused returns why a kind conflicts with an earlier one: their recommendations would have the same names, or it
// has the name of the other's list kind. It returns an empty text if there is no conflict.
func (k *kinds) confused(kind schema.GroupKind) string {
	name := func(of schema.GroupKind) string {
		return workload.RecommendationName(v1alpha1.WorkloadKind(of.String()), "")
	}
	for _, other := range k.Scaled {
		if kind.Group == other.Group && (kind.Kind == other.Kind+"List" || other.Kind == kind.Kind+"List") {
			return fmt.Sprintf("%s and %s are a kind and its list", kind, other.GroupKind())
		}
		one, two := name(kind), name(other.GroupKind())
		if strings.HasPrefix(one, two) || strings.HasPrefix(two, one) {
			return fmt.Sprintf("recommendations of %s and of %s could have the same names", kind, other.GroupKind())
		}
	}
	return ""
}

// mostListed is the limit of the test list of a kind. If the conversion of one object fails, the whole list fails.
const mostListed = "500"

// listKind returns a function that lists objects and returns the kind of the list. With watched namespaces, it uses
// the first one where listing is not forbidden.
func listKind(client discovery.DiscoveryInterface, watched namespaces) func(context.Context, schema.GroupVersionResource) (string, error) {
	return func(ctx context.Context, of schema.GroupVersionResource) (string, error) {
		paths := [][]string{{"/apis", of.Group, of.Version, of.Resource}}
		if len(watched) > 0 {
			paths = nil
		}
		for _, namespace := range watched {
			paths = append(paths, []string{"/apis", of.Group, of.Version, "namespaces", namespace, of.Resource})
		}
		var failed error
		for _, path := range paths {
			var list metav1.TypeMeta
			text, err := client.RESTClient().Get().AbsPath(path...).Param("limit", mostListed).Do(ctx).Raw()
			if err == nil {
				err = json.Unmarshal(text, &list)
			}
			if err == nil {
				return list.Kind, nil
			}
			failed = err
			if !apierrors.IsForbidden(err) {
				break
			}
		}
		return "", failed
	}
}

// errScaled ends a process that started without a kind of --scaled-kinds.
var errScaled = errors.New("a kind of --scaled-kinds can be managed now: the operator restarts to watch it")

// noScaled waits until a kind of --scaled-kinds that could not be sized at the start can be sized.
func noScaled(c Config) unserved {
	said := "Kinds of --scaled-kinds are not managed"
	for _, left := range c.kinds.Left {
		said += "; " + left.Resource + ": " + left.Why
	}
	return unserved{
		said: said,
		ask: func(ctx context.Context) (bool, error) {
			now, err := c.askKinds(ctx, c.api)
			return err == nil && slices.ContainsFunc(now.Scaled, func(k schema.GroupVersionKind) bool { return !slices.Contains(c.kinds.Scaled, k) }), err
		},
		every: 5 * time.Minute, served: errScaled, clock: clock.RealClock{},
	}
}
