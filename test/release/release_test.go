package release

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"attune.io/attune/test/deploy"
)

const workload = `
apiVersion: v1
kind: Namespace
metadata: {name: shop, labels: {attune.io/inject: enabled}}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: shop}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      terminationGracePeriodSeconds: 1
      containers:
        - name: app
          image: local/workload:dev
          imagePullPolicy: Never
          env: [{name: CPU_MILLICORES, value: "20"}, {name: MEMORY_MIB, value: "40"}]
          resources: {requests: {cpu: 300m, memory: 128Mi}, limits: {cpu: 600m, memory: 256Mi}}
`

const policy = `
apiVersion: attune.io/v1alpha1
kind: AttunePolicy
metadata: {name: web, namespace: shop}
spec:
  targetRef: {kind: Deployment, name: web}
  metricsSource: {queryStep: 15s, minimumDataPoints: 4, historyWindow: 1h}
  cpu: {maxAllowed: 250m, maxChangePercent: 100, controlledValues: RequestsOnly}
  updateStrategy: {type: Auto, cooldown: 1m, safetyObservationPeriod: 1m}
`

// TestUpgradeAndRollback: the release before is upgraded to this one and rolled back, each with a resize in flight.
func TestUpgradeAndRollback(t *testing.T) {
	s, before, now := start(t)
	s.helm(before)
	s.serves(before)
	s.apply(workload)
	s.kubectl("rollout", "status", "deployment/web", "-n", "shop", "--timeout=10m")
	pods := s.podUIDs()
	s.apply(policy)

	s.inFlight("the first resize")
	s.worksWith(before, before)
	s.worksWith(now, before)
	s.helm(now)
	s.serves(now)
	require.Equal(t, now.version, s.versionOfCRDs(), "the upgrade brings the CRDs")
	s.settled("the resize that was in flight at the upgrade")
	s.until("both pods are resized", func(cpus string) bool { return !strings.Contains(cpus, "300m") }, "kubectl", cpus...)
	s.settled("all resizes")
	s.worksWith(before, now)
	s.worksWith(now, now)

	// The policy raises the request, and the release is rolled back before the resize is verified.
	s.kubectl("patch", "attunepolicy", "web", "-n", "shop", "--type=merge", "-p", `{"spec": {"cpu": {"minAllowed": "100m"}}}`)
	s.inFlight("a raise")
	s.run("helm", "rollback", "attune", "--namespace", deploy.Namespace, "--wait", "--timeout", "10m")
	s.serves(before)
	require.Equal(t, before.version, s.versionOfCRDs(), "the rollback brings the CRDs")
	s.until("both pods are raised", func(cpus string) bool { return cpus == "100m 100m" }, "kubectl", cpus...)
	s.settled("the resize that was in flight at the rollback")
	s.worksWith(before, before)
	assert.Equal(t, pods, s.podUIDs(), "no pod was replaced")
	assert.NotContains(t, s.kubectl("get", "pods", "-n", "shop", "-o", "jsonpath={.items[*].status.containerStatuses[*].restartCount}"), "1")
	assert.NotContains(t, s.run(before.plugin, "history", "-n", "shop"), "Reverted")

	s.run("helm", "uninstall", "attune", "--namespace", deploy.Namespace, "--wait", "--timeout", "10m")
	assert.Equal(t, pods, s.podUIDs(), "pods outlive the operator")
	kept := []string{"Secret/attune-webhook-ca", "Secret/attune-webhook-cert", "Lease/attune.attune.io"}
	assert.Equal(t, kept, s.left(), "docs/security-model.md names what remains, beside CRDs and policies")
	s.kubectl("delete", "namespace", "shop", deploy.Namespace, "--timeout=10m")
	assert.Empty(t, s.left())
}

// TestManifests: the files without Helm install an operator that works, in strict FIPS mode too, and nothing of it stays.
func TestManifests(t *testing.T) {
	s, _, now := start(t)
	for _, file := range []string{"install.yaml", "install-cert-manager.yaml"} {
		manifest := filepath.Join(now.dir, file)
		s.install(manifest)
		s.serves(now)
		s.kubectl("set", "env", "deployment", "--all", "-n", deploy.Namespace, "GODEBUG=fips140=only")
		s.rolledOut()
		s.until("doctor finds no problem", anything, now.plugin, "doctor")
		s.apply(workload)
		s.kubectl("rollout", "status", "deployment/web", "-n", "shop", "--timeout=10m")
		s.apply(policy)
		s.until("a pod is resized", func(cpus string) bool { return cpus != "300m 300m" && cpus != "" }, "kubectl", cpus...)
		for _, command := range s.uninstallOf(manifest) {
			s.run(command[0], command[1:]...)
		}
		assert.Empty(t, s.left())
		assert.NotContains(t, s.kubectl("get", "crds", "-o", "name"), "attune.io")
		s.kubectl("delete", "namespace", "shop", "--timeout=10m")
	}
}

