//go:build helm

package charts

import (
	"bytes"
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
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation"
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
	metadata = bytes.Replace(metadata, []byte("\nannotations:\n"), []byte("\nannotations:\n  attune.io/image-digest: "+digest+"\n"), 1)
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
		assert.Equal(t, map[string]string{"pool": "system", "kubernetes.io/os": "linux"}, pod.NodeSelector)
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
	// GKE Autopilot refuses wildcards. A caBundle in the chart would conflict with the one that the controller or cert-manager writes.
	mutating, validating := one[*admissionregistrationv1.MutatingWebhookConfiguration](t, r).Webhooks[0], one[*admissionregistrationv1.ValidatingWebhookConfiguration](t, r).Webhooks[0]
	for _, rule := range append(mutating.Rules, validating.Rules...) {
		assert.NotContains(t, append(rule.APIGroups, rule.Resources...), "*")
	}
	assert.Empty(t, append(mutating.ClientConfig.CABundle, validating.ClientConfig.CABundle...))
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
	assert.Equal(t, true, own["honorLabels"], "the metrics have a label namespace, which dashboards and alerts use")
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

// TestNodesWithWindows: no pod is scheduled on a node that cannot run the image.
func TestNodesWithWindows(t *testing.T) {
	for _, set := range []string{"", "nodeSelector=null", "webhook.nodeSelector.pool=edge", "controller.nodeSelector.pool=system"} {
		for _, pod := range podsOf(t, render(t, set)) {
			assert.Equal(t, "linux", pod.NodeSelector["kubernetes.io/os"], set)
		}
	}
	for _, pod := range podsOf(t, render(t, "nodeSelector.kubernetes\\.io/os=other")) {
		assert.Equal(t, "other", pod.NodeSelector["kubernetes.io/os"])
	}
}

// TestVersionsInLabels: Flux appends the digest of an OCI artefact to the chart's version, and versions can be long.
func TestVersionsInLabels(t *testing.T) {
	for _, version := range []string{"0.1.0+f3a1b2c4d5e6", "0.1.0-" + strings.Repeat("pre.", 20) + "1", "0.1.0-" + strings.Repeat("a", 49) + "-b"} {
		chart := filepath.Join(t.TempDir(), "attune")
		require.NoError(t, os.CopyFS(chart, os.DirFS("attune")))
		metadata, err := os.ReadFile("attune/Chart.yaml")
		require.NoError(t, err)
		changed := strings.NewReplacer("\nversion: 0.1.0", "\nversion: "+version, "\nappVersion: dev", "\nappVersion: v"+version).Replace(string(metadata))
		require.NoError(t, os.WriteFile(filepath.Join(chart, "Chart.yaml"), []byte(changed), 0o600))
		out, err := helm(t, "template", "attune", chart, "--namespace", "attune-system")
		require.NoError(t, err)
		for _, object := range read(t, out).typed {
			meta := object.(metav1.Object)
			for _, key := range []string{"helm.sh/chart", "app.kubernetes.io/version"} {
				assert.Contains(t, meta.GetLabels(), key)
				assert.Empty(t, validation.IsValidLabelValue(meta.GetLabels()[key]), meta.GetName())
			}
		}
	}
}

// TestLabelsAreSetOnce: Flux and kustomize refuse a repeated key. render refuses it, too.
func TestLabelsAreSetOnce(t *testing.T) {
	r := render(t, "commonLabels.team=a,podLabels.team=b,webhook.configurationLabels.team=c,serviceMonitor.enabled=true,serviceMonitor.labels.team=d,"+
		"alerts.enabled=true,alerts.labels.team=e,dashboards.enabled=true,dashboards.labels.team=f,podAnnotations.kubectl\\.kubernetes\\.io/default-container=proxy")
	webhook := deployment(t, r, "attune-webhook")
	assert.Equal(t, "a", webhook.Labels["team"])
	assert.Equal(t, "b", webhook.Spec.Template.Labels["team"])
	assert.Equal(t, "proxy", webhook.Spec.Template.Annotations["kubectl.kubernetes.io/default-container"])
	assert.Equal(t, "c", one[*admissionregistrationv1.MutatingWebhookConfiguration](t, r).Labels["team"])
}

// TestSwitchOfAParentChart: charts that contain this one switch it on with the value enabled, and set global.
func TestSwitchOfAParentChart(t *testing.T) {
	parent := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(parent, "Chart.yaml"), []byte("apiVersion: v2\nname: platform\nversion: 1.0.0\n"+
		"dependencies: [{name: attune, version: 0.1.0, condition: attune.enabled}]\n"), 0o600))
	require.NoError(t, os.CopyFS(filepath.Join(parent, "charts", "attune"), os.DirFS("attune")))
	for enabled, want := range map[string]bool{"true": true, "false": false} {
		out, err := helm(t, "template", "platform", parent, "--namespace", "attune-system", "--set", "global.imageRegistry=x,attune.enabled="+enabled)
		require.NoError(t, err)
		assert.Equal(t, want, strings.Contains(out, "name: platform-attune-webhook"), enabled)
	}
}

