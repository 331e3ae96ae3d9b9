//go:build helm

package charts

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// podsOf are the specs of all pods that the chart makes: of the programs, the uninstall Job and the test.
func podsOf(t *testing.T, r rendered) (specs []corev1.PodSpec) {
	t.Helper()
	for _, d := range all[*appsv1.Deployment](r) {
		specs = append(specs, d.Spec.Template.Spec)
	}
	specs = append(specs, one[*batchv1.Job](t, r).Spec.Template.Spec, one[*corev1.Pod](t, r).Spec)
	require.Len(t, specs, 4)
	return specs
}

// TestImage: every pod has the one image, so that a mirror needs no other.
func TestImage(t *testing.T) {
	const digest = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
	for set, want := range map[string]string{
		"": "attune.io/attune:dev",
		"image.registry=registry.example.com:5000,image.tag=v1":         "registry.example.com:5000/attune:v1",
		"image.registry=registry.example.com,image.repository=a/attune": "registry.example.com/a/attune:dev",
		"image.registry=mirror:5000/team/,image.tag=v1":                 "mirror:5000/team/attune:v1",
		"image.repository=ghcr.io/a/attune":                             "ghcr.io/a/attune:dev",
		"image.repository=localhost/attune":                             "localhost/attune:dev",
		"image.repository=mirror:5000/attune,image.tag=v1":              "mirror:5000/attune:v1",
		"image.tag=v1,image.digest=" + digest:                           "attune.io/attune@" + digest,
	} {
		for _, pod := range podsOf(t, render(t, set)) {
			for _, c := range pod.Containers {
				assert.Equal(t, want, c.Image, set)
			}
		}
	}
}

// published copies the chart as a release publishes it: Chart.yaml has the digest of the image.
func published(t *testing.T, digest string) string {
	t.Helper()
	chart := filepath.Join(t.TempDir(), "attune")
	require.NoError(t, os.CopyFS(chart, os.DirFS("attune")))
	metadata, err := os.ReadFile("attune/Chart.yaml")
	require.NoError(t, err)
	metadata = append(metadata, "annotations:\n  attune.io/image-digest: "+digest+"\n"...)
	require.NoError(t, os.WriteFile(filepath.Join(chart, "Chart.yaml"), metadata, 0o600))
	return chart
}

// TestImageOfAPublishedChart: it has a digest, but a tag that a user sets is not ignored.
func TestImageOfAPublishedChart(t *testing.T) {
	const digest, own = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855", "sha256:01ba4719c80b6fe911b091a7c05124b64eeece964e09c058ef8f9805daca546b"
	chart := published(t, digest)
	for set, want := range map[string]string{
		"":                                  "attune.io/attune@" + digest,
		"image.registry=mirror.example.com": "mirror.example.com/attune@" + digest,
		"image.tag=v0.1.1":                  "attune.io/attune:v0.1.1",
		"image.digest=" + own:               "attune.io/attune@" + own,
		"image.tag=v1,image.digest=" + own:  "attune.io/attune@" + own,
	} {
		out, err := helm(t, "template", "attune", chart, "--namespace", "attune-system", "--set", set)
		require.NoError(t, err)
		for _, pod := range podsOf(t, read(t, out)) {
			assert.Equal(t, want, pod.Containers[0].Image, set)
		}
	}
}

// TestPodsOfHooks are scheduled and pulled like the others: where the nodes have taints, a hook without them never ends.
func TestPodsOfHooks(t *testing.T) {
	r := render(t, "tolerations[0].key=dedicated,tolerations[0].operator=Exists,nodeSelector.pool=system,image.pullSecrets[0].name=registry")
	for _, pod := range podsOf(t, r) {
		assert.Equal(t, []corev1.Toleration{{Key: "dedicated", Operator: corev1.TolerationOpExists}}, pod.Tolerations)
		assert.Equal(t, map[string]string{"pool": "system"}, pod.NodeSelector)
		assert.Equal(t, []corev1.LocalObjectReference{{Name: "registry"}}, pod.ImagePullSecrets)
	}
}

