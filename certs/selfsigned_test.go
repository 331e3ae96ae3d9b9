package certs

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	clocktesting "k8s.io/utils/clock/testing"
)

// configurations returns the chart's webhook configurations, with two mutating webhooks to test the merge by name.
func configurations() []runtime.Object {
	url := func(s string) *string { return &s }
	return []runtime.Object{
		&admissionregistrationv1.MutatingWebhookConfiguration{
			ObjectMeta: metav1.ObjectMeta{Name: "attune"},
			Webhooks: []admissionregistrationv1.MutatingWebhook{
				{Name: "pods.attune.io", ClientConfig: admissionregistrationv1.WebhookClientConfig{URL: url("https://one")}},
				{Name: "more.attune.io", ClientConfig: admissionregistrationv1.WebhookClientConfig{URL: url("https://two")}},
			},
		},
		&admissionregistrationv1.ValidatingWebhookConfiguration{
			ObjectMeta: metav1.ObjectMeta{Name: "attune"},
			Webhooks:   []admissionregistrationv1.ValidatingWebhook{{Name: "settings.attune.io"}},
		},
	}
}

func replica(client kubernetes.Interface, clock *clocktesting.FakeClock) *SelfSigned {
	return NewSelfSigned(Config{
		Client: client, Namespace: "attune-system", Secret: "attune-webhook-cert", Authority: "attune-webhook-ca", DNSNames: names,
		Mutating: "attune", Validating: "attune", Clock: clock, Log: logr.Discard(),
	})
}

func secretOf(t *testing.T, client kubernetes.Interface, name string) *corev1.Secret {
	t.Helper()
	secret, err := client.CoreV1().Secrets("attune-system").Get(t.Context(), name, metav1.GetOptions{})
	require.NoError(t, err)
	return secret
}

// stored returns the data of both Secrets as PlanFor expects it.
func stored(t *testing.T, client kubernetes.Interface, now time.Time) Data {
	t.Helper()
	return join(now, secretOf(t, client, "attune-webhook-ca").Data, secretOf(t, client, "attune-webhook-cert").Data)
}

func deleteSecrets(t *testing.T, client kubernetes.Interface, names ...string) {
	t.Helper()
	for _, name := range names {
		require.NoError(t, client.CoreV1().Secrets("attune-system").Delete(t.Context(), name, metav1.DeleteOptions{}))
	}
}

// bundles returns the caBundle of every webhook.
func bundles(t *testing.T, client kubernetes.Interface) (out []string) {
	t.Helper()
	m, err := client.AdmissionregistrationV1().MutatingWebhookConfigurations().Get(t.Context(), "attune", metav1.GetOptions{})
	require.NoError(t, err)
	for _, hook := range m.Webhooks {
		out = append(out, string(hook.ClientConfig.CABundle))
	}
	v, err := client.AdmissionregistrationV1().ValidatingWebhookConfigurations().Get(t.Context(), "attune", metav1.GetOptions{})
	require.NoError(t, err)
	return append(out, string(v.Webhooks[0].ClientConfig.CABundle))
}

func sync(t *testing.T, s *SelfSigned) time.Duration {
	t.Helper()
	wait, err := s.sync(t.Context())
	require.NoError(t, err)
	return wait
}

func TestFirstCertificate(t *testing.T) {
	client, clock := fake.NewClientset(configurations()...), clocktesting.NewFakeClock(start)
	s := replica(client, clock)
	_, err := s.GetCertificate(nil)
	require.Error(t, err)
	require.Error(t, s.Ready(nil))
	assert.False(t, s.NeedLeaderElection())

	sync(t, s)

	require.NoError(t, s.Ready(nil))
	data := stored(t, client, start)
	assert.Equal(t, Keep, PlanFor(start, data, names).Action)
	for _, bundle := range bundles(t, client) {
		assert.Equal(t, string(data[bundleKey]), bundle)
	}
	m, err := client.AdmissionregistrationV1().MutatingWebhookConfigurations().Get(t.Context(), "attune", metav1.GetOptions{})
	require.NoError(t, err)
	assert.Equal(t, "https://two", *m.Webhooks[1].ClientConfig.URL, "the rest of a webhook stays")

	cert, err := s.GetCertificate(nil)
	require.NoError(t, err)
	assert.NoError(t, accepts([]byte(bundles(t, client)[0]), cert.Leaf, start))

	t.Run("a second look writes nothing", func(t *testing.T) {
		clock.Step(settle)
		client.ClearActions()
		sync(t, s)
		for _, action := range client.Actions() {
			assert.Equal(t, "get", action.GetVerb())
		}
		same, err := s.GetCertificate(nil)
		require.NoError(t, err)
		assert.Same(t, cert, same)
	})
	t.Run("it is looked at again before long", func(t *testing.T) {
		assert.Equal(t, recheck, sync(t, s))
	})
	t.Run("readiness ends with the certificate", func(t *testing.T) {
		clock.SetTime(start.Add(90*day + time.Second))
		assert.ErrorContains(t, s.Ready(nil), "expired")
		sync(t, s)
		assert.NoError(t, s.Ready(nil))
	})
}

