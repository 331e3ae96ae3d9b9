// Package uninstall removes the operator's finalizers, which otherwise only a running operator removes. Without it, the
// custom resources of an uninstalled operator and their namespaces could never be deleted.
//
// Run is for after the deletion of the operator and its rights. It first names the workloads whose pods may have less than
// their original resources: without the operator nothing restores them (before an uninstallation, kubectl attune undo
// does). It restores targets of HPAs that the operator changed (targets.go). Where an object has a finalizer, it then waits
// for the end of the operator's pods and removes the finalizers from all policies and recommendations, page by page. It lists
// metadata only, deletes nothing and changes no pod. Start reading at Run.
package uninstall

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"attune.io/attune/api/v1alpha1"
)

const (
	// perPage limits one response of the API server: the metadata alone may be as large as an object (1.5 MiB), and the
	// Job has little memory.
	perPage = 10
	// passes is how often all objects are listed: an object may change between the list and the patch.
	passes = 5
	// poll is the interval at which gone checks whether the operator's pods have ended.
	poll = time.Second
)

var (
	accounts        = schema.GroupVersionResource{Version: "v1", Resource: "serviceaccounts"}
	pods            = schema.GroupVersionResource{Version: "v1", Resource: "pods"}
	recommendations = v1alpha1.GroupVersion.WithResource("attunerecommendations")
	clusterPolicies = v1alpha1.GroupVersion.WithResource("attuneclusterpolicies")

	// finalized maps each custom resource to the finalizer that the operator puts on it.
	finalized = map[schema.GroupVersionResource]string{
		v1alpha1.GroupVersion.WithResource("attunepolicies"): v1alpha1.CleanupFinalizer,
		clusterPolicies: v1alpha1.CleanupFinalizer,
		recommendations: v1alpha1.RecordsFinalizer,
	}
)

// Options describe the installation to remove.
type Options struct {
	// Namespace of the operator.
	Namespace string
	// Selector selects the operator's pods; a label selector in the syntax of kubectl -l.
	Selector string
	// ServiceAccount of the operator. While it exists, Run changes nothing. Empty: not checked.
	ServiceAccount string
	// Watched are the namespaces whose objects have finalizers; empty for all namespaces.
	Watched []string
	// Retargeted: the operator had the right to change targets of HPAs, which Run restores through Objects.
	Retargeted bool
	Objects    dynamic.Interface
	// Patience limits the wait for the operator's pods.
	Patience time.Duration
	// Out receives one line for each resource.
	Out io.Writer
}

// Run removes the finalizers of an operator that has no rights any more. It may be repeated after a failure: it skips
// completed work. Pods with an in-flight resize keep their current size.
//
// Run waits for the operator's pods no longer than Patience: a pod whose node is lost may never end, and without rights it
// cannot add a finalizer again.
func Run(ctx context.Context, api metadata.Interface, o Options) error {
	if err := uninstalled(ctx, api, o); err != nil {
		return err
	}
	namespaces := o.Watched
	if len(namespaces) == 0 {
		namespaces = []string{metav1.NamespaceAll}
	}
	nameWorkloads(ctx, api, namespaces, o.Out)
	restored := restoreTargets(ctx, api, namespaces, o)
	resources := maps.Clone(finalized)
	if len(o.Watched) > 0 {
		delete(resources, clusterPolicies) // with watched namespaces the operator uses no cluster policies
	}
	switch found, err := anyFinalizer(ctx, api, resources, namespaces); {
	case err != nil:
		return errors.Join(restored, fmt.Errorf("listing objects with a finalizer: %w", err))
	case !found:
		_, _ = fmt.Fprintln(o.Out, "No policy and no recommendation has a finalizer of attune.")
		return restored
	}
	if err := gone(ctx, api, o); err != nil {
		_, _ = fmt.Fprintf(o.Out, "Pods of the operator still terminate, without its rights: %v\n", err)
	}
	// The kinds are independent of each other, so their order does not matter.
	failed := []error{restored}
	for resource, finalizer := range resources {
		n, err := takeOffIn(ctx, api, resource, finalizer, namespaces)
		if err != nil {
			failed = append(failed, fmt.Errorf("removing the finalizer %s from %s: %w", finalizer, resource.Resource, err))
		}
		_, _ = fmt.Fprintf(o.Out, "%s: removed the finalizer %s from %d\n", resource.Resource, finalizer, n)
	}
	return errors.Join(failed...)
}

// uninstalled returns an error if the operator's account exists: Helm deletes it before its post-delete hooks, but other
// tools apply the rendered Job beside a running operator.
func uninstalled(ctx context.Context, api metadata.Interface, o Options) error {
	if o.ServiceAccount == "" {
		return nil
	}
	account, err := api.Resource(accounts).Namespace(o.Namespace).Get(ctx, o.ServiceAccount, metav1.GetOptions{})
	if err != nil || account.DeletionTimestamp != nil {
		return client.IgnoreNotFound(err)
	}
	return fmt.Errorf("attune is still installed: the ServiceAccount %s/%s exists. "+
		"The uninstall Job is a post-delete hook of Helm: leave it out where another tool applies the chart (uninstall.enabled: false)", o.Namespace, o.ServiceAccount)
}

// mostNamed limits how many workloads are named.
const mostNamed = 100

