package integration

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"attune.io/attune/certs"
	"attune.io/attune/test/cluster"
)

// installed are the kinds of the chart that say who may do what with its certificate.
var installed = []string{
	"ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding", "MutatingWebhookConfiguration", "ValidatingWebhookConfiguration",
	"ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding",
}

// installRights has the API server know the chart's identities, with self-signed certificates and other values, until the
// test ends. The release has a name of its own: its webhooks are asked about nothing that other tests do.
func installRights(t *testing.T, namespace string, values ...string) {
	t.Helper()
	project, err := cluster.ProjectDir()
	require.NoError(t, err)
	tools, err := cluster.Build(t.Context(), cluster.Options{Progress: os.Stderr})
	require.NoError(t, err)
	helm, err := tools.Find("helm")
	require.NoError(t, err)
	out, err := exec.CommandContext(t.Context(), helm, "template", "attune-trusted", filepath.Join(project, "charts", "attune"),
		"--namespace", namespace, "--set", strings.Join(append(values, "certs.provider=self-signed"), ",")).Output()
	require.NoError(t, err)
	c := newClient(t)
	t.Cleanup(func() { anybodyWrites(t, c) })
	for documents := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(out))); ; {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return
		}
		require.NoError(t, err)
		object := &unstructured.Unstructured{}
		require.NoError(t, yaml.Unmarshal(document, &object.Object))
		if !slices.Contains(installed, object.GetKind()) || strings.HasSuffix(object.GetName(), "-uninstall") {
			continue
		}
		if hooks, found, _ := unstructured.NestedSlice(object.Object, "webhooks"); found {
			matchNothing(t, object, hooks)
		}
		require.NoError(t, c.Create(t.Context(), object), object.GetName())
		t.Cleanup(func() { assert.NoError(t, c.Delete(context.Background(), object)) })
	}
}

// matchNothing has webhooks match no namespace, and no object.
func matchNothing(t *testing.T, object *unstructured.Unstructured, hooks []any) {
	t.Helper()
	for _, hook := range hooks {
		hook.(map[string]any)["objectSelector"] = map[string]any{"matchLabels": map[string]any{"nobody": "has-this"}}
	}
	require.NoError(t, unstructured.SetNestedSlice(object.Object, hooks, "webhooks"))
}

// accountOf is a client with the rights of a ServiceAccount.
func accountOf(t *testing.T, namespace, account string) kubernetes.Interface {
	t.Helper()
	config := rest.CopyConfig(server)
	config.Impersonate = rest.ImpersonationConfig{
		UserName: "system:serviceaccount:" + namespace + ":" + account, Groups: []string{"system:serviceaccounts", "system:serviceaccounts:" + namespace, "system:authenticated"},
	}
	clients, err := kubernetes.NewForConfig(config)
	require.NoError(t, err)
	return clients
}

