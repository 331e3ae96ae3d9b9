package main

import (
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/api/resource"

	"attune.io/attune/internal/decision"
	"attune.io/attune/internal/policy"
	"attune.io/attune/usage/embedded"
	"attune.io/attune/webhook/server"
)

// minDisk is what two hours of some hundred containers and their log fit into.
const minDisk = 128 << 20

// Certificate providers and usage sources that the flags accept.
const (
	providerCertManager = "cert-manager"
	providerSelfSigned  = "self-signed"

	sourcePrometheus = "prometheus"
	sourceEmbedded   = "embedded"
)

// options are the operator's flags as given. Those of a program that does not run are as Go makes them.
type options struct {
	program program

	namespace string
	// watchNamespaces as given; watched are those of them that can be.
	watchNamespaces, watched     namespaces
	logLevel                     string
	metricsAddress, probeAddress string
	metricsSecure                bool

	leaderElect      bool
	podUID           string
	decisionsAddress string

	webhookPort      int
	webhookService   string
	webhookClients   server.Clients
	certsProvider    string
	certDir          string
	certSecret       string
	mutatingConfig   string
	validatingConfig string

	usageSource   string
	usageInterval time.Duration
	disk          diskOptions
	kubelet       kubeletOptions
	prometheus    prometheusOptions
	policySources []string
	mostSteps     int
	mostRate      time.Duration

	eviction      bool
	nodeInterval  time.Duration
	nodeLoadTaint bool

	// own is the embedded source; nil where the source is a server.
	own *embedded.Source
	// meters count what is asked of the sources, and at admission.
	meters meters
	// clients of the servers that are asked about watched pods and nodes.
	clients clients
}

// diskOptions say where the embedded source keeps raw samples.
type diskOptions struct {
	dir       string
	retention time.Duration
	size      resource.QuantityValue
}

// kubeletOptions say how kubelets' certificates are verified, and what kubelets are shown.
type kubeletOptions struct {
	caFile             string
	insecureSkipVerify bool
	// scraper is the ServiceAccount whose tokens kubelets are shown; empty: the operator's own credentials are.
	scraper string
}

// prometheusOptions address the operator's own source.
type prometheusOptions struct {
	address            string
	headers            map[string]string
	queryParameters    map[string]string
	matchers           map[string]string
	bearerTokenFile    string
	caFile             string
	insecureSkipVerify bool
}

// register the flags of the program, and no other's.
func (o *options) register(f *pflag.FlagSet) {
	o.registerAll(f)
	o.registerCertificates(f)
	if o.program.serves {
		o.registerServing(f)
	}
	if o.program.controls {
		o.registerControl(f)
		o.registerUsage(f)
	}
}

func (o *options) registerAll(f *pflag.FlagSet) {
	f.StringVar(&o.namespace, "namespace", os.Getenv("POD_NAMESPACE"), "the operator's own namespace")
	f.StringSliceVar((*[]string)(&o.watchNamespaces), "watch-namespaces", nil, "namespaces that the operator reads and writes in; empty: all")
	f.StringVar(&o.logLevel, "log-level", "info", "debug, info or error")
	f.StringVar(&o.metricsAddress, "metrics-bind-address", ":8080", "address of /metrics; 0 switches it off")
	f.BoolVar(&o.metricsSecure, "metrics-secure", false, "serve /metrics over TLS, to those alone whose bearer token may get /metrics")
	f.StringVar(&o.probeAddress, "health-probe-bind-address", ":8081", "address of /healthz and /readyz")
	f.StringSliceVar(&o.policySources, "policy-source-namespaces", nil, "namespaces whose policies may name their own usage source")
	f.IntVar(&o.mostSteps, "max-history-steps", policy.DefaultSteps, "steps of history that a policy may keep of a container: historyWindow / queryStep")
	f.DurationVar(&o.mostRate, "max-rate-window", policy.DefaultRateWindow, "longest rateWindow of a policy")
}