// TestSchedulingOfOneComponent: its own values take the place of those for all.
func TestSchedulingOfOneComponent(t *testing.T) {
	r := render(t, "nodeSelector.pool=system,webhook.nodeSelector.pool=edge,controller.priorityClassName=high,priorityClassName=low,webhook.tolerations[0].key=edge,"+
		"extraArgs={--log-level=info},controller.extraArgs={--node-interval=9m},extraEnv[0].name=HTTPS_PROXY,extraEnv[0].value=http://proxy:3128")
	controller, webhook := deployment(t, r, "attune").Spec.Template.Spec, deployment(t, r, "attune-webhook").Spec.Template.Spec
	assert.Equal(t, "system", controller.NodeSelector["pool"])
	assert.Equal(t, "edge", webhook.NodeSelector["pool"])
	assert.Equal(t, "high", controller.PriorityClassName)
	assert.Equal(t, "low", webhook.PriorityClassName)
	assert.Empty(t, controller.Tolerations)
	assert.Equal(t, "edge", webhook.Tolerations[0].Key)
	assert.Subset(t, controller.Containers[0].Args, []string{"--log-level=info", "--node-interval=9m"})
	assert.NotContains(t, webhook.Containers[0].Args, "--node-interval=9m")
	for _, pod := range []corev1.PodSpec{controller, webhook} {
		assert.Contains(t, pod.Containers[0].Env, corev1.EnvVar{Name: "HTTPS_PROXY", Value: "http://proxy:3128"})
	}
}

// TestHostNetwork: only the pods that the API server calls are in the network of the nodes, with ports of the values, and an
// upgrade needs no second pod on a node.
func TestHostNetwork(t *testing.T) {
	r := render(t, "hostNetwork=true,ports.webhook=9543,ports.metrics=9544,ports.probes=9545")
	controller, webhook := deployment(t, r, "attune"), deployment(t, r, "attune-webhook")
	assert.False(t, controller.Spec.Template.Spec.HostNetwork)
	pod := webhook.Spec.Template.Spec
	assert.True(t, pod.HostNetwork)
	assert.Equal(t, corev1.DNSClusterFirstWithHostNet, pod.DNSPolicy)
	ports := map[string]int32{}
	for _, port := range pod.Containers[0].Ports {
		ports[port.Name] = port.ContainerPort
	}
	assert.Equal(t, map[string]int32{"webhook": 9543, "metrics": 9544, "probes": 9545}, ports)
	assert.Subset(t, pod.Containers[0].Args, []string{"--webhook-port=9543", "--metrics-bind-address=:9544", "--health-probe-bind-address=:9545"})
	assert.Equal(t, "0 1", webhook.Spec.Strategy.RollingUpdate.MaxSurge.String()+" "+webhook.Spec.Strategy.RollingUpdate.MaxUnavailable.String())
	assert.Equal(t, "1 0", controller.Spec.Strategy.RollingUpdate.MaxSurge.String()+" "+controller.Spec.Strategy.RollingUpdate.MaxUnavailable.String())
	assert.True(t, deployment(t, render(t, "hostNetwork=true,webhook.separate=false"), "attune").Spec.Template.Spec.HostNetwork)
	for _, d := range all[*appsv1.Deployment](render(t)) {
		assert.False(t, d.Spec.Template.Spec.HostNetwork)
		assert.Empty(t, d.Spec.Template.Spec.DNSPolicy)
	}
}

// TestOpenShift: where the platform assigns ids, no pod has one of the chart's, but an id that the values choose stays.
func TestOpenShift(t *testing.T) {
	on := func(set string) rendered {
		out, err := helm(t, "template", "attune", "attune", "--namespace", "attune-system", "--api-versions", "security.openshift.io/v1", "--set", set)
		require.NoError(t, err)
		return read(t, out)
	}
	for _, pod := range podsOf(t, on("")) {
		assert.Nil(t, pod.SecurityContext.RunAsUser)
		assert.Nil(t, pod.SecurityContext.RunAsGroup)
		assert.Nil(t, pod.SecurityContext.FSGroup)
		assert.True(t, *pod.SecurityContext.RunAsNonRoot)
		assert.Equal(t, corev1.SeccompProfileTypeRuntimeDefault, pod.SecurityContext.SeccompProfile.Type)
	}
	for _, pod := range podsOf(t, on("podSecurityContext.runAsUser=1000650001")) {
		assert.EqualValues(t, 1000650001, *pod.SecurityContext.RunAsUser)
	}
	for _, pod := range podsOf(t, render(t)) {
		assert.EqualValues(t, 65532, *pod.SecurityContext.RunAsUser)
	}
}

