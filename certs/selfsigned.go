package certs

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"maps"
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

// Config configures a SelfSigned. All fields except Follows are required.
type Config struct {
	// Client reads and writes the Secrets and the webhook configurations.
	Client kubernetes.Interface
	// Namespace and Secret name the Secret that stores the serving certificate. It is created if it is missing.
	Namespace, Secret string
	// Authority names the Secret with the authority that signs, and its key. A process that follows does not read it.
	Authority string
	// DNSNames are the names of the webhooks' Service. The API server calls the Service by them.
	DNSNames []string
	// Mutating and Validating name the webhook configurations whose caBundle is kept up to date. A configuration that
	// does not exist is ignored.
	Mutating, Validating string
	// Follows is true if another process issues and renews the certificate and patches the configurations. This
	// process then only reads, and serves the stored certificate.
	Follows bool
	// Clock decides when renewal is due.
	Clock clock.WithTicker
	// Log receives renewals and failures.
	Log logr.Logger
}

// SelfSigned is a Provider that issues the serving certificate and stores it in a Secret that all replicas share. The
// key of the authority is in a Secret of its own, because the webhook is reachable from the whole pod network: an
// attacker who breaks into it must not be able to issue certificates.
//
// Any replica that does not follow may renew. The Secrets' resourceVersions let one replica win; the others serve the
// certificate that it wrote. Before a replica serves a certificate, it makes sure that the webhook configurations
// trust its authority: it patches them or, if it follows, waits until another process has. So a rotation loses no
// admission review.
type SelfSigned struct {
	// Config is the argument of NewSelfSigned and never changes.
	Config
	// served is the certificate for new connections; nil before the first one. Only the goroutine of Start uses the
	// other fields below, except kick.
	served atomic.Pointer[tls.Certificate]
	// kick has an element if an object has changed since the last sync.
	kick chan struct{}

	// bundle is the last known caBundle of the configurations, and since is when they first had it.
	bundle []byte
	since  time.Time

	// keyFound is when the authority's key was first seen in the serving Secret; zero if it is not there.
	keyFound time.Time
}

var _ Provider = (*SelfSigned)(nil)

// NewSelfSigned returns a SelfSigned, which does nothing before Start.
func NewSelfSigned(config Config) *SelfSigned {
	return &SelfSigned{Config: config, kick: make(chan struct{}, 1)}
}

// GetCertificate returns an error until the first certificate is available.
func (s *SelfSigned) GetCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	if cert := s.served.Load(); cert != nil {
		return cert, nil
	}
	return nil, errors.New("no serving certificate yet")
}

// NeedLeaderElection returns false, because every replica serves.
func (s *SelfSigned) NeedLeaderElection() bool { return false }

// Ready returns nil if a valid certificate is served.
func (s *SelfSigned) Ready(*http.Request) error { return servable(s.Clock, s.served.Load()) }

const (
	// recheck is the longest time between two syncs. It limits the delay after a missed event or a clock that
	// stopped.
	recheck = 10 * time.Minute
	// retry is the delay after a failure.
	retry = 5 * time.Second
)

// Start keeps the certificate fresh until the context ends, then returns nil. It retries failures instead of
// returning them, because a replica that cannot renew still serves its present certificate. It must be called once.
func (s *SelfSigned) Start(ctx context.Context) error {
	s.watch(ctx)
	for {
		wait, err := s.sync(ctx)
		if err != nil {
			s.Log.Error(err, "Cannot check or renew the webhooks' certificate; retrying", "after", wait)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-s.kick:
		case <-s.Clock.After(wait):
		}
	}
}

// sync updates the Secret, the configurations and the served certificate once, and returns the time until the next
// sync. The order is renew, trust, wait, serve (see the package documentation).
func (s *SelfSigned) sync(ctx context.Context) (time.Duration, error) {
	data, next, err := s.renew(ctx)
	if err != nil {
		return retry, err
	}
	if err := s.trust(ctx, data[bundleKey]); err != nil {
		return retry, err
	}
	// Until then the old certificate is served. The bundle has its authority too.
	if left := s.settling(data[bundleKey]); left > 0 {
		return left, nil
	}
	if err := s.serve(data); err != nil {
		return retry, err
	}
	return min(recheck, max(retry, next.Sub(s.Clock.Now()))), nil
}

