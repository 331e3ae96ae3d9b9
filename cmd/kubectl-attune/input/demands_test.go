package input

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"attune.io/attune/recommender"
	"attune.io/attune/recommender/node"
)

const mi = recommender.Amount(1 << 20)

func TestParseDemands(t *testing.T) {
	got, err := ParseDemands([]byte(`---
# a node
allocatable: {cpu: 3.5, memory: 8Gi}
eviction: Enabled
pods:
- name: shop/web-1
  group: web
  evictionRanking: High
  initRequest: {cpu: 1, memory: 64Mi}
  containers:
  - name: app
    current: {cpu: 500m, memory: 256Mi}
    cpu: {base: "0.25", peak: 800m}
    memory: {base: 100Mi, peak: 200Mi, max7d: 220Mi, oom: 300Mi}
  - {name: mesh, current: {memory: 32Mi}, cpu: {base: 0, peak: 1}}
- name: kube-system/agent
  daemonSet: true
  containers: [{name: agent, current: {cpu: 300m}, cpu: {base: 500m, peak: 1}}]
`))
	require.NoError(t, err)
	assert.Equal(t, Demands{
		Available: node.Amounts{3500, 8192 * mi},
		Pods: []node.Pod{
			{Name: "shop/web-1", Group: "shop/group/web", Ranking: node.High, InitRequest: node.Amounts{1000, 64 * mi}, Containers: []node.Container{
				{Name: "app", Current: node.Amounts{500, 256 * mi}, Of: [2]node.Demand{{Base: 250, Peak: 800}, {Base: 100 * mi, Peak: 200 * mi}}, Max7d: 220 * mi, OOM: 300 * mi},
				{Name: "mesh", Current: node.Amounts{0, 32 * mi}, Of: [2]node.Demand{{Base: 0, Peak: 1000}, {Base: 32 * mi, Peak: 32 * mi}}},
			}},
			// The current resources of a DaemonSet's pod stand for its resources at creation.
			{Name: "kube-system/agent", DaemonSet: true, Containers: []node.Container{
				{Name: "agent", Current: node.Amounts{300}, AtCreation: node.Amounts{300}, Of: [2]node.Demand{{Base: 500, Peak: 1000}}},
			}},
		},
		Measured: [][][2]bool{{{true, true}, {true, false}}, {{true, false}}},
	}, got)
}

// Evictions are off by default. If they are on, Low is the default ranking.
func TestEvictionAndRanking(t *testing.T) {
	for text, want := range map[string]node.Ranking{
		"pods: [{name: a, containers: [{name: c}]}]":                                                           node.Never,
		"eviction: Disabled\npods: [{name: a, evictionRanking: Low, containers: [{name: c}]}]":                 node.Never,
		"eviction: Enabled\npods: [{name: a, containers: [{name: c}]}]":                                        node.Low,
		"eviction: Enabled\npods: [{name: a, evictionRanking: Medium, containers: [{name: c}]}]":               node.Medium,
		"eviction: Enabled\npods: [{name: a, evictionRanking: Never, containers: [{name: c}]}]":                node.Never,
		`{"eviction": "Enabled", "pods": [{"name": "a", "containers": [{"name": "c"}]}], "allocatable": null}`: node.Low,
	} {
		got, err := ParseDemands([]byte(text))
		require.NoError(t, err, text)
		assert.Equal(t, want, got.Pods[0].Ranking, text)
	}
}

