package main

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/labels"
	ctrl "sigs.k8s.io/controller-runtime"

	"attune.io/attune/certs"
	"attune.io/attune/internal/answers"
	"attune.io/attune/internal/policy"
	"attune.io/attune/internal/workload"
	"attune.io/attune/podview"
	"attune.io/attune/recommender"
	"attune.io/attune/recommender/replicas"
	"attune.io/attune/resize/lifecycle"
	"attune.io/attune/usage/embedded"
	"attune.io/attune/usage/prometheus"
	"attune.io/attune/webhook/server"
)

// Certificate providers and usage sources that the flags accept.
const (
	providerCertManager = "cert-manager"
	providerSelfSigned  = "self-signed"

	sourcePrometheus = "prometheus"
	sourceEmbedded   = "embedded"
)

// sourceKinds are the usage sources by their value of --usage-source. The chart's schema has the same values. A function
// returns the operator's own source, and adds the runnables that it needs to the manager.
var sourceKinds = map[string]func(ctrl.Manager, Config, meters, *sources, tellers) (loopSource, error){
	sourceEmbedded: newKubeletSource, sourcePrometheus: newServerSource,
}

// Options are the operator's flags as given. Flags of a program that does not run have the zero value. register fills
// them, Validate checks them, and nothing changes them afterwards.
type Options struct {
	// program decides which of the groups below have flags.
	program program
	process processOptions
	// certificates and policies have flags in every program, as process has.
	certificates certificateOptions
	// webhooks has flags in a program that serves.
	webhooks webhookOptions
	// policies limits the fields of policies. Its namespaces come from process (see operator).
	policies policy.Operator
	// loops and usage have flags in a program that controls.
	loops loopOptions
	usage usageOptions
}

// processOptions are the flags of every process of the operator.
type processOptions struct {
	// namespace of the operator itself.
	namespace string
	// watched are the namespaces as given; empty means all. Config.watched has the ones that can be watched.
	watched namespaces
	// logLevel is debug, info or error (see levelOf).
	logLevel string
	// metricsAddress and probeAddress are host and port of the two servers; "0" disables one.
	metricsAddress, probeAddress string
	// metricsSecure serves the metrics over TLS, and only to clients that the API server allows (see readers).
	metricsSecure bool
	// metricsAudience must be among the audiences of a reader's token; empty means those of the API server.
	metricsAudience string
}

// certificateOptions configure the source of the webhooks' serving certificate, and the objects that get its CA.
type certificateOptions struct {
	// provider is cert-manager or self-signed.
	provider string
	// service is the name of the webhooks' Service. The certificate is for its DNS names.
	service string
	// selfSigned names the objects that the self-signed provider writes.
	selfSigned certs.Config
}

// webhookOptions configure how the webhooks are served.
type webhookOptions struct {
	// port is the TCP port of the webhooks.
	port int
	// certDir is the folder where cert-manager's certificate is mounted; unused with self-signed.
	certDir string
	// clients restricts the callers of the webhooks; the zero value allows every client.
	clients server.Clients
}

// loopOptions configure the control loops.
type loopOptions struct {
	// leaderElect runs the loops on one replica only.
	leaderElect bool
	// podUID is the UID of the operator's own pod; empty outside a pod (see newLock).
	podUID string
	// decisionsAddress is a loopback address; empty disables serving decisions.
	decisionsAddress string
	// eviction allows evictions for policies that ask for them.
	eviction bool
	// nodeInterval is the time between two reconciles of a node without changes.
	nodeInterval time.Duration
	// largestNode is the size of the largest node in node pools that may be empty; zero means not set.
	largestNode struct{ cpu, memory resource.QuantityValue }
	// nodeLoadTaint enables the taint of overloaded nodes.
	nodeLoadTaint bool
	// hpaTolerance is the tolerance of the cluster's HPAs that set none.
	hpaTolerance float64
	// hpaRetarget allows policies with cpu.hpa Retarget to change the targets of HPAs.
	hpaRetarget bool
	// hpaSyncPeriod is how often the cluster's HPAs are evaluated.
	hpaSyncPeriod time.Duration
	// vpaRole is the ClusterRole that grants writing VerticalPodAutoscalers; empty disables the bridge.
	vpaRole string
	// scaled are the resources of additional kinds of workloads.
	scaled []string
	// excluded are the namespaces in which the webhook sizes no pods, in addition to kube-system and the operator's.
	excluded []string
	// sizedIn is in which of the other namespaces it sizes pods (workload.InLabelled).
	sizedIn string
	// selector has more label expressions of these namespaces.
	selector string
}

