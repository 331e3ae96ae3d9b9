//go:build helm

// Package charts checks what the chart renders. It needs the helm binary that ATTUNE_HELM names:
//
//	ATTUNE_HELM=.cluster/bin/helm go test -tags helm ./charts
package charts

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/cel-go/cel"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/yaml"
)

const address = "usage.prometheus.address=http://prometheus.monitoring:9090"

// helm runs the binary and returns what it prints.
func helm(t *testing.T, args ...string) (string, error) {
	t.Helper()
	binary := os.Getenv("ATTUNE_HELM")
	require.NotEmpty(t, binary, "set ATTUNE_HELM to the helm binary")
	cmd := exec.CommandContext(t.Context(), binary, args...)
	home := t.TempDir()
	cmd.Env = append(os.Environ(), "HOME="+home)
	out, err := cmd.Output()
	if exit := (&exec.ExitError{}); errors.As(err, &exit) {
		return "", errors.New(string(exit.Stderr))
	}
	return string(out), err
}

func template(t *testing.T, set ...string) (string, error) {
	t.Helper()
	args := []string{"template", "attune", "attune", "--namespace", "attune-system"}
	for _, value := range set {
		args = append(args, "--set", value)
	}
	return helm(t, args...)
}

// rendered are the chart's objects, read strictly: a field that Kubernetes does not know is an error.
type rendered struct {
	typed []runtime.Object
	other []map[string]any // cert-manager's
}

func render(t *testing.T, set ...string) rendered {
	t.Helper()
	out, err := template(t, set...)
	require.NoError(t, err)
	scheme := runtime.NewScheme()
	require.NoError(t, clientgoscheme.AddToScheme(scheme))
	require.NoError(t, apiextensionsv1.AddToScheme(scheme))
	strict := serializer.NewCodecFactory(scheme, serializer.EnableStrict).UniversalDeserializer()

	var r rendered
	documents := utilyaml.NewYAMLReader(bufio.NewReader(strings.NewReader(out)))
	for {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return r
		}
		require.NoError(t, err)
		var plain map[string]any
		require.NoError(t, yaml.Unmarshal(document, &plain), string(document))
		switch {
		case len(plain) == 0:
		case strings.HasPrefix(plain["apiVersion"].(string), "cert-manager.io/"):
			r.other = append(r.other, plain)
		default:
			object, _, err := strict.Decode(document, nil, nil)
			require.NoError(t, err, string(document))
			r.typed = append(r.typed, object)
		}
	}
}

func all[T runtime.Object](r rendered) (found []T) {
	for _, object := range r.typed {
		if one, ok := object.(T); ok {
			found = append(found, one)
		}
	}
	return found
}

func one[T runtime.Object](t *testing.T, r rendered) T {
	t.Helper()
	found := all[T](r)
	require.Len(t, found, 1)
	return found[0]
}

func TestLint(t *testing.T) {
	for _, set := range []string{"replicas=2", "usage.source=prometheus," + address} {
		_, err := helm(t, "lint", "--strict", "attune", "--set", set)
		assert.NoError(t, err)
	}
}

func TestValuesThatCannotWorkAreRefused(t *testing.T) {
	cases := []struct {
		name string
		set  []string
		want string
	}{
		{"no address", []string{"usage.source=prometheus"}, "usage.prometheus.address is empty: set it to the base URL"},
		{"an address that is none", []string{"usage.prometheus.address=prometheus:9090"}, "usage/prometheus/address"},
		{"kubelets verified by two", []string{"kubelet.tls.caConfigMap.name=ca", "kubelet.tls.caFile=/ca.crt"}, "exclude each other"},
		{"kubelets verified and not, by a file", []string{"kubelet.tls.caFile=/ca.crt", "kubelet.tls.insecureSkipVerify=true"}, "exclude each other"},
		{"kubelets verified and not", []string{"kubelet.tls.caConfigMap.name=ca", "kubelet.tls.insecureSkipVerify=true"}, "exclude each other"},
		{"a size that is none", []string{"usage.embedded.size=much"}, "embedded/size"},
		{"a source that is none", []string{address, "usage.source=graphite"}, "usage/source"},
		{"a provider that is none", []string{address, "certs.provider=acme"}, "certs/provider"},
		{"a name that is none", []string{address, "usage.prometheus.adress=x"}, "additional properties 'adress' not allowed"},
		{"a namespace that is none", []string{address, "usage.policySources.namespaces={A_b}"}, "policySources/namespaces"},
		{"an interval without a unit", []string{address, "usage.interval=x60"}, "usage/interval"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			_, err := template(t, c.set...)
			assert.ErrorContains(t, err, c.want)
		})
	}
}

