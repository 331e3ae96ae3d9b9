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
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/cmd/kubectl-attune/connect"
	"attune.io/attune/internal/workload"
)

// cluster is the API server of a verb. It connects only when Client is called, so verbs that work with files need no
// cluster.
type cluster interface {
	// AddFlags adds the connection flags.
	AddFlags(flags *pflag.FlagSet)
	// Client returns a client that knows attune's kinds. It does not cache.
	Client() (client.Client, error)
	// Namespace returns the namespace of -n, or of the kubeconfig's context, or default.
	Namespace() (string, error)
	// Context returns the name of the kubeconfig's context; empty if not set, as in a pod.
	Context() string
	// Version returns the version of the API server, such as v1.36.2.
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

// newKubeconfig returns a kubeconfig. It reads no file before the first use.
func newKubeconfig() *kubeconfig {
	return &kubeconfig{rules: clientcmd.NewDefaultClientConfigLoadingRules()}
}

// AddFlags adds kubectl's own connection flags.
func (k *kubeconfig) AddFlags(flags *pflag.FlagSet) {
	flags.StringVar(&k.rules.ExplicitPath, "kubeconfig", "", "Path to the kubeconfig file to use")
	clientcmd.BindOverrideFlags(&k.overrides, flags, clientcmd.RecommendedConfigOverrideFlags(""))
	// Only the connection flags exist at this point. Flags that are added later stay visible.
	flags.VisitAll(func(flag *pflag.Flag) { flag.Hidden = !shown[flag.Name] })
}

// shown are the connection flags on the help page. kubectl's other flags work too, but are hidden.
var shown = map[string]bool{"kubeconfig": true, "context": true, "namespace": true, "as": true, "request-timeout": true}

// Namespace implements cluster.
func (k *kubeconfig) Namespace() (string, error) {
	namespace, _, err := k.config().Namespace()
	return namespace, notConnected(err)
}

// Context implements cluster.
func (k *kubeconfig) Context() string {
	raw, err := k.config().RawConfig()
	if err != nil {
		return ""
	}
	return cmp.Or(k.overrides.CurrentContext, raw.CurrentContext)
}

// Client implements cluster. The client has the user's own rights.
func (k *kubeconfig) Client() (client.Client, error) {
	config, err := k.rest()
	if err != nil {
		return nil, err
	}
	// controller-runtime prints a warning if it has no logger. The plugin's stderr is for users.
	log.SetLogger(logr.Discard())
	return client.New(config, client.Options{Scheme: newScheme()})
}

// Version implements cluster.
func (k *kubeconfig) Version() (string, error) {
	config, err := k.rest()
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
	config, err := k.rest()
	if err != nil {
		return connect.Answer{}, err
	}
	return connect.Fetch(ctx, config, namespace, pod, port, path)
}

// config merges the files and the flags. It never asks for a password.
func (k *kubeconfig) config() clientcmd.ClientConfig {
	return clientcmd.NewNonInteractiveDeferredLoadingClientConfig(k.rules, &k.overrides)
}

// rest returns the connection to the API server.
func (k *kubeconfig) rest() (*rest.Config, error) {
	config, err := k.config().ClientConfig()
	return config, notConnected(err)
}

// notConnected says that an error of the kubeconfig prevents the connection. The sentence of client-go for an empty
// configuration names the obsolete variable KUBERNETES_MASTER.
func notConnected(err error) error {
	switch {
	case clientcmd.IsEmptyConfig(err):
		return errors.New("cannot connect to a cluster: no kubeconfig was found. Use --kubeconfig FILE, or set KUBECONFIG")
	case err != nil:
		return fmt.Errorf("cannot connect to a cluster: %w", err)
	}
	return nil
}

// newScheme returns a scheme with the kinds of Kubernetes, of attune and of Argo Rollouts.
func newScheme() *runtime.Scheme {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, v1alpha1.AddToScheme, workload.AddArgoToScheme} {
		if err := add(scheme); err != nil {
			panic(err) // Two Go types for one kind: a bug in this program.
		}
	}
	return scheme
}

// plain replaces an API error with a sentence that names the fix. It knows two causes: the kinds are not installed,
// and a missing right. It returns any other error unchanged.
func plain(err error) error {
	switch {
	case meta.IsNoMatchError(err):
		return errors.New("attune's CustomResourceDefinitions are not installed in this cluster: install the chart, or select another cluster with --context")
	case apierrors.IsForbidden(err):
		return fmt.Errorf("missing permission: %w", err)
	}
	return err
}