// usageOptions configure the usage source and how often the operator reads it.
type usageOptions struct {
	// source is a key of sourceKinds.
	source string
	// interval is the time between two reads of a source, and between two scrapes of a kubelet.
	interval time.Duration
	// kubelets configures how the embedded source verifies the kubelets' certificates.
	kubelets embedded.KubeletTLS
	// nodeSelector is the label selector of the nodes whose kubelets are scraped.
	nodeSelector string
	// scraper is the ServiceAccount whose tokens are sent to kubelets. If empty, the operator sends its own
	// credentials.
	scraper string
	// policyAddresses bound where the servers of policies may be: hosts and networks; empty means anywhere.
	policyAddresses []string
	// prometheus is used by both sources. The embedded source asks the server once, for the time before its first
	// scrape.
	prometheus prometheusOptions
}

// prometheusOptions configure the operator's Prometheus server. Without an address there is no server.
type prometheusOptions struct {
	prometheus.Config
	// caFile is a file with the CA in PEM; empty means the system's CAs.
	caFile string
}

// register adds only the flags of the program.
func (o *Options) register(f *pflag.FlagSet) {
	o.process.register(f)
	registerPolicies(&o.policies, f)
	o.certificates.register(f)
	if o.program.serves {
		o.webhooks.register(f)
	}
	if o.program.controls {
		o.loops.register(f)
		o.usage.register(f)
	}
}

// register adds the flags that every program has. The chart sets the environment variables of their defaults.
func (o *processOptions) register(f *pflag.FlagSet) {
	f.StringVar(&o.namespace, "namespace", os.Getenv("POD_NAMESPACE"), "the operator's namespace")
	f.StringSliceVar((*[]string)(&o.watched), workload.FlagWatched, nil, "namespaces in which the operator reads and writes; empty: all")
	f.StringVar(&o.logLevel, "log-level", "info", "log level: debug, info or error")
	f.StringVar(&o.metricsAddress, "metrics-bind-address", ":8080", "address of /metrics; 0 disables it")
	f.BoolVar(&o.metricsSecure, "metrics-secure", false, "serve /metrics over TLS, only to clients whose bearer token may get /metrics")
	f.StringVar(&o.metricsAudience, "metrics-audience", "", "audience that the bearer token of a reader of /metrics must have; empty: an audience of the API server")
	f.StringVar(&o.probeAddress, "health-probe-bind-address", ":8081", "address of /healthz and /readyz")
}

// registerPolicies adds the limits on policies. The webhook needs them too, because it rejects policies beyond them.
func registerPolicies(o *policy.Operator, f *pflag.FlagSet) {
	f.StringSliceVar(&o.SourceNamespaces, "policy-source-namespaces", nil, "namespaces whose policies may set their own usage source")
	f.IntVar(&o.Steps, "max-history-steps", policy.DefaultSteps, "most samples in the history of a container that a policy may set: historyWindow / queryStep")
	f.DurationVar(&o.RateWindow, "max-rate-window", policy.DefaultRateWindow, "longest rateWindow that a policy may set")
}

// register adds the flags of the certificate. Both programs need them: one issues it, the other reads it.
func (o *certificateOptions) register(f *pflag.FlagSet) {
	f.StringVar(&o.provider, "certs-provider", providerCertManager, "cert-manager, or self-signed: the controller issues and rotates the certificate in --cert-secret")
	f.StringVar(&o.service, "webhook-service", "attune-webhook", "name of the webhooks' Service")
	f.StringVar(&o.selfSigned.Secret, "cert-secret", "attune-webhook-cert", "Secret with the self-signed certificate, in --namespace")
	f.StringVar(&o.selfSigned.Authority, "authority-secret", "attune-webhook-ca", "Secret with the key of the self-signed CA, in --namespace; only the controller reads it")
	f.StringVar(&o.selfSigned.Mutating, "mutating-webhook-config", "attune", "MutatingWebhookConfiguration that gets the self-signed CA")
	f.StringVar(&o.selfSigned.Validating, "validating-webhook-config", "attune", "ValidatingWebhookConfiguration that gets the self-signed CA")
}

