package e2e

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"attune.io/attune/certs"
	"attune.io/attune/test/deploy"
)

// webhookHost is the name that the API server calls the webhooks by.
const webhookHost = "attune-webhook." + deploy.Namespace + ".svc"

// certManagerRenews deletes the Secret: cert-manager issues another certificate of the same authority,
// and the replicas serve the old one until the new one is in their folder.
func certManagerRenews(t *testing.T, d *appsv1.Deployment) {
	ctx := t.Context()
	old := certificateSecret(ctx, t)
	admitted := underLoad(t, d, func() {
		require.NoError(t, env.client.Delete(ctx, old))
		eventually(t, "issued again", func() error {
			return changed(ctx, func(data map[string][]byte) bool {
				return len(data[corev1.TLSCertKey]) > 0 && !bytes.Equal(data[corev1.TLSCertKey], old.Data[corev1.TLSCertKey])
			})
		})
		eventually(t, "served by every replica", func() error { return servesWhatIsKept(ctx, t) })
	})
	admitted.lostNothing(t)
}

// selfSignedRenews has the operator renew its authority and then its certificate, by making the Secret
// one of which both are due, as an old one is. (Two Secrets that are deleted take the trust in their authority
// along, so that is no renewal.)
func selfSignedRenews(t *testing.T, d *appsv1.Deployment) {
	ctx := t.Context()
	names := []string{webhookHost, webhookHost + ".cluster.local"}
	now := time.Now()
	eventually(t, "the operator's own certificate served", func() error { return servesWhatIsKept(ctx, t) })
	first := certificateSecret(ctx, t)
	old, err := certs.Issue(now.AddDate(-9, 0, 0), certs.Replace, nil, names) // of 10 years
	require.NoError(t, err)
	old["ca.crt"] = append(old["ca.crt"], first.Data["ca.crt"]...)
	dueLeaf, err := certs.Issue(now.AddDate(0, 0, -61), certs.RenewLeaf, old, names) // of 90 days
	require.NoError(t, err)

	admitted := underLoad(t, d, func() {
		rewrite(ctx, t, "attune-webhook-ca", map[string][]byte{"ca.crt": old["ca.crt"], "ca.key": old["ca.key"]})
		eventually(t, "a new authority in front of the older ones", func() error {
			return changed(ctx, func(data map[string][]byte) bool {
				return authorities(data) == authorities(old)+1 && bytes.HasSuffix(data["ca.crt"], old["ca.crt"])
			})
		})
		kept := certificateSecret(ctx, t).Data
		assert.Equal(t, first.Data[corev1.TLSCertKey], kept[corev1.TLSCertKey], "the certificate stays while the authority settles")
		eventually(t, "trusted by the API server", func() error { return trusts(ctx, kept["ca.crt"]) })

		rewrite(ctx, t, "attune-webhook-cert", map[string][]byte{corev1.TLSCertKey: dueLeaf[corev1.TLSCertKey], corev1.TLSPrivateKeyKey: dueLeaf[corev1.TLSPrivateKeyKey]})
		eventually(t, "a new certificate", func() error {
			return changed(ctx, func(data map[string][]byte) bool {
				got := data[corev1.TLSCertKey]
				return !bytes.Equal(got, dueLeaf[corev1.TLSCertKey]) && !bytes.Equal(got, first.Data[corev1.TLSCertKey])
			})
		})
		eventually(t, "served by every replica", func() error { return servesWhatIsKept(ctx, t) })
	})
	admitted.lostNothing(t)
	data := certificateSecret(ctx, t).Data
	assert.NotContains(t, data, "ca.key", "the webhook reads this Secret")
	authority, err := readSecret(ctx, "attune-webhook-ca")
	require.NoError(t, err)
	data["ca.key"] = authority.Data["ca.key"]
	plan := certs.PlanFor(time.Now(), data, names)
	assert.Equal(t, certs.Keep, plan.Action, plan.Reason)
}

func certificateSecret(ctx context.Context, t *testing.T) *corev1.Secret {
	t.Helper()
	secret, err := readCertificate(ctx)
	require.NoError(t, err)
	return secret
}

func readCertificate(ctx context.Context) (*corev1.Secret, error) {
	return readSecret(ctx, "attune-webhook-cert")
}

