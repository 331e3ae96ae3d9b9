package integration

import (
	"bytes"
	"encoding/json"
	"errors"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/yaml"

	"attune.io/attune/internal/autoscale"
	"attune.io/attune/test/cluster"
	"attune.io/attune/test/othercrd"
)

// plugin is kubectl attune, as a user runs it.
type plugin struct {
	t                              *testing.T
	program, kubeconfig, namespace string
}

// newPlugin builds the plugin, and gives it a kubeconfig of the API server.
func newPlugin(t *testing.T, namespace string) plugin {
	t.Helper()
	project, err := cluster.ProjectDir()
	require.NoError(t, err)
	dir := t.TempDir()
	p := plugin{t: t, program: filepath.Join(dir, "kubectl-attune"), kubeconfig: filepath.Join(dir, "config"), namespace: namespace}
	build := exec.CommandContext(t.Context(), "go", "build", "-o", p.program, "./cmd/kubectl-attune")
	build.Dir = project
	out, err := build.CombinedOutput()
	require.NoError(t, err, string(out))
	config := clientcmdapi.NewConfig()
	config.Clusters["here"] = &clientcmdapi.Cluster{Server: server.Host, CertificateAuthorityData: server.CAData}
	config.AuthInfos["me"] = &clientcmdapi.AuthInfo{ClientCertificateData: server.CertData, ClientKeyData: server.KeyData}
	config.Contexts["here"] = &clientcmdapi.Context{Cluster: "here", AuthInfo: "me", Namespace: namespace}
	config.CurrentContext = "here"
	require.NoError(t, clientcmd.WriteToFile(*config, p.kubeconfig))
	return p
}

// run returns what the plugin says, and its exit code.
func (p plugin) run(args ...string) (out, errOut string, code int) {
	p.t.Helper()
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(p.t.Context(), p.program, append(args, "--kubeconfig", p.kubeconfig)...)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	var exit *exec.ExitError
	if err := cmd.Run(); errors.As(err, &exit) {
		code = exit.ExitCode()
	} else {
		require.NoError(p.t, err)
	}
	return stdout.String(), stderr.String(), code
}

// pluginWorld is what its verbs find: two Deployments, one of them with a policy, a recommendation and two pods, of which
// one is resized.
const pluginWorld = `
apiVersion: attune.io/v1alpha1
kind: AttuneNamespaceDefaults
metadata: {name: default}
spec: {costPricing: {cpuPerCoreHour: "0.04", currency: EUR}}
---
apiVersion: attune.io/v1alpha1
kind: AttunePolicy
metadata: {name: api}
spec: {targetRef: {kind: Deployment, selector: {matchLabels: {tier: api}}}, updateStrategy: {type: Auto}}
---
apiVersion: attune.io/v1alpha1
kind: AttuneRecommendation
metadata: {name: deployment-web}
spec:
  workload: {kind: Deployment, name: web}
  policy: {name: api}
  mode: Auto
  containers:
    - {name: app, target: {cpuRequest: 200m, memoryRequest: 512Mi}, confidence: "0.9", dataPoints: 500}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, labels: {tier: api}}
spec:
  replicas: 3
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: app, image: none, resources: {requests: {cpu: 500m, memory: 1Gi}}}]}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: other, labels: {tier: web}}
spec:
  selector: {matchLabels: {app: other}}
  template:
    metadata: {labels: {app: other}}
    spec: {containers: [{name: app, image: none}]}
---
apiVersion: v1
kind: Pod
metadata:
  name: web-7c9-a
  labels: {pod-template-hash: 7c9}
  ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, name: web-7c9, uid: "1", controller: true}]
spec: {containers: [{name: app, image: none, resources: {requests: {cpu: 500m, memory: 1Gi}}}]}
---
apiVersion: v1
kind: Pod
metadata:
  name: web-7c9-b
  labels: {pod-template-hash: 7c9}
  ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, name: web-7c9, uid: "1", controller: true}]
spec: {containers: [{name: app, image: none, resources: {requests: {cpu: 500m, memory: 1Gi}}}]}
`

// newPluginWorld makes the objects, and says that their controllers have seen them and that the pods run.
func newPluginWorld(t *testing.T, c client.Client) plugin {
	t.Helper()
	namespace := newNamespace(t, c)
	for _, document := range bytes.Split([]byte(pluginWorld), []byte("\n---\n")) {
		u := &unstructured.Unstructured{}
		require.NoError(t, yaml.Unmarshal(document, &u.Object))
		u.SetNamespace(namespace)
		require.NoError(t, c.Create(t.Context(), u), u.GetName())
	}
	var pods corev1.PodList
	require.NoError(t, c.List(t.Context(), &pods, client.InNamespace(namespace)))
	for i := range pods.Items {
		pods.Items[i].Status.Phase = corev1.PodRunning
		require.NoError(t, c.Status().Update(t.Context(), &pods.Items[i]))
	}
	resized := &pods.Items[slices.IndexFunc(pods.Items, func(p corev1.Pod) bool { return p.Name == "web-7c9-a" })]
	resized.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = resource.MustParse("250m")
	require.NoError(t, c.SubResource("resize").Update(t.Context(), resized))
	var web appsv1.Deployment
	require.NoError(t, c.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: "web"}, &web))
	web.Status = appsv1.DeploymentStatus{ObservedGeneration: web.Generation, Replicas: 3, UpdatedReplicas: 3, ReadyReplicas: 3, AvailableReplicas: 3}
	require.NoError(t, c.Status().Update(t.Context(), &web))
	return newPlugin(t, namespace)
}