func TestCustomResourceDefinitions(t *testing.T) {
	crds := all[*apiextensionsv1.CustomResourceDefinition](render(t))
	files, err := filepath.Glob("../config/crd/*.yaml")
	require.NoError(t, err)
	require.Len(t, crds, len(files))
	for _, file := range files {
		raw, err := os.ReadFile(file)
		require.NoError(t, err)
		copied, err := os.ReadFile(filepath.Join("attune/crd-files", filepath.Base(file)))
		require.NoError(t, err)
		require.True(t, bytes.Equal(raw, copied), "%s: run make generate", file)

		var want apiextensionsv1.CustomResourceDefinition
		require.NoError(t, yaml.UnmarshalStrict(raw, &want))
		at := slices.IndexFunc(crds, func(c *apiextensionsv1.CustomResourceDefinition) bool { return c.Name == want.Name })
		require.GreaterOrEqual(t, at, 0, want.Name)
		assert.Equal(t, want.Spec, crds[at].Spec)
		assert.Equal(t, "keep", crds[at].Annotations["helm.sh/resource-policy"])
		assert.Equal(t, "chart", crds[at].Labels["attune.io/crds"], "what the chart knows its own by")
	}
}

// rules are every right the operator has, by where it has it; "" is everywhere.
func rules(t *testing.T, r rendered) map[string][]rbacv1.PolicyRule {
	t.Helper()
	granted := map[string][]rbacv1.PolicyRule{"": one[*rbacv1.ClusterRole](t, r).Rules}
	for _, role := range all[*rbacv1.Role](r) {
		granted[role.Namespace] = append(granted[role.Namespace], role.Rules...)
	}
	bindings := all[*rbacv1.RoleBinding](r)
	require.Len(t, bindings, len(all[*rbacv1.Role](r)))
	for _, binding := range bindings {
		assert.Equal(t, []rbacv1.Subject{{Kind: "ServiceAccount", Name: "attune", Namespace: "attune-system"}}, binding.Subjects)
	}
	return granted
}

func grants(rules []rbacv1.PolicyRule, resource, verb string) (granted bool, names []string) {
	for _, rule := range rules {
		if slices.Contains(rule.Resources, resource) && slices.Contains(rule.Verbs, verb) {
			granted, names = true, append(names, rule.ResourceNames...)
		}
	}
	return granted, names
}