// nameWorkloads lists the workloads whose pods may be below their original resources: the workloads with a
// recommendation. It reads metadata only, so it does not know which pods were resized. An error
// ends the list of its namespace, not the uninstallation.
func nameWorkloads(ctx context.Context, api metadata.Interface, namespaces []string, out io.Writer) {
	var names []string
	for _, namespace := range namespaces {
		_ = pages(ctx, api.Resource(recommendations).Namespace(namespace), func(items []metav1.PartialObjectMetadata) (bool, error) {
			for i := range items {
				names = append(names, items[i].Namespace+"/"+items[i].Name)
			}
			return len(names) <= mostNamed, nil
		})
	}
	if len(names) == 0 {
		return
	}
	end := ""
	if len(names) > mostNamed {
		names, end = names[:mostNamed], " and more"
	}
	_, _ = fmt.Fprintf(out, "Pods keep their current resources. Without the operator nothing restores the original resources after an OOM kill.\n"+
		"Recommendations whose pods may have less than their original resources: %s%s.\n"+
		"To give these pods the resources of their template, restart the workload: kubectl rollout restart KIND/NAME. "+
		"Before the next uninstallation, run kubectl attune undo -A.\n", strings.Join(names, ", "), end)
}

// running selects pods whose processes may still run. A failed pod stays until it is deleted, and runs nothing.
const running = "status.phase!=Failed,status.phase!=Succeeded"

// anyFinalizer reports whether an object has a finalizer of attune. It stops at the first one.
func anyFinalizer(ctx context.Context, api metadata.Interface, resources map[schema.GroupVersionResource]string, namespaces []string) (bool, error) {
	for resource, finalizer := range resources {
		for _, namespace := range namespaces {
			found := false
			err := pages(ctx, api.Resource(resource).Namespace(namespace), func(items []metav1.PartialObjectMetadata) (more bool, err error) {
				found = slices.ContainsFunc(items, func(o metav1.PartialObjectMetadata) bool { return slices.Contains(o.Finalizers, finalizer) })
				return !found, nil
			})
			if found || err != nil {
				return found, err
			}
		}
	}
	return false, nil
}

// pages calls do with each page of a list, until it wants no more. A kind that does not exist has none.
func pages(ctx context.Context, listed metadata.ResourceInterface, do func([]metav1.PartialObjectMetadata) (more bool, err error)) error {
	options := metav1.ListOptions{Limit: perPage}
	for {
		page, err := listed.List(ctx, options)
		if apierrors.IsNotFound(err) {
			return nil // the CustomResourceDefinition does not exist any more
		}
		if err != nil {
			return err
		}
		more, err := do(page.Items)
		if options.Continue = page.Continue; err != nil || !more || page.Continue == "" {
			return err
		}
	}
}

// gone waits until no pod of the operator is running.
func gone(ctx context.Context, api metadata.Interface, o Options) error {
	ctx, cancel := context.WithTimeout(ctx, o.Patience)
	defer cancel()
	return wait.PollUntilContextCancel(ctx, poll, true, func(ctx context.Context) (bool, error) {
		left, err := api.Resource(pods).Namespace(o.Namespace).List(ctx, metav1.ListOptions{LabelSelector: o.Selector, FieldSelector: running, Limit: 1})
		if err != nil {
			return false, err
		}
		return len(left.Items) == 0, nil
	})
}

// takeOffIn removes a finalizer from the objects of some namespaces and returns how many it changed.
func takeOffIn(ctx context.Context, api metadata.Interface, resource schema.GroupVersionResource, finalizer string, namespaces []string) (total int, err error) {
	var failed []error
	for _, namespace := range namespaces {
		n, err := takeOff(ctx, api.Resource(resource).Namespace(namespace), api.Resource(resource), finalizer)
		total, failed = total+n, append(failed, err)
	}
	return total, errors.Join(failed...)
}

// takeOff repeats pass until no object has the finalizer, at most passes times.
func takeOff(ctx context.Context, listed metadata.ResourceInterface, api metadata.Getter, finalizer string) (total int, err error) {
	var left, refused error
	for range passes {
		var done int
		done, left, refused = pass(ctx, listed, api, finalizer)
		total += done
		if left == nil {
			break
		}
	}
	return total, errors.Join(refused, left)
}

// mostRefused limits how many objects an error names.
const mostRefused = 10

// pass removes the finalizer from every object that has it. left is a conflict of an object that changed in the
// meantime, or an expired list: another pass is needed. An object that the API server refuses to change, for example
// because of an admission policy, does not keep the finalizers of the others.
func pass(ctx context.Context, listed metadata.ResourceInterface, api metadata.Getter, finalizer string) (done int, left, refused error) {
	var refusals []error
	err := pages(ctx, listed, func(items []metav1.PartialObjectMetadata) (bool, error) {
		for i := range items {
			if !slices.Contains(items[i].Finalizers, finalizer) {
				continue
			}
			switch err := without(ctx, api, &items[i], finalizer); {
			case apierrors.IsConflict(err):
				left = err
			case err != nil && apierrors.ReasonForError(err) == metav1.StatusReasonUnknown:
				return false, err // not an answer of the API server
			case err != nil && len(refusals) < mostRefused:
				refusals = append(refusals, fmt.Errorf("%s: %w", strings.TrimPrefix(items[i].Namespace+"/"+items[i].Name, "/"), err))
			case err == nil:
				done++
			}
		}
		return true, nil
	})
	if apierrors.IsResourceExpired(err) {
		left, err = err, nil
	}
	return done, left, errors.Join(append(refusals, err)...)
}

// without removes the finalizer from one object. The patch replaces the whole list, so it has the resourceVersion: it
// must not drop a finalizer that another controller has added in the meantime.
func without(ctx context.Context, api metadata.Getter, object *metav1.PartialObjectMetadata, finalizer string) error {
	rest := slices.DeleteFunc(slices.Clone(object.Finalizers), func(f string) bool { return f == finalizer })
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"finalizers": rest, "resourceVersion": object.ResourceVersion}})
	if err != nil {
		return err
	}
	_, err = api.Namespace(object.Namespace).Patch(ctx, object.Name, types.MergePatchType, patch, metav1.PatchOptions{})
	return client.IgnoreNotFound(err)
}