// attempts limits the retries on a Secret that other replicas write too.
const attempts = 5

// renew reads the Secrets and renews the certificates that are due. It returns data that is valid now, and when the
// next renewal is due. If another replica wrote first, renew reads again, up to attempts times. Each iteration either
// finds nothing to write, or writes and reads again.
func (s *SelfSigned) renew(ctx context.Context) (Data, time.Time, error) {
	if s.Follows {
		return s.issued(ctx)
	}
	for range attempts {
		authority, err := s.read(ctx, s.Authority)
		if err != nil {
			return nil, time.Time{}, err
		}
		serving, err := s.read(ctx, s.Secret)
		if err != nil {
			return nil, time.Time{}, err
		}
		now := s.Clock.Now()
		joined := join(now, dataOf(authority), dataOf(serving))
		plan := PlanFor(now, joined, s.DNSNames)
		wrote, err := s.carryOut(ctx, plan, joined, authority, serving)
		switch {
		case err != nil && !lost(err):
			return nil, time.Time{}, err
		case err == nil && !wrote:
			return joined, plan.Next, nil
		}
	}
	return nil, time.Time{}, fmt.Errorf("other writers changed secret %s/%s or %s during each attempt to write it", s.Namespace, s.Secret, s.Authority)
}

// issued returns the data that another process wrote, if it can be served. It plans no renewal, because a renewal
// by the other process causes an event of the Secret.
func (s *SelfSigned) issued(ctx context.Context) (Data, time.Time, error) {
	secret, err := s.read(ctx, s.Secret)
	switch {
	case err != nil:
		return nil, time.Time{}, err
	case secret == nil:
		return nil, time.Time{}, fmt.Errorf("secret %s/%s does not exist yet: waiting for the controller to create it", s.Namespace, s.Secret)
	}
	now := s.Clock.Now()
	if _, err := readLeaf(now, secret.Data, s.DNSNames); err != nil {
		return nil, time.Time{}, fmt.Errorf("secret %s/%s has no valid certificate: waiting for the controller to renew it: %w", s.Namespace, s.Secret, err)
	}
	return secret.Data, now.Add(recheck), nil
}

// lost reports whether another replica changed the Secret first.
func lost(err error) bool {
	return apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) || apierrors.IsNotFound(err)
}

// read returns nil if the Secret does not exist.
func (s *SelfSigned) read(ctx context.Context, name string) (*corev1.Secret, error) {
	secret, err := s.Client.CoreV1().Secrets(s.Namespace).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading secret %s/%s: %w", s.Namespace, name, err)
	}
	return secret, nil
}

// dataOf returns nil if the Secret does not exist.
func dataOf(secret *corev1.Secret) Data {
	if secret == nil {
		return nil
	}
	return secret.Data
}

// over returns data with the keys of changes set. It keeps the other keys, so that another writer of them is no reason
// to write again and again.
func over(data, changes Data) Data {
	changed := Data{}
	maps.Copy(changed, data)
	maps.Copy(changed, changes)
	return changed
}