func (o *options) registerCertificates(f *pflag.FlagSet) {
	f.StringVar(&o.certsProvider, "certs-provider", providerCertManager, "cert-manager, or self-signed: issued and rotated by the controller, in --cert-secret")
	f.StringVar(&o.webhookService, "webhook-service", "attune-webhook", "name of the webhooks' Service")
	f.StringVar(&o.certSecret, "cert-secret", "attune-webhook-cert", "Secret of the self-signed certificate, in --namespace")
	f.StringVar(&o.mutatingConfig, "mutating-webhook-config", "attune", "MutatingWebhookConfiguration that gets the self-signed CA")
	f.StringVar(&o.validatingConfig, "validating-webhook-config", "attune", "ValidatingWebhookConfiguration that gets the self-signed CA")
}

func (o *options) registerServing(f *pflag.FlagSet) {
	f.IntVar(&o.webhookPort, "webhook-port", 9443, "port of the webhooks")
	f.StringVar(&o.certDir, "cert-dir", "/etc/attune/certs", "folder of tls.crt and tls.key where --certs-provider is cert-manager")
	f.StringVar(&o.webhookClients.CAFile, "webhook-client-ca-file", "", "file with the certificates that who calls the webhooks is verified with; empty: anybody may call")
	f.StringSliceVar(&o.webhookClients.Names, "webhook-client-name", nil, "common names that a caller's certificate may have; empty: any")
}

func (o *options) registerControl(f *pflag.FlagSet) {
	f.BoolVar(&o.leaderElect, "leader-elect", true, "run the control loops on one replica only")
	f.StringVar(&o.podUID, "pod-uid", os.Getenv("POD_UID"), "UID of the operator's own pod: where a process of it led, its next one leads on at once")
	f.StringVar(&o.decisionsAddress, "decisions-bind-address", fmt.Sprintf("127.0.0.1:%d", decision.Port), "loopback address where the leader says what it decided about a node, for kubectl attune node; empty switches it off")
	f.BoolVar(&o.eviction, "eviction", false, "evict pods for policies that ask for it; the operator must have been granted to create pods/eviction")
	f.DurationVar(&o.nodeInterval, "node-interval", 5*time.Minute, "time between two looks at a node where nothing happens (strategy Node)")
	f.BoolVar(&o.nodeLoadTaint, "node-load-taint", false, "taint nodes whose CPU is overloaded; the operator must have been granted to patch nodes")
}

func (o *options) registerUsage(f *pflag.FlagSet) {
	f.StringVar(&o.usageSource, "usage-source", sourceEmbedded, "where usage history comes from: embedded (the kubelets, scraped by the operator) or prometheus")
	f.DurationVar(&o.usageInterval, "usage-interval", time.Minute, "time between two looks at the usage source, and between two scrapes of a kubelet")
	f.StringVar(&o.disk.dir, "usage-dir", "", "folder for the raw samples of the embedded source; empty: they are kept in memory only, for minutes")
	f.DurationVar(&o.disk.retention, "usage-retention", 8*24*time.Hour, "how long raw samples are kept in --usage-dir")
	o.disk.size.Quantity = resource.MustParse("1Gi")
	f.Var(&o.disk.size, "usage-size", "what --usage-dir may take")
	f.StringVar(&o.kubelet.caFile, "kubelet-ca-file", "", "file with the certificates that kubelets are verified with; empty: those of the API server")
	f.BoolVar(&o.kubelet.insecureSkipVerify, "kubelet-insecure-skip-verify", false, "accept any certificate of a kubelet")
	f.StringVar(&o.kubelet.scraper, "scraper-service-account", "", "ServiceAccount in --namespace whose short-lived tokens kubelets are shown; empty: the operator's own credentials are")
	f.StringVar(&o.prometheus.address, "prometheus-address", "", "base URL of a server with the Prometheus HTTP API, such as http://prometheus.monitoring:9090; with the embedded source, it is asked once for what was before")
	f.StringToStringVar(&o.prometheus.headers, "prometheus-header", nil, "header sent with every query, as name=value")
	f.StringToStringVar(&o.prometheus.matchers, "prometheus-matcher", nil, "label that every series has that is asked for, as name=value, e.g. cluster=eu-1 where the server knows several clusters")
	f.StringToStringVar(&o.prometheus.queryParameters, "prometheus-query-parameter", nil, "parameter added to every query, as name=value")
	f.StringVar(&o.prometheus.bearerTokenFile, "prometheus-bearer-token-file", "", "file with a bearer token, read again every minute and where it was refused")
	f.StringVar(&o.prometheus.caFile, "prometheus-ca-file", "", "file with the certificates that the server's own is verified with")
	f.BoolVar(&o.prometheus.insecureSkipVerify, "prometheus-insecure-skip-verify", false, "accept any certificate of the server")
}