// register adds the flags of the webhook server.
func (o *webhookOptions) register(f *pflag.FlagSet) {
	f.IntVar(&o.port, "webhook-port", 9443, "port of the webhooks")
	f.StringVar(&o.certDir, "cert-dir", "/etc/attune/certs", "directory of tls.crt and tls.key if --certs-provider is cert-manager")
	f.StringVar(&o.clients.CAFile, "webhook-client-ca-file", "", "file with the CA certificates that verify callers of the webhooks; empty: every caller is served")
	f.StringSliceVar(&o.clients.Names, "webhook-client-name", nil, "common names that a caller's certificate may have; empty: any")
}

// register adds the flags of the control loops.
func (o *loopOptions) register(f *pflag.FlagSet) {
	f.BoolVar(&o.leaderElect, "leader-elect", true, "run the control loops on one replica only")
	f.StringVar(&o.podUID, "pod-uid", os.Getenv("POD_UID"), "UID of the operator's pod: if the leader's container restarts, it leads again at once")
	f.StringVar(&o.decisionsAddress, "decisions-bind-address", fmt.Sprintf("127.0.0.1:%d", answers.DecisionsPort), "loopback address where the leader serves its decisions about nodes to kubectl attune node; empty disables it")
	f.BoolVar(&o.eviction, "eviction", false, "evict pods for policies that allow it; the operator needs the right to create pods/eviction")
	f.DurationVar(&o.nodeInterval, "node-interval", 5*time.Minute, "interval between two reconciles of a node without events (strategy Node)")
	f.Var(&o.largestNode.cpu, "largest-node-cpu", "allocatable CPU of the largest node that node pools can add, for pools that scale from zero; 0: the largest node seen within the history window")
	f.Var(&o.largestNode.memory, "largest-node-memory", "allocatable memory of the largest node that node pools can add; 0: the largest node seen within the history window")
	f.BoolVar(&o.nodeLoadTaint, "node-load-taint", false, "taint nodes whose CPU is overloaded; the operator needs the right to patch nodes")
	f.Float64Var(&o.hpaTolerance, "hpa-tolerance", replicas.DefaultTolerance, "tolerance of HorizontalPodAutoscalers that set none: --horizontal-pod-autoscaler-tolerance of kube-controller-manager; for policies with cpu.hpa or memory.hpa Keep")
	f.BoolVar(&o.hpaRetarget, "hpa-retarget", false, "change the target CPU utilization of HorizontalPodAutoscalers and ScaledObjects for policies with cpu.hpa Retarget; the operator needs the right to get and patch both")
	f.DurationVar(&o.hpaSyncPeriod, "hpa-sync-period", lifecycle.HPASyncPeriod, "how often HorizontalPodAutoscalers are evaluated: --horizontal-pod-autoscaler-sync-period of kube-controller-manager, from 1s to 5m; a raised request on which one scales is withdrawn if its node does not carry it out in that time")
	f.StringVar(&o.vpaRole, "bridge-vpa-role", "", "ClusterRole that grants writing VerticalPodAutoscalers and owns them; attune writes one for each recommendation, for other programs to read; empty: none")
	f.StringSliceVar(&o.scaled, "scaled-kinds", nil, "more kinds of workloads, with a /scale subresource and a pod template, as RESOURCE.VERSION.GROUP, such as clonesets.v1alpha1.apps.kruise.io; the operator needs the right to list and watch them")
	f.StringSliceVar(&o.excluded, workload.FlagExcluded, nil, "namespaces that the namespaceSelector of the pod webhook excludes, in addition to kube-system, kube-node-lease and --namespace")
	f.StringVar(&o.sizedIn, workload.FlagNamespaces, workload.InLabelled, "namespaces that the namespaceSelector of the pod webhook selects: Labelled (attune.io/inject=enabled) or AllButDisabled (every namespace without attune.io/inject=disabled)")
	f.StringVar(&o.selector, workload.FlagSelector, "", "label selector with more expressions of the namespaceSelector of the pod webhook; empty: all namespaces")
}