func TestItServesTLS(t *testing.T) {
	client := fake.NewClientset(configurations()...)
	s := replica(client, clocktesting.NewFakeClock(time.Now()))
	sync(t, s)
	listener, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{GetCertificate: s.GetCertificate})
	require.NoError(t, err)
	defer listener.Close()
	go func() {
		for conn, err := listener.Accept(); err == nil; conn, err = listener.Accept() {
			_ = conn.(*tls.Conn).HandshakeContext(t.Context()) // the client checks the error
		}
	}()
	roots := x509.NewCertPool()
	require.True(t, roots.AppendCertsFromPEM([]byte(bundles(t, client)[0])))
	dialer := tls.Dialer{NetDialer: &net.Dialer{Timeout: 10 * time.Second}, Config: &tls.Config{RootCAs: roots, ServerName: names[0]}}
	conn, err := dialer.DialContext(t.Context(), "tcp", listener.Addr().String())
	require.NoError(t, err)
	require.NoError(t, conn.Close())
}

func TestReplicasAgree(t *testing.T) {
	client, clock := fake.NewClientset(configurations()...), clocktesting.NewFakeClock(start)
	one, two := replica(client, clock), replica(client, clock)
	sync(t, one)
	sync(t, two)
	assert.Equal(t, one.served.Load().Certificate, two.served.Load().Certificate)

	clock.Step(61 * day)
	sync(t, two)
	sync(t, one)
	clock.Step(settle)
	sync(t, two)
	sync(t, one)
	assert.Equal(t, one.served.Load().Certificate, two.served.Load().Certificate)
	assert.Equal(t, start.Add(61*day+leafLife), one.served.Load().Leaf.NotAfter.UTC())
}

// Both replicas find the Secret missing or stale. The other replica writes first.
func TestTheLoserOfARaceTakesOver(t *testing.T) {
	resource := schema.GroupResource{Resource: "secrets"}
	won := issue(t, start, Replace, nil)
	wins := func(client *fake.Clientset, verb string, refusal error) {
		done := false
		client.PrependReactor(verb, "secrets", func(action clienttesting.Action) (bool, runtime.Object, error) {
			if done {
				return false, nil, nil
			}
			done = true
			secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "attune-system", Name: "attune-webhook-cert", ResourceVersion: "2"}, Data: won}
			tracker := client.Tracker()
			if err := tracker.Add(secret); apierrors.IsAlreadyExists(err) {
				err = tracker.Update(action.GetResource(), secret, "attune-system")
				require.NoError(t, err)
			}
			return true, nil, refusal
		})
	}
	cases := []struct {
		name, verb string
		before     []runtime.Object
		refusal    error
	}{
		{name: "creating", verb: "create", refusal: apierrors.NewAlreadyExists(resource, "attune-webhook-cert")},
		{name: "updating", verb: "update", refusal: apierrors.NewConflict(resource, "attune-webhook-cert", errors.New("changed")),
			before: []runtime.Object{&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "attune-system", Name: "attune-webhook-cert", ResourceVersion: "1"}}}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			client := fake.NewClientset(append(configurations(), c.before...)...)
			wins(client, c.verb, c.refusal)
			s := replica(client, clocktesting.NewFakeClock(start))
			sync(t, s)
			assert.Equal(t, won, stored(t, client, start))
			assert.Equal(t, leafOf(t, won), s.served.Load().Leaf)
		})
	}
	t.Run("an update carries the version that was read", func(t *testing.T) {
		client := fake.NewClientset(append(configurations(), cases[1].before...)...)
		sync(t, replica(client, clocktesting.NewFakeClock(start)))
		for _, action := range client.Actions() {
			if update, ok := action.(clienttesting.UpdateAction); ok && action.GetVerb() == "update" {
				assert.Equal(t, "1", update.GetObject().(*corev1.Secret).ResourceVersion)
				return
			}
		}
		t.Fatal("nothing was updated")
	})
	t.Run("a race that never ends is an error", func(t *testing.T) {
		client := fake.NewClientset(configurations()...)
		client.PrependReactor("create", "secrets", func(clienttesting.Action) (bool, runtime.Object, error) {
			return true, nil, apierrors.NewAlreadyExists(resource, "attune-webhook-cert")
		})
		_, err := replica(client, clocktesting.NewFakeClock(start)).sync(t.Context())
		assert.ErrorContains(t, err, "other writers changed secret")
	})
}

