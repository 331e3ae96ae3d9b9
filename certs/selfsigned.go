package certs

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
)

// Config configures a SelfSigned. All fields are needed, except Follows.
type Config struct {
	// Client reads and writes the Secret and the webhook configurations.
	Client kubernetes.Interface
	// Namespace and Secret are where the certificate is kept. The Secret is created where it is missing.
	Namespace, Secret string
	// DNSNames are the names of the webhooks' Service, by which the API server calls it.
	DNSNames []string
	// Mutating and Validating are the names of the webhook configurations whose caBundle is kept up to date. One
	// that does not exist is ignored.
	Mutating, Validating string
	// Follows is true where another process issues, renews and changes the configurations. This one only reads,
	// and serves what it finds.
	Follows bool
	// Clock decides when renewal is due.
	Clock clock.WithTicker
	// Log receives renewals and failures.
	Log logr.Logger
}

// SelfSigned is a Provider that issues the serving certificate itself and keeps it in a Secret that all replicas
// share.
//
// Any replica that does not follow may renew. The Secret's resourceVersion decides which one does, and the others
// serve what it has written. Before a replica serves a certificate it makes sure that the webhook configurations
// trust its authority: it patches them or, where it follows, waits until another process has. Thus no review is
// lost by a rotation.
type SelfSigned struct {
	// Config is as given to NewSelfSigned and never changes.
	Config
	// served is the certificate that new connections get; nil before the first one. All other fields belong to the
	// goroutine of Start.
	served atomic.Pointer[tls.Certificate]
	// kick has an element when an object has changed since the last sync.
	kick chan struct{}

	// bundle is the caBundle that the configurations were last known to have, and since is when that began.
	bundle []byte
	since  time.Time
}

var _ Provider = (*SelfSigned)(nil)

// NewSelfSigned makes a SelfSigned, which does nothing before Start.
func NewSelfSigned(config Config) *SelfSigned {
	return &SelfSigned{Config: config, kick: make(chan struct{}, 1)}
}

// GetCertificate fails until the first certificate is there.
func (s *SelfSigned) GetCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	if cert := s.served.Load(); cert != nil {
		return cert, nil
	}
	return nil, errors.New("no serving certificate yet")
}

// NeedLeaderElection is false: every replica serves.
func (s *SelfSigned) NeedLeaderElection() bool { return false }

// Ready is nil once a valid certificate is served.
func (s *SelfSigned) Ready(*http.Request) error { return servable(s.Clock, s.served.Load()) }

const (
	// recheck is the longest time between two syncs. It bounds what a missed event or a stopped clock costs.
	recheck = 10 * time.Minute
	// retry follows a failure.
	retry = 5 * time.Second
)

// Start keeps the certificate fresh until the context ends. A failure is retried, not returned: a
// replica that cannot renew still serves what it has.
// It returns nil when the context ends. It must be called once.
func (s *SelfSigned) Start(ctx context.Context) error {
	s.watch(ctx)
	for {
		wait, err := s.sync(ctx)
		if err != nil {
			s.Log.Error(err, "Keeping the webhooks' certificate failed; it is tried again", "after", wait)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-s.kick:
		case <-s.Clock.After(wait):
		}
	}
}

// sync brings Secret, configurations and served certificate up to date once, and returns when to do it again. The
// order is that of the package: renew, trust, wait, serve.
func (s *SelfSigned) sync(ctx context.Context) (time.Duration, error) {
	data, next, err := s.renew(ctx)
	if err != nil {
		return retry, err
	}
	if err := s.trust(ctx, data[bundleKey]); err != nil {
		return retry, err
	}
	// The old certificate is served meanwhile. It is signed by an authority that is in the bundle too.
	if left := s.settling(data[bundleKey]); left > 0 {
		return left, nil
	}
	if err := s.serve(data); err != nil {
		return retry, err
	}
	return min(recheck, max(retry, next.Sub(s.Clock.Now()))), nil
}

// attempts at a Secret that other replicas write too.
const attempts = 5

// renew reads the Secret, renews what is due, and returns data that is valid at present and when the next renewal
// is due. Where another replica was first, it reads what that one has written, up to attempts times.
// Each turn either finds nothing to do, or writes and reads again.
func (s *SelfSigned) renew(ctx context.Context) (Data, time.Time, error) {
	if s.Follows {
		return s.issued(ctx)
	}
	for range attempts {
		secret, err := s.read(ctx)
		if err != nil {
			return nil, time.Time{}, err
		}
		var data Data
		if secret != nil {
			data = secret.Data
		}
		plan := PlanFor(s.Clock.Now(), data, s.DNSNames)
		if plan.Action == Keep {
			return data, plan.Next, nil
		}
		if err := s.carryOut(ctx, plan, secret); err != nil && !lost(err) {
			return nil, time.Time{}, err
		}
	}
	return nil, time.Time{}, fmt.Errorf("secret %s/%s is written by others all the time", s.Namespace, s.Secret)
}

