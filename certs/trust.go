package certs

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// trust sets the caBundle of both webhook configurations. It continues after an error and returns all errors joined.
// It skips a configuration that does not exist.
func (s *SelfSigned) trust(ctx context.Context, bundle []byte) error {
	api := s.Client.AdmissionregistrationV1()
	return errors.Join(
		trustIn(ctx, s, "MutatingWebhookConfiguration", api.MutatingWebhookConfigurations(), s.Mutating, bundle),
		trustIn(ctx, s, "ValidatingWebhookConfiguration", api.ValidatingWebhookConfigurations(), s.Validating, bundle))
}

// webhookConfigurations has the methods that the clients of both kinds share.
type webhookConfigurations[T any] interface {
	Get(ctx context.Context, name string, options metav1.GetOptions) (T, error)
	Patch(ctx context.Context, name string, kind types.PatchType, data []byte, options metav1.PatchOptions, subresources ...string) (T, error)
}

// trustIn patches the webhooks of one configuration that have another bundle. If the process follows, it returns an
// error instead, and Start retries.
func trustIn[T any](ctx context.Context, s *SelfSigned, kind string, in webhookConfigurations[T], name string, bundle []byte) error {
	configuration, err := in.Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return ifThere("reading "+kind+" "+name, err)
	}
	// Patch only webhooks with another bundle.
	hooks := stale(configuration, bundle)
	switch {
	case len(hooks) == 0:
		return nil
	case s.Follows:
		return fmt.Errorf("%s %s does not trust the new certificate yet: waiting for the controller to update it", kind, name)
	}
	_, err = in.Patch(ctx, name, types.StrategicMergePatchType, bundlePatch(hooks, bundle), metav1.PatchOptions{})
	return ifThere("patching "+kind+" "+name, err)
}

// stale returns the names of the webhooks whose bundle differs.
func stale(configuration any, bundle []byte) (names []string) {
	add := func(name string, config admissionregistrationv1.WebhookClientConfig) {
		if !bytes.Equal(config.CABundle, bundle) {
			names = append(names, name)
		}
	}
	switch of := configuration.(type) {
	case *admissionregistrationv1.MutatingWebhookConfiguration:
		for _, hook := range of.Webhooks {
			add(hook.Name, hook.ClientConfig)
		}
	case *admissionregistrationv1.ValidatingWebhookConfiguration:
		for _, hook := range of.Webhooks {
			add(hook.Name, hook.ClientConfig)
		}
	}
	return names
}

// bundlePatch returns a strategic merge patch. The API server merges webhooks by name.
func bundlePatch(hooks []string, bundle []byte) []byte {
	var webhooks []any
	for _, name := range hooks {
		webhooks = append(webhooks, map[string]any{"name": name, "clientConfig": map[string]any{"caBundle": bundle}})
	}
	raw, err := json.Marshal(map[string]any{"webhooks": webhooks})
	if err != nil {
		panic(err) // strings and bytes always marshal
	}
	return raw
}

// ifThere wraps an error. It returns nil if err is nil or says that the object does not exist.
func ifThere(doing string, err error) error {
	if err == nil || apierrors.IsNotFound(err) {
		return nil
	}
	return fmt.Errorf("%s: %w", doing, err)
}
