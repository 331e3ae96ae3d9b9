// Package uninstall removes what only a running operator would remove: its finalizers. Without it, the custom
// resources of an uninstalled operator could never be deleted, and neither could their namespaces.
//
// Run names the workloads whose pods may keep less than their original resources, as nothing restores them any more:
// while the operator runs, kubectl attune undo does. Then it stops the operator's Deployments, waits until their pods have ended, and then removes the finalizers from
// all policies and recommendations, page by page. It reads metadata alone. It deletes nothing and touches no pod
// of a workload. Start reading at Run.
package uninstall

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/metadata"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"attune.io/attune/api/v1alpha1"
)

const (
	// perPage bounds one answer of the API server: metadata alone may be as large as an object (1.5 MiB), and the Job has
	// little memory.
	perPage = 10
	// passes is how often all objects are gone over: an object may change between the listing and the patch.
	passes = 5
	// poll is the time between two looks at whether the operator's pods have ended.
	poll = time.Second
)

var (
	pods            = schema.GroupVersionResource{Version: "v1", Resource: "pods"}
	deployments     = schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}
	recommendations = v1alpha1.GroupVersion.WithResource("attunerecommendations")
	clusterPolicies = v1alpha1.GroupVersion.WithResource("attuneclusterpolicies")

	// finalized maps each custom resource to the finalizer that the operator puts on it.
	finalized = map[schema.GroupVersionResource]string{
		v1alpha1.GroupVersion.WithResource("attunepolicies"): v1alpha1.CleanupFinalizer,
		clusterPolicies: v1alpha1.CleanupFinalizer,
		recommendations: v1alpha1.RecordsFinalizer,
	}
)

// Options name what is uninstalled.
type Options struct {
	// Namespace of the operator.
	Namespace string
	// Deployments of the operator, which are scaled to 0; Selector selects their pods.
	Deployments []string
	// Selector is a label selector in the form of kubectl -l.
	Selector string
	// Watched are the namespaces whose objects have finalizers; empty: all of them.
	Watched []string
	// Out receives one line for each resource.
	Out io.Writer
}

// Run uninstalls. It may be run again after a failure: what is done already is skipped. Pods with an open resize
// keep the size that they have.
//
// The order matters: a running operator would put a finalizer back. So it is stopped first, and Run waits until
// none of its pods is left. ctx bounds the wait.
func Run(ctx context.Context, api metadata.Interface, o Options) error {
	namespaces := o.Watched
	if len(namespaces) == 0 {
		namespaces = []string{metav1.NamespaceAll}
	}
	nameWorkloads(ctx, api, namespaces, o.Out)
	for _, name := range o.Deployments {
		_, err := api.Resource(deployments).Namespace(o.Namespace).Patch(ctx, name, types.MergePatchType, []byte(`{"spec":{"replicas":0}}`), metav1.PatchOptions{}, "scale")
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("stopping the Deployment %s/%s: %w", o.Namespace, name, err)
		}
	}
	if err := gone(ctx, api, o); err != nil {
		return fmt.Errorf("waiting for the operator's pods to end: %w", err)
	}
	// The kinds do not depend on each other, so their order does not matter.
	for resource, finalizer := range finalized {
		if resource == clusterPolicies && len(o.Watched) > 0 {
			continue // an operator that watches some namespaces uses none
		}
		n, err := takeOffIn(ctx, api, resource, finalizer, namespaces)
		if err != nil {
			return fmt.Errorf("taking the finalizer %s off %s: %w", finalizer, resource.Resource, err)
		}
		_, _ = fmt.Fprintf(o.Out, "%s: the finalizer %s was taken off %d\n", resource.Resource, finalizer, n)
	}
	return nil
}

// mostNamed bounds how many workloads are named.
const mostNamed = 100