func TestRights(t *testing.T) {
	everything := []string{
		"certs.provider=self-signed", "node.loadTaint.enabled=true", "node.eviction.enabled=true", "usage.policySources.namespaces={team-a,team-b}",
	}
	t.Run("never", func(t *testing.T) {
		for where, rules := range rules(t, render(t, everything...)) {
			for _, rule := range rules {
				for _, list := range [][]string{rule.Verbs, rule.Resources, rule.APIGroups} {
					assert.NotContains(t, list, "*")
				}
				assert.NotContains(t, rule.Resources, "nodes/proxy")
				assert.NotContains(t, rule.Resources, "pods/exec")
				if slices.Contains(rule.Resources, "pods") {
					assert.ElementsMatch(t, []string{"get", "list", "watch"}, rule.Verbs)
				}
				if where == "" {
					assert.NotContains(t, rule.Resources, "secrets")
				}
			}
		}
	})
	t.Run("kubelets' measurements are read by the embedded source alone", func(t *testing.T) {
		granted, _ := grants(rules(t, render(t))[""], "nodes/metrics", "get")
		assert.True(t, granted)
		granted, _ = grants(rules(t, render(t, "usage.source=prometheus", address))[""], "nodes/metrics", "get")
		assert.False(t, granted)
	})
	t.Run("only where a value asks for it", func(t *testing.T) {
		few, many := rules(t, render(t)), rules(t, render(t, everything...))
		for _, right := range []struct{ resource, verb string }{
			{"nodes", "patch"}, {"pods/eviction", "create"},
			{"mutatingwebhookconfigurations", "patch"}, {"validatingwebhookconfigurations", "patch"},
		} {
			granted, _ := grants(few[""], right.resource, right.verb)
			assert.False(t, granted, right)
			granted, _ = grants(many[""], right.resource, right.verb)
			assert.True(t, granted, right)
		}
		_, names := grants(many[""], "mutatingwebhookconfigurations", "patch")
		assert.Equal(t, []string{"attune"}, names)
		granted, _ := grants(few["attune-system"], "secrets", "get")
		assert.False(t, granted)
		_, names = grants(many["attune-system"], "secrets", "get")
		assert.Equal(t, []string{"attune-webhook-cert"}, names)
		assert.Len(t, many, 4, "everywhere, its own namespace, and the two that may name secrets")
		granted, _ = grants(many["team-a"], "secrets", "get")
		assert.True(t, granted)
		granted, _ = grants(many["team-a"], "secrets", "list")
		assert.False(t, granted)
	})
}

func TestDeployment(t *testing.T) {
	r := render(t, "certs.provider=self-signed")
	d := one[*appsv1.Deployment](t, r)
	spec := d.Spec.Template.Spec
	container := spec.Containers[0]
	assert.EqualValues(t, 2, *d.Spec.Replicas)
	assert.Equal(t, "attune:dev", container.Image)
	assert.True(t, *spec.SecurityContext.RunAsNonRoot)
	assert.EqualValues(t, 65532, *spec.SecurityContext.RunAsUser)
	assert.Equal(t, corev1.SeccompProfileTypeRuntimeDefault, spec.SecurityContext.SeccompProfile.Type)
	assert.True(t, *container.SecurityContext.ReadOnlyRootFilesystem)
	assert.False(t, *container.SecurityContext.AllowPrivilegeEscalation)
	assert.Equal(t, []corev1.Capability{"ALL"}, container.SecurityContext.Capabilities.Drop)

	assert.Positive(t, container.Lifecycle.PreStop.Sleep.Seconds)
	assert.Equal(t, "true", d.Annotations["attune.io/skip"], "who sizes pods does not size itself")

	own := labels.Set(d.Spec.Template.Labels)
	for _, service := range all[*corev1.Service](r) {
		assert.True(t, labels.SelectorFromSet(service.Spec.Selector).Matches(own), service.Name)
	}
	budget, err := metav1.LabelSelectorAsSelector(one[*policyv1.PodDisruptionBudget](t, r).Spec.Selector)
	require.NoError(t, err)
	assert.True(t, budget.Matches(own))
	test := one[*corev1.Pod](t, r)
	assert.False(t, budget.Matches(labels.Set(test.Labels)), "the test's pod is none of the operator's")
}

// TestUsageVolume: raw samples have a place of their own, which is bounded; a server needs none.
func TestUsageVolume(t *testing.T) {
	volume := func(set ...string) *corev1.Volume {
		spec := one[*appsv1.Deployment](t, render(t, set...)).Spec.Template.Spec
		i := slices.IndexFunc(spec.Volumes, func(v corev1.Volume) bool { return v.Name == "usage" })
		mounted := slices.ContainsFunc(spec.Containers[0].VolumeMounts, func(m corev1.VolumeMount) bool {
			return m.Name == "usage" && slices.Contains(spec.Containers[0].Args, "--usage-dir="+m.MountPath)
		})
		assert.Equal(t, i >= 0, mounted)
		if i < 0 {
			return nil
		}
		return &spec.Volumes[i]
	}
	assert.Equal(t, "2Gi", volume("usage.embedded.size=2Gi").EmptyDir.SizeLimit.String())
	own := volume("usage.embedded.volume.persistentVolumeClaim.claimName=attune-usage")
	assert.Nil(t, own.EmptyDir)
	assert.Equal(t, "attune-usage", own.PersistentVolumeClaim.ClaimName)
	assert.Nil(t, volume("usage.source=prometheus", address))
}