// The verbs of the plugin against a real API server, as a user runs them.
func TestThePluginAsAUserRunsIt(t *testing.T) {
	c := newClient(t)
	p := newPluginWorld(t, c)

	t.Run("savings", func(t *testing.T) {
		out, errOut, code := p.run("savings", "-o", "json")
		require.Zero(t, code, errOut)
		var answer struct{ Total map[string]any }
		require.NoError(t, json.Unmarshal([]byte(out), &answer))
		assert.Equal(t, map[string]any{
			"workloads":  1.0,
			"saved":      map[string]any{"cpu": "250m", "memory": "0", "monthly": []any{map[string]any{"currency": "EUR", "amount": "7.30"}}},
			"available":  map[string]any{"cpu": "650m", "memory": "0", "monthly": []any{map[string]any{"currency": "EUR", "amount": "18.98"}}},
			"notCounted": map[string]any{"skippedWorkloads": 0.0, "blockedWorkloads": 0.0, "blockedResources": 1.0},
		}, answer.Total)
	})
	t.Run("recommendations as KRR writes them", func(t *testing.T) {
		out, errOut, code := p.run("recommendations", "-o", "krr")
		require.Zero(t, code, errOut)
		var answer struct {
			Scans []any
			Score int
		}
		require.NoError(t, json.Unmarshal([]byte(out), &answer))
		amounts := func(cpu, memory any) map[string]any { return map[string]any{"cpu": cpu, "memory": memory} }
		judged := func(value any, severity string) map[string]any {
			return map[string]any{"value": value, "severity": severity}
		}
		assert.Equal(t, []any{map[string]any{
			"object": map[string]any{
				"cluster": "here", "namespace": p.namespace, "kind": "Deployment", "name": "web", "container": "app", "hpa": nil, "warnings": []any{},
				"pods":   []any{map[string]any{"name": "web-7c9-a", "deleted": false}, map[string]any{"name": "web-7c9-b", "deleted": false}},
				"labels": map[string]any{"tier": "api"}, "annotations": nil,
				"allocations": map[string]any{"requests": amounts(0.5, 1024.*1048576), "limits": amounts(nil, nil), "info": map[string]any{}},
			},
			"recommended": map[string]any{
				"requests": amounts(judged(0.2, "WARNING"), judged("?", "UNKNOWN")), "limits": amounts(judged(nil, "GOOD"), judged("?", "UNKNOWN")),
				"info": amounts(nil, "AllowDecrease: 1Gi to 512Mi is -50 %; memory is lowered only with allowDecrease"),
			},
			"severity": "WARNING", "metrics": map[string]any{},
		}}, answer.Scans)
		assert.Equal(t, 30, answer.Score)
	})
	t.Run("doctor", func(t *testing.T) {
		out, errOut, code := p.run("doctor", "-o", "json", "--operator-namespace", p.namespace)
		assert.Equal(t, 2, code, errOut)
		assert.Contains(t, out, "no Deployment of attune found in namespace "+p.namespace)
	})
	t.Run("the nearest policy", func(t *testing.T) {
		out, errOut, code := p.run("explain", "deployment/other")
		assert.Equal(t, 1, code)
		assert.Empty(t, out)
		assert.Equal(t, "error: no policy selects Deployment/other in namespace "+p.namespace+"; the closest match is api, which requires tier=api (the workload has tier=web)\n", errOut)
	})
	t.Run("completion", func(t *testing.T) {
		cmd := exec.CommandContext(t.Context(), p.program, "__complete", "explain", "--kubeconfig", p.kubeconfig, "deploy/")
		out, err := cmd.Output()
		require.NoError(t, err)
		assert.Equal(t, "deploy/web\n:4\n", string(out))
	})
	t.Run("import vpa", func(t *testing.T) {
		_, errOut, code := p.run("import", "vpa")
		assert.Equal(t, 1, code)
		assert.Equal(t, "error: VerticalPodAutoscalers (autoscaling.k8s.io/v1) are not installed in this cluster: select another cluster with --context\n", errOut)

		definitions := []*apiextensionsv1.CustomResourceDefinition{othercrd.Open(autoscale.VPAKind)}
		t.Cleanup(func() {
			require.NoError(t, envtest.UninstallCRDs(server, envtest.CRDInstallOptions{CRDs: definitions, MaxTime: patience}))
		})
		_, err := envtest.InstallCRDs(server, envtest.CRDInstallOptions{CRDs: definitions, MaxTime: patience})
		require.NoError(t, err)
		vpa := &unstructured.Unstructured{}
		require.NoError(t, yaml.Unmarshal([]byte(`{apiVersion: autoscaling.k8s.io/v1, kind: VerticalPodAutoscaler, metadata: {name: web},
spec: {targetRef: {apiVersion: apps/v1, kind: Deployment, name: web}, updatePolicy: {updateMode: Initial}, resourcePolicy: {containerPolicies: [{containerName: app, maxAllowed: {cpu: 2}}]}}}`), &vpa.Object))
		vpa.SetNamespace(p.namespace)
		require.NoError(t, c.Create(t.Context(), vpa))
		out, errOut, code := p.run("import", "vpa", "web")
		require.Zero(t, code, errOut)
		made := &unstructured.Unstructured{}
		require.NoError(t, yaml.Unmarshal([]byte(out), &made.Object))
		assert.Equal(t, map[string]any{
			"containerPolicies": []any{map[string]any{"containerName": "app", "cpu": map[string]any{"maxAllowed": "2"}}},
			"targetRef":         map[string]any{"kind": "Deployment", "name": "web"}, "updateStrategy": map[string]any{"type": "Initial"},
		}, made.Object["spec"])
		require.NoError(t, c.Create(t.Context(), made, client.DryRunAll))
	})
}
