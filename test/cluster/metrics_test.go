package cluster_test

import (
	"context"
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"attune.io/attune/test/cluster"
)

// yesterday is a container that used half a core and 100 MiB for a day.
var yesterday = cluster.Series{
	Namespace: "past", Pod: "web-1", Container: "app",
	From: time.Now().Add(-24 * time.Hour), To: time.Now().Add(-5 * time.Minute),
	CPU:       func(time.Time) float64 { return 0.5 },
	Memory:    func(time.Time) float64 { return 100 << 20 },
	Throttled: func(time.Time) float64 { return 0.25 },
}

func TestBackfillIsThere(t *testing.T) {
	c, _ := sharedCluster(t)
	for query, want := range map[string]float64{
		`avg_over_time(rate(container_cpu_usage_seconds_total{namespace="past"}[5m])[12h:5m] offset 1h)`:                                                0.5,
		`max_over_time(container_memory_working_set_bytes{namespace="past",container="app"}[24h])`:                                                      100 << 20,
		`increase(container_cpu_cfs_throttled_periods_total{namespace="past"}[1h] offset 1h) / increase(container_cpu_cfs_periods_total[1h] offset 1h)`: 0.25,
	} {
		got, err := c.Query(t.Context(), query)
		require.NoError(t, err)
		require.InEpsilon(t, want, got, 0.01, query)
	}
}

// What a pod really uses is measured, and a past can be added to it later.
func TestUsageIsMeasured(t *testing.T) {
	c, client := sharedCluster(t)
	pod := workload("busy", 150, 40)
	pod.Spec.Containers[0].Resources = sized("400m", "128Mi")
	runPod(t, client, pod)
	memory := `container_memory_working_set_bytes{pod="busy",container="app"}`
	near(t, c, memory, 42<<20, 0.2)
	near(t, c, `rate(container_cpu_usage_seconds_total{pod="busy",container="app"}[30s])`, 0.15, 0.15)
	near(t, c, `count(container_pressure_cpu_waiting_seconds_total{pod="busy",container="app",namespace="default"})`, 1, 0)

	older := yesterday
	older.Pod = "later"
	require.NoError(t, c.BackfillInto(t.Context(), []cluster.Series{older}))
	near(t, c, `count_over_time(container_memory_working_set_bytes{pod="later"}[24h])`, 1435, 0.01)
	near(t, c, memory, 42<<20, 0.2)
}

// near waits until the query's value is within that part of what is wanted.
func near(t *testing.T, c *cluster.Cluster, query string, want, part float64) {
	t.Helper()
	eventually(t, 90*time.Second, func(ctx context.Context) error {
		got, err := c.Query(ctx, query)
		if err == nil && (got < want*(1-part) || got > want*(1+part)) {
			err = fmt.Errorf("%s is %g, want about %g", query, got, want)
		}
		return err
	})
}

const certificates = `
{apiVersion: cert-manager.io/v1, kind: Issuer, metadata: {name: own}, spec: {selfSigned: {}}}
---
{apiVersion: cert-manager.io/v1, kind: Certificate, metadata: {name: leaf}, spec: {secretName: leaf, dnsNames: [a.b.svc], issuerRef: {name: own}}}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: injected, annotations: {cert-manager.io/inject-ca-from: default/leaf}}
webhooks:
- name: injected.attune.io
  clientConfig: {service: {name: nobody, namespace: default}}
  admissionReviewVersions: [v1]
  sideEffects: None
  rules: [{apiGroups: [nothing.attune.io], apiVersions: [v1], operations: [CREATE], resources: [nothing]}]
`

// cert-manager issues certificates and gives webhooks their CA.
func TestCertManager(t *testing.T) {
	c, _ := sharedCluster(t)
	apply := c.Command(t.Context(), "kubectl", "apply", "-f", "-")
	apply.Stdin = strings.NewReader(certificates)
	require.NoError(t, succeeds(apply))
	require.NoError(t, succeeds(c.Command(t.Context(), "kubectl", "wait", "--for=condition=Ready", "certificate/leaf", "--timeout=30s")))
	require.NoError(t, succeeds(c.Command(t.Context(), "kubectl", "wait", "--timeout=30s",
		"--for=jsonpath={.webhooks[0].clientConfig.caBundle}", "validatingwebhookconfiguration/injected")))
}

func succeeds(cmd *exec.Cmd) error {
	output, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("%w: %s", err, output)
	}
	return nil
}