// largest returns the largest node that node pools can add, in millicores and bytes; 0 means not set.
func (o *loopOptions) largest() [2]recommender.Amount {
	return [2]recommender.Amount{
		recommender.CPU:    podview.AmountOf(recommender.CPU, o.largestNode.cpu.Quantity),
		recommender.Memory: podview.AmountOf(recommender.Memory, o.largestNode.memory.Quantity),
	}
}

// register adds the flags of the usage sources. Flags of a source that is not selected have no effect.
func (o *usageOptions) register(f *pflag.FlagSet) {
	f.StringVar(&o.source, "usage-source", sourceEmbedded, "usage source: embedded (the operator scrapes kubelets) or prometheus")
	f.DurationVar(&o.interval, "usage-interval", time.Minute, "interval between two queries of the usage source, and between two scrapes of a kubelet: 1s to 10m")
	f.StringVar(&o.kubelets.CAFile, "kubelet-ca-file", "", "file with the CA certificates that verify kubelets; empty: the CA of the API server")
	f.BoolVar(&o.kubelets.InsecureSkipVerify, "kubelet-insecure-skip-verify", false, "accept any certificate of a kubelet")
	f.StringVar(&o.nodeSelector, "embedded-node-selector", embedded.Scrapeable, "label selector of the nodes whose kubelets are scraped")
	f.StringVar(&o.scraper, "scraper-service-account", "", "ServiceAccount in --namespace whose short-lived tokens authenticate scrapes of kubelets; empty: the operator's own credentials")
	f.StringSliceVar(&o.policyAddresses, "policy-source-address", nil, "host, *.domain, IP address or network where the usage sources of policies may be; empty: anywhere")
	f.StringVar(&o.prometheus.Address, "prometheus-address", "", "base URL of a server with the Prometheus HTTP API, such as http://prometheus.monitoring:9090; the embedded source queries it once, for past usage")
	f.StringToStringVar(&o.prometheus.Headers, "prometheus-header", nil, "header sent with every query, as name=value")
	f.StringToStringVar(&o.prometheus.Labels, "prometheus-matcher", nil, "label of all queried series, as name=value, e.g. cluster=eu-1 if the server has several clusters")
	f.StringToStringVar(&o.prometheus.Parameters, "prometheus-query-parameter", nil, "parameter added to every query, as name=value")
	f.StringVar(&o.prometheus.BearerTokenFile, "prometheus-bearer-token-file", "", "file with a bearer token, read again every minute and after the server rejected the token")
	f.StringVar(&o.prometheus.caFile, "prometheus-ca-file", "", "file with the CA certificates that verify the server")
	f.BoolVar(&o.prometheus.TLS.InsecureSkipVerify, "prometheus-insecure-skip-verify", false, "accept any certificate of the server")
}

// Validate returns an error for flags that cannot work: one sentence with the flag, its value and a valid value. It
// checks only the flags of the program, and changes nothing.
func (o *Options) Validate() error {
	checks := []func() error{o.process.validate, o.certificates.validate, o.webhooks.validate, o.validatePolicies}
	if o.program.controls {
		checks = append(checks, o.usage.validate, func() error { return o.loops.validate(o.process.watched) })
	}
	for _, check := range checks {
		if err := check(); err != nil {
			return err
		}
	}
	return nil
}

// validate requires the operator's own namespace, because leases, Secrets and tokens are there.
func (o *processOptions) validate() error {
	if o.namespace == "" {
		return errors.New("--namespace is empty: set it, or the environment variable POD_NAMESPACE, to the operator's own namespace")
	}
	_, err := levelOf(o.logLevel)
	return err
}

// validate checks the provider.
func (o *certificateOptions) validate() error {
	if o.provider != providerCertManager && o.provider != providerSelfSigned {
		return fmt.Errorf("--certs-provider %q is unknown: use %s or %s", o.provider, providerCertManager, providerSelfSigned)
	}
	return nil
}

