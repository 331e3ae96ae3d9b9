// Package uninstall takes off what only a running operator would: its finalizers.
package uninstall

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/metadata"

	"attune.io/attune/api/v1alpha1"
)

const (
	// perPage bounds one answer of the API server: metadata alone may be as large as an object (1.5 MiB), and the Job has
	// little memory.
	perPage = 10
	// passes over all objects: a finalizer may change under one of them.
	passes = 5
	// poll is how often is looked whether the operator's pods are gone.
	poll = time.Second
)

var (
	pods        = schema.GroupVersionResource{Version: "v1", Resource: "pods"}
	deployments = schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}
	finalized   = map[schema.GroupVersionResource]string{
		v1alpha1.GroupVersion.WithResource("attunepolicies"):        v1alpha1.CleanupFinalizer,
		v1alpha1.GroupVersion.WithResource("attunerecommendations"): v1alpha1.RecordsFinalizer,
	}
)

// Options say what is uninstalled.
type Options struct {
	Namespace string
	// Deployments of the operator, and the selector of their pods.
	Deployments []string
	Selector    string
	// Watched are the namespaces whose objects have finalizers; none: all.
	Watched []string
	Out     io.Writer
}

// lister lists objects, page by page.
type lister interface {
	List(ctx context.Context, options metav1.ListOptions) (*metav1.PartialObjectMetadataList, error)
}

// Run stops the operator, waits until no pod of it is left, and takes its finalizers off every object. What it finds
// done it leaves alone, so it may be run again. No pod is touched but the operator's: those with an open record keep the
// size they have.
func Run(ctx context.Context, api metadata.Interface, o Options) error {
	for _, name := range o.Deployments {
		if err := stop(ctx, api, o.Namespace, name); err != nil {
			return fmt.Errorf("stopping the Deployment %s/%s: %w", o.Namespace, name, err)
		}
	}
	if err := gone(ctx, api, o); err != nil {
		return fmt.Errorf("waiting for the operator's pods to end: %w", err)
	}
	for resource, finalizer := range finalized {
		n, err := takeOffIn(ctx, api, resource, finalizer, o.Watched)
		if err != nil {
			return fmt.Errorf("taking the finalizer %s off %s: %w", finalizer, resource.Resource, err)
		}
		_, _ = fmt.Fprintf(o.Out, "%s: the finalizer %s was taken off %d\n", resource.Resource, finalizer, n)
	}
	return nil
}

func stop(ctx context.Context, api metadata.Interface, namespace, name string) error {
	_, err := api.Resource(deployments).Namespace(namespace).Patch(ctx, name, types.MergePatchType, []byte(`{"spec":{"replicas":0}}`), metav1.PatchOptions{}, "scale")
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// running are pods whose processes may still run. One that failed stays until somebody deletes it, and does nothing.
const running = "status.phase!=Failed,status.phase!=Succeeded"

// gone waits until a running operator cannot put a finalizer back.
func gone(ctx context.Context, api metadata.Interface, o Options) error {
	return wait.PollUntilContextCancel(ctx, poll, true, func(ctx context.Context) (bool, error) {
		left, err := api.Resource(pods).Namespace(o.Namespace).List(ctx, metav1.ListOptions{LabelSelector: o.Selector, FieldSelector: running, Limit: 1})
		if err != nil {
			return false, err
		}
		return len(left.Items) == 0, nil
	})
}

// takeOffIn takes a finalizer off the objects of some namespaces; none stands for all.
func takeOffIn(ctx context.Context, api metadata.Interface, resource schema.GroupVersionResource, finalizer string, namespaces []string) (total int, err error) {
	if len(namespaces) == 0 {
		namespaces = []string{metav1.NamespaceAll}
	}
	for _, namespace := range namespaces {
		n, err := takeOff(ctx, api.Resource(resource).Namespace(namespace), api.Resource(resource), finalizer)
		total += n
		if err != nil {
			return total, err
		}
	}
	return total, nil
}

// takeOff goes over all objects of a listing until none has the finalizer.
func takeOff(ctx context.Context, listed lister, api metadata.Getter, finalizer string) (int, error) {
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

// pass takes the finalizer off every object that has it; left says that one changed meanwhile.
func pass(ctx context.Context, listed lister, api metadata.Getter, finalizer string) (done int, left, err error) {
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

func without(ctx context.Context, api metadata.Getter, object *metav1.PartialObjectMetadata, finalizer string) error {
	rest := slices.DeleteFunc(slices.Clone(object.Finalizers), func(f string) bool { return f == finalizer })
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"finalizers": rest, "resourceVersion": object.ResourceVersion}})
	if err != nil {
		return err
	}
	_, err = api.Namespace(object.Namespace).Patch(ctx, object.Name, types.MergePatchType, patch, metav1.PatchOptions{})
	return ignoreGone(err)
}

func ignoreGone(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