// A flag that the operator does not have would keep it from starting.
func TestFlags(t *testing.T) {
	source, err := os.ReadFile("../cmd/attune/options.go")
	require.NoError(t, err)
	r := render(t, "certs.provider=self-signed", "usage.prometheus.headers.X-Scope-OrgID=shop", "usage.prometheus.queryParameters.dedup=x", "usage.prometheus.matchers.cluster=eu-1", "usage.limits.steps=60480", "usage.limits.rateWindow=6h",
		"usage.prometheus.bearerTokenSecret.name=token", "usage.prometheus.tls.caConfigMap.name=ca", "usage.prometheus.tls.insecureSkipVerify=true",
		"usage.policySources.namespaces={team-a,team-b}", "node.eviction.enabled=true", "kubelet.tls.insecureSkipVerify=true")
	verifying := one[*appsv1.Deployment](t, render(t, address, "kubelet.tls.caConfigMap.name=kubelets")).Spec.Template.Spec
	args := append(one[*appsv1.Deployment](t, r).Spec.Template.Spec.Containers[0].Args, verifying.Containers[0].Args...)
	for _, arg := range args {
		name := regexp.MustCompile(`^--([a-z-]+)`).FindStringSubmatch(arg)[1]
		assert.Contains(t, string(source), `"`+name+`"`)
	}
	assert.Contains(t, args, "--eviction")
	assert.Contains(t, args, "--prometheus-matcher=cluster=eu-1")
	assert.Contains(t, args, "--max-history-steps=60480")
	assert.Contains(t, args, "--max-rate-window=6h")
	assert.Contains(t, args, "--kubelet-ca-file=/etc/attune/kubelet-ca/ca.crt")
	own := one[*appsv1.Deployment](t, render(t, address, "kubelet.tls.caFile=/ca.crt")).Spec.Template.Spec
	assert.Contains(t, own.Containers[0].Args, "--kubelet-ca-file=/ca.crt")
	assert.Contains(t, verifying.Containers[0].VolumeMounts, corev1.VolumeMount{Name: "kubelet-ca", MountPath: "/etc/attune/kubelet-ca", ReadOnly: true})
	assert.Contains(t, verifying.Volumes, corev1.Volume{Name: "kubelet-ca", VolumeSource: corev1.VolumeSource{
		ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "kubelets"}}}})
	assert.Contains(t, args, "--prometheus-header=X-Scope-OrgID=shop")
	assert.Contains(t, args, "--policy-source-namespaces=team-a,team-b")
	assert.Contains(t, args, "--prometheus-bearer-token-file=/etc/attune/prometheus-token/token")
}

func TestPodWebhook(t *testing.T) {
	hooks := one[*admissionregistrationv1.MutatingWebhookConfiguration](t, render(t, "webhook.excludedNamespaces={special}")).Webhooks
	require.Len(t, hooks, 1)
	hook := hooks[0]
	assert.Equal(t, admissionregistrationv1.Ignore, *hook.FailurePolicy)
	assert.EqualValues(t, 2, *hook.TimeoutSeconds)
	assert.Equal(t, admissionregistrationv1.IfNeededReinvocationPolicy, *hook.ReinvocationPolicy)
	assert.Equal(t, admissionregistrationv1.SideEffectClassNone, *hook.SideEffects)
	assert.Equal(t, admissionregistrationv1.Equivalent, *hook.MatchPolicy)
	assert.Equal(t, "/mutate-pod", *hook.ClientConfig.Service.Path)
	require.Len(t, hook.Rules, 1)
	assert.Equal(t, []admissionregistrationv1.OperationType{"CREATE"}, hook.Rules[0].Operations)
	assert.Equal(t, []string{"pods"}, hook.Rules[0].Resources)

	selector, err := metav1.LabelSelectorAsSelector(hook.NamespaceSelector)
	require.NoError(t, err)
	namespace := func(name, inject string) labels.Set {
		return labels.Set{"kubernetes.io/metadata.name": name, "attune.io/inject": inject}
	}
	assert.True(t, selector.Matches(namespace("shop", "enabled")))
	assert.False(t, selector.Matches(namespace("shop", "disabled")))
	for _, never := range []string{"kube-system", "attune-system", "special"} {
		assert.False(t, selector.Matches(namespace(never, "enabled")), never)
	}
}