// operator is what policies are allowed.
func (o *options) operator() policy.Operator {
	return policy.Operator{SourceNamespaces: o.policySources, Steps: o.mostSteps, RateWindow: o.mostRate, SomeNamespaces: len(o.watchNamespaces) > 0}
}

// validate refuses flags that cannot work, in one sentence that names the flag and what would do.
func (o *options) validate() error {
	switch {
	case o.namespace == "":
		return errors.New("--namespace is empty: set it, or the environment variable POD_NAMESPACE, to the operator's own namespace")
	case o.certsProvider != providerCertManager && o.certsProvider != providerSelfSigned:
		return fmt.Errorf("--certs-provider %q is unknown: use %s or %s", o.certsProvider, providerCertManager, providerSelfSigned)
	case len(o.webhookClients.Names) > 0 && o.webhookClients.CAFile == "":
		return errors.New("--webhook-client-name needs --webhook-client-ca-file: set it to the file with the certificates that callers are verified with")
	case o.mostSteps < 48 || o.mostSteps > policy.MostSteps:
		return fmt.Errorf("--max-history-steps %d must be between 48 and %d, such as %d", o.mostSteps, policy.MostSteps, policy.DefaultSteps)
	case o.mostRate < 30*time.Second:
		return fmt.Errorf("--max-rate-window %s is too short: use at least 30s, such as 1h", o.mostRate)
	case o.program.controls:
		return o.validateControl()
	}
	return nil
}

func (o *options) validateControl() error {
	if err := o.validateUsage(); err != nil {
		return err
	}
	switch {
	case o.decisionsAddress != "" && loopback(o.decisionsAddress) != nil:
		return loopback(o.decisionsAddress)
	case len(o.watchNamespaces) > 0 && o.eviction:
		return errors.New("--eviction goes with all namespaces alone: whether an evicted pod finds a place is up to pods of other ones too; leave it out, or leave --watch-namespaces out")
	case len(o.watchNamespaces) > 0 && o.nodeLoadTaint:
		return errors.New("--node-load-taint goes with all namespaces alone: a taint is for every namespace's pods; leave it out, or leave --watch-namespaces out")
	case o.nodeInterval < time.Second:
		return fmt.Errorf("--node-interval %s is too short: use at least 1s, such as 5m", o.nodeInterval)
	}
	return nil
}

// validateUsage of where usage comes from.
func (o *options) validateUsage() error {
	switch {
	case o.usageSource != sourcePrometheus && o.usageSource != sourceEmbedded:
		return fmt.Errorf("--usage-source %q is unknown: use %s or %s", o.usageSource, sourceEmbedded, sourcePrometheus)
	case o.usageSource == sourcePrometheus && o.prometheus.address == "":
		return errors.New("--prometheus-address is empty: set it to the server's base URL, such as http://prometheus.monitoring:9090")
	case o.disk.retention < time.Hour:
		return fmt.Errorf("--usage-retention %s is too short: use at least 1h, such as 192h", o.disk.retention)
	case o.disk.size.Value() < minDisk:
		return fmt.Errorf("--usage-size %s is too small: use at least 128Mi, such as 1Gi", o.disk.size.String())
	case o.kubelet.caFile != "" && o.kubelet.insecureSkipVerify:
		return errors.New("--kubelet-ca-file and --kubelet-insecure-skip-verify exclude each other: leave one out")
	case o.usageInterval < time.Second:
		return fmt.Errorf("--usage-interval %s is too short: use at least 1s, such as 1m", o.usageInterval)
	}
	return nil
}