// carryOut issues the certificates of a plan and writes the Secrets that differ. It reports whether it wrote any. The
// authority comes first: if the second write fails, the key of what is served is not lost.
func (s *SelfSigned) carryOut(ctx context.Context, plan Plan, joined Data, authority, serving *corev1.Secret) (bool, error) {
	issued, err := Issue(s.Clock.Now(), plan.Action, joined, s.DNSNames)
	if err != nil {
		return false, fmt.Errorf("issuing the certificates of secret %s/%s: %w", s.Namespace, s.Secret, err)
	}
	ofAuthority, ofServing := split(issued)
	if s.handingOver(dataOf(serving)) && plan.Action == Keep {
		ofServing = serving.Data
	}
	wrote, err := s.write(ctx, s.Authority, authority, over(dataOf(authority), ofAuthority))
	if err != nil {
		return false, err
	}
	wroteToo, err := s.write(ctx, s.Secret, serving, ofServing)
	if err != nil {
		return false, err
	}
	switch {
	case plan.Action != Keep:
		s.Log.Info("Renewed the webhooks' certificate", "action", plan.Action, "reason", plan.Reason)
	case wrote || wroteToo:
		s.Log.Info("Brought the Secrets of the webhooks' certificate in line", "authority", s.Authority, "serving", s.Secret)
	}
	return wrote || wroteToo, nil
}

// handover is how long the authority's key stays in the serving Secret after an upgrade from a version that kept it
// there. Replicas of that version replace an authority whose key they miss, so they get time to end.
const handover = recheck

// handingOver reports whether the serving Secret has the authority's key and keeps it for now.
func (s *SelfSigned) handingOver(serving Data) bool {
	if len(serving[authorityKey]) == 0 {
		s.keyFound = time.Time{}
		return false
	}
	if s.keyFound.IsZero() {
		s.keyFound = s.Clock.Now()
	}
	return s.Clock.Now().Before(s.keyFound.Add(handover))
}

// write updates a Secret whose data differs, or creates it if secret is nil, and reports whether it wrote. The update
// carries the resourceVersion, so it fails if the Secret has changed since it was read.
func (s *SelfSigned) write(ctx context.Context, name string, secret *corev1.Secret, data Data) (bool, error) {
	var err error
	switch secrets := s.Client.CoreV1().Secrets(s.Namespace); {
	case secret == nil:
		secret = &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: name}, Type: corev1.SecretTypeOpaque, Data: data}
		_, err = secrets.Create(ctx, secret, metav1.CreateOptions{})
	case maps.EqualFunc(secret.Data, data, bytes.Equal):
		return false, nil
	default:
		secret.Data = data
		_, err = secrets.Update(ctx, secret, metav1.UpdateOptions{})
	}
	if err != nil {
		return false, fmt.Errorf("writing secret %s/%s: %w", s.Namespace, name, err)
	}
	return true, nil
}

// settle is the time for the API servers to see a new bundle before its certificate is served.
const settle = 10 * time.Second

// settling returns the rest of settle since the bundle was first trusted. It returns 0 if no valid certificate is
// served, because waiting would only extend the outage.
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

// serve starts serving a certificate. The configurations must trust it already.
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

// watch wakes the loop of Start when a Secret or a configuration changes. It watches each object by name, because
// the operator has rights for these objects only. A failing watch only causes delay (see recheck).
func (s *SelfSigned) watch(ctx context.Context) {
	s.watchOne(ctx, s.Secret, corev1.SchemeGroupVersion.WithResource("secrets"))
	if !s.Follows {
		s.watchOne(ctx, s.Authority, corev1.SchemeGroupVersion.WithResource("secrets"))
	}
	s.watchOne(ctx, s.Mutating, admissionregistrationv1.SchemeGroupVersion.WithResource("mutatingwebhookconfigurations"))
	s.watchOne(ctx, s.Validating, admissionregistrationv1.SchemeGroupVersion.WithResource("validatingwebhookconfigurations"))
}

// watchOne watches one object by name, until the context ends.
func (s *SelfSigned) watchOne(ctx context.Context, name string, of schema.GroupVersionResource) {
	// Each object needs its own factory, because a factory has one field selector for all its informers.
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
		s.Log.Error(err, "Cannot watch an object; changes are detected late", "object", name, "every", recheck)
		return
	}
	factory.Start(ctx.Done())
}

// wake makes the loop of Start run sync. It never blocks: several events before the next sync count as one.
func (s *SelfSigned) wake() {
	select {
	case s.kick <- struct{}{}:
	default: // a sync is pending already
	}
}
