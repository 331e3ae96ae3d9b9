// Package install installs, upgrades and uninstalls the chart with Helm on a real API server and controller manager, without
// nodes. No pod ever starts there, as with an image that cannot be pulled.
package install

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/test/apiserver"
	"attune.io/attune/test/cluster"
)

const (
	system   = "attune-system"
	patience = 5 * time.Minute
)

// server is the API server of all tests; config is its kubeconfig, helm and chart are paths.
var (
	server              *rest.Config
	config, helm, chart string
)

func TestMain(m *testing.M) {
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, "install:", err)
		code = 1
	}
	os.Exit(code)
}

func run(m *testing.M) (code int, err error) {
	project, err := cluster.ProjectDir()
	if err != nil {
		return 1, err
	}
	chart = filepath.Join(project, "charts", "attune")
	env, err := apiserver.New()
	if err != nil {
		return 1, err
	}
	env.CRDDirectoryPaths, env.ErrorIfCRDPathMissing = nil, false // the chart installs them
	tools, err := cluster.Build(context.Background(), cluster.Options{Progress: os.Stderr})
	if err != nil {
		return 1, err
	}
	if helm, err = tools.Find("helm"); err != nil {
		return 1, err
	}
	manager, err := tools.Find("kube-controller-manager")
	if err != nil {
		return 1, err
	}
	if server, err = env.Start(); err != nil {
		return 1, errors.Join(err, env.Stop())
	}
	defer func() { err = errors.Join(err, env.Stop()) }()
	dir, err := os.MkdirTemp("", "attune-install-")
	if err != nil {
		return 1, err
	}
	defer os.RemoveAll(dir)
	config = filepath.Join(dir, "config")
	if err := os.WriteFile(config, env.KubeConfig, 0o600); err != nil {
		return 1, err
	}
	ctx, stop := context.WithCancel(context.Background())
	controllers := exec.CommandContext(ctx, manager, "--kubeconfig="+config, "--leader-elect=false", "--secure-port=0",
		"--controllers=deployment-controller,replicaset-controller,job-controller,garbage-collector-controller")
	if err := controllers.Start(); err != nil {
		stop()
		return 1, err
	}
	defer func() { stop(); _ = controllers.Wait() }()
	return m.Run(), nil
}

func scheme(t *testing.T) *runtime.Scheme {
	t.Helper()
	s := runtime.NewScheme()
	require.NoError(t, clientgoscheme.AddToScheme(s))
	require.NoError(t, apiextensionsv1.AddToScheme(s))
	require.NoError(t, v1alpha1.AddToScheme(s))
	return s
}

func newClient(t *testing.T) client.Client {
	t.Helper()
	c, err := client.New(server, client.Options{Scheme: scheme(t)})
	require.NoError(t, err)
	return c
}

// runHelm returns what Helm printed.
func runHelm(t *testing.T, args ...string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), helm, append(args, "--kubeconfig", config)...)
	cmd.Env = append(os.Environ(), "HOME="+t.TempDir())
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func installed(t *testing.T, name string, args ...string) {
	t.Helper()
	out, err := runHelm(t, append([]string{"install", name, chart, "--namespace", system, "--create-namespace"}, args...)...)
	require.NoError(t, err, out)
}

// providerOf is the issuer of the certificate that the installed controller uses.
func providerOf(t *testing.T, c client.Client) []string {
	t.Helper()
	var d appsv1.Deployment
	require.NoError(t, c.Get(t.Context(), client.ObjectKey{Namespace: system, Name: "attune"}, &d))
	return d.Spec.Template.Spec.Containers[0].Args
}