func readSecret(ctx context.Context, name string) (*corev1.Secret, error) {
	secret := &corev1.Secret{}
	return secret, env.client.Get(ctx, client.ObjectKey{Namespace: deploy.Namespace, Name: name}, secret)
}

// rewrite replaces keys of a Secret.
func rewrite(ctx context.Context, t *testing.T, name string, data map[string][]byte) {
	t.Helper()
	secret, err := readSecret(ctx, name)
	require.NoError(t, err)
	before := secret.DeepCopy()
	for key, value := range data {
		secret.Data[key] = value
	}
	require.NoError(t, env.client.Patch(ctx, secret, client.MergeFrom(before)))
}

func changed(ctx context.Context, as func(map[string][]byte) bool) error {
	secret, err := readCertificate(ctx)
	if err != nil {
		return err
	}
	if !as(secret.Data) {
		return fmt.Errorf("not yet at resource version %s, with %d authorities", secret.ResourceVersion, authorities(secret.Data))
	}
	return nil
}

func authorities(data map[string][]byte) (n int) {
	for block, rest := pem.Decode(data["ca.crt"]); block != nil; block, rest = pem.Decode(rest) {
		n++
	}
	return n
}

// trusts checks the bundle with which the API server calls the pod webhook.
func trusts(ctx context.Context, bundle []byte) error {
	configuration := &admissionregistrationv1.MutatingWebhookConfiguration{}
	if err := env.client.Get(ctx, client.ObjectKey{Name: "attune"}, configuration); err != nil {
		return err
	}
	if !bytes.Equal(bundle, configuration.Webhooks[0].ClientConfig.CABundle) {
		return errors.New("it has another bundle")
	}
	return nil
}

// servesWhatIsKept checks that every replica presents the Secret's certificate.
func servesWhatIsKept(ctx context.Context, t *testing.T) error {
	secret, err := readCertificate(ctx)
	if err != nil {
		return err
	}
	want, _ := pem.Decode(secret.Data[corev1.TLSCertKey])
	for _, pod := range operatorPods(ctx, t, webhooks) {
		if pod.DeletionTimestamp != nil {
			continue
		}
		got, err := presented(ctx, &pod)
		if err != nil {
			return err
		}
		if want == nil || !bytes.Equal(got, want.Bytes) {
			return fmt.Errorf("%s serves another certificate", pod.Name)
		}
	}
	return nil
}

// presented is the certificate of one replica, in DER.
func presented(ctx context.Context, pod *corev1.Pod) ([]byte, error) {
	// A pod that has just gone answers nothing at all.
	ctx, stop := context.WithTimeout(ctx, 2*time.Second)
	defer stop()
	raw, err := env.cluster.Dial(ctx, "tcp", net.JoinHostPort(pod.Status.PodIP, "9443"))
	if err != nil {
		return nil, err
	}
	// Which one it is is asked, not whether it is trusted.
	conn := tls.Client(raw, &tls.Config{ServerName: webhookHost, InsecureSkipVerify: true})
	defer conn.Close()
	if err := conn.HandshakeContext(ctx); err != nil {
		return nil, err
	}
	return conn.ConnectionState().PeerCertificates[0].Raw, nil
}

// tally counts pods that were admitted, in dry runs, while something went on.
type tally struct {
	sync.Mutex
	admitted int
	unseeded []span
	failed   []string // when and why
	passed   int      // past the webhook, since the API server could not call it
}

// span is from when to when a pod's creation was under way, after the start.
type span struct{ from, to time.Duration }

func (s span) String() string {
	return fmt.Sprintf("%s after the start, in %s", s.from.Round(time.Millisecond), (s.to - s.from).Round(time.Millisecond))
}

// moments is the least number of moments such that each span has one in it.
func moments(spans []span) (n int) {
	last := time.Duration(-1)
	for _, s := range slices.SortedFunc(slices.Values(spans), func(a, b span) int { return cmp.Compare(a.to, b.to) }) {
		if s.from > last {
			last, n = s.to, n+1
		}
	}
	return n
}

func TestMoments(t *testing.T) {
	assert.Zero(t, moments(nil))
	assert.Equal(t, 1, moments([]span{{2, 5}, {1, 3}, {3, 9}}), "all were under way at 3")
	assert.Equal(t, 2, moments([]span{{1, 2}, {3, 4}, {1, 4}}))
	assert.Equal(t, 3, moments([]span{{1, 2}, {5, 6}, {3, 4}}))
}