func TestANewBundleSettlesBeforeItsCertificateIsServed(t *testing.T) {
	client, clock := fake.NewClientset(configurations()...), clocktesting.NewFakeClock(start)
	s := replica(client, clock)
	sync(t, s)
	old := s.served.Load()

	// Replace everything at once, as after a deletion of both Secrets.
	deleteSecrets(t, client, "attune-webhook-cert", "attune-webhook-ca")
	clock.Step(time.Hour)
	assert.Equal(t, settle, sync(t, s))
	assert.Same(t, old, s.served.Load(), "still the old one, while the API servers see the new bundle")
	assert.Error(t, accepts([]byte(bundles(t, client)[0]), old.Leaf, clock.Now()), "deleted Secrets lose the old authority")

	clock.Step(settle)
	sync(t, s)
	assert.NoError(t, accepts([]byte(bundles(t, client)[0]), s.served.Load().Leaf, clock.Now()))
}

func TestNothingIsServedThatIsNotTrusted(t *testing.T) {
	for _, verb := range []string{"get", "patch"} {
		for _, resource := range []string{"mutatingwebhookconfigurations", "validatingwebhookconfigurations"} {
			t.Run(verb+" "+resource, func(t *testing.T) {
				client := fake.NewClientset(configurations()...)
				client.PrependReactor(verb, resource, func(clienttesting.Action) (bool, runtime.Object, error) {
					return true, nil, errors.New("refused")
				})
				s := replica(client, clocktesting.NewFakeClock(start))
				wait, err := s.sync(t.Context())
				assert.ErrorContains(t, err, "WebhookConfiguration attune: refused")
				assert.Equal(t, retry, wait)
				assert.Error(t, s.Ready(nil))
			})
		}
	}
	t.Run("a configuration that is not there needs no trust", func(t *testing.T) {
		s := replica(fake.NewClientset(), clocktesting.NewFakeClock(start))
		sync(t, s)
		assert.NoError(t, s.Ready(nil))
	})
	t.Run("the Secret cannot be read", func(t *testing.T) {
		client := fake.NewClientset(configurations()...)
		client.PrependReactor("get", "secrets", func(clienttesting.Action) (bool, runtime.Object, error) {
			return true, nil, errors.New("refused")
		})
		_, err := replica(client, clocktesting.NewFakeClock(start)).sync(t.Context())
		assert.ErrorContains(t, err, "reading secret attune-system/attune-webhook-ca: refused")
	})
	t.Run("the Secret cannot be written", func(t *testing.T) {
		client := fake.NewClientset(configurations()...)
		client.PrependReactor("create", "secrets", func(clienttesting.Action) (bool, runtime.Object, error) {
			return true, nil, errors.New("refused")
		})
		_, err := replica(client, clocktesting.NewFakeClock(start)).sync(t.Context())
		assert.ErrorContains(t, err, "writing secret attune-system/attune-webhook-ca: refused")
	})
}

// The loop reacts at once to changes by others, and ends with its context.
func TestStart(t *testing.T) {
	client := fake.NewClientset(configurations()...)
	s := replica(client, clocktesting.NewFakeClock(start))
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- s.Start(ctx) }()
	soon := func(what string, holds func() bool) {
		t.Helper()
		require.Eventually(t, holds, 30*time.Second, 5*time.Millisecond, what)
	}
	soon("a certificate", func() bool { return s.Ready(nil) == nil })

	reset := configurations()[1].(*admissionregistrationv1.ValidatingWebhookConfiguration)
	_, err := client.AdmissionregistrationV1().ValidatingWebhookConfigurations().Update(ctx, reset, metav1.UpdateOptions{})
	require.NoError(t, err)
	soon("the bundle of a configuration that was reset", func() bool { return bundles(t, client)[2] != "" })

	require.NoError(t, client.CoreV1().Secrets("attune-system").Delete(ctx, "attune-webhook-cert", metav1.DeleteOptions{}))
	soon("a Secret again", func() bool {
		_, err := client.CoreV1().Secrets("attune-system").Get(ctx, "attune-webhook-cert", metav1.GetOptions{})
		return err == nil
	})

	stop()
	require.NoError(t, <-ended)
	for _, action := range client.Actions() {
		assert.Contains(t, rights[action.GetResource().Resource], action.GetVerb())
	}
}

// rights has the rules of the chart for these objects.
var rights = map[string][]string{
	"secrets":                         {"get", "list", "watch", "create", "update", "delete"}, // delete: for the test itself
	"mutatingwebhookconfigurations":   {"get", "list", "watch", "patch"},
	"validatingwebhookconfigurations": {"get", "list", "watch", "patch", "update"}, // update: for the test itself
}
