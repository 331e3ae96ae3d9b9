package main

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/kubernetes"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	controllerconfig "sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/certs"
	policyloop "attune.io/attune/controller/policy"
	usageloop "attune.io/attune/controller/usage"
	workloadloop "attune.io/attune/controller/workload"
	"attune.io/attune/internal/autoscale/lookup"
	"attune.io/attune/internal/decision"
	events "attune.io/attune/internal/event"
	policylookup "attune.io/attune/internal/policy/lookup"
	"attune.io/attune/internal/trim"
	"attune.io/attune/internal/workload"
	"attune.io/attune/usage"
	"attune.io/attune/usage/history"
	"attune.io/attune/webhook/pod"
	"attune.io/attune/webhook/validation"
)

// run builds the operator from its flags and runs it until the context ends.
func (o *options) run(ctx context.Context) error {
	logger, err := newLogger(o.logLevel)
	if err != nil {
		return err
	}
	ctrl.SetLogger(logger)
	if err := sparing(); err != nil {
		return err
	}
	config, err := ctrl.GetConfig()
	if err != nil {
		return fmt.Errorf("finding the API server: %w", err)
	}
	config.Wrap(evictionsAtOnce)
	config.UserAgent = "attune"
	provider, err := o.certificates(config)
	if err != nil {
		return err
	}
	o.meters = o.newMeters(metrics.Registry)
	left, err := o.watchedOf(ctx, config)
	if err != nil {
		return err
	}
	mgr, err := o.manager(config, provider)
	if err != nil {
		return err
	}
	if left != nil {
		if err := mgr.Add(left); err != nil {
			return err
		}
	}
	probes := &probed{Manager: mgr, healthy: map[string]healthz.Checker{}, ready: map[string]healthz.Checker{}}
	if err := o.add(ctx, probes, provider); err != nil {
		return err
	}
	if err := probes.listen(o.probeAddress, o.meters.dropped); err != nil {
		return err
	}
	if err := o.serveMetrics(mgr, config, metrics.Registry); err != nil {
		return err
	}
	return startSynced(ctx, mgr, syncedWithin)
}

// add what the program does.
func (o *options) add(ctx context.Context, mgr ctrl.Manager, provider certs.Provider) error {
	if err := mgr.AddHealthzCheck("ping", healthz.Ping); err != nil {
		return err
	}
	if provider != nil {
		if err := mgr.Add(provider); err != nil {
			return err
		}
	}
	if o.program.serves {
		if err := o.serve(ctx, mgr, provider); err != nil {
			return err
		}
	}
	if o.program.controls {
		return o.control(mgr)
	}
	return nil
}

// passTimeout ends a pass whose call to the API server is never answered, although its connection stands: watches
// want connections without a limit, and the object would never be looked at again. The next pass goes on where a
// long one was ended.
const passTimeout = 2 * time.Minute

func newScheme() (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	if err := clientgoscheme.AddToScheme(scheme); err != nil {
		return nil, err
	}
	return scheme, v1alpha1.AddToScheme(scheme)
}

// certificates are where the webhook's serving certificate comes from; nil where the program neither serves nor issues it.
//
// The controller issues the self-signed one, and has the rights to write it and to have webhook configurations trust it.
// The webhook is what anybody on the pod network can talk to: it reads the Secret, and changes nothing anywhere.
func (o *options) certificates(config *rest.Config) (certs.Provider, error) {
	if o.certsProvider == providerCertManager {
		if !o.program.serves {
			return nil, nil
		}
		return certs.NewFiles(o.certDir, clock.RealClock{})
	}
	clients, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	host := o.webhookService + "." + o.namespace
	return certs.NewSelfSigned(certs.Config{
		Client: clients, Namespace: o.namespace, Secret: o.certSecret,
		DNSNames: []string{host + ".svc", host + ".svc.cluster.local"},
		Mutating: []string{o.mutatingConfig}, Validating: []string{o.validatingConfig},
		Follows: !o.program.controls,
		Clock:   clock.RealClock{}, Log: ctrl.Log.WithName("certs"),
	}), nil
}

func (o *options) manager(config *rest.Config, provider certs.Provider) (ctrl.Manager, error) {
	scheme, err := newScheme()
	if err != nil {
		return nil, err
	}
	lock, err := o.lock(config)
	if err != nil {
		return nil, err
	}
	options := ctrl.Options{
		Scheme:                              scheme,
		Cache:                               cacheOptions(o.watched),
		Client:                              client.Options{Cache: &client.CacheOptions{DisableFor: []client.Object{&corev1.Secret{}}}},
		Metrics:                             metricsserver.Options{BindAddress: switchedOff},
		HealthProbeBindAddress:              switchedOff,
		LeaderElection:                      o.leaderElect,
		LeaderElectionID:                    decision.LeaseName,
		LeaderElectionNamespace:             o.namespace,
		LeaderElectionReleaseOnCancel:       true,
		LeaderElectionResourceLockInterface: lock,
		RenewDeadline:                       ptr.To(renewDeadline),
		Controller:                          controllerconfig.Controller{ReconciliationTimeout: passTimeout},
	}
	if o.program.serves {
		options.WebhookServer = o.webhooks(provider)
	}
	return ctrl.NewManager(config, options)
}