// issued returns what another process has written, if it can be served. It plans no renewal, because an event of
// the Secret comes with one.
func (s *SelfSigned) issued(ctx context.Context) (Data, time.Time, error) {
	secret, err := s.read(ctx)
	switch {
	case err != nil:
		return nil, time.Time{}, err
	case secret == nil:
		return nil, time.Time{}, fmt.Errorf("secret %s/%s is not there yet: the controller issues it", s.Namespace, s.Secret)
	}
	now := s.Clock.Now()
	if _, err := readLeaf(now, secret.Data, s.DNSNames); err != nil {
		return nil, time.Time{}, fmt.Errorf("secret %s/%s waits for the controller to renew it: %w", s.Namespace, s.Secret, err)
	}
	return secret.Data, now.Add(recheck), nil
}

// lost returns whether another replica has written the Secret first.
func lost(err error) bool {
	return apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) || apierrors.IsNotFound(err)
}

// read returns nil where there is no Secret.
func (s *SelfSigned) read(ctx context.Context) (*corev1.Secret, error) {
	secret, err := s.Client.CoreV1().Secrets(s.Namespace).Get(ctx, s.Secret, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading secret %s/%s: %w", s.Namespace, s.Secret, err)
	}
	return secret, nil
}

// carryOut writes what a plan issues, into a Secret that was read or into a new one (nil). It is refused where the Secret is
// not as it was read: the update carries its resourceVersion.
func (s *SelfSigned) carryOut(ctx context.Context, plan Plan, secret *corev1.Secret) error {
	secrets, made := s.Client.CoreV1().Secrets(s.Namespace), secret == nil
	if made {
		secret = &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: s.Secret}}
	}
	var err error
	if secret.Data, err = Issue(s.Clock.Now(), plan.Action, secret.Data, s.DNSNames); err == nil && made {
		_, err = secrets.Create(ctx, secret, metav1.CreateOptions{})
	} else if err == nil {
		_, err = secrets.Update(ctx, secret, metav1.UpdateOptions{})
	}
	if err != nil {
		return fmt.Errorf("writing secret %s/%s: %w", s.Namespace, s.Secret, err)
	}
	s.Log.Info("Renewed the webhooks' certificate", "action", plan.Action, "reason", plan.Reason)
	return nil
}

// settle is how long the API servers get to see a new bundle before its certificate is served.
const settle = 10 * time.Second

// settling returns how much of settle is left since the bundle was first trusted. It is 0 where no valid
// certificate is served: then there is nothing to wait with.
func (s *SelfSigned) settling(bundle []byte) time.Duration {
	now := s.Clock.Now()
	if !bytes.Equal(bundle, s.bundle) {
		s.bundle, s.since = bundle, now
	}
	if servable(s.Clock, s.served.Load()) != nil {
		return 0
	}
	return s.since.Add(settle).Sub(now)
}

// serve takes a certificate into use. It is trusted already.
func (s *SelfSigned) serve(data Data) error {
	if now := s.served.Load(); now != nil && bytes.Equal(certPEM(now.Certificate[0]), data[certKey]) {
		return nil
	}
	cert, err := tls.X509KeyPair(data[certKey], data[keyKey])
	if err != nil {
		return fmt.Errorf("reading the serving certificate: %w", err)
	}
	s.served.Store(&cert)
	s.Log.Info("Serving a new certificate", "validUntil", cert.Leaf.NotAfter)
	return nil
}

// watch wakes the loop of Start when the Secret or a configuration changes. Each object is watched by its name,
// because the operator has rights for these objects alone. A failing watch costs time only (see recheck).
func (s *SelfSigned) watch(ctx context.Context) {
	s.watchOne(ctx, s.Secret, corev1.SchemeGroupVersion.WithResource("secrets"))
	s.watchOne(ctx, s.Mutating, admissionregistrationv1.SchemeGroupVersion.WithResource("mutatingwebhookconfigurations"))
	s.watchOne(ctx, s.Validating, admissionregistrationv1.SchemeGroupVersion.WithResource("validatingwebhookconfigurations"))
}

// watchOne watches one object by name, until the context ends.
func (s *SelfSigned) watchOne(ctx context.Context, name string, of schema.GroupVersionResource) {
	// A factory for each object, since the field selector is one for all informers of a factory.
	factory := informers.NewSharedInformerFactoryWithOptions(s.Client, 0,
		informers.WithNamespace(s.Namespace),
		informers.WithTweakListOptions(func(o *metav1.ListOptions) {
			o.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, name).String()
		}))
	informer, err := factory.ForResource(of)
	if err == nil {
		_, err = informer.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc:    func(any) { s.wake() },
			UpdateFunc: func(any, any) { s.wake() },
			DeleteFunc: func(any) { s.wake() },
		})
	}
	if err != nil {
		s.Log.Error(err, "Watching failed; changes are seen late", "object", name, "every", recheck)
		return
	}
	factory.Start(ctx.Done())
}

// wake makes the loop of Start run sync. It never blocks: several events before the next sync count as one.
func (s *SelfSigned) wake() {
	select {
	case s.kick <- struct{}{}:
	default: // it is awake already
	}
}