// TestControllerWritesTheTrustedCA, and nothing else: with the rights of the chart it issues the certificate and
// has the configurations trust it, the webhook serves it with the right to read, and every other change of a
// configuration is refused, whatever the controller's token is used for.
func TestControllerWritesTheTrustedCA(t *testing.T) {
	const name = "attune-trusted"
	namespace := newNamespace(t, newClient(t))
	installRights(t, namespace)
	controller, webhook := accountOf(t, namespace, name), accountOf(t, namespace, name+"-webhook")
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 2)
	run := func(clients kubernetes.Interface, follows bool) *certs.SelfSigned {
		s := certs.NewSelfSigned(certs.Config{
			Client: clients, Namespace: namespace, Secret: name + "-webhook-cert", Authority: name + "-webhook-ca", DNSNames: []string{name + "-webhook." + namespace + ".svc"},
			Mutating: name, Validating: name, Follows: follows, Clock: clock.RealClock{}, Log: logr.Discard(),
		})
		go func() { ended <- s.Start(ctx) }()
		return s
	}
	served := run(webhook, true)
	require.Error(t, served.Ready(nil), "nobody has issued it")
	run(controller, false)
	require.Eventually(t, func() bool { return served.Ready(nil) == nil }, patience, 20*time.Millisecond)
	stop()
	require.NoError(t, <-ended)
	require.NoError(t, <-ended)

	configurations := controller.AdmissionregistrationV1().MutatingWebhookConfigurations()
	const refused = "may change only clientConfig.caBundle of its own webhooks"
	patchWith := func(options metav1.PatchOptions, clients kubernetes.Interface, kind types.PatchType, body string) error {
		_, err := clients.AdmissionregistrationV1().MutatingWebhookConfigurations().Patch(t.Context(), name, kind, []byte(body), options)
		return err
	}
	patch := func(clients kubernetes.Interface, kind types.PatchType, body string) error {
		return patchWith(metav1.PatchOptions{}, clients, kind, body)
	}
	// The policy is not in force from the first moment on.
	require.EventuallyWithT(t, func(t *assert.CollectT) {
		dry := metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}}
		assert.ErrorContains(t, patchWith(dry, controller, types.MergePatchType, `{"metadata":{"labels":{"probe":"x"}}}`), refused)
	}, patience, 100*time.Millisecond)
	for what, body := range map[string]string{
		"rules":                `[{"op":"replace","path":"/webhooks/0/rules/0/resources","value":["*"]}]`,
		"namespaces":           `[{"op":"remove","path":"/webhooks/0/namespaceSelector"}]`,
		"objects":              `[{"op":"remove","path":"/webhooks/0/objectSelector"}]`,
		"failure policy":       `[{"op":"replace","path":"/webhooks/0/failurePolicy","value":"Fail"}]`,
		"conditions":           `[{"op":"remove","path":"/webhooks/0/matchConditions"}]`,
		"one condition":        `[{"op":"replace","path":"/webhooks/0/matchConditions/0/expression","value":"true"}]`,
		"a service":            `[{"op":"replace","path":"/webhooks/0/clientConfig/service/name","value":"evil"}]`,
		"an address":           `[{"op":"remove","path":"/webhooks/0/clientConfig/service"},{"op":"add","path":"/webhooks/0/clientConfig/url","value":"https://evil.example"}]`,
		"timeout":              `[{"op":"replace","path":"/webhooks/0/timeoutSeconds","value":30}]`,
		"a name":               `[{"op":"replace","path":"/webhooks/0/name","value":"other.attune.io"}]`,
		"one more":             `[{"op":"add","path":"/webhooks/-","value":{"name":"evil.attune.io","admissionReviewVersions":["v1"],"sideEffects":"None","clientConfig":{"url":"https://evil.example"}}}]`,
		"one less":             `[{"op":"remove","path":"/webhooks/0"}]`,
		"none":                 `[{"op":"remove","path":"/webhooks"}]`,
		"an annotation":        `[{"op":"add","path":"/metadata/annotations","value":{"cert-manager.io/inject-ca-from":"evil/evil"}}]`,
		"a label less":         `[{"op":"remove","path":"/metadata/labels"}]`,
		"an owner":             `[{"op":"add","path":"/metadata/ownerReferences","value":[{"apiVersion":"v1","kind":"Namespace","name":"default","uid":"0"}]}]`,
		"rules and the bundle": `[{"op":"replace","path":"/webhooks/0/clientConfig/caBundle","value":"Cg=="},{"op":"replace","path":"/webhooks/0/timeoutSeconds","value":3}]`,
	} {
		assert.ErrorContains(t, patch(controller, types.JSONPatchType, body), refused, what)
	}
	before, err := configurations.Get(t.Context(), name, metav1.GetOptions{})
	require.NoError(t, err)
	assert.Error(t, patch(webhook, types.MergePatchType, `{"metadata":{"labels":{"probe":"x"}}}`), "the webhook changes nothing at all")
	bundle := `[{"op":"replace","path":"/webhooks/0/clientConfig/caBundle","value":"` + "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCi0tLS0tRU5EIENFUlRJRklDQVRFLS0tLS0K" + `"}]`
	assert.NotContains(t, errorOf(patch(controller, types.JSONPatchType, bundle)), refused, "the bundle alone is its own to change")
	after, err := configurations.Get(t.Context(), name, metav1.GetOptions{})
	require.NoError(t, err)
	before.Webhooks[0].ClientConfig.CABundle = after.Webhooks[0].ClientConfig.CABundle
	assert.Equal(t, before.Webhooks, after.Webhooks)

	// Whoever else may change them is not held up.
	admin := newClient(t)
	current := &admissionregistrationv1.MutatingWebhookConfiguration{}
	require.NoError(t, admin.Get(t.Context(), client.ObjectKey{Name: name}, current))
	changed := current.DeepCopy()
	changed.Labels["probe"] = "x"
	assert.NoError(t, admin.Patch(t.Context(), changed, client.MergeFrom(current)))
}

func errorOf(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