// TestIPFamilies: a Service without a policy gets the cluster's first family.
func TestIPFamilies(t *testing.T) {
	for _, service := range all[*corev1.Service](render(t)) {
		assert.Nil(t, service.Spec.IPFamilyPolicy)
	}
	for _, service := range all[*corev1.Service](render(t, "service.ipFamilyPolicy=PreferDualStack,service.ipFamilies={IPv6,IPv4}")) {
		assert.Equal(t, new(corev1.IPFamilyPolicyPreferDualStack), service.Spec.IPFamilyPolicy)
		assert.Equal(t, []corev1.IPFamily{corev1.IPv6Protocol, corev1.IPv4Protocol}, service.Spec.IPFamilies)
	}
}

// TestDrainsAreNotBlocked: neither one replica nor pods that never become ready stop the drain of a node.
func TestDrainsAreNotBlocked(t *testing.T) {
	budgets := all[*policyv1.PodDisruptionBudget](render(t, "replicas=1"))
	assert.Len(t, budgets, 2)
	for _, budget := range budgets {
		assert.Nil(t, budget.Spec.MinAvailable)
		assert.Equal(t, 1, budget.Spec.MaxUnavailable.IntValue())
		assert.Equal(t, new(policyv1.AlwaysAllow), budget.Spec.UnhealthyPodEvictionPolicy)
	}
}

// TestVersionsOfProviders: EKS and GKE append their build to Kubernetes' version.
func TestVersionsOfProviders(t *testing.T) {
	for _, version := range []string{"v1.34.1-eks-3025e55", "v1.34.1-gke.1386000", "v1.35.0"} {
		_, err := helm(t, "template", "attune", "attune", "--namespace", "attune-system", "--kube-version", version)
		assert.NoError(t, err, version)
	}
	_, err := helm(t, "template", "attune", "attune", "--namespace", "attune-system", "--kube-version", "v1.33.9-eks-3025e55")
	assert.ErrorContains(t, err, "kubeVersion")
}

// TestSpread: a constraint without a labelSelector selects the pods of its own Deployment.
func TestSpread(t *testing.T) {
	zone := "topologySpreadConstraints[0].maxSkew=1,topologySpreadConstraints[0].whenUnsatisfiable=ScheduleAnyway,topologySpreadConstraints[0].topologyKey="
	for set, key := range map[string]string{"": corev1.LabelHostname, "topologySpreadConstraints=null": corev1.LabelHostname, zone + corev1.LabelTopologyZone: corev1.LabelTopologyZone} {
		for _, d := range all[*appsv1.Deployment](render(t, set)) {
			assert.Equal(t, []corev1.TopologySpreadConstraint{{MaxSkew: 1, TopologyKey: key, WhenUnsatisfiable: corev1.ScheduleAnyway, LabelSelector: d.Spec.Selector}},
				d.Spec.Template.Spec.TopologySpreadConstraints, set)
		}
	}
}