func TestMatchConditions(t *testing.T) {
	conditions := one[*admissionregistrationv1.MutatingWebhookConfiguration](t, render(t)).Webhooks[0].MatchConditions
	owner := []metav1.OwnerReference{{Kind: "ReplicaSet", Controller: new(true)}}
	cases := []struct {
		name string
		pod  corev1.Pod
		want bool
	}{
		{"a workload's", corev1.Pod{ObjectMeta: metav1.ObjectMeta{OwnerReferences: owner}}, true},
		{"annotated, for linux", corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{OwnerReferences: owner, Annotations: map[string]string{"a": "b"}},
			Spec:       corev1.PodSpec{OS: &corev1.PodOS{Name: corev1.Linux}},
		}, true},
		{"nobody's", corev1.Pod{}, false},
		{"owned, not controlled", corev1.Pod{ObjectMeta: metav1.ObjectMeta{OwnerReferences: []metav1.OwnerReference{{Kind: "Thing"}}}}, false},
		{"mirror", corev1.Pod{ObjectMeta: metav1.ObjectMeta{OwnerReferences: owner, Annotations: map[string]string{corev1.MirrorPodAnnotationKey: "x"}}}, false},
		{"windows", corev1.Pod{ObjectMeta: metav1.ObjectMeta{OwnerReferences: owner}, Spec: corev1.PodSpec{OS: &corev1.PodOS{Name: corev1.Windows}}}, false},
	}
	env, err := cel.NewEnv(cel.Variable("object", cel.DynType))
	require.NoError(t, err)
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&c.pod)
			require.NoError(t, err)
			matches := true
			for _, condition := range conditions {
				ast, issues := env.Compile(condition.Expression)
				require.NoError(t, issues.Err())
				program, err := env.Program(ast)
				require.NoError(t, err)
				out, _, err := program.Eval(map[string]any{"object": object})
				require.NoError(t, err, condition.Name)
				matches = matches && out.Value().(bool)
			}
			assert.Equal(t, c.want, matches)
		})
	}
}

func TestCertificates(t *testing.T) {
	t.Run("by cert-manager", func(t *testing.T) {
		r := render(t)
		require.Len(t, r.other, 4)
		m := one[*admissionregistrationv1.MutatingWebhookConfiguration](t, r)
		v := one[*admissionregistrationv1.ValidatingWebhookConfiguration](t, r)
		for _, annotations := range []map[string]string{m.Annotations, v.Annotations} {
			assert.Equal(t, "attune-system/attune-webhook", annotations["cert-manager.io/inject-ca-from"])
		}
		leaf := r.other[slices.IndexFunc(r.other, func(o map[string]any) bool {
			return o["metadata"].(map[string]any)["name"] == "attune-webhook"
		})]
		assert.Contains(t, leaf["spec"].(map[string]any)["dnsNames"], m.Webhooks[0].ClientConfig.Service.Name+".attune-system.svc")
		volumes := one[*appsv1.Deployment](t, r).Spec.Template.Spec.Volumes
		assert.True(t, slices.ContainsFunc(volumes, func(v corev1.Volume) bool {
			return v.Secret != nil && v.Secret.SecretName == leaf["spec"].(map[string]any)["secretName"]
		}))
	})
	t.Run("self-signed", func(t *testing.T) {
		r := render(t, "certs.provider=self-signed")
		assert.Empty(t, r.other)
		assert.Empty(t, one[*admissionregistrationv1.MutatingWebhookConfiguration](t, r).Annotations)
	})
}
