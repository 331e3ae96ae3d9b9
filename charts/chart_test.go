//go:build helm

// Package charts checks what the chart renders, and writes into the docs what it grants.
package charts

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
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
	batchv1 "k8s.io/api/batch/v1"
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

	"attune.io/attune/internal/answers"
	"attune.io/attune/internal/workload"
	"attune.io/attune/usage/embedded"
)

// What the chart renders is checked with the helm binary that ATTUNE_HELM names:
//
//	ATTUNE_HELM=.cluster/bin/helm go test -tags helm ./charts

const address = "usage.prometheus.address=http://prometheus.monitoring:9090"

// helm runs the binary and returns what it prints.
func helm(t *testing.T, args ...string) (string, error) {
	t.Helper()
	os.Getenv("ATTUNE_INPUTS") // the digest of what Helm reads, so that Go's test cache sees a change
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
	other []map[string]any // cert-manager's, and Prometheus Operator's
}

func render(t *testing.T, set ...string) rendered {
	t.Helper()
	out, err := template(t, set...)
	require.NoError(t, err)
	return read(t, out)
}

// read reads what Helm printed.
func read(t *testing.T, out string) rendered {
	t.Helper()
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
		require.NoError(t, yaml.UnmarshalStrict(document, &plain), string(document)) // a repeated key, too
		switch {
		case len(plain) == 0:
		case strings.HasPrefix(plain["apiVersion"].(string), "cert-manager.io/"), strings.HasPrefix(plain["apiVersion"].(string), "monitoring.coreos.com/"):
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

// deployment of one of the operator's programs, by its name.
func deployment(t *testing.T, r rendered, name string) *appsv1.Deployment {
	t.Helper()
	found := all[*appsv1.Deployment](r)
	at := slices.IndexFunc(found, func(d *appsv1.Deployment) bool { return d.Name == name })
	require.GreaterOrEqual(t, at, 0, name)
	return found[at]
}

func TestLint(t *testing.T) {
	for _, set := range []string{"replicas=2", "webhook.separate=false", "certs.provider=self-signed", "usage.source=prometheus," + address, "dashboards.enabled=true,alerts.enabled=true"} {
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
		{"pods that need a webhook in all namespaces", []string{"webhook.failurePolicy=Fail", "webhook.namespaces=AllButDisabled"}, "Set webhook.namespaces to Labelled, or webhook.failurePolicy to Ignore"},
		{"pods that retry", []string{"webhook.failurePolicy=Retry"}, "failurePolicy"},
		{"kubelets verified by two", []string{"kubelet.tls.caConfigMap.name=ca", "kubelet.tls.caFile=/ca.crt"}, "exclude each other"},
		{"kubelets verified and not, by a file", []string{"kubelet.tls.caFile=/ca.crt", "kubelet.tls.insecureSkipVerify=true"}, "exclude each other"},
		{"kubelets verified and not", []string{"kubelet.tls.caConfigMap.name=ca", "kubelet.tls.insecureSkipVerify=true"}, "exclude each other"},
		{"names of callers whom nobody verifies", []string{"webhook.clientCA.names={kube-apiserver}"}, "webhook.clientCA.names needs webhook.clientCA.configMap.name"},
		{"a retention of samples on disk", []string{"usage.embedded.retention=192h"}, "usage.embedded.retention was removed, because the embedded usage source keeps samples in memory only: remove it from your values"},
		{"a size of samples on disk", []string{"usage.embedded.size=1Gi"}, "usage.embedded.size was removed"},
		{"a volume for samples", []string{"usage.embedded.volume.persistentVolumeClaim.claimName=attune-usage"}, "usage.embedded.volume was removed"},
		{"a source that is none", []string{address, "usage.source=graphite"}, "usage/source"},
		{"a provider that is none", []string{address, "certs.provider=acme"}, "certs/provider"},
		{"a name that is none", []string{address, "usage.prometheus.adress=x"}, "additional properties 'adress' not allowed"},
		{"a Secret's name that is none", []string{address, "usage.defaultsSecrets={A_b}"}, "defaultsSecrets"},
		{"a namespace that is none", []string{address, "usage.policySources.namespaces={A_b}"}, "policySources/namespaces"},
		{"an address of policies' servers that is none", []string{address, "usage.policySources.addresses={http://prometheus}"}, "policySources/addresses"},
		{"resources of both", []string{"resources.limits.memory=1Gi"}, "additional properties 'resources' not allowed"},
		{"evictions where not all pods of a node are seen", []string{"watchNamespaces={team-a}", "node.eviction.enabled=true"}, "node.eviction.enabled and watchNamespaces exclude each other"},
		{"a taint where not all pods of a node are seen", []string{"watchNamespaces={team-a}", "node.loadTaint.enabled=true"}, "node.loadTaint.enabled and watchNamespaces exclude each other"},
		{"sources of policies that are not watched", []string{"watchNamespaces={team-a}", "usage.policySources.namespaces={team-b}"}, "usage.policySources.namespaces has team-b, but watchNamespaces does not"},
		{"a watched namespace that is none", []string{"watchNamespaces={A_b}"}, "watchNamespaces"},
		{"all kinds of a group", []string{"scaledKinds={*.v1.example.com}"}, "scaledKinds"},
		{"a kind of Kubernetes", []string{"scaledKinds={secrets.v1.}"}, "scaledKinds"},
		{"a kind without a version", []string{"scaledKinds={clonesets.apps}"}, "scaledKinds"},
		{"Rollouts, which are sized without it", []string{"scaledKinds={rollouts.v1alpha1.argoproj.io}"}, "scaledKinds"},
		{"a kind's subresource", []string{"scaledKinds={clonesets/scale.v1alpha1.apps.kruise.io}"}, "scaledKinds"},
		{"a user name that ends the expression", []string{"rbac.recommendationWriters={x'] || true || '' in ['}"}, "recommendationWriters"},
		{"an amount that is none", []string{"webhook.resources.limits.memory=lots"}, "webhook/resources/limits/memory"},
		{"a digest that is none", []string{"image.digest=sha256:12"}, "image/digest"},
		{"a label that selects pods", []string{"commonLabels.app\\.kubernetes\\.io/name=x"}, "at '/commonLabels/app.kubernetes.io~1name'"},
		{"a label of pods that selects them", []string{"podLabels.app\\.kubernetes\\.io/component=x"}, "at '/podLabels/app.kubernetes.io~1component'"},
		{"a matcher that attune sets", []string{"usage.prometheus.matchers.namespace=x"}, "at '/usage/prometheus/matchers/namespace'"},
		{"a matcher that is no label", []string{"usage.prometheus.matchers.a-b=x"}, "at '/usage/prometheus/matchers': additional properties 'a-b' not allowed"},
		{"an IP family that is none", []string{"service.ipFamilies={IPv5}"}, "service/ipFamilies"},
		{"a port of the system", []string{"ports.webhook=443"}, "ports/webhook"},
		{"an expression without values", []string{"webhook.namespaceSelector[0].key=a", "webhook.namespaceSelector[0].operator=In"}, "webhook/namespaceSelector"},
		{"a token for another audience", []string{"serviceMonitor.enabled=true", "metrics.audience=attune-metrics"}, "serviceMonitor.enabled with metrics.audience needs serviceMonitor.bearerTokenSecret.name"},
		{"no replicas", []string{"webhook.replicas=0"}, "webhook/replicas"},
		{"a label that is a number", []string{"dashboards.labels.grafana_dashboard=1"}, "dashboards/labels/grafana_dashboard"},
		{"alerts with a name that is none", []string{"alerts.enable=true"}, "additional properties 'enable' not allowed"},
		{"egress rules without a NetworkPolicy", []string{"networkPolicy.egress[0].ports[0].port=443"}, "networkPolicy.egress needs networkPolicy.enabled"},
		{"user namespaces that are neither on nor off", []string{"hostUsers=maybe"}, "hostUsers"},
		{"an interval without a unit", []string{address, "usage.interval=x60"}, "usage/interval"},
		{"a sync period that is too short", []string{"hpa.syncPeriod=500ms"}, "hpa/syncPeriod"},
		{"a sync period that is too long", []string{"hpa.syncPeriod=5m1s"}, "hpa/syncPeriod"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			_, err := template(t, c.set...)
			assert.ErrorContains(t, err, c.want)
		})
	}
	for _, namespace := range []string{"kube-system", "kube-public", "kube-node-lease"} {
		_, err := helm(t, "template", "attune", "attune", "--namespace", namespace)
		assert.ErrorContains(t, err, "attune must not share namespace "+namespace+" with Kubernetes' own components: install it into a namespace of its own, such as --namespace attune-system --create-namespace")
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
		applied, err := json.Marshal(crds[at])
		require.NoError(t, err)
		assert.Less(t, len(applied), 256<<10, "kubectl apply stores the object in an annotation")
	}
}

// TestArtifactHub: the annotations list every CustomResourceDefinition, and the examples are of them.
func TestArtifactHub(t *testing.T) {
	text, err := os.ReadFile("attune/Chart.yaml")
	require.NoError(t, err)
	var chart struct{ Annotations map[string]string }
	require.NoError(t, yaml.Unmarshal(text, &chart))
	type kind struct{ Kind, Version, Name, DisplayName, Description string }
	var told []kind
	require.NoError(t, yaml.UnmarshalStrict([]byte(chart.Annotations["artifacthub.io/crds"]), &told))
	var examples []metav1.TypeMeta
	require.NoError(t, yaml.Unmarshal([]byte(chart.Annotations["artifacthub.io/crdsExamples"]), &examples))
	require.NotEmpty(t, examples)
	crds := all[*apiextensionsv1.CustomResourceDefinition](render(t))
	require.Len(t, told, len(crds))
	for i, crd := range crds {
		assert.NotEmpty(t, told[i].DisplayName)
		assert.NotEmpty(t, told[i].Description)
		told[i].DisplayName, told[i].Description = "", ""
		assert.Equal(t, kind{Kind: crd.Spec.Names.Kind, Version: crd.Spec.Versions[0].Name, Name: crd.Name}, told[i])
	}
	for _, example := range examples {
		assert.True(t, slices.ContainsFunc(crds, func(c *apiextensionsv1.CustomResourceDefinition) bool {
			return c.Spec.Names.Kind == example.Kind && c.Spec.Group+"/"+c.Spec.Versions[0].Name == example.APIVersion
		}), example)
	}
	assert.Contains(t, []string{"ai-machine-learning", "database", "integration-delivery", "monitoring-logging", "networking", "security", "skip-prediction", "storage", "streaming-messaging"},
		chart.Annotations["artifacthub.io/category"], "Artifact Hub knows no others")
}

// rights are what each ServiceAccount may do, by its name, and where; "" is everywhere.
func rights(t *testing.T, r rendered) map[string]map[string][]rbacv1.PolicyRule {
	t.Helper()
	granted := map[string]map[string][]rbacv1.PolicyRule{}
	grant := func(subjects []rbacv1.Subject, where string, rules []rbacv1.PolicyRule) {
		require.Len(t, subjects, 1)
		require.Equal(t, rbacv1.Subject{Kind: "ServiceAccount", Name: subjects[0].Name, Namespace: "attune-system"}, subjects[0])
		if granted[subjects[0].Name] == nil {
			granted[subjects[0].Name] = map[string][]rbacv1.PolicyRule{}
		}
		granted[subjects[0].Name][where] = append(granted[subjects[0].Name][where], rules...)
	}
	rules := map[string][]rbacv1.PolicyRule{}
	var bound []string
	for _, role := range all[*rbacv1.ClusterRole](r) {
		rules["ClusterRole/"+role.Name] = role.Rules
	}
	for _, role := range all[*rbacv1.Role](r) {
		rules["Role/"+role.Namespace+"/"+role.Name] = role.Rules
	}
	for _, binding := range all[*rbacv1.ClusterRoleBinding](r) {
		grant(binding.Subjects, "", rules["ClusterRole/"+binding.RoleRef.Name])
		delete(rules, "ClusterRole/"+binding.RoleRef.Name)
	}
	for _, binding := range all[*rbacv1.RoleBinding](r) {
		role := "Role/" + binding.Namespace + "/" + binding.RoleRef.Name
		if binding.RoleRef.Kind == "ClusterRole" {
			role = "ClusterRole/" + binding.RoleRef.Name
		}
		grant(binding.Subjects, binding.Namespace, rules[role])
		bound = append(bound, role)
	}
	for _, role := range bound {
		delete(rules, role)
	}
	for _, forPeople := range []string{"attune-view", "attune-edit", "attune-metrics-reader"} {
		delete(rules, "ClusterRole/"+forPeople)
	}
	assert.Empty(t, rules, "roles that are bound to nobody")
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

// flat are rules as words, "verb resource" or "verb resource of name".
func flat(rules []rbacv1.PolicyRule) (words []string) {
	for _, rule := range rules {
		of := ""
		if len(rule.ResourceNames) > 0 {
			of = " of " + strings.Join(rule.ResourceNames, ",")
		}
		for _, resource := range rule.Resources {
			for _, verb := range rule.Verbs {
				words = append(words, verb+" "+resource+of)
			}
		}
	}
	return words
}

// both are the ways to run the operator: two programs, or one.
var both = []string{"webhook.separate=true", "webhook.separate=false"}

func TestRights(t *testing.T) {
	everything := []string{
		"certs.provider=self-signed", "node.loadTaint.enabled=true", "node.eviction.enabled=true", "usage.policySources.namespaces={team-a,team-b}",
	}
	for _, how := range both {
		t.Run("never, "+how, func(t *testing.T) {
			for who, places := range rights(t, render(t, append(everything, how)...)) {
				for where, rules := range places {
					for _, rule := range rules {
						for _, list := range [][]string{rule.Verbs, rule.Resources, rule.APIGroups} {
							assert.NotContains(t, list, "*")
						}
						assert.NotContains(t, rule.Resources, "nodes/proxy")
						assert.NotContains(t, rule.Resources, "pods/exec")
						if slices.Contains(rule.Resources, "pods") {
							assert.Subset(t, []string{"get", "list", "watch"}, rule.Verbs)
						}
						if where == "" {
							assert.NotContains(t, rule.Resources, "secrets")
						}
						if slices.Contains(rule.Resources, "nodes/metrics") {
							assert.Equal(t, "attune-scraper", who)
						}
						if slices.Contains(rule.Resources, "serviceaccounts/token") {
							assert.Equal(t, []string{"attune-scraper"}, rule.ResourceNames)
							assert.Equal(t, "attune-system", where)
						}
						if slices.Contains(rule.Resources, "leases") && !slices.Equal(rule.Verbs, []string{"create"}) {
							assert.Equal(t, []string{answers.LeaseName}, rule.ResourceNames)
						}
					}
				}
			}
		})
	}
	t.Run("the webhook reads what it needs, and nothing else", func(t *testing.T) {
		cluster := []string{
			"list limitranges", "watch limitranges", "list resourcequotas", "watch resourcequotas", "list attunerecommendations", "watch attunerecommendations",
			"list attunedefaults", "watch attunedefaults", "list attunenamespacedefaults", "watch attunenamespacedefaults",
			"create tokenreviews", "create subjectaccessreviews",
		}
		few := rights(t, render(t, "certs.provider=cert-manager"))["attune-webhook"]
		assert.ElementsMatch(t, cluster, flat(few[""]))
		assert.Len(t, few, 1, "nothing in a namespace")
		many := rights(t, render(t, everything...))["attune-webhook"]
		for _, kind := range []string{"mutatingwebhookconfigurations", "validatingwebhookconfigurations"} {
			cluster = append(cluster, "get "+kind+" of attune", "list "+kind+" of attune", "watch "+kind+" of attune")
		}
		assert.ElementsMatch(t, cluster, flat(many[""]))
		assert.Len(t, many, 2)
		assert.ElementsMatch(t, []string{"get secrets of attune-webhook-cert", "list secrets of attune-webhook-cert", "watch secrets of attune-webhook-cert"}, flat(many["attune-system"]))
		assert.NotContains(t, rights(t, render(t, append(everything, "webhook.separate=false")...)), "attune-webhook")
	})
	t.Run("the scraper reads kubelets' measurements, where there is one", func(t *testing.T) {
		r := render(t)
		scraper := rights(t, r)["attune-scraper"]
		assert.Equal(t, []string{"get nodes/metrics"}, flat(scraper[""]))
		assert.Len(t, scraper, 1)
		accounts := all[*corev1.ServiceAccount](r)
		at := slices.IndexFunc(accounts, func(a *corev1.ServiceAccount) bool { return a.Name == "attune-scraper" })
		require.GreaterOrEqual(t, at, 0)
		assert.False(t, *accounts[at].AutomountServiceAccountToken)
		for _, d := range all[*appsv1.Deployment](r) {
			assert.NotEqual(t, "attune-scraper", d.Spec.Template.Spec.ServiceAccountName, "no pod has its token")
		}
		of := rights(t, render(t, "usage.source=prometheus", address))
		assert.NotContains(t, of, "attune-scraper")
		granted, _ := grants(of["attune"]["attune-system"], "serviceaccounts/token", "create")
		assert.False(t, granted)
	})
	t.Run("the Secrets that an AttuneDefaults may name", func(t *testing.T) {
		named := rights(t, render(t, "usage.defaultsSecrets={thanos,thanos.ca}"))
		assert.Contains(t, flat(named["attune"]["attune-system"]), "get secrets of thanos,thanos.ca")
		assert.NotContains(t, strings.Join(flat(rights(t, render(t))["attune"]["attune-system"]), "\n"), "thanos")
		assert.NotContains(t, strings.Join(flat(named["attune-webhook"]["attune-system"]), "\n"), "thanos", "it asks no source")
	})
	t.Run("only where a value asks for it", func(t *testing.T) {
		few, many := rights(t, render(t, "certs.provider=cert-manager"))["attune"], rights(t, render(t, everything...))["attune"]
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
		assert.Equal(t, []string{"attune-webhook-cert", "attune-webhook-ca"}, names)
		assert.Len(t, many, 4, "everywhere, its own namespace, and the two that may name secrets")
		granted, _ = grants(many["team-a"], "secrets", "get")
		assert.True(t, granted)
		granted, _ = grants(many["team-a"], "secrets", "list")
		assert.False(t, granted)
	})
}

// TestRightsOfTheBridge: VerticalPodAutoscalers are written only where bridge.vpa asks for it, by the controller alone,
// in the namespaces that are watched, and by the role that owns them.
func TestRightsOfTheBridge(t *testing.T) {
	more := func(on, off []string) []string {
		return slices.DeleteFunc(on, func(word string) bool { return slices.Contains(off, word) })
	}
	writes := []string{"create verticalpodautoscalers", "patch verticalpodautoscalers", "delete verticalpodautoscalers", "patch verticalpodautoscalers/status"}
	reads := []string{"get clusterroles of attune-bridge-vpa", "get mutatingwebhookconfigurations of vpa-webhook-config"}
	off, on := rights(t, render(t)), rights(t, render(t, "bridge.vpa=true"))
	assert.ElementsMatch(t, append(reads, writes...), more(flat(on["attune"][""]), flat(off["attune"][""])))
	assert.Equal(t, off["attune"]["attune-system"], on["attune"]["attune-system"])
	assert.Equal(t, off["attune-webhook"], on["attune-webhook"])
	assert.Contains(t, deployment(t, render(t, "bridge.vpa=true"), "attune").Spec.Template.Spec.Containers[0].Args, "--bridge-vpa-role=attune-bridge-vpa")

	some, bridged := rights(t, render(t, "watchNamespaces={team-a}")), rights(t, render(t, "watchNamespaces={team-a}", "bridge.vpa=true"))
	assert.ElementsMatch(t, reads, more(flat(bridged["attune"][""]), flat(some["attune"][""])))
	assert.ElementsMatch(t, writes, more(flat(bridged["attune"]["team-a"]), flat(some["attune"]["team-a"])))
}

// TestRightsOfScaledKinds: the controller alone lists and watches the resources that scaledKinds names, where it has its
// other rights in namespaces, and writes nothing to them.
func TestRightsOfScaledKinds(t *testing.T) {
	more := func(on, off []string) []string {
		return slices.DeleteFunc(on, func(word string) bool { return slices.Contains(off, word) })
	}
	const kinds = "scaledKinds={clonesets.v1alpha1.apps.kruise.io,strimzipodsets.v1.core.strimzi.io}"
	want := []string{"list clonesets", "watch clonesets", "list strimzipodsets", "watch strimzipodsets"}
	off, on := rights(t, render(t)), rights(t, render(t, kinds))
	assert.ElementsMatch(t, want, more(flat(on["attune"][""]), flat(off["attune"][""])))
	assert.Contains(t, on["attune"][""], rbacv1.PolicyRule{APIGroups: []string{"apps.kruise.io"}, Resources: []string{"clonesets"}, Verbs: []string{"list", "watch"}})
	assert.Equal(t, off["attune"]["attune-system"], on["attune"]["attune-system"])
	assert.Equal(t, off["attune-webhook"], on["attune-webhook"])
	const flag = "--scaled-kinds=clonesets.v1alpha1.apps.kruise.io,strimzipodsets.v1.core.strimzi.io"
	assert.Contains(t, deployment(t, render(t, kinds), "attune").Spec.Template.Spec.Containers[0].Args, flag)
	assert.NotContains(t, deployment(t, render(t, kinds), "attune-webhook").Spec.Template.Spec.Containers[0].Args, flag, "it finds what there are recommendations for")

	some, added := rights(t, render(t, "watchNamespaces={team-a}")), rights(t, render(t, "watchNamespaces={team-a}", kinds))
	assert.Equal(t, flat(some["attune"][""]), flat(added["attune"][""]))
	assert.ElementsMatch(t, want, more(flat(added["attune"]["team-a"]), flat(some["attune"]["team-a"])))
}

// watchedPrograms are the ways to run the operator in two namespaces.
func watchedPrograms(how string) []string {
	return []string{how, "watchNamespaces={team-a,team-b}", "certs.provider=self-signed"}
}

// TestRightsInSomeNamespaces: everywhere the operator reads nodes, namespaces and AttuneDefaults alone, and what the API
// server says of tokens and its own webhook configuration; in each namespace that is watched it has what it has elsewhere
// everywhere.
func TestRightsInSomeNamespaces(t *testing.T) {
	for _, how := range both {
		t.Run(how, func(t *testing.T) {
			everywhere, some := rights(t, render(t, how, "certs.provider=self-signed")), rights(t, render(t, watchedPrograms(how)...))
			require.Equal(t, slices.Sorted(maps.Keys(everywhere)), slices.Sorted(maps.Keys(some)))
			for who, places := range some {
				for _, word := range flat(places[""]) {
					verb, what, _ := strings.Cut(word, " ")
					switch what {
					case "nodes", "namespaces", "attunedefaults":
						assert.Contains(t, []string{"list", "watch"}, verb)
					case "nodes/metrics", "tokenreviews", "subjectaccessreviews":
					default:
						assert.Contains(t, what, "webhookconfigurations of attune")
					}
				}
				assert.Equal(t, flat(places["team-a"]), flat(places["team-b"]))
				// Cluster policies are for an operator of all namespaces.
				elsewhere := slices.DeleteFunc(flat(everywhere[who][""]), func(word string) bool { return strings.Contains(word, "attuneclusterpolicies") })
				assert.ElementsMatch(t, elsewhere, append(flat(places[""]), flat(places["team-a"])...), who)
				assert.Equal(t, everywhere[who]["attune-system"], places["attune-system"], who)
			}
		})
	}
}

// TestWatchedNamespaces: the API server asks about pods, policies and recommendations of those alone, and both programs, and
// what uninstalls them, know which they are.
func TestWatchedNamespaces(t *testing.T) {
	r := render(t, watchedPrograms("webhook.separate=true")...)
	asks := func(s *metav1.LabelSelector, namespace string) bool {
		selector, err := metav1.LabelSelectorAsSelector(s)
		require.NoError(t, err)
		return selector.Matches(labels.Set{"attune.io/inject": "enabled", "kubernetes.io/metadata.name": namespace})
	}
	for _, s := range []*metav1.LabelSelector{
		one[*admissionregistrationv1.MutatingWebhookConfiguration](t, r).Webhooks[0].NamespaceSelector,
		one[*admissionregistrationv1.ValidatingWebhookConfiguration](t, r).Webhooks[0].NamespaceSelector,
	} {
		assert.True(t, asks(s, "team-a"))
		assert.True(t, asks(s, "team-b"))
		assert.False(t, asks(s, "team-c"))
	}
	assert.Equal(t, &metav1.LabelSelector{}, guardOf(t, r).Spec.MatchConstraints.NamespaceSelector, "what is forged elsewhere would wait until it is watched")
	for _, d := range all[*appsv1.Deployment](r) {
		assert.Contains(t, d.Spec.Template.Spec.Containers[0].Args, "--watch-namespaces=team-a,team-b", d.Name)
	}
	assert.Contains(t, one[*batchv1.Job](t, r).Spec.Template.Spec.Containers[0].Args, "--watch-namespaces=team-a,team-b")
	for _, d := range all[*appsv1.Deployment](render(t)) {
		assert.NotContains(t, strings.Join(d.Spec.Template.Spec.Containers[0].Args, " "), "--watch-namespaces")
	}
}

// TestNothingIsThereTwice: of two hooks of one name in one namespace Helm deletes the first, and the release's own
// namespace may be watched.
func TestNothingIsThereTwice(t *testing.T) {
	for _, how := range both {
		seen := map[string]bool{}
		for _, object := range render(t, how, "watchNamespaces={attune-system,team-a}", "certs.provider=self-signed").typed {
			o := object.(metav1.Object)
			name := fmt.Sprintf("%T %s/%s", object, o.GetNamespace(), o.GetName())
			assert.False(t, seen[name], name)
			seen[name] = true
		}
	}
}

// TestWhoWritesRecommendations: the operator, and whom a value names.
func TestWhoWritesRecommendations(t *testing.T) {
	only := func(set ...string) string { return guardOf(t, render(t, set...)).Spec.MatchConditions[0].Expression }
	assert.Equal(t, "!(request.userInfo.username in ['system:serviceaccount:attune-system:attune'])", only())
	assert.Equal(t, "!(request.userInfo.username in ['system:serviceaccount:attune-system:attune','system:serviceaccount:velero:velero'])",
		only("rbac.recommendationWriters={system:serviceaccount:velero:velero}"))
}

// TestValuesOfAnOlderChart: helm upgrade --reuse-values knows nothing of values that came later.
func TestValuesOfAnOlderChart(t *testing.T) {
	r := render(t, "watchNamespaces=null", "rbac.recommendationWriters=null", "usage.defaultsSecrets=null", "usage.limits=null", "webhook.excludedNamespaces=null", "webhook.namespaces=null",
		"dashboards=null", "alerts=null", "bridge=null", "hostUsers=null", "networkPolicy.egress=null", "serviceAccount.webhook=null", "serviceAccount.scraper=null",
		"image.registry=null", "image.digest=null", "crds=null", "nameOverride=null", "fullnameOverride=null", "commonLabels=null", "hostNetwork=null", "dnsPolicy=null", "ports=null",
		"serviceMonitor=null", "uninstall.deadlineSeconds=null", "podSecurityContext=null", "securityContext=null", "extraEnv=null",
		"webhook.extraArgs=null", "webhook.nodeSelector=null", "webhook.tolerations=null", "webhook.affinity=null", "webhook.priorityClassName=null",
		"webhook.namespaceSelector=null", "webhook.configurationLabels=null", "webhook.configurationAnnotations=null",
		"controller.extraArgs=null", "controller.nodeSelector=null", "controller.tolerations=null", "controller.affinity=null", "controller.priorityClassName=null")
	require.Len(t, all[*appsv1.Deployment](r), 2)
	for _, d := range all[*appsv1.Deployment](r) {
		pod := d.Spec.Template.Spec
		assert.EqualValues(t, 65532, *pod.SecurityContext.RunAsUser)
		assert.True(t, *pod.SecurityContext.RunAsNonRoot)
		assert.Equal(t, []corev1.Capability{"ALL"}, pod.Containers[0].SecurityContext.Capabilities.Drop)
		assert.Equal(t, "attune:dev", pod.Containers[0].Image, "as it was")
	}
	assert.Len(t, all[*apiextensionsv1.CustomResourceDefinition](r), 5)
	assert.EqualValues(t, 50, *one[*batchv1.Job](t, r).Spec.ActiveDeadlineSeconds)
}

// guardOf is the rule about who writes recommendations.
func guardOf(t *testing.T, r rendered) *admissionregistrationv1.ValidatingAdmissionPolicy {
	t.Helper()
	found := all[*admissionregistrationv1.ValidatingAdmissionPolicy](r)
	at := slices.IndexFunc(found, func(p *admissionregistrationv1.ValidatingAdmissionPolicy) bool {
		return p.Name == "attune-recommendations"
	})
	require.GreaterOrEqual(t, at, 0)
	return found[at]
}

// TestRightsInTheDocs: what a default install may do is told as it is. make rbac writes it.
func TestRightsInTheDocs(t *testing.T) {
	const file, begin, end = "../docs/security-model.md", "<!-- make rbac -->\n", "<!-- end of make rbac -->"
	doc, err := os.ReadFile(file)
	require.NoError(t, err)
	before, rest, found := strings.Cut(string(doc), begin)
	require.True(t, found)
	told, after, found := strings.Cut(rest, end)
	require.True(t, found)
	want := "\n"
	granted := rights(t, render(t, "certs.provider=cert-manager"))
	for _, account := range slices.Sorted(maps.Keys(granted)) {
		want += fmt.Sprintf("`%s`:\n\n| where | group | resources | names | verbs |\n|---|---|---|---|---|\n", account)
		for _, where := range slices.Sorted(maps.Keys(granted[account])) {
			for _, rule := range granted[account][where] {
				want += fmt.Sprintf("| %s | %s | %s | %s | %s |\n", cmp.Or(where, "everywhere"), cmp.Or(strings.Join(rule.APIGroups, ", "), "core"),
					strings.Join(rule.Resources, ", "), cmp.Or(strings.Join(rule.ResourceNames, ", "), "any"), strings.Join(rule.Verbs, ", "))
			}
		}
		want += "\n"
	}
	if *update {
		require.NoError(t, os.WriteFile(file, []byte(before+begin+want+end+after), 0o644))
		told = want
	}
	assert.Equal(t, want, told, "run make rbac")
}

// TestDeployments: each program has pods, replicas, a ServiceAccount, a budget and metrics of its own, or there is one
// that is both.
func TestDeployments(t *testing.T) {
	for how, names := range map[string][]string{both[0]: {"attune", "attune-webhook"}, both[1]: {"attune"}} {
		t.Run(how, func(t *testing.T) {
			r := render(t, "certs.provider=self-signed", how)
			found := all[*appsv1.Deployment](r)
			require.Len(t, found, len(names))
			for _, d := range found {
				assert.Contains(t, names, d.Name)
				wellKept(t, d)
				own := labels.Set(d.Spec.Template.Labels)
				assert.Equal(t, d.Name, d.Spec.Template.Spec.ServiceAccountName)
				budgets := slices.DeleteFunc(all[*policyv1.PodDisruptionBudget](r), func(b *policyv1.PodDisruptionBudget) bool {
					selector, err := metav1.LabelSelectorAsSelector(b.Spec.Selector)
					require.NoError(t, err)
					assert.False(t, selector.Matches(labels.Set(one[*corev1.Pod](t, r).Labels)), "the test's pod is none of the operator's")
					return !selector.Matches(own)
				})
				require.Len(t, budgets, 1)
				assert.Equal(t, d.Name, budgets[0].Name)
				selecting := []string{}
				for _, service := range all[*corev1.Service](r) {
					if labels.SelectorFromSet(service.Spec.Selector).Matches(own) {
						selecting = append(selecting, service.Name)
					}
				}
				want := []string{d.Name + "-metrics"}
				if serves(d) {
					want = append(want, "attune-webhook")
				}
				assert.ElementsMatch(t, want, selecting)
			}
			assert.Equal(t, len(names) == 1, serves(deployment(t, r, "attune")))
			assert.Len(t, all[*policyv1.PodDisruptionBudget](r), len(names))
		})
	}
	t.Run("each says which program it is", func(t *testing.T) {
		r := render(t)
		assert.Equal(t, "controller", deployment(t, r, "attune").Spec.Template.Spec.Containers[0].Args[0])
		assert.Equal(t, "webhook", deployment(t, r, "attune-webhook").Spec.Template.Spec.Containers[0].Args[0])
		assert.True(t, strings.HasPrefix(deployment(t, render(t, both[1]), "attune").Spec.Template.Spec.Containers[0].Args[0], "--"))
	})
	t.Run("replicas", func(t *testing.T) {
		for set, want := range map[string][2]int32{
			"replicas=2": {2, 2}, "replicas=1": {1, 1}, "webhook.replicas=3": {2, 3}, "controller.replicas=3": {3, 2}, "replicas=1,webhook.replicas=2": {1, 2},
		} {
			r := render(t, set)
			assert.Equal(t, want, [2]int32{*deployment(t, r, "attune").Spec.Replicas, *deployment(t, r, "attune-webhook").Spec.Replicas}, set)
		}
	})
	t.Run("resources", func(t *testing.T) {
		of := func(name string, set ...string) *corev1.ResourceRequirements {
			return &deployment(t, render(t, set...), name).Spec.Template.Spec.Containers[0].Resources
		}
		assert.Equal(t, "300m", of("attune-webhook", "webhook.resources.requests.cpu=300m").Requests.Cpu().String())
		assert.Equal(t, "100m", of("attune", "webhook.resources.requests.cpu=300m").Requests.Cpu().String())
		assert.Equal(t, "300m", of("attune", "controller.resources.requests.cpu=300m").Requests.Cpu().String())
		assert.Equal(t, "5Gi", of("attune", "controller.resources.limits.ephemeral-storage=5Gi").Limits.StorageEphemeral().String())
	})
}

func serves(d *appsv1.Deployment) bool {
	return slices.ContainsFunc(d.Spec.Template.Spec.Containers[0].Ports, func(p corev1.ContainerPort) bool { return p.Name == "webhook" })
}

// wellKept is what holds for each of the operator's Deployments.
func wellKept(t *testing.T, d *appsv1.Deployment) {
	t.Helper()
	spec := d.Spec.Template.Spec
	container := spec.Containers[0]
	assert.EqualValues(t, 2, *d.Spec.Replicas)
	assert.Equal(t, "attune.io/attune:dev", container.Image)
	assert.True(t, *spec.SecurityContext.RunAsNonRoot)
	assert.EqualValues(t, 65532, *spec.SecurityContext.RunAsUser)
	assert.Equal(t, corev1.SeccompProfileTypeRuntimeDefault, spec.SecurityContext.SeccompProfile.Type)
	assert.True(t, *container.SecurityContext.ReadOnlyRootFilesystem)
	assert.False(t, *container.SecurityContext.AllowPrivilegeEscalation)
	assert.Equal(t, []corev1.Capability{"ALL"}, container.SecurityContext.Capabilities.Drop)
	assert.Equal(t, "true", d.Annotations["attune.io/skip"], "who sizes pods does not size itself")
	assert.False(t, *spec.EnableServiceLinks)
	assert.Nil(t, spec.HostUsers)
	if serves(d) {
		assert.Positive(t, container.Lifecycle.PreStop.Sleep.Seconds)
	}
	require.Len(t, spec.TopologySpreadConstraints, 1)
	assert.Equal(t, corev1.LabelHostname, spec.TopologySpreadConstraints[0].TopologyKey)
	assert.Equal(t, d.Spec.Selector, spec.TopologySpreadConstraints[0].LabelSelector)

	limit, request := container.Resources.Limits.StorageEphemeral(), container.Resources.Requests.StorageEphemeral()
	assert.True(t, request.IsZero(), "nodes that measure no local storage have none to request")
	assert.Contains(t, container.Resources.Requests, corev1.ResourceEphemeralStorage, "without it the request is the limit")
	room := limit.DeepCopy()
	for _, volume := range spec.Volumes {
		if volume.EmptyDir != nil {
			require.NotNil(t, volume.EmptyDir.SizeLimit, volume.Name)
			room.Sub(*volume.EmptyDir.SizeLimit)
		}
	}
	assert.GreaterOrEqual(t, room.Value(), int64(128<<20), "beside what the emptyDirs may take there is room for the log")
}

// A flag that a program does not have would keep it from starting.
func TestFlags(t *testing.T) {
	source, err := os.ReadFile("../cmd/attune/options.go")
	require.NoError(t, err)
	known := func(groups ...string) (flags []string) {
		for _, group := range append(groups, "(o *processOptions) register", "registerPolicies", "(o *certificateOptions) register") {
			_, body, found := strings.Cut(string(source), "func "+group+"(")
			require.True(t, found, group)
			body, _, _ = strings.Cut(body, "\n}\n")
			for _, flag := range regexp.MustCompile(`"([a-z-]+)", `).FindAllStringSubmatch(body, -1) {
				flags = append(flags, flag[1])
			}
		}
		return flags
	}
	many := []string{"usage.embedded.nodeSelector=pool", "usage.prometheus.headers.X-Scope-OrgID=shop", "usage.prometheus.queryParameters.dedup=x", "usage.prometheus.matchers.cluster=eu-1", "usage.limits.steps=60480", "usage.limits.rateWindow=6h",
		"usage.prometheus.bearerTokenSecret.name=token", "usage.prometheus.tls.caConfigMap.name=ca", "usage.prometheus.tls.insecureSkipVerify=true",
		"usage.policySources.namespaces={team-a,team-b}", "usage.policySources.addresses={*.metrics.svc,10.0.0.0/8,fd00::}", "metrics.audience=attune-metrics",
		"node.eviction.enabled=true", "node.interval=1m", "node.loadTaint.enabled=true", "kubelet.tls.insecureSkipVerify=true", "bridge.vpa=true",
		"ports.webhook=10250", "ports.metrics=8090", "ports.probes=8091"}
	controller, webhook := known("(o *loopOptions) register", "(o *usageOptions) register"), known("(o *webhookOptions) register")
	for _, provider := range []string{"certs.provider=self-signed", "certs.provider=cert-manager"} {
		r := render(t, append(many, provider)...)
		assertFlags(t, controller, deployment(t, r, "attune"))
		assertFlags(t, webhook, deployment(t, r, "attune-webhook"))
		assertFlags(t, append(controller, webhook...), deployment(t, render(t, append(many, provider, both[1])...), "attune"))
	}
	many = append(many, "webhook.clientCA.configMap.name=client-ca", "webhook.clientCA.names={kube-apiserver}")
	r := render(t, append(many, "certs.provider=self-signed")...)
	assert.Contains(t, deployment(t, r, "attune-webhook").Spec.Template.Spec.Containers[0].Args, "--policy-source-namespaces=team-a,team-b", "it judges policies")
	assert.Contains(t, deployment(t, r, "attune-webhook").Spec.Template.Spec.Containers[0].Args, "--max-rate-window=6h")
	verifying := deployment(t, render(t, address, "kubelet.tls.caConfigMap.name=kubelets"), "attune").Spec.Template.Spec
	args := slices.Concat(deployment(t, r, "attune-webhook").Spec.Template.Spec.Containers[0].Args, deployment(t, r, "attune").Spec.Template.Spec.Containers[0].Args, verifying.Containers[0].Args)
	assert.Contains(t, args, "--scraper-service-account=attune-scraper")
	assert.Contains(t, args, "--embedded-node-selector=pool")
	assert.Contains(t, args, "--embedded-node-selector="+embedded.Scrapeable, "the flag and the value have the same default")
	assert.Contains(t, args, "--eviction")
	assert.Contains(t, args, "--webhook-client-ca-file=/etc/attune/client-ca/ca.crt")
	assert.Contains(t, args, "--webhook-client-name=kube-apiserver")
	assert.Contains(t, args, "--prometheus-matcher=cluster=eu-1")
	assert.Contains(t, args, "--max-history-steps=60480")
	assert.Contains(t, args, "--max-rate-window=6h")
	assert.Contains(t, args, "--kubelet-ca-file=/etc/attune/kubelet-ca/ca.crt")
	own := deployment(t, render(t, address, "kubelet.tls.caFile=/ca.crt"), "attune").Spec.Template.Spec
	assert.Contains(t, own.Containers[0].Args, "--kubelet-ca-file=/ca.crt")
	assert.Contains(t, verifying.Containers[0].VolumeMounts, corev1.VolumeMount{Name: "kubelet-ca", MountPath: "/etc/attune/kubelet-ca", ReadOnly: true})
	assert.Contains(t, verifying.Volumes, corev1.Volume{Name: "kubelet-ca", VolumeSource: corev1.VolumeSource{
		ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "kubelets"}, Items: []corev1.KeyToPath{{Key: "ca.crt", Path: "ca.crt"}}}}})
	assert.Contains(t, args, "--prometheus-header=X-Scope-OrgID=shop")
	assert.Contains(t, args, "--policy-source-namespaces=team-a,team-b")
	assert.Contains(t, args, "--policy-source-address=*.metrics.svc,10.0.0.0/8,fd00::")
	assert.Contains(t, args, "--metrics-audience=attune-metrics")
	assert.Contains(t, args, "--prometheus-bearer-token-file=/etc/attune/prometheus-token/token")
}