func anything(string) bool { return true }

var cpus = []string{"get", "pods", "-n", "shop", "-o", "jsonpath={.items[*].spec.containers[0].resources.requests.cpu}"}

func (s shop) apply(objects string) {
	s.t.Helper()
	file := filepath.Join(s.t.TempDir(), "objects.yaml")
	require.NoError(s.t, os.WriteFile(file, []byte(objects), 0o600))
	s.until("the API server accepts "+strings.Fields(objects)[3], anything, "kubectl", "apply", "-f", file)
}

func (s shop) podUIDs() string {
	s.t.Helper()
	return s.kubectl("get", "pods", "-n", "shop", "--sort-by=.metadata.name", "-o", "jsonpath={.items[*].metadata.uid}")
}

var finalizers = []string{"get", "attunerecommendation", "deployment-web", "-n", "shop", "-o", "jsonpath={.metadata.finalizers}"}

// inFlight waits for a resize that attune has not yet verified: its recommendation has a finalizer.
func (s shop) inFlight(what string) {
	s.t.Helper()
	s.until(what, func(finalizers string) bool { return strings.Contains(finalizers, "attune.io/") }, "kubectl", finalizers...)
}

func (s shop) settled(what string) {
	s.t.Helper()
	s.until(what+" is verified", func(finalizers string) bool { return !strings.Contains(finalizers, "attune.io/") }, "kubectl", finalizers...)
}

// worksWith expects that the plugin of a release reads what the operator of another one wrote.
func (s shop) worksWith(plugin, operator published) {
	s.t.Helper()
	for _, verb := range [][]string{{"doctor"}, {"status", "-A"}, {"recommendations", "-n", "shop"}, {"explain", "deployment/web", "-n", "shop"}, {"history", "-n", "shop"}, {"savings", "-A"}} {
		s.until("plugin "+plugin.version+" "+verb[0]+" with operator "+operator.version, func(out string) bool { return out != "" }, plugin.plugin, verb...)
	}
}

func (s shop) versionOfCRDs() string {
	s.t.Helper()
	versions := strings.Fields(s.kubectl("get", "crds", "-l", "attune.io/crds=chart", "-o", `jsonpath={.items[*].metadata.labels.app\.kubernetes\.io/version}`))
	require.Len(s.t, versions, 5)
	for _, version := range versions {
		require.Equal(s.t, versions[0], version)
	}
	return versions[0]
}

// left are the objects of the release in the cluster, but CRDs, which stay with their policies.
func (s shop) left() (left []string) {
	s.t.Helper()
	for _, kinds := range []string{
		"deployments,services,configmaps,secrets,serviceaccounts,roles,rolebindings,jobs,pods,poddisruptionbudgets,networkpolicies,leases",
		"clusterroles,clusterrolebindings,mutatingwebhookconfigurations,validatingwebhookconfigurations,validatingadmissionpolicies,validatingadmissionpolicybindings",
	} {
		for name := range strings.Lines(s.kubectl("get", kinds, "-A", "--ignore-not-found", "-o", `go-template={{range .items}}{{if not .metadata.deletionTimestamp}}{{.kind}}/{{.metadata.name}}{{"\n"}}{{end}}{{end}}`)) {
			if strings.Contains(name, "/attune") {
				left = append(left, strings.TrimSpace(name))
			}
		}
	}
	return left
}

func (s shop) install(manifest string) {
	s.t.Helper()
	s.kubectl("apply", "--server-side", "-f", manifest)
	s.rolledOut()
}

func (s shop) rolledOut() {
	s.t.Helper()
	for _, deployment := range strings.Fields(s.kubectl("get", "deployments", "-n", deploy.Namespace, "-o", "name")) {
		s.kubectl("rollout", "status", deployment, "-n", deploy.Namespace, "--timeout=10m")
	}
}

// uninstallOf reads the commands from the head of a manifest.
func (s shop) uninstallOf(manifest string) (commands [][]string) {
	s.t.Helper()
	content, err := os.ReadFile(manifest)
	require.NoError(s.t, err)
	_, text, found := strings.Cut(string(content), "# To uninstall")
	require.True(s.t, found)
	text, _, _ = strings.Cut(text, "apiVersion:")
	plugin := extract(s.t, filepath.Join(filepath.Dir(manifest), "kubectl-attune_linux_amd64.tar.gz"))
	for _, line := range regexp.MustCompile(`(?m)^#   (kubectl .*)$`).FindAllStringSubmatch(text, -1) {
		command := strings.Fields(strings.ReplaceAll(line[1], filepath.Base(manifest), manifest))
		if command[1] == "attune" {
			command = append([]string{plugin}, command[2:]...)
		}
		commands = append(commands, command)
	}
	require.Len(s.t, commands, 3)
	return commands
}