// nameWorkloads writes which workloads may have pods below their original resources: those with a recommendation. It reads
// metadata alone, so it cannot tell which pods were really resized. It never holds the uninstallation up.
func nameWorkloads(ctx context.Context, api metadata.Interface, namespaces []string, out io.Writer) {
	var names []string
	more := false
	for _, namespace := range namespaces {
		options := metav1.ListOptions{Limit: perPage}
		for {
			page, err := api.Resource(recommendations).Namespace(namespace).List(ctx, options)
			if err != nil {
				break
			}
			for i := range page.Items {
				names = append(names, page.Items[i].Namespace+"/"+page.Items[i].Name)
			}
			if options.Continue = page.Continue; page.Continue == "" || len(names) >= mostNamed {
				more = more || page.Continue != "" || len(names) > mostNamed
				break
			}
		}
	}
	if len(names) == 0 {
		return
	}
	end := ""
	if names = names[:min(len(names), mostNamed)]; more {
		end = " and more"
	}
	_, _ = fmt.Fprintf(out, "Pods keep their present resources. Without the operator nothing restores the original resources after an OOM kill.\n"+
		"Recommendations whose pods may have less than their originals: %s%s.\n"+
		"To give such pods the resources of their template, restart the workload: kubectl rollout restart KIND/NAME. "+
		"Before the next uninstallation: kubectl attune undo -A.\n", strings.Join(names, ", "), end)
}

// running selects pods whose processes may still run. A failed pod stays until it is deleted, and does nothing.
const running = "status.phase!=Failed,status.phase!=Succeeded"

// gone waits until no pod of the operator is running.
func gone(ctx context.Context, api metadata.Interface, o Options) error {
	return wait.PollUntilContextCancel(ctx, poll, true, func(ctx context.Context) (bool, error) {
		left, err := api.Resource(pods).Namespace(o.Namespace).List(ctx, metav1.ListOptions{LabelSelector: o.Selector, FieldSelector: running, Limit: 1})
		if err != nil {
			return false, err
		}
		return len(left.Items) == 0, nil
	})
}

// takeOffIn removes a finalizer from the objects of some namespaces, and returns from how many.
func takeOffIn(ctx context.Context, api metadata.Interface, resource schema.GroupVersionResource, finalizer string, namespaces []string) (total int, err error) {
	for _, namespace := range namespaces {
		n, err := takeOff(ctx, api.Resource(resource).Namespace(namespace), api.Resource(resource), finalizer)
		total += n
		if err != nil {
			return total, err
		}
	}
	return total, nil
}

// takeOff goes over all objects until none has the finalizer, passes times at most.
func takeOff(ctx context.Context, listed metadata.ResourceInterface, api metadata.Getter, finalizer string) (int, error) {
	total := 0
	var conflict error
	for range passes {
		done, left, err := pass(ctx, listed, api, finalizer)
		total += done
		if err != nil || left == nil {
			return total, err
		}
		conflict = left
	}
	return total, conflict
}

// pass removes the finalizer from every object that has it. left is the conflict of an object that has changed
// meanwhile, or an expired listing: another pass is needed. err ends the uninstallation.
func pass(ctx context.Context, listed metadata.ResourceInterface, api metadata.Getter, finalizer string) (done int, left, err error) {
	options := metav1.ListOptions{Limit: perPage}
	for {
		page, err := listed.List(ctx, options)
		if apierrors.IsNotFound(err) {
			return done, left, nil // the CustomResourceDefinition is gone
		}
		if apierrors.IsResourceExpired(err) {
			return done, err, nil
		}
		if err != nil {
			return done, left, err
		}
		for i := range page.Items {
			if !slices.Contains(page.Items[i].Finalizers, finalizer) {
				continue
			}
			switch err := without(ctx, api, &page.Items[i], finalizer); {
			case apierrors.IsConflict(err):
				left = err
			case err != nil:
				return done, left, err
			default:
				done++
			}
		}
		if page.Continue == "" {
			return done, left, nil
		}
		options.Continue = page.Continue
	}
}

// without removes the finalizer from one object. The patch carries the resourceVersion, since it replaces the
// whole list: a finalizer that another controller has added meanwhile must not be lost.
func without(ctx context.Context, api metadata.Getter, object *metav1.PartialObjectMetadata, finalizer string) error {
	rest := slices.DeleteFunc(slices.Clone(object.Finalizers), func(f string) bool { return f == finalizer })
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"finalizers": rest, "resourceVersion": object.ResourceVersion}})
	if err != nil {
		return err
	}
	_, err = api.Namespace(object.Namespace).Patch(ctx, object.Name, types.MergePatchType, patch, metav1.PatchOptions{})
	return client.IgnoreNotFound(err)
}