// TestReleaseWhoseImageCannotBePulled: its uninstall ends with the deadline of the Job, removes the release, and what it leaves
// can be installed again.
func TestReleaseWhoseImageCannotBePulled(t *testing.T) {
	c := newClient(t)
	installed(t, "attune", "--set", "uninstall.deadlineSeconds=10")
	policy := &v1alpha1.AttunePolicy{}
	policy.Namespace, policy.Name, policy.Finalizers = metav1.NamespaceDefault, "left", []string{v1alpha1.CleanupFinalizer}
	policy.Spec.Paused = new(true) // the webhook does not answer
	policy.Spec.TargetRef = v1alpha1.TargetRef{Kind: "Deployment", Name: "web"}
	require.NoError(t, c.Create(t.Context(), policy))

	out, err := runHelm(t, "uninstall", "attune", "--namespace", system)
	require.Error(t, err, "the Job did not remove the finalizer")
	assert.Contains(t, out, "uninstallation completed with 1 error")
	out, err = runHelm(t, "status", "attune", "--namespace", system)
	require.Error(t, err)
	assert.Contains(t, out, "not found", "no release is left")
	nothingLeft(t, c)

	t.Run("under another name", func(t *testing.T) {
		out, err := runHelm(t, "install", "other", chart, "--namespace", system)
		require.Error(t, err)
		assert.Contains(t, out, "the CustomResourceDefinitions are from release attune in namespace attune-system, which was uninstalled")
		const how = "kubectl annotate crd --selector attune.io/crds=chart --overwrite meta.helm.sh/release-name=other meta.helm.sh/release-namespace=attune-system"
		require.Contains(t, out, how)
		owned(t, c, "other")
		installed(t, "other", "--set", "uninstall.enabled=false")
		out, err = runHelm(t, "install", "attune", chart, "--namespace", system)
		require.Error(t, err)
		assert.Contains(t, out, "attune is already installed as release other in namespace attune-system")
		out, err = runHelm(t, "uninstall", "other", "--namespace", system)
		require.NoError(t, err, out)
		owned(t, c, "attune")
	})
	t.Run("under the same name", func(t *testing.T) {
		installed(t, "attune")
		out, err := runHelm(t, "uninstall", "attune", "--namespace", system, "--no-hooks")
		require.NoError(t, err, out)
		require.NoError(t, c.Get(t.Context(), client.ObjectKeyFromObject(policy), policy), "policies stay")
	})
	t.Run("after an interrupted uninstall", func(t *testing.T) {
		// Helm deletes unknown kinds last, the rules about attune's rights among them.
		installed(t, "attune")
		interrupted(t, c)
		out, err := runHelm(t, "uninstall", "attune", "--namespace", system, "--no-hooks")
		require.NoError(t, err, out)
		nothingLeft(t, c)
	})
	policy.Finalizers = nil
	require.NoError(t, c.Update(t.Context(), policy))
	require.NoError(t, c.Delete(t.Context(), policy))
}

// owned has the CustomResourceDefinitions belong to a release, as the command in the message does.
func owned(t *testing.T, c client.Client, release string) {
	t.Helper()
	var crds apiextensionsv1.CustomResourceDefinitionList
	require.NoError(t, c.List(t.Context(), &crds, client.MatchingLabels{"attune.io/crds": "chart"}))
	require.Len(t, crds.Items, 5)
	for i := range crds.Items {
		patch := client.MergeFrom(crds.Items[i].DeepCopy())
		crds.Items[i].Annotations["meta.helm.sh/release-name"] = release
		require.NoError(t, c.Patch(t.Context(), &crds.Items[i], patch))
	}
}

// interrupted deletes a part of what helm uninstall deletes.
func interrupted(t *testing.T, c client.Client) {
	t.Helper()
	of := client.MatchingLabels{"app.kubernetes.io/instance": "attune"}
	require.NoError(t, c.DeleteAllOf(t.Context(), &appsv1.Deployment{}, client.InNamespace(system), of))
	require.NoError(t, c.DeleteAllOf(t.Context(), &corev1.ServiceAccount{}, client.InNamespace(system), of))
	require.NoError(t, c.DeleteAllOf(t.Context(), &admissionregistrationv1.MutatingWebhookConfiguration{}, of))
}

// nothingLeft: no rule and no webhook of a release that is uninstalled.
func nothingLeft(t *testing.T, c client.Client) {
	t.Helper()
	for _, list := range []client.ObjectList{
		&admissionregistrationv1.ValidatingAdmissionPolicyList{}, &admissionregistrationv1.ValidatingAdmissionPolicyBindingList{},
		&admissionregistrationv1.MutatingWebhookConfigurationList{}, &admissionregistrationv1.ValidatingWebhookConfigurationList{},
	} {
		require.NoError(t, c.List(t.Context(), list, client.MatchingLabels{"app.kubernetes.io/instance": "attune"}))
		assert.Zero(t, meta.LenList(list), "%T", list)
	}
}

