package output

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/answers"
)

// TestDiffShowsTheTargetWithTheRequest: a request that is blocked because attune must not change the target of the HPA
// belongs to a target, and both are shown. Other blocks stay.
func TestDiffShowsTheTargetWithTheRequest(t *testing.T) {
	text := func(s string) *string { return &s }
	amounts := func(cpu, memory string) (a answers.Amounts) {
		a.CPURequest, a.MemoryRequest = text(cpu), text(memory)
		return a
	}
	of := func(name string, holds ...v1alpha1.Hold) answers.ExplainedContainer {
		return answers.ExplainedContainer{Name: name, Current: amounts("1", "1Gi"), Target: amounts("800m", "1Gi"), Holds: holds}
	}
	hpa := v1alpha1.Hold{Resource: "cpu", Reason: "HPA"}
	explained := answers.Explanation{Workload: &answers.ExplainedWorkload{Namespace: "shop", Kind: "Deployment", Name: "web"}, Containers: []answers.ExplainedContainer{
		of("app", hpa), of("side", hpa, v1alpha1.Hold{Resource: "cpu", Reason: "StaleData"}),
	}}
	blocked := NewDiff()
	blocked.Add(explained, []v1alpha1.HPABinding{{HPA: "web", Resource: "cpu", Percent: 70}})
	assert.Empty(t, blocked.Differences)

	for container, heading := range map[string]string{
		"":    "--- HorizontalPodAutoscaler/web in namespace shop: target\n",
		"app": "--- HorizontalPodAutoscaler/web in namespace shop, container app: target\n",
	} {
		diff := NewDiff()
		diff.Add(explained, []v1alpha1.HPABinding{{HPA: "web", Container: container, Resource: "cpu", Percent: 70, RecommendedPercent: 88}})
		human, err := diff.Human(false)
		require.NoError(t, err)
		assert.Equal(t, "--- Deployment/web in namespace shop, container app: template\n+++ recommended\n-resources.requests.cpu: 1\n+resources.requests.cpu: 800m\n"+
			heading+"+++ recommended together with the requests of Deployment/web\n-metrics.cpu.averageUtilization: 70\n+metrics.cpu.averageUtilization: 88\n", human)
	}

	// attune writes the target: the manifest has the original one.
	granted := NewDiff()
	explained.Containers = []answers.ExplainedContainer{of("app")}
	row := v1alpha1.HPABinding{HPA: "web", Resource: "cpu", Percent: 84, OriginalPercent: 70, RecommendedPercent: 88}
	granted.Add(explained, []v1alpha1.HPABinding{row})
	require.Len(t, granted.Differences, 2)
	assert.Equal(t, [2]string{"70", "88"}, [2]string{*granted.Differences[1].Current, granted.Differences[1].Target})
	same := NewDiff()
	explained.Containers[0].Target = amounts("1", "1Gi")
	same.Add(explained, []v1alpha1.HPABinding{row})
	assert.Empty(t, same.Differences, "no target without a request")
}