// validate rejects client names without a CA: the name in an unverified certificate proves nothing.
func (o *webhookOptions) validate() error {
	if len(o.clients.Names) > 0 && o.clients.CAFile == "" {
		return errors.New("--webhook-client-name needs --webhook-client-ca-file: set it to a file with the CA certificates that verify callers")
	}
	return nil
}

// validatePolicies checks that the limits leave room for a working policy.
func (o *Options) validatePolicies() error {
	switch steps, rate := o.policies.Steps, o.policies.RateWindow; {
	case steps < 48 || steps > policy.MostSteps:
		return fmt.Errorf("--max-history-steps %d must be between 48 and %d, such as %d", steps, policy.MostSteps, policy.DefaultSteps)
	case rate < 30*time.Second:
		return fmt.Errorf("--max-rate-window %s is too short: use at least 30s, such as 1h", rate)
	}
	return nil
}

// validate checks the flags of the loops. Features that concern whole nodes need all namespaces, so they exclude
// watched.
func (o *loopOptions) validate(watched namespaces) error {
	switch {
	case o.decisionsAddress != "" && loopback(o.decisionsAddress) != nil:
		return loopback(o.decisionsAddress)
	case len(watched) > 0 && o.eviction:
		return errors.New("--eviction and --watch-namespaces exclude each other: to evict, the operator must see all pods; remove one flag")
	case len(watched) > 0 && o.nodeLoadTaint:
		return errors.New("--node-load-taint and --watch-namespaces exclude each other: a taint affects pods of all namespaces; remove one flag")
	case o.sizedIn != workload.InLabelled && o.sizedIn != workload.InAllButDisabled:
		return fmt.Errorf("--%s %q is unknown: use %s or %s", workload.FlagNamespaces, o.sizedIn, workload.InLabelled, workload.InAllButDisabled)
	case !(o.hpaTolerance > 0 && o.hpaTolerance < 1):
		return fmt.Errorf("--hpa-tolerance %v must be more than 0 and less than 1, such as %v", o.hpaTolerance, replicas.DefaultTolerance)
	case o.hpaSyncPeriod < time.Second || o.hpaSyncPeriod > 5*time.Minute:
		return fmt.Errorf("--hpa-sync-period %s must be from 1s to 5m, such as %s", o.hpaSyncPeriod, lifecycle.HPASyncPeriod)
	case o.nodeInterval < time.Second:
		return fmt.Errorf("--node-interval %s is too short: use at least 1s, such as 5m", o.nodeInterval)
	}
	if _, err := labels.Parse(o.selector); err != nil {
		return fmt.Errorf("--%s %q is not a label selector, such as team!=ops: %w", workload.FlagSelector, o.selector, err)
	}
	_, err := parseScaled(o.scaled)
	return err
}

// longestInterval is below the 15 minutes after which the alert AttuneUsageStale fires for missing samples. It is
// also below the 20 minutes after which usage is too old to act on, with samples of the default interval.
const longestInterval = 10 * time.Minute

// validate checks the selected source.
func (o *usageOptions) validate() error {
	switch {
	case sourceKinds[o.source] == nil:
		return fmt.Errorf("--usage-source %q is unknown: use %s", o.source, strings.Join(slices.Sorted(maps.Keys(sourceKinds)), " or "))
	case o.source == sourcePrometheus && o.prometheus.Address == "":
		return errors.New("--prometheus-address is empty: set it to the server's base URL, such as http://prometheus.monitoring:9090")
	case o.kubelets.CAFile != "" && o.kubelets.InsecureSkipVerify:
		return errors.New("--kubelet-ca-file and --kubelet-insecure-skip-verify exclude each other: remove one")
	case o.interval < time.Second:
		return fmt.Errorf("--usage-interval %s is too short: use at least 1s, such as 1m", o.interval)
	case o.interval > longestInterval:
		return fmt.Errorf("--usage-interval %s is too long: use at most %s, such as 1m", o.interval, longestInterval)
	}
	if _, err := prometheus.ParseAddresses(o.policyAddresses); err != nil {
		return fmt.Errorf("--policy-source-address %w", err)
	}
	if _, err := labels.Parse(o.nodeSelector); err != nil {
		return fmt.Errorf("--embedded-node-selector %q is not a label selector, such as %s: %w", o.nodeSelector, embedded.Scrapeable, err)
	}
	return nil
}
