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

// trust sets the caBundle of every webhook configuration. It goes on after an error, and returns all of them
// joined. A configuration that does not exist needs none.
func (s *SelfSigned) trust(ctx context.Context, bundle []byte) error {
	var failed error
	for _, name := range s.Mutating {
		failed = errors.Join(failed, s.trustMutating(ctx, name, bundle))
	}
	for _, name := range s.Validating {
		failed = errors.Join(failed, s.trustValidating(ctx, name, bundle))
	}
	return failed
}

// trustMutating sets the caBundle of the webhooks of one MutatingWebhookConfiguration.
func (s *SelfSigned) trustMutating(ctx context.Context, name string, bundle []byte) error {
	configurations := s.Client.AdmissionregistrationV1().MutatingWebhookConfigurations()
	return trustIn(ctx, s.Follows, "MutatingWebhookConfiguration", configurations, name, bundle, func(c *admissionregistrationv1.MutatingWebhookConfiguration) (stale []string) {
		for _, hook := range c.Webhooks {
			stale = appendStale(stale, hook.Name, hook.ClientConfig, bundle)
		}
		return stale
	})
}

// trustValidating sets the caBundle of the webhooks of one ValidatingWebhookConfiguration.
func (s *SelfSigned) trustValidating(ctx context.Context, name string, bundle []byte) error {
	configurations := s.Client.AdmissionregistrationV1().ValidatingWebhookConfigurations()
	return trustIn(ctx, s.Follows, "ValidatingWebhookConfiguration", configurations, name, bundle, func(c *admissionregistrationv1.ValidatingWebhookConfiguration) (stale []string) {
		for _, hook := range c.Webhooks {
			stale = appendStale(stale, hook.Name, hook.ClientConfig, bundle)
		}
		return stale
	})
}

// webhookConfigurations is what the clients of both kinds of webhook configuration have in common.
type webhookConfigurations[T any] interface {
	Get(ctx context.Context, name string, options metav1.GetOptions) (T, error)
	Patch(ctx context.Context, name string, kind types.PatchType, data []byte, options metav1.PatchOptions, subresources ...string) (T, error)
}

// trustIn patches one configuration where stale returns webhooks with another bundle. A process that follows
// returns an error then, and is called again.
func trustIn[T any](ctx context.Context, follows bool, kind string, in webhookConfigurations[T], name string, bundle []byte, stale func(T) []string) error {
	configuration, err := in.Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return unless(apierrors.IsNotFound, "reading "+kind+" "+name, err)
	}
	// Only webhooks with another bundle are patched: others may have been added by hand.
	hooks := stale(configuration)
	switch {
	case len(hooks) == 0:
		return nil
	case follows:
		return fmt.Errorf("%s %s does not trust the new certificate yet: the controller sees to it", kind, name)
	}
	_, err = in.Patch(ctx, name, types.StrategicMergePatchType, bundlePatch(hooks, bundle), metav1.PatchOptions{})
	return unless(apierrors.IsNotFound, "patching "+kind+" "+name, err)
}

// appendStale appends the webhook's name where its bundle is another one.
func appendStale(stale []string, name string, config admissionregistrationv1.WebhookClientConfig, bundle []byte) []string {
	if bytes.Equal(config.CABundle, bundle) {
		return stale
	}
	return append(stale, name)
}

// bundlePatch is a strategic merge patch: webhooks are merged by name.
func bundlePatch(hooks []string, bundle []byte) []byte {
	type clientConfig struct {
		CABundle []byte `json:"caBundle"`
	}
	type hook struct {
		Name         string       `json:"name"`
		ClientConfig clientConfig `json:"clientConfig"`
	}
	patch := struct {
		Webhooks []hook `json:"webhooks"`
	}{}
	for _, name := range hooks {
		patch.Webhooks = append(patch.Webhooks, hook{Name: name, ClientConfig: clientConfig{CABundle: bundle}})
	}
	raw, err := json.Marshal(patch)
	if err != nil {
		panic(err) // strings and bytes always marshal
	}
	return raw
}

// unless wraps an error, or returns nil where it is harmless.
func unless(harmless func(error) bool, doing string, err error) error {
	if err == nil || harmless(err) {
		return nil
	}
	return fmt.Errorf("%s: %w", doing, err)
}
