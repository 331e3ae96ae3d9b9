package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/go-logr/logr"
	"github.com/spf13/pflag"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/discovery"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/cmd/kubectl-attune/connect"
	"attune.io/attune/internal/workload"
)

// cluster is the API server of a verb. No connection is made before Client is called, so that the verbs that work
// with files need no cluster.
type cluster interface {
	// AddFlags adds the connection flags.
	AddFlags(flags *pflag.FlagSet)
	// Client makes a client that knows attune's kinds. It does not cache.
	Client() (client.Client, error)
	// Namespace returns that of -n, else that of the kubeconfig's context, else default.
	Namespace() (string, error)
	// Context is the name of that of the kubeconfig; empty: there is none, as within a pod.
	Context() string
	// Version returns that of the API server, such as v1.36.2.
	Version() (string, error)
	// FetchPod sends a GET to a port on a pod's loopback address (connect.Fetch).
	FetchPod(ctx context.Context, namespace, pod string, port int, path string) (connect.Answer, error)
}

// kubeconfig connects to the cluster as kubectl does: by --kubeconfig, $KUBECONFIG, ~/.kube/config, or the service
// account of the pod.
type kubeconfig struct {
	// rules say which files are read, overrides which values the flags replace.
	rules     *clientcmd.ClientConfigLoadingRules
	overrides clientcmd.ConfigOverrides
}

// newKubeconfig makes a kubeconfig. No file is read before the first use.
func newKubeconfig() *kubeconfig {
	return &kubeconfig{rules: clientcmd.NewDefaultClientConfigLoadingRules()}
}

// AddFlags adds kubectl's own connection flags.
func (k *kubeconfig) AddFlags(flags *pflag.FlagSet) {
	flags.StringVar(&k.rules.ExplicitPath, "kubeconfig", "", "Path to the kubeconfig file to use")
	clientcmd.BindOverrideFlags(&k.overrides, flags, clientcmd.RecommendedConfigOverrideFlags(""))
	// Only the connection flags exist here so far: other flags are added later and stay visible.
	flags.VisitAll(func(flag *pflag.Flag) { flag.Hidden = !shown[flag.Name] })
}

// shown are the connection flags on the help page. kubectl's other flags work too but are hidden.
var shown = map[string]bool{"kubeconfig": true, "context": true, "namespace": true, "as": true, "request-timeout": true}

// Namespace implements cluster.
func (k *kubeconfig) Namespace() (string, error) {
	namespace, _, err := k.config().Namespace()
	return namespace, err
}

// Context implements cluster.
func (k *kubeconfig) Context() string {
	raw, err := k.config().RawConfig()
	if err != nil {
		return ""
	}
	return cmp.Or(k.overrides.CurrentContext, raw.CurrentContext)
}

// Client implements cluster.
// The client connects with the user's own rights.
func (k *kubeconfig) Client() (client.Client, error) {
	config, err := k.config().ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("no cluster to talk to: %w", err)
	}
	// controller-runtime warns once when it has no logger. The plugin's stderr is for people.
	log.SetLogger(logr.Discard())
	return client.New(config, client.Options{Scheme: newScheme()})
}

// Version implements cluster.
func (k *kubeconfig) Version() (string, error) {
	config, err := k.config().ClientConfig()
	if err != nil {
		return "", err
	}
	asked, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return "", err
	}
	info, err := asked.ServerVersion()
	if err != nil {
		return "", err
	}
	return info.GitVersion, nil
}

// FetchPod implements cluster.
func (k *kubeconfig) FetchPod(ctx context.Context, namespace, pod string, port int, path string) (connect.Answer, error) {
	config, err := k.config().ClientConfig()
	if err != nil {
		return connect.Answer{}, err
	}
	return connect.Fetch(ctx, config, namespace, pod, port, path)
}

// config merges the files and the flags. It never asks for a password.
func (k *kubeconfig) config() clientcmd.ClientConfig {
	return clientcmd.NewNonInteractiveDeferredLoadingClientConfig(k.rules, &k.overrides)
}

// newScheme knows the kinds of Kubernetes and those of attune.
func newScheme() *runtime.Scheme {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, v1alpha1.AddToScheme, workload.AddArgoToScheme} {
		if err := add(scheme); err != nil {
			panic(err) // Two Go types for one kind: no cluster and no user can cause it.
		}
	}
	return scheme
}

// plain replaces an API error by a sentence that says what the user can do, where one is known.
// Two causes are known: the kinds are not installed, and a right is missing. Any other error is returned as it is.
func plain(err error) error {
	switch {
	case meta.IsNoMatchError(err):
		return errors.New("this cluster does not know attune's kinds: install the chart, or choose another cluster with --context")
	case apierrors.IsForbidden(err):
		return fmt.Errorf("your user lacks a right that this needs: %w", err)
	}
	return err
}