func TestMistakes(t *testing.T) {
	pod := func(rest string) string {
		return "allocatable: {cpu: 4, memory: 8Gi}\npods: [{name: a, " + rest + "}]"
	}
	for _, tc := range []struct{ text, want string }{
		{"", "the file has no demands: write allocatable and pods"},
		{"pods: [}", "invalid YAML: yaml: did not find expected node content"},
		{"pods: []\n---\npods: []", "the file has a second document: keep one, because a file describes one node"},
		{"[]", "the document [] must be an object: write its fields under it"},
		{"node: a", "unknown field node: the document has the fields allocatable, eviction, pods"},
		{"allocatable: {gpu: 1}", "unknown field allocatable.gpu: allocatable has the fields cpu, memory"},
		{"allocatable: {cpu: -1}", "allocatable.cpu -1 is negative: write e.g. 500m"},
		{"allocatable: {cpu: much}", `allocatable.cpu "much" must be a Kubernetes quantity, e.g. 500m or 64Mi`},
		{"eviction: On", "eviction true must be a string: write \"true\""},
		{"eviction: enabled", `eviction "enabled" is not valid: write Enabled or Disabled`},
		{"pods: {a: 1}", `pods {"a":1} must be a list, e.g. [{"a":1}]`},
		{"pods: [{containers: [{name: c}]}]", "pods[0].name is missing: write e.g. shop/web-1"},
		{"pods: [{name: a, containers: [{name: c}]}, {name: a, containers: [{name: c}]}]", `pods[1].name "a" is also the name of pods[0]: use a unique name for each pod`},
		{"pods: [{name: a}]", "pods[0].containers is missing: write at least one, e.g. [{name: app, cpu: {base: 250m, peak: 800m}}]"},
		{pod("containers: [{cpu: {base: 1, peak: 1}}]"), "pods[0].containers[0].name is missing: write e.g. app"},
		{pod("containers: [{name: c}, {name: c}]"), `pods[0].containers[1].name "c" is also the name of containers[0]: use a unique name for each container`},
		{pod("evictionRanking: low, containers: [{name: c}]"), `pods[0].evictionRanking "low" is not valid: write Low, Medium, High or Never`},
		{pod("daemonSet: maybe, containers: [{name: c}]"), `pods[0].daemonSet "maybe" must be true or false`},
		{pod("containers: [{name: c, cpu: {base: 1}}]"), "pods[0].containers[0].cpu.peak is missing, but base is 1: write the amount that is needed at most, e.g. 500m"},
		{pod("containers: [{name: c, memory: {peak: 1Gi}}]"), "pods[0].containers[0].memory.base is missing, but peak is 1Gi: write the amount that is always needed, e.g. 256Mi"},
		{pod("containers: [{name: c, memory: {max7d: -1Gi}}]"), "pods[0].containers[0].memory.max7d -1Gi is negative: write e.g. 256Mi"},
		{pod("containers: [{name: c, memory: {base: 1Gi, peak: 1Gi, p99: 1Gi}}]"), "unknown field pods[0].containers[0].memory.p99: pods[0].containers[0].memory has the fields base, max7d, oom, peak"},
		{"allocatable: {cpu: 1}\npods: [{name: a, containers: [{name: c, memory: {base: 1Gi, peak: 1Gi}}]}]",
			"allocatable.memory is missing, but pods[0].containers[0] needs it: write the node's amount, e.g. 256Mi"},
		{pod("containers: [{name: c, cpu: {base: 2, peak: 1}}]"), "pods[0].containers[0].cpu.base 2 is above the peak 1: write the amount that is always needed as base, and the highest usage as peak"},
		{pod("containers: [{name: c, cpu: {base: 100m, peak: 166}}]"), "pods[0].containers[0].cpu.peak 166 is above 10 times allocatable.cpu: write the highest usage, or correct allocatable.cpu"},
		{pod("containers: [{name: c, memory: {base: 1Gi, peak: 10Ti}}]"), "pods[0].containers[0].memory.peak 10Ti is above 10 times allocatable.memory: write the highest usage, or correct allocatable.memory"},
		{"allocatable: {cpu: 4001}", "allocatable.cpu 4001 is above 1024 cores: is a unit missing, e.g. 500m"},
		{pod("containers: [{name: c, current: {cpu: 2001}}]"), "pods[0].containers[0].current.cpu 2001 is above 1024 cores: is a unit missing, e.g. 500m"},
		{"allocatable: {memory: 32}", "allocatable.memory 32 is below 1Mi: is a unit missing, e.g. 256Mi"},
		{pod("containers: [{name: c, memory: {base: 100, peak: 200}}]"), "pods[0].containers[0].memory.base 100 is below 1Mi: is a unit missing, e.g. 256Mi; pods[0].containers[0].memory.peak 200 is below 1Mi: is a unit missing, e.g. 256Mi"},
		{pod("containers: [{name: c, current: {memory: 512}}]"), "pods[0].containers[0].current.memory 512 is below 1Mi: is a unit missing, e.g. 256Mi"},
		{"pods: [{name: a, initRequest: {cpu: 1}, containers: [{name: c}]}]",
			"allocatable.cpu is missing, but pods[0].initRequest needs it: write the node's amount, e.g. 500m"},
		{"eviction: no way\npods: [{name: '', containers: []}]",
			`eviction "no way" is not valid: write Enabled or Disabled; pods[0].name is missing: write e.g. shop/web-1; ` +
				"pods[0].containers is missing: write at least one, e.g. [{name: app, cpu: {base: 250m, peak: 800m}}]"},
		{"pods: []\npods: []", `invalid YAML: yaml: unmarshal errors:
  line 2: key "pods" already set in map`},
	} {
		_, err := ParseDemands([]byte(tc.text))
		assert.EqualError(t, err, tc.want, tc.text)
	}
}

func FuzzParseDemands(f *testing.F) {
	f.Add([]byte("allocatable: {cpu: 1}\npods: [{name: a, containers: [{name: c, cpu: {base: 1e9, peak: 1n}}]}]"))
	f.Fuzz(func(t *testing.T, text []byte) {
		demands, err := ParseDemands(text)
		if err != nil {
			assert.NotEmpty(t, err.Error())
			return
		}
		require.Len(t, demands.Measured, len(demands.Pods))
		(&node.Sharer{}).Share(demands.Available, demands.Pods)
	})
}

func TestSlowQuantitiesInDemands(t *testing.T) {
	for _, text := range slowQuantities {
		for _, file := range []string{
			`allocatable: {cpu: "%s"}`, `pods: [{name: a/b, containers: [{name: app, current: {memory: "%s"}}]}]`, `pods: [{name: a/b, containers: [{name: app, memory: {base: 1Mi, peak: 1Mi, oom: "%s"}}]}]`,
		} {
			_, err := ParseDemands([]byte(strings.Replace(file, "%s", text, 1)))
			require.ErrorContains(t, err, "must be a Kubernetes quantity", text)
		}
	}
}

func TestSlowQuantitiesInFlags(t *testing.T) {
	for _, text := range slowQuantities {
		var a Amounts
		require.ErrorContains(t, a.Set("cpu="+text), "not a valid quantity", text)
	}
}