// TestIssuerOfTheCertificate: a new release uses cert-manager where the cluster serves its API; an upgrade changes nothing.
func TestIssuerOfTheCertificate(t *testing.T) {
	c := newClient(t)
	installed(t, "attune")
	require.Contains(t, providerOf(t, c), "--certs-provider=self-signed")
	for _, kind := range []string{"Issuer", "Certificate"} {
		served(t, c, kind)
	}
	upgrade := func(args ...string) {
		out, err := runHelm(t, append([]string{"upgrade", "attune", chart, "--namespace", system}, args...)...)
		require.NoError(t, err, out)
	}
	upgrade()
	assert.Contains(t, providerOf(t, c), "--certs-provider=self-signed", "cert-manager that was installed later changes nothing")
	upgrade("--set", "certs.provider=cert-manager")
	assert.Contains(t, providerOf(t, c), "--certs-provider=cert-manager")
	upgrade("--reset-values")
	assert.Contains(t, providerOf(t, c), "--certs-provider=cert-manager", "as the release has it")
	uninstall := func() {
		out, err := runHelm(t, "uninstall", "attune", "--namespace", system, "--no-hooks")
		require.NoError(t, err, out)
	}
	uninstall()
	installed(t, "attune")
	assert.Contains(t, providerOf(t, c), "--certs-provider=cert-manager")
	uninstall()
}

// TestOnlyOneInstallation: a second operator would resize the same pods, and the policies of both deny each other's
// recommendations. It is refused whether or not the second release brings the CustomResourceDefinitions.
func TestOnlyOneInstallation(t *testing.T) {
	c := newClient(t)
	installed(t, "attune")
	second := func(name, namespace string) string {
		out, err := runHelm(t, "install", name, chart, "--namespace", namespace, "--create-namespace", "--set", "crds.enabled=false", "--dry-run=server")
		if err == nil {
			return ""
		}
		return out
	}
	const refused = "attune is already installed as release attune in namespace attune-system, and a cluster can have one"
	assert.Contains(t, second("other", "other"), refused)
	assert.Contains(t, second("attune", "other"), refused)

	// As kubectl, kustomize and Argo CD apply the rendered objects: without a release.
	var guards admissionregistrationv1.ValidatingAdmissionPolicyList
	require.NoError(t, c.List(t.Context(), &guards))
	annotate := func(annotations map[string]string) {
		for i := range guards.Items {
			patch := client.MergeFrom(guards.Items[i].DeepCopy())
			guards.Items[i].Annotations = annotations
			require.NoError(t, c.Patch(t.Context(), &guards.Items[i], patch))
		}
	}
	release := guards.Items[0].Annotations
	annotate(nil)
	assert.Contains(t, second("other", "other"), "attune is already installed without Helm (ValidatingAdmissionPolicy attune-")
	assert.Contains(t, second("attune", system), "exists and cannot be imported", "Helm decides about objects of the same name")
	annotate(release) // Helm deletes only what it owns
	out, err := runHelm(t, "uninstall", "attune", "--namespace", system, "--no-hooks")
	require.NoError(t, err, out)
}

// published copies the chart as a release publishes it.
func published(t *testing.T, version, digest string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "attune")
	require.NoError(t, os.CopyFS(dir, os.DirFS(chart)))
	metadata := fmt.Sprintf("apiVersion: v2\nname: attune\nversion: %s\nappVersion: v%s\nannotations:\n  attune.io/image-digest: %s\n", version, version, digest)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "Chart.yaml"), []byte(metadata), 0o600))
	return dir
}