func assertFlags(t *testing.T, known []string, d *appsv1.Deployment) {
	t.Helper()
	for _, arg := range d.Spec.Template.Spec.Containers[0].Args {
		if flag := regexp.MustCompile(`^--([a-z-]+)`).FindStringSubmatch(arg); flag != nil {
			assert.Contains(t, known, flag[1], d.Name)
		}
	}
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
	all, err := metav1.LabelSelectorAsSelector(one[*admissionregistrationv1.MutatingWebhookConfiguration](t,
		render(t, "webhook.excludedNamespaces={special}", "webhook.namespaces=AllButDisabled")).Webhooks[0].NamespaceSelector)
	require.NoError(t, err)
	assert.True(t, all.Matches(labels.Set{"kubernetes.io/metadata.name": "shop"}))
	assert.True(t, all.Matches(namespace("shop", "enabled")))
	assert.False(t, all.Matches(namespace("shop", "disabled")))
	for _, never := range []string{"kube-system", "attune-system", "special"} {
		assert.False(t, all.Matches(labels.Set{"kubernetes.io/metadata.name": never}), never)
	}
	assert.True(t, selector.Matches(namespace("shop", "enabled")))
	assert.False(t, selector.Matches(namespace("shop", "disabled")))
	for _, never := range []string{"kube-system", "attune-system", "special"} {
		assert.False(t, selector.Matches(namespace(never, "enabled")), never)
	}
}