// mostUnderWay bounds the creations at a time: more than a busy machine can answer would be a load of the test's own.
const mostUnderWay = 8

// underLoad creates 20 pods of d a second, in dry runs, while work is done; fewer where they take long.
func underLoad(t *testing.T, d *appsv1.Deployment, work func()) *tally {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	passed := passedOver(t) // before the first of them
	counted, all, start := &tally{}, sync.WaitGroup{}, time.Now()
	underWay := make(chan struct{}, mostUnderWay)
	all.Go(func() {
		tick := time.NewTicker(50 * time.Millisecond)
		defer tick.Stop()
		for {
			// A pod whose creation has begun is counted; the end of the load interrupts none.
			underWay <- struct{}{}
			all.Go(func() {
				defer func() { <-underWay }()
				asked := time.Since(start)
				pod, err := dryRunPod(context.WithoutCancel(ctx), d)
				counted.add(pod, err, span{asked, time.Since(start)})
			})
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
		}
	})
	work()
	eventually(t, "enough pods", counted.enough)
	stop()
	all.Wait()
	counted.passed = passedOver(t) - passed
	t.Logf("%d pods admitted in %s: %d past the webhook, %d not seeded, %d failed", counted.admitted, time.Since(start).Round(100*time.Millisecond), counted.passed, len(counted.unseeded), len(counted.failed))
	return counted
}

func (c *tally) add(pod *corev1.Pod, err error, when span) {
	c.Lock()
	defer c.Unlock()
	c.admitted++
	switch {
	case err != nil:
		c.failed = append(c.failed, when.String()+": "+err.Error())
	case sizeOf(pod.Spec.Containers[0].Resources) != wanted:
		c.unseeded = append(c.unseeded, when)
	}
}

// lostNothing: every pod was created and seeded, no call to the webhook was lost, a change of leader included.
func (c *tally) lostNothing(t *testing.T) {
	t.Helper()
	c.failedNone(t)
	assert.Zero(t, c.passed, "past the webhook; not seeded: %v", c.unseeded)
	assert.Empty(t, c.unseeded, "not seeded")
}

// lostFew: every pod was created, and seeded unless the API server could not call the webhook: each of the two replicas,
// when it ends, may take the calls along that are under way at that moment. How many those are is a matter of the load.
func (c *tally) lostFew(t *testing.T) {
	t.Helper()
	c.failedNone(t)
	assert.LessOrEqual(t, moments(c.unseeded), 2, "%d past the webhook; not seeded: %v", c.passed, c.unseeded)
	assert.LessOrEqual(t, len(c.unseeded), c.passed, "not seeded although the webhook was called: %v", c.unseeded)
}

// failedOpen is the API server's count of pods that passed because it could not call their webhook.
const failedOpen = "apiserver_admission_webhook_fail_open_count"

// passedOver is how many pods the API server has let pass because it could not call the pod webhook.
func passedOver(t *testing.T) int { return int(apiServerMetric(t, failedOpen)) }

// apiServerMetric is the sum of what the API server counts about the pod webhook under a name.
func apiServerMetric(t *testing.T, metric string) (sum float64) {
	t.Helper()
	out, err := env.cluster.Command(t.Context(), "kubectl", "get", "--raw", "/metrics").Output()
	require.NoError(t, err)
	require.Contains(t, string(out), `apiserver_admission_webhook_request_total{code="200",name="pods.attune.io"`, "the API server counts its calls")
	for line := range strings.Lines(string(out)) {
		if strings.HasPrefix(line, metric+`{name="pods.attune.io"`) {
			value, err := strconv.ParseFloat(line[strings.LastIndex(line, " ")+1:len(line)-1], 64)
			require.NoError(t, err)
			sum += value
		}
	}
	return sum
}

func (c *tally) failedNone(t *testing.T) {
	t.Helper()
	assert.Empty(t, c.failed)
}

// enough pods for a word about them.
func (c *tally) enough() error {
	c.Lock()
	defer c.Unlock()
	if c.admitted < 40 {
		return fmt.Errorf("%d", c.admitted)
	}
	return nil
}
