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

// trust makes every webhook configuration carry the bundle. One that is not there needs none.
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

func (s *SelfSigned) trustMutating(ctx context.Context, name string, bundle []byte) error {
	configurations := s.Client.AdmissionregistrationV1().MutatingWebhookConfigurations()
	configuration, err := configurations.Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return unless(apierrors.IsNotFound, "reading MutatingWebhookConfiguration "+name, err)
	}
	var stale []string
	for _, hook := range configuration.Webhooks {
		stale = appendStale(stale, hook.Name, hook.ClientConfig, bundle)
	}
	if len(stale) == 0 {
		return nil
	}
	_, err = configurations.Patch(ctx, name, types.StrategicMergePatchType, bundlePatch(stale, bundle), metav1.PatchOptions{})
	return unless(apierrors.IsNotFound, "patching MutatingWebhookConfiguration "+name, err)
}

func (s *SelfSigned) trustValidating(ctx context.Context, name string, bundle []byte) error {
	configurations := s.Client.AdmissionregistrationV1().ValidatingWebhookConfigurations()
	configuration, err := configurations.Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return unless(apierrors.IsNotFound, "reading ValidatingWebhookConfiguration "+name, err)
	}
	var stale []string
	for _, hook := range configuration.Webhooks {
		stale = appendStale(stale, hook.Name, hook.ClientConfig, bundle)
	}
	if len(stale) == 0 {
		return nil
	}
	_, err = configurations.Patch(ctx, name, types.StrategicMergePatchType, bundlePatch(stale, bundle), metav1.PatchOptions{})
	return unless(apierrors.IsNotFound, "patching ValidatingWebhookConfiguration "+name, err)
}

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

func unless(harmless func(error) bool, doing string, err error) error {
	if err == nil || harmless(err) {
		return nil
	}
	return fmt.Errorf("%s: %w", doing, err)
}