// TestSizedNamespaces: the operator knows from its flags in which namespaces the API server calls the webhook.
func TestSizedNamespaces(t *testing.T) {
	for _, values := range [][]string{
		nil,
		{"webhook.excludedNamespaces=null"},
		{"webhook.excludedNamespaces={legacy}"},
		{"webhook.excludedNamespaces={legacy,bank}"},
		{"webhook.excludedNamespaces={attune-system,kube-system}"},
		{"watchNamespaces={team-a}"},
		{"watchNamespaces={team-a,team-b}"},
		{"watchNamespaces={team-a,kube-system,attune-system}"},
		{"watchNamespaces={team-a,legacy}", "webhook.excludedNamespaces={legacy,bank}"},
		{"webhook.namespaces=null"},
		{"webhook.namespaces=Labelled"},
		{"webhook.namespaces=AllButDisabled"},
		{"webhook.namespaces=AllButDisabled", "webhook.excludedNamespaces={legacy,bank}"},
		{"webhook.namespaces=AllButDisabled", "watchNamespaces={team-a,legacy}", "webhook.excludedNamespaces={legacy,bank}"},
		{"webhook.namespaceSelector[0].key=team", "webhook.namespaceSelector[0].operator=DoesNotExist"},
		{"webhook.namespaceSelector[0].key=team", "webhook.namespaceSelector[0].operator=In", "webhook.namespaceSelector[0].values={a,b}", "webhook.namespaces=AllButDisabled"},
		{"webhook.namespaceSelector[0].key=kubernetes.io/metadata.name", "webhook.namespaceSelector[0].operator=NotIn", "webhook.namespaceSelector[0].values={bank}",
			"webhook.namespaceSelector[1].key=attune.io/inject", "webhook.namespaceSelector[1].operator=Exists"},
	} {
		for _, how := range both {
			r := render(t, append(values, how)...)
			selector, err := metav1.LabelSelectorAsSelector(one[*admissionregistrationv1.MutatingWebhookConfiguration](t, r).Webhooks[0].NamespaceSelector)
			require.NoError(t, err)
			admission := workload.AdmissionOf("attune-system", deployment(t, r, "attune").Spec.Template.Spec.Containers[0].Args)
			for _, namespace := range []string{"shop", "bank", "legacy", "team-a", "team-b", "attune-system", "kube-system", "kube-node-lease", "default"} {
				for _, of := range []labels.Set{nil, {"attune.io/inject": "enabled"}, {"attune.io/inject": "disabled"}, {"attune.io/inject": ""}, {"team": "a"}} {
					want := selector.Matches(labels.Merge(of, labels.Set{corev1.LabelMetadataName: namespace}))
					assert.Equal(t, want, admission.NotSized(namespace, of) == "", "%v, %s: namespace %s with the labels %v", values, how, namespace, of)
				}
			}
		}
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
		r := render(t, "certs.provider=cert-manager")
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
		volumes := deployment(t, r, "attune-webhook").Spec.Template.Spec.Volumes
		assert.True(t, slices.ContainsFunc(volumes, func(v corev1.Volume) bool {
			return v.Secret != nil && v.Secret.SecretName == leaf["spec"].(map[string]any)["secretName"]
		}))
	})
	t.Run("self-signed", func(t *testing.T) {
		r := render(t)
		assert.Empty(t, r.other, "the default without a cluster")
		assert.Empty(t, one[*admissionregistrationv1.MutatingWebhookConfiguration](t, r).Annotations)
	})
}