// TestWebhookConfigurations: labels and annotations of the values, beside cert-manager's.
func TestWebhookConfigurations(t *testing.T) {
	const off = `admissions\.enforcer/disabled`
	r := render(t, "certs.provider=cert-manager", "webhook.configurationLabels."+off+"=x", "webhook.configurationAnnotations."+off+"=x")
	for _, o := range []metav1.Object{one[*admissionregistrationv1.MutatingWebhookConfiguration](t, r), one[*admissionregistrationv1.ValidatingWebhookConfiguration](t, r)} {
		assert.Equal(t, "x", o.GetLabels()["admissions.enforcer/disabled"])
		assert.Equal(t, "x", o.GetAnnotations()["admissions.enforcer/disabled"])
		assert.Equal(t, "attune-system/attune-webhook", o.GetAnnotations()["cert-manager.io/inject-ca-from"])
	}
}

// TestServiceMonitor: it scrapes the Services of the metrics with the token of Prometheus, or with one of a Secret, for a
// Prometheus that may read no files.
func TestServiceMonitor(t *testing.T) {
	endpoint := func(set string) map[string]any {
		r := render(t, "serviceMonitor.enabled=true,"+set)
		require.Len(t, r.other, 1)
		spec := r.other[0]["spec"].(map[string]any)
		matched := labels.Set{}
		for key, value := range spec["selector"].(map[string]any)["matchLabels"].(map[string]any) {
			matched[key] = value.(string)
		}
		scraped := 0
		for _, service := range all[*corev1.Service](r) {
			if matched.AsSelector().Matches(labels.Set(service.Labels)) && service.Spec.Ports[0].Name == "metrics" {
				scraped++
			}
		}
		assert.Equal(t, 2, scraped)
		return spec["endpoints"].([]any)[0].(map[string]any)
	}
	own := endpoint("serviceMonitor.interval=30s")
	assert.Equal(t, "https", own["scheme"])
	assert.Equal(t, "30s", own["interval"])
	assert.Equal(t, "/var/run/secrets/kubernetes.io/serviceaccount/token", own["bearerTokenFile"])
	secret := endpoint("serviceMonitor.bearerTokenSecret.name=metrics")
	assert.NotContains(t, secret, "bearerTokenFile")
	assert.Equal(t, map[string]any{"credentials": map[string]any{"name": "metrics", "key": "token"}}, secret["authorization"])
	assert.NotContains(t, endpoint("metrics.secure=false"), "bearerTokenFile")
}

// TestLongNames: no name is too long for its kind, whatever the release is called.
func TestLongNames(t *testing.T) {
	long := strings.Repeat("release", 7)
	for _, args := range [][]string{{long}, {"attune", "--set", "fullnameOverride=" + long[:40]}, {"attune", "--set", "nameOverride=" + long[:40]}} {
		out, err := helm(t, append([]string{"template", args[0], "attune", "--namespace", "attune-system", "--set", "dashboards.enabled=true,bridge.vpa=true"}, args[1:]...)...)
		require.NoError(t, err)
		for _, object := range read(t, out).typed {
			assert.LessOrEqual(t, len(object.(metav1.Object).GetName()), 63)
		}
	}
	for set, want := range map[string]string{"fullnameOverride=sizer": "sizer", "nameOverride=sizer": "attune-sizer"} {
		assert.Equal(t, want+"-webhook", deployment(t, render(t, set), want+"-webhook").Name)
	}
}