// cacheOptions keep of each object what somebody here reads.
func cacheOptions(watched namespaces) cache.Options {
	return cache.Options{
		DefaultTransform: trim.Object, DefaultNamespaces: watched.cached(),
		ByObject: map[client.Object]cache.ByObject{workload.NewObject(v1alpha1.KindReplicaSet).(client.Object): {Label: workload.Whole()}},
	}
}

// serve adds what every replica of the webhook does: the webhooks, and the probes that say whether they can be called.
func (o *options) serve(ctx context.Context, mgr ctrl.Manager, provider certs.Provider) error {
	index := pod.NewIndex()
	fed, err := index.Feed(ctx, mgr.GetCache())
	if err != nil {
		return err
	}
	mgr.GetWebhookServer().Register(pod.Path, &pod.Handler{
		Known: index, Metrics: o.meters.admission, Clock: clock.RealClock{}, Log: ctrl.Log.WithName("admission"),
	})
	// The first question about a policy finds them read.
	for _, defaults := range []client.Object{&v1alpha1.AttuneDefaults{}, &v1alpha1.AttuneNamespaceDefaults{}} {
		if _, err := mgr.GetCache().GetInformer(ctx, defaults, cache.BlockUntilSynced(false)); err != nil {
			return fmt.Errorf("watching %T: %w", defaults, err)
		}
	}
	validation.Register(mgr.GetWebhookServer(), mgr.GetScheme(), watchedReader{mgr.GetClient(), o.watched}, o.operator())
	if err := mgr.AddReadyzCheck("certificate", provider.Ready); err != nil {
		return err
	}
	return mgr.AddReadyzCheck("known", fed)
}

// control adds what the leader of the controller does: the loops.
func (o *options) control(mgr ctrl.Manager) error {
	version, err := serverVersion(mgr.GetConfig())
	if err != nil {
		return err
	}
	fresh := make(chan event.TypedGenericEvent[string], 1024)
	changed := func(namespace string) { fresh <- event.TypedGenericEvent[string]{Object: namespace} }
	if o.usageSource == sourceEmbedded {
		if err := o.embed(mgr); err != nil {
			return err
		}
	}
	histories := history.New(history.Options{
		Dial: o.dialer(mgr.GetAPIReader()), Changed: changed, MaxBytes: historyBytes(),
		Forgets: func(s usage.SourceSettings) bool { return s.Prometheus == nil && o.own != nil },
	})
	autoscalers, err := autoscalersOf(mgr, changed)
	if err != nil {
		return err
	}
	settings := policylookup.Reader{Client: mgr.GetClient(), Operator: o.operator()}
	recorder := events.NewRecorder(mgr.GetEventRecorder("attune"), clock.RealClock{})
	policies := &policyloop.Controller{
		Operator: o.namespace, Client: mgr.GetClient(), History: histories, Checkpoints: histories, Autoscalers: autoscalers, Clock: clock.RealClock{},
		Settings: settings, Events: recorder,
	}
	shared := o.sharing(o.dialer(mgr.GetAPIReader()))
	if err := policies.Register(mgr, fresh); err != nil {
		return fmt.Errorf("setting up the policy loop: %w", err)
	}
	rights, err := rightsOf(mgr, o.watched)
	if err != nil {
		return err
	}
	served, err := servedOf(mgr)
	if err != nil {
		return err
	}
	workloads := &workloadloop.Controller{
		Operator:  o.namespace,
		Evictions: o.eviction,
		Client:    mgr.GetClient(), Live: mgr.GetAPIReader(), Clock: clock.RealClock{}, Settings: settings, Autoscalers: autoscalers, ServerVersion: version, Gauges: o.gauges(mgr.GetAPIReader()), Rights: rights, Served: served,
		Events: recorder,
	}
	shared.connect(policies, workloads)
	if err := workloads.Register(mgr, shared.look); err != nil {
		return fmt.Errorf("setting up the workload loop: %w", err)
	}
	if err := shared.start(mgr, o, recorder); err != nil {
		return err
	}
	load, err := o.watchLoad(mgr, recorder)
	if err != nil {
		return err
	}
	workloads.Lately = o.lately(shared.recent, load)
	return mgr.Add(&usageloop.Loop{Store: histories, Interval: o.usageInterval, Clock: clock.RealClock{}})
}

// autoscalersOf follows the cluster's HPAs and, where there are any, VPAs.
func autoscalersOf(mgr ctrl.Manager, changed func(namespace string)) (*lookup.Lookup, error) {
	served, err := discovery.NewDiscoveryClientForConfig(mgr.GetConfig())
	if err != nil {
		return nil, err
	}
	autoscalers, err := lookup.New(context.Background(), lookup.Options{Cache: mgr.GetCache(), Served: served, Changed: changed, Clock: clock.RealClock{}})
	if err != nil {
		return nil, err
	}
	return autoscalers, mgr.Add(autoscalers)
}

func serverVersion(config *rest.Config) (string, error) {
	d, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return "", err
	}
	info, err := d.ServerVersion()
	if err != nil {
		return "", fmt.Errorf("asking the API server for its version: %w", err)
	}
	return info.GitVersion, nil
}

var _ manager.Runnable = (*usageloop.Loop)(nil)
