package certs

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	clocktesting "k8s.io/utils/clock/testing"
)

func follower(client kubernetes.Interface, clock *clocktesting.FakeClock) *SelfSigned {
	s := replica(client, clock)
	s.Follows = true
	return s
}

// TestFollowerWritesNothing: the webhook serves the certificate that the controller issued, with read rights only.
func TestFollowerWritesNothing(t *testing.T) {
	client, clock := fake.NewClientset(configurations()...), clocktesting.NewFakeClock(start)
	issuer, webhook := replica(client, clock), follower(client, clock)
	wait, err := webhook.sync(t.Context())
	require.EqualError(t, err, "secret attune-system/attune-webhook-cert does not exist yet: waiting for the controller to create it")
	assert.Equal(t, retry, wait)
	assert.Error(t, webhook.Ready(nil))

	sync(t, issuer)
	client.ClearActions()
	sync(t, webhook)
	first := webhook.served.Load()
	assert.Equal(t, issuer.served.Load().Certificate, first.Certificate)
	assert.NoError(t, webhook.Ready(nil))

	// Renewal is due, but the controller does not run: the webhook serves the old certificate while it is valid.
	clock.Step(61 * day)
	sync(t, webhook)
	assert.Same(t, first, webhook.served.Load())
	assert.NoError(t, webhook.Ready(nil))
	clock.Step(30 * day)
	_, err = webhook.sync(t.Context())
	require.ErrorContains(t, err, "waiting for the controller to renew it")
	assert.Error(t, webhook.Ready(nil))
	for _, action := range client.Actions() {
		assert.Equal(t, "get", action.GetVerb(), action.GetResource().Resource)
		if get, ok := action.(clienttesting.GetAction); ok {
			assert.NotEqual(t, "attune-webhook-ca", get.GetName(), "the webhook never reads the authority's key")
		}
	}

	sync(t, issuer)
	sync(t, webhook)
	assert.NoError(t, webhook.Ready(nil))
}

// TestFollowerServesTrustedCertificate: a new certificate is served only after the configurations trust it and the API
// servers had time to see that.
func TestFollowerServesTrustedCertificate(t *testing.T) {
	client, clock := fake.NewClientset(configurations()...), clocktesting.NewFakeClock(start)
	issuer, webhook := replica(client, clock), follower(client, clock)
	sync(t, issuer)
	sync(t, webhook)
	old := webhook.served.Load()

	deleteSecrets(t, client, "attune-webhook-cert", "attune-webhook-ca")
	_, _, err := issuer.renew(t.Context()) // written, but not trusted yet
	require.NoError(t, err)
	for range 3 {
		clock.Step(settle)
		_, err = webhook.sync(t.Context())
		require.ErrorContains(t, err, "MutatingWebhookConfiguration attune does not trust the new certificate yet")
		require.ErrorContains(t, err, "ValidatingWebhookConfiguration attune does not trust the new certificate yet")
		assert.Same(t, old, webhook.served.Load())
	}

	sync(t, issuer)
	assert.Equal(t, settle, sync(t, webhook))
	assert.Same(t, old, webhook.served.Load(), "while the API servers see the new bundle")
	clock.Step(settle)
	sync(t, webhook)
	assert.NotSame(t, old, webhook.served.Load())

	// The issuer patches a configuration that was reset.
	reset := configurations()[1].(*admissionregistrationv1.ValidatingWebhookConfiguration)
	_, err = client.AdmissionregistrationV1().ValidatingWebhookConfigurations().Update(t.Context(), reset, metav1.UpdateOptions{})
	require.NoError(t, err)
	_, err = webhook.sync(t.Context())
	require.Error(t, err)
	assert.Empty(t, bundles(t, client)[2])
	assert.NoError(t, webhook.Ready(nil))
}