// TestUpgradeAndRollbackKeepTheTrust: an upgrade and a rollback conflict with nothing that the controller wrote, and keep it.
// The versions are those that Flux gives to a chart from an OCI registry.
func TestUpgradeAndRollbackKeepTheTrust(t *testing.T) {
	c := newClient(t)
	digest := "sha256:" + strings.Repeat("1", 64)
	trust := func() []byte {
		var configuration admissionregistrationv1.MutatingWebhookConfiguration
		require.NoError(t, c.Get(t.Context(), client.ObjectKey{Name: "attune"}, &configuration))
		return configuration.Webhooks[0].ClientConfig.CABundle
	}
	step := func(args ...string) {
		out, err := runHelm(t, append(args, "--namespace", system)...)
		require.NoError(t, err, out)
	}
	step("install", "attune", published(t, "1.0.0+0123456789ab", digest), "--create-namespace")
	require.Empty(t, trust())
	var configuration admissionregistrationv1.MutatingWebhookConfiguration
	require.NoError(t, c.Get(t.Context(), client.ObjectKey{Name: "attune"}, &configuration))
	patch := client.MergeFrom(configuration.DeepCopy())
	written := server.CAData // any certificate
	require.NotEmpty(t, written)
	configuration.Webhooks[0].ClientConfig.CABundle = written
	require.NoError(t, c.Patch(t.Context(), &configuration, patch, client.FieldOwner("attune")))
	step("upgrade", "attune", published(t, "1.1.0+ba9876543210", digest), "--set", "webhook.timeoutSeconds=3")
	assert.Equal(t, written, trust())
	step("rollback", "attune", "1")
	assert.Equal(t, written, trust())
	var crds apiextensionsv1.CustomResourceDefinitionList
	require.NoError(t, c.List(t.Context(), &crds, client.MatchingLabels{"attune.io/crds": "chart"}))
	assert.Len(t, crds.Items, 5)
	step("uninstall", "attune", "--no-hooks")
}

// TestReusedValues: an upgrade with --reuse-values takes the image of the new chart, which has another digest.
func TestReusedValues(t *testing.T) {
	c := newClient(t)
	release := func(version, digest string) string { return published(t, version, digest) }
	first, second := "sha256:"+strings.Repeat("1", 64), "sha256:"+strings.Repeat("2", 64)
	images := func() (found []string) {
		var list appsv1.DeploymentList
		require.NoError(t, c.List(t.Context(), &list, client.InNamespace(system)))
		for i := range list.Items {
			found = append(found, list.Items[i].Spec.Template.Spec.Containers[0].Image)
		}
		return found
	}
	out, err := runHelm(t, "install", "attune", release("1.0.0", first), "--namespace", system, "--create-namespace", "--set", "replicas=1")
	require.NoError(t, err, out)
	assert.Equal(t, []string{"attune.io/attune@" + first, "attune.io/attune@" + first}, images())
	out, err = runHelm(t, "upgrade", "attune", release("1.1.0", second), "--namespace", system, "--reuse-values")
	require.NoError(t, err, out)
	assert.Equal(t, []string{"attune.io/attune@" + second, "attune.io/attune@" + second}, images())
	out, err = runHelm(t, "uninstall", "attune", "--namespace", system, "--no-hooks")
	require.NoError(t, err, out)
}

// served has the API server serve a kind of cert-manager until the test ends.
func served(t *testing.T, c client.Client, kind string) {
	t.Helper()
	plural := map[string]string{"Issuer": "issuers", "Certificate": "certificates"}[kind]
	crd := &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: plural + ".cert-manager.io"},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: "cert-manager.io", Scope: apiextensionsv1.NamespaceScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: plural, Kind: kind},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{Name: "v1", Served: true, Storage: true, Schema: &apiextensionsv1.CustomResourceValidation{
				OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{Type: "object", XPreserveUnknownFields: new(true)},
			}}},
		},
	}
	require.NoError(t, c.Create(t.Context(), crd))
	t.Cleanup(func() { assert.NoError(t, client.IgnoreNotFound(c.Delete(context.Background(), crd))) })
	probe := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "cert-manager.io/v1", "kind": kind, "metadata": map[string]any{"name": "probe", "namespace": metav1.NamespaceDefault}}}
	require.Eventually(t, func() bool {
		err := newClient(t).Create(t.Context(), probe.DeepCopy(), client.DryRunAll)
		return err == nil || apierrors.IsAlreadyExists(err)
	}, patience, 100*time.Millisecond)
}
