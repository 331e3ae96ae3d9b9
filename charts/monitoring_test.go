//go:build helm

package charts

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// TestDashboards: none by default; else each file of dashboards/ as it is, where Grafana's sidecar finds it.
func TestDashboards(t *testing.T) {
	assert.Empty(t, all[*corev1.ConfigMap](render(t)))
	files, err := filepath.Glob("attune/dashboards/*.json")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	maps := all[*corev1.ConfigMap](render(t, "dashboards.enabled=true"))
	shown := map[string]string{}
	for _, m := range maps {
		assert.Equal(t, "attune-system", m.Namespace)
		assert.Equal(t, "1", m.Labels["grafana_dashboard"])
		assert.Equal(t, "attune", m.Labels["app.kubernetes.io/name"])
		assert.Empty(t, m.Annotations)
		require.Len(t, m.Data, 1)
		for name, text := range m.Data {
			shown[name] = text
		}
	}
	require.Len(t, shown, len(files))
	for _, file := range files {
		want, err := os.ReadFile(file)
		require.NoError(t, err)
		assert.JSONEq(t, string(want), shown[filepath.Base(file)])
	}
	for _, m := range all[*corev1.ConfigMap](render(t, "dashboards.enabled=true", "dashboards.labels.grafana_dashboard=null", "dashboards.labels.team=a", "dashboards.annotations.grafana_folder=attune")) {
		assert.NotContains(t, m.Labels, "grafana_dashboard")
		assert.Equal(t, "a", m.Labels["team"])
		assert.Equal(t, map[string]string{"grafana_folder": "attune"}, m.Annotations)
	}
}

// TestAlertRules: none by default; else what alerts/ has, as it is.
func TestAlertRules(t *testing.T) {
	rules := func(set ...string) (found []map[string]any) {
		for _, object := range render(t, set...).other {
			if object["kind"] == "PrometheusRule" {
				found = append(found, object)
			}
		}
		return found
	}
	assert.Empty(t, rules())
	found := rules("alerts.enabled=true", "alerts.labels.release=prometheus")
	require.Len(t, found, 1)
	raw, err := os.ReadFile("attune/alerts/attune.yaml")
	require.NoError(t, err)
	var want map[string]any
	require.NoError(t, yaml.UnmarshalStrict(raw, &want))
	assert.Equal(t, "monitoring.coreos.com/v1", found[0]["apiVersion"])
	assert.Equal(t, want, found[0]["spec"])
	metadata := found[0]["metadata"].(map[string]any)
	assert.Equal(t, "attune", metadata["name"])
	assert.Equal(t, "attune-system", metadata["namespace"])
	labels := metadata["labels"].(map[string]any)
	assert.Equal(t, "prometheus", labels["release"])
	assert.Equal(t, "attune", labels["app.kubernetes.io/name"])
}