// TestNamesOfServices: a release may have a name that no Service has. Helm would stop in the middle of the installation.
func TestNamesOfServices(t *testing.T) {
	for _, name := range []string{"attune.v1", "1attune"} {
		_, err := helm(t, "template", name, "attune", "--namespace", "attune-system")
		assert.ErrorContains(t, err, "the name "+name+" of the objects is not valid for a Service: set fullnameOverride, such as fullnameOverride=attune")
		_, err = helm(t, "template", name, "attune", "--namespace", "attune-system", "--set", "fullnameOverride=attune")
		assert.NoError(t, err)
	}
}

// TestReplicasOfAnAutoscaler: without a number in the values, the Deployment has none, and an HPA owns the field.
func TestReplicasOfAnAutoscaler(t *testing.T) {
	r := render(t, "replicas=null,controller.replicas=2")
	assert.Nil(t, deployment(t, r, "attune-webhook").Spec.Replicas)
	assert.EqualValues(t, 2, *deployment(t, r, "attune").Spec.Replicas)
}

// TestEgressOfTheUninstallJob: the policy of the release is gone by then, and the cluster may deny by default.
func TestEgressOfTheUninstallJob(t *testing.T) {
	r := render(t, "networkPolicy.enabled=true", "networkPolicy.egress[0].ports[0].port=6443")
	policies := all[*networkingv1.NetworkPolicy](r)
	require.Len(t, policies, 2)
	for _, policy := range policies {
		if policy.Annotations["helm.sh/hook"] == "" {
			continue
		}
		assert.True(t, labels.SelectorFromSet(policy.Spec.PodSelector.MatchLabels).Matches(labels.Set(one[*batchv1.Job](t, r).Spec.Template.Labels)))
		assert.False(t, labels.SelectorFromSet(policy.Spec.PodSelector.MatchLabels).Matches(labels.Set(one[*corev1.Pod](t, r).Labels)))
		assert.EqualValues(t, 6443, policy.Spec.Egress[0].Ports[0].Port.IntVal)
	}
}

// TestUninstallJobRunsWhereTheControllerRan: what lets the controller's pods run lets the Job's pod run: taints, quotas and
// limit ranges of the namespace, labels for a service mesh, and the variables for a proxy.
func TestUninstallJobRunsWhereTheControllerRan(t *testing.T) {
	r := render(t, "nodeSelector.pool=system,controller.nodeSelector.pool=infra,controller.tolerations[0].key=infra,controller.tolerations[0].operator=Exists,"+
		"controller.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0].matchExpressions[0].key=infra,"+
		"controller.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0].matchExpressions[0].operator=Exists,"+
		"controller.priorityClassName=system-cluster-critical,controller.resources.limits.cpu=1,"+
		`podLabels.sidecar\.istio\.io/inject=no,podAnnotations.linkerd\.io/inject=disabled,extraEnv[0].name=KUBERNETES_SERVICE_HOST,extraEnv[0].value=api.example.com`)
	controller, job := deployment(t, r, "attune").Spec.Template, one[*batchv1.Job](t, r).Spec.Template
	assert.NotEmpty(t, controller.Spec.Affinity.NodeAffinity)
	assert.Equal(t, controller.Spec.NodeSelector, job.Spec.NodeSelector)
	assert.Equal(t, controller.Spec.Tolerations, job.Spec.Tolerations)
	assert.Equal(t, controller.Spec.Affinity, job.Spec.Affinity)
	assert.Equal(t, controller.Spec.PriorityClassName, job.Spec.PriorityClassName)
	assert.Equal(t, controller.Spec.Containers[0].Resources, job.Spec.Containers[0].Resources, "a quota or a limit range accepts them")
	assert.Contains(t, job.Spec.Containers[0].Env, corev1.EnvVar{Name: "KUBERNETES_SERVICE_HOST", Value: "api.example.com"})
	assert.Equal(t, "no", job.Labels["sidecar.istio.io/inject"])
	assert.Equal(t, "disabled", job.Annotations["linkerd.io/inject"])
	assert.NotContains(t, job.Labels, "app.kubernetes.io/component")
}
