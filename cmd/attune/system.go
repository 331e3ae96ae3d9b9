package main

import (
	"context"
	"os"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	controllerconfig "sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/certs"
	"attune.io/attune/internal/answers"
	"attune.io/attune/internal/trim"
	"attune.io/attune/internal/workload"
	"attune.io/attune/webhook/server"
)

// passTimeout ends a reconcile whose request to the API server gets no response on an open connection. Watches need
// connections without a timeout, so nothing would end it otherwise, and its object would never be reconciled again.
// The next reconcile continues.
const passTimeout = 2 * time.Minute

// System is the operator, built but not started: a manager with all its runnables. Each constructor below takes its
// dependencies as arguments, so a wrong order of calls does not compile.
type System struct{ mgr ctrl.Manager }

// NewSystem builds the program of the Config. It opens the ports of probes and metrics, so it returns an error if a
// port is in use. It panics if its metrics are in the registry already. ctx bounds the setup only.
//
// It adds the probes last, because listen serves only the checks that were added before.
func NewSystem(ctx context.Context, c Config, registry metrics.RegistererGatherer) (*System, error) {
	provider, err := newCertificates(c)
	if err != nil {
		return nil, err
	}
	// The metrics come before the manager, because the webhook server takes them.
	m := newMeters(&c.Options, registry)
	if provider != nil {
		m.certificates.of[certificateOfWebhook] = provider.GetCertificate
	}
	mgr, err := newManager(c, provider, m)
	if err != nil {
		return nil, err
	}
	for _, waits := range c.waits {
		if err := mgr.Add(waits); err != nil {
			return nil, err
		}
	}
	probes := &probed{Manager: mgr, healthy: map[string]healthz.Checker{}, ready: map[string]healthz.Checker{}}
	if err := addProgram(ctx, probes, c, provider, m); err != nil {
		return nil, err
	}
	// From here on no checks may be added, because listen serves the existing ones.
	if err := probes.listen(c.process.probeAddress, m.dropped); err != nil {
		return nil, err
	}
	if err := serveMetrics(mgr, c, registry, m); err != nil {
		return nil, err
	}
	return &System{mgr}, nil
}

// Run runs the operator until the context ends, then returns nil. Otherwise it returns the error of the part that
// failed. It must be called once.
func (s *System) Run(ctx context.Context) error { return startSynced(ctx, s.mgr, syncedWithin) }

// addProgram adds the parts of the program to the manager: the certificates, the webhooks and the loops.
func addProgram(ctx context.Context, mgr ctrl.Manager, c Config, provider certs.Provider, m meters) error {
	if err := mgr.AddHealthzCheck("ping", healthz.Ping); err != nil {
		return err
	}
	// The webhooks' readiness probe waits for this runnable.
	if provider != nil {
		if err := mgr.Add(provider); err != nil {
			return err
		}
	}
	if c.program.serves {
		if err := addWebhooks(ctx, mgr, c, provider, m); err != nil {
			return err
		}
	}
	if c.program.controls {
		return addLoops(mgr, c, m)
	}
	return nil
}

// newScheme returns a scheme with the kinds of Kubernetes, of attune and of Argo Rollouts.
func newScheme() (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	if err := clientgoscheme.AddToScheme(scheme); err != nil {
		return nil, err
	}
	if err := workload.AddArgoToScheme(scheme); err != nil {
		return nil, err
	}
	return scheme, v1alpha1.AddToScheme(scheme)
}

// newManager returns the manager. Secrets are not cached, because a cache would need the right to list all of them.
// The manager's own servers for metrics and probes are disabled, because they have no limits (see ports.go).
func newManager(c Config, provider certs.Provider, m meters) (ctrl.Manager, error) {
	scheme, err := newScheme()
	if err != nil {
		return nil, err
	}
	for _, kind := range c.kinds.Scaled {
		workload.AddScaledToScheme(scheme, kind)
	}
	lock, err := newLock(&c.Options, c.api.config)
	if err != nil {
		return nil, err
	}
	options := ctrl.Options{
		Scheme:                              scheme,
		Cache:                               cacheOptions(c.watched),
		Client:                              client.Options{Cache: &client.CacheOptions{DisableFor: []client.Object{&corev1.Secret{}}}},
		Metrics:                             metricsserver.Options{BindAddress: switchedOff},
		HealthProbeBindAddress:              switchedOff,
		LeaderElection:                      c.loops.leaderElect,
		LeaderElectionID:                    answers.LeaseName,
		LeaderElectionNamespace:             c.process.namespace,
		LeaderElectionReleaseOnCancel:       true,
		LeaderElectionResourceLockInterface: lock,
		RenewDeadline:                       ptr.To(renewDeadline),
		Controller:                          controllerconfig.Controller{ReconciliationTimeout: passTimeout},
	}
	if c.program.serves {
		options.WebhookServer = server.New(server.Options{
			Port: c.webhooks.port, GetCertificate: provider.GetCertificate, Bytes: c.reviewBytes,
			Clients: c.webhooks.clients, Metrics: m.webhooks,
		})
	}
	return ctrl.NewManager(c.api.config, options)
}

// cacheOptions reduce the memory of the caches: only the fields that loops and webhooks read (trim.Object), and only
// the watched namespaces.
func cacheOptions(watched namespaces) cache.Options {
	return cache.Options{
		DefaultTransform: trim.Object, DefaultNamespaces: watched.cached(),
		ByObject: map[client.Object]cache.ByObject{
			workload.NewObject(v1alpha1.KindReplicaSet).(client.Object): {Label: workload.Whole()},
			&corev1.Event{}: {Field: fields.OneTermEqualSelector("reason", workload.FailedCreate)},
		},
	}
}

// renewDeadline is how long a leader tries to renew its lease before it gives up. It is controller-runtime's default.
const renewDeadline = 10 * time.Second

// newLock returns the lease of the leader. Its holder is the pod, not the process, so a restarted container of the
// leader's pod leads again at once instead of waiting for the lease to expire. Outside a pod it returns nil, and the
// manager creates its own lock with the process as the holder.
func newLock(o *Options, config *rest.Config) (resourcelock.Interface, error) {
	if !o.loops.leaderElect || o.loops.podUID == "" {
		return nil, nil
	}
	host, err := os.Hostname()
	if err != nil {
		return nil, err
	}
	holder := resourcelock.ResourceLockConfig{Identity: host + "_" + o.loops.podUID}
	config = rest.AddUserAgent(rest.CopyConfig(config), "leader-election")
	return resourcelock.NewFromKubeconfig(resourcelock.LeasesResourceLock, o.process.namespace, answers.LeaseName, holder, config, renewDeadline)
}
