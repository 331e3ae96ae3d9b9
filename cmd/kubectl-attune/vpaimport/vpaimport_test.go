package vpaimport

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/cmd/kubectl-attune/input"
)

// imported returns the policy's spec as YAML without its target, and the notes without the VPA's name.
func imported(t *testing.T, spec string) (string, []string) {
	t.Helper()
	x := imports(t, spec)
	if x.made == nil {
		return "", x.notes
	}
	text, err := yaml.Marshal(x.made.Spec)
	require.NoError(t, err)
	return strings.Replace(string(text), "targetRef:\n  kind: Deployment\n  name: web\n", "", 1), x.notes
}

// result is the result of one import. Its notes omit the VPA's name.
type result struct {
	made  *input.Written
	notes []string
}

func imports(t *testing.T, spec string) (x result) {
	t.Helper()
	x.made, x.notes = Import(of(t, spec))
	for i := range x.notes {
		x.notes[i] = strings.TrimPrefix(x.notes[i], "VerticalPodAutoscaler shop/web: ")
	}
	return x
}

// of returns a VPA of Deployment/web with this spec.
func of(t *testing.T, spec string) *unstructured.Unstructured {
	t.Helper()
	fields := map[string]any{"targetRef": map[string]any{"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}}
	require.NoError(t, yaml.Unmarshal([]byte(spec), &fields))
	return &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"namespace": "shop", "name": "web"}, "spec": fields}}
}

func TestModes(t *testing.T) {
	const evicts = " evicts pods. attune's updateStrategy.type Auto resizes them in place and never evicts them, unless you set updateStrategy.resizeMethod: InPlaceOrRecreate"
	for mode, want := range map[string]struct {
		update string
		notes  []string
	}{
		`"Off"`:             {"type: Recommend", nil},
		"Initial":           {"type: Initial", nil},
		"Auto":              {"type: Auto", []string{"updateMode Auto" + evicts}},
		"Recreate":          {"type: Auto", []string{"updateMode Recreate" + evicts}},
		`""`:                {"type: Auto", []string{"updateMode Recreate (not set)" + evicts}},
		"InPlace":           {"type: Auto", nil},
		"InPlaceOrRecreate": {"resizeMethod: InPlaceOrRecreate\n  type: Auto", nil},
		"Later":             {"type: Recommend", []string{`updateMode "Later" is unknown, so its policy only recommends. Set updateStrategy.type`}},
	} {
		spec, notes := imported(t, "updatePolicy: {updateMode: "+mode+"}")
		assert.Equal(t, "updateStrategy:\n  "+want.update+"\n", spec, mode)
		assert.Equal(t, want.notes, notes, mode)
	}
}

// Each entry of containerPolicies becomes one entry.
func TestContainers(t *testing.T) {
	const recommend = "updateStrategy:\n  type: Recommend\n"
	for name, c := range map[string]struct {
		policies, spec string
		notes          []string
	}{
		"one for all": {`{containerName: "*", minAllowed: {cpu: 50m}, maxAllowed: {cpu: 2, memory: 1Gi}}`,
			"- containerName: '*'\n  cpu:\n    maxAllowed: \"2\"\n    minAllowed: 50m\n  memory:\n    maxAllowed: 1Gi\n", nil},
		"one is excluded":    {`{containerName: side, mode: "Off"}`, "- containerName: side\n  mode: \"Off\"\n", nil},
		"one is sized":       {`{containerName: "*", mode: "Off"}, {containerName: app, mode: Auto}`, "- containerName: '*'\n  mode: \"Off\"\n- containerName: app\n  mode: Auto\n", nil},
		"limits of one stay": {`{containerName: app, controlledValues: RequestsOnly}`, "- containerName: app\n  controlledValues: RequestsOnly\n", nil},
		"memory only":        {`{containerName: "*", controlledResources: [memory]}`, "- containerName: '*'\n  controlledResources:\n  - memory\n", nil},
		"no resource":        {`{containerName: app, controlledResources: []}`, "- containerName: app\n  mode: \"Off\"\n", nil},
		"a resource twice, and an unknown one": {`{containerName: app, controlledResources: [cpu, cpu, disk]}`, "- containerName: app\n  controlledResources:\n  - cpu\n",
			[]string{`controlledResources of container app has "disk", which neither VPA nor attune sizes`}},
		"bounds of 0, and of another resource": {`{containerName: app, minAllowed: {cpu: 0, disk: 1Gi}, maxAllowed: {memory: 0}}`, "- containerName: app\n",
			[]string{"bounds of disk have no counterpart (container app): neither VPA nor attune sizes it"}},
		"unknown values": {`{containerName: app, controlledValues: LimitsOnly}, {containerName: side, mode: Later}`, "- containerName: app\n  controlledValues: RequestsOnly\n- containerName: side\n  mode: \"Off\"\n",
			[]string{`controlledValues "LimitsOnly" of container app is unknown, so it is RequestsOnly`, `mode "Later" of container side is unknown, so it is Off`}},
		"without effect": {`{containerName: app, mode: "Off", minAllowed: {cpu: 1}}, {containerName: side, controlledResources: [memory], controlledValues: RequestsOnly, minAllowed: {cpu: 1, memory: 1Gi}}`,
			"- containerName: app\n  mode: \"Off\"\n- containerName: side\n  controlledResources:\n  - memory\n  controlledValues: RequestsOnly\n  memory:\n    minAllowed: 1Gi\n",
			[]string{"container app is not sized: its bounds and controlledValues have no effect and are left out", "minAllowed.cpu of container side has no effect and is left out: its controlledResources lack cpu"}},
		"no name of a container": {`{mode: "Off"}, {containerName: "a b"}, {containerName: app}`, "- containerName: app\n",
			[]string{`containerPolicies[0]: containerName "" is no name of a container, so it has no effect`, `containerPolicies[1]: containerName "a b" is no name of a container, so it has no effect`}},
		"the first entry of a name, and the last *": {`{containerName: "*", mode: "Off"}, {containerName: app, mode: Auto}, {containerName: app, mode: "Off"}, {containerName: "*", mode: Auto}`,
			"- containerName: '*'\n  mode: Auto\n- containerName: app\n  mode: Auto\n",
			[]string{"containerPolicies has several entries for container app: the policy has the one that applies", "containerPolicies has several entries for container *: the policy has the one that applies"}},
	} {
		t.Run(name, func(t *testing.T) {
			spec, notes := imported(t, "updatePolicy: {updateMode: \"Off\"}\nresourcePolicy: {containerPolicies: ["+c.policies+"]}")
			assert.Equal(t, "containerPolicies:\n"+c.spec+recommend, spec)
			assert.Equal(t, c.notes, notes)
		})
	}
}

// A policy has at most 64 entries. One that leaves out an entry only recommends, and * is never left out.
func TestMoreContainersThanAPolicyHas(t *testing.T) {
	var policies []string
	for i := range 65 {
		policies = append(policies, fmt.Sprintf("{containerName: c%d}", i))
	}
	x := imports(t, `{updatePolicy: {updateMode: InPlace}, resourcePolicy: {containerPolicies: [`+strings.Join(append(policies, `{containerName: "*", mode: "Off"}`), ", ")+"]}}")
	require.Len(t, x.made.Spec.ContainerPolicies, 64)
	assert.Equal(t, v1alpha1.ContainerName("*"), x.made.Spec.ContainerPolicies[63].ContainerName)
	assert.False(t, x.made.Acts())
	require.Len(t, x.notes, 2)
	assert.Contains(t, x.notes[0], "containerPolicies has more than 64 entries: the one of container c64 is left out")
	assert.Contains(t, x.notes[1], "the one of container c63 is left out")
}

func TestWhatHasNoCounterpartIsSaid(t *testing.T) {
	spec, notes := imported(t, `
updatePolicy: {updateMode: "Off", minReplicas: 2, evictAfterOOMSeconds: 60, evictionRequirements: []}
recommenders: [{name: mine}]
later: true
resourcePolicy:
  containerPolicies:
    - {containerName: a, oomBumpUpRatio: "1.2", memoryAggregationIntervalCount: 8}
    - {containerName: b, oomBumpUpRatio: "1.2", oomMinBumpUp: 100Mi}
    - {containerName: c, oomBumpUpRatio: "2", targetCPUPercentile: 0.95}
`)
	assert.Equal(t, "containerPolicies:\n- containerName: a\n- containerName: b\n- containerName: c\nupdateStrategy:\n  type: Recommend\n", spec)
	const oom, samples = "attune learns a minimum from each OOM kill. For more headroom, set memory.overhead", "attune uses all samples of metricsSource.historyWindow. Set it, e.g. to 336h"
	assert.Equal(t, []string{
		"later: true has no counterpart: this version of attune does not know it",
		`recommenders: [{"name":"mine"}] has no counterpart: attune computes recommendations itself. Compare them in mode Recommend before the policy acts`,
		"updatePolicy.evictAfterOOMSeconds: 60 has no counterpart: attune answers an OOM kill at once. Nothing to do",
		"updatePolicy.evictionRequirements: [] has no counterpart: its policy evicts no pod. Nothing to do",
		"updatePolicy.minReplicas: 2 has no counterpart: its policy evicts no pod. Nothing to do",
		"resourcePolicy.containerPolicies.memoryAggregationIntervalCount (container a): 8 has no counterpart: " + samples,
		`resourcePolicy.containerPolicies.oomBumpUpRatio (container a, b): "1.2" has no counterpart: ` + oom,
		`resourcePolicy.containerPolicies.oomBumpUpRatio (container c): "2" has no counterpart: ` + oom,
		`resourcePolicy.containerPolicies.oomMinBumpUp (container b): "100Mi" has no counterpart: ` + oom,
		"resourcePolicy.containerPolicies.targetCPUPercentile (container c): 0.95 has no counterpart: set cpu.percentile in the container's entry",
	}, notes)
}

// The sentences about one VPA are bounded, and say how many are missing.
func TestSentencesAreBounded(t *testing.T) {
	var policies []string
	for i := range 60 {
		policies = append(policies, fmt.Sprintf("{containerName: c%d, oomMinBumpUp: %d, later: %s}", i, i, strings.Repeat("x", 1000)))
	}
	_, notes := imported(t, `{updatePolicy: {updateMode: InPlace}, resourcePolicy: {containerPolicies: [`+strings.Join(policies, ", ")+"]}}")
	require.Len(t, notes, 49)
	assert.Equal(t, "13 more settings are not shown: compare its policy with it", notes[48])
	for _, note := range notes {
		assert.Less(t, len(note), 500)
	}
}

// Evictions of a policy meet the requirements of its VPA, otherwise it evicts no pod.
func TestEvictions(t *testing.T) {
	const both, more = "{resources: [cpu, memory], changeRequirement: TargetHigherThanRequests}", "attune evicts a pod only if its node cannot give it more CPU or memory. Nothing to do"
	const none = "its policy evicts no pod, because attune could evict more than the VerticalPodAutoscaler. To allow it, set updateStrategy.resizeMethod: InPlaceOrRecreate"
	for requirements, want := range map[string]string{
		both: more,
		"{resources: [cpu], changeRequirement: TargetHigherThanRequests}":                  none,
		both + ", {resources: [memory, cpu], changeRequirement: TargetLowerThanRequests}":  none,
		both + ", {resources: [memory, cpu], changeRequirement: TargetHigherThanRequests}": more,
	} {
		x := imports(t, "updatePolicy: {updateMode: InPlaceOrRecreate, minReplicas: 3, evictionRequirements: ["+requirements+"]}")
		assert.Equal(t, want == more, x.made.Spec.UpdateStrategy.ResizeMethod != nil, requirements)
		require.Len(t, x.notes, 2)
		assert.Contains(t, x.notes[0], want)
		replicas := "updatePolicy.minReplicas: 3 has no counterpart: attune never evicts the last ready replica. To keep more, use a PodDisruptionBudget"
		if want == none {
			replicas = "updatePolicy.minReplicas: 3 has no counterpart: its policy evicts no pod. Nothing to do"
		}
		assert.Equal(t, replicas, x.notes[1])
	}
}

const (
	boostsToo = "startupBoost: VPA boosts pods in any updateMode, attune only with updateStrategy.type Canary or Auto"
	boostHeld = "attune does not resize a workload while its VerticalPodAutoscaler has a startupBoost, whatever its updateMode: remove it there before the policy acts"
	fromReady = ": VPA counts durationSeconds from when the pod is ready, attune from the start of the container. Add the time that the pod needs to become ready"
)

func TestStartupBoost(t *testing.T) {
	for boost, want := range map[string]struct {
		spec  string
		notes []string
	}{
		"{cpu: {type: Factor, factor: 3, durationSeconds: 90}}": {"1m30s\n    multiplier: \"3\"", []string{"startupBoost" + fromReady}},
		"{cpu: {type: Factor, factor: 3}}":                      {"1s\n    multiplier: \"3\"", nil},
		"{cpu: {factor: 1, durationSeconds: -1}}":               {"1s\n    multiplier: \"1\"", nil},
		"{cpu: {type: Factor, factor: 101, durationSeconds: 2147483647}}": {"1h0m0s\n    multiplier: \"100\"", []string{
			"startupBoost: factor 101 is more than attune's greatest multiplier, so it is 100",
			"startupBoost: durationSeconds 2147483647 is more than attune's longest duration, so it is 1h", "startupBoost" + fromReady}},
		"{cpu: {type: Quantity, quantity: 500m}}": {"", []string{"startupBoost has no counterpart: it adds 500m to the CPU request, attune multiplies it. Set cpu.startupBoost.multiplier"}},
		"{cpu: {type: Later, factor: 2}}":         {"", []string{`startupBoost has no effect: its type is "Later" and its factor is 2`}},
		"{cpu: {type: Factor}}":                   {"", []string{`startupBoost has no effect: its type is "Factor" and its factor is 0`}},
	} {
		spec, notes := imported(t, "updatePolicy: {updateMode: InPlace}\nstartupBoost: "+boost)
		if want.spec != "" {
			want.spec = "cpu:\n  startupBoost:\n    duration: " + want.spec + "\n"
		}
		assert.Equal(t, want.spec+"updateStrategy:\n  type: Auto\n", spec, boost)
		assert.Equal(t, append([]string{boostHeld}, want.notes...), notes, boost)
	}
	spec, notes := imported(t, "updatePolicy: {updateMode: \"Off\"}\nstartupBoost: {cpu: {factor: 2}}")
	assert.Equal(t, "cpu:\n  startupBoost:\n    duration: 1s\n    multiplier: \"2\"\nupdateStrategy:\n  type: Recommend\n", spec)
	assert.Equal(t, []string{boostsToo, boostHeld}, notes)
	spec, notes = imported(t, "updatePolicy: {updateMode: Initial}\nstartupBoost: {cpu: {factor: 2}}")
	assert.Equal(t, "updateStrategy:\n  type: Initial\n", spec)
	assert.Equal(t, []string{"startupBoost has no counterpart with updateMode Initial: attune could not remove it from running pods. Use updateStrategy.type Auto with cpu.startupBoost"}, notes)
	_, notes = imported(t, "updatePolicy: {updateMode: Initial}\nstartupBoost: {}")
	assert.Empty(t, notes)
}

// A container's own boost takes precedence over the VPA's, also if it has none or one that attune cannot express.
func TestStartupBoostsOfContainers(t *testing.T) {
	x := imports(t, `
updatePolicy: {updateMode: InPlace}
startupBoost: {cpu: {type: Factor, factor: 2}}
resourcePolicy:
  containerPolicies:
    - {containerName: same}
    - {containerName: more, startupBoost: {cpu: {type: Factor, factor: 5}}}
    - {containerName: none, startupBoost: {}}
    - {containerName: adds, startupBoost: {cpu: {type: Quantity, quantity: "1"}}}
    - {containerName: "off", mode: "Off", startupBoost: {cpu: {type: Factor, factor: 5}}}
    - {containerName: memory, controlledResources: [memory]}
`)
	multipliers := map[v1alpha1.ContainerName]v1alpha1.Decimal{}
	for _, p := range x.made.Spec.ContainerPolicies {
		if p.CPU != nil {
			multipliers[p.ContainerName] = p.CPU.StartupBoost.Multiplier
		}
	}
	assert.Equal(t, map[v1alpha1.ContainerName]v1alpha1.Decimal{"more": "5", "none": "1", "adds": "1"}, multipliers)
	assert.Equal(t, v1alpha1.Decimal("2"), x.made.Spec.CPU.StartupBoost.Multiplier)
	assert.Equal(t, []string{boostHeld,
		"startupBoost of container adds has no counterpart: it adds 1 to the CPU request, attune multiplies it. Set cpu.startupBoost.multiplier",
		"startupBoost of container off has no counterpart: attune does not change a container with mode Off",
		"startupBoost of container memory has no counterpart: attune boosts no container whose controlledResources lack cpu",
	}, x.notes)
	x = imports(t, `{updatePolicy: {updateMode: InPlace}, resourcePolicy: {containerPolicies: [{containerName: none, startupBoost: {}}, {containerName: adds, startupBoost: {cpu: {type: Quantity, quantity: 1}}}]}}`)
	assert.Nil(t, x.made.Spec.ContainerPolicies[0].CPU, "there is no boost that it overrides")
	assert.Nil(t, x.made.Spec.ContainerPolicies[1].CPU)
}

func TestTargets(t *testing.T) {
	const foreign = "targetRef: attune sizes %s only if the chart's value scaledKinds names it. If it creates a StatefulSet or a Deployment, such as an object of an operator, set the policy's targetRef to that one"
	for _, c := range []struct{ apiVersion, kind, want, note string }{
		{"apps/v1", "Deployment", "Deployment", ""},
		{"extensions/v1beta1", "Deployment", "Deployment", ""},
		{"", "StatefulSet", "StatefulSet", ""},
		{"apps/v1", "DaemonSet", "DaemonSet", ""},
		{"apps/v1", "ReplicaSet", "ReplicaSet", ""},
		{"batch/v1", "Job", "Job", ""},
		{"batch/v1beta1", "CronJob", "CronJob", ""},
		{"argoproj.io/v1alpha1", "Rollout", "Rollout", ""},
		{"apps.kruise.io/v1beta1", "StatefulSet", "StatefulSet.apps.kruise.io", fmt.Sprintf(foreign, "StatefulSet.apps.kruise.io")},
		{"monitoring.coreos.com/v1", "Prometheus", "Prometheus.monitoring.coreos.com", fmt.Sprintf(foreign, "Prometheus.monitoring.coreos.com")},
		{"v1", "ReplicationController", "", `it is skipped: attune does not size ReplicationController "web". Set targetRef to a workload that attune sizes: ` + input.SizedKinds},
		{"v1", "Pod", "", `it is skipped: attune does not size Pod "web". Set targetRef to a workload that attune sizes: ` + input.SizedKinds},
		{"", "Workflow", "", `it is skipped: attune does not size Workflow "web". Set targetRef to a workload that attune sizes: ` + input.SizedKinds},
		{"apps/v1", "", "", "it is skipped: its targetRef has no kind or no name"},
	} {
		x := imports(t, fmt.Sprintf("{updatePolicy: {updateMode: InPlace}, targetRef: {apiVersion: %q, kind: %q, name: web}}", c.apiVersion, c.kind))
		if c.note == "" {
			assert.Empty(t, x.notes, c.kind)
		} else {
			assert.Equal(t, []string{c.note}, x.notes, c.kind)
		}
		assert.Equal(t, c.want == "", x.made == nil, c.kind)
		if x.made != nil {
			assert.Equal(t, v1alpha1.TargetRef{Kind: v1alpha1.WorkloadKind(c.want), Name: "web"}, x.made.Spec.TargetRef)
		}
	}
}

func TestWhatCannotBeImported(t *testing.T) {
	for spec, want := range map[string]string{
		`targetRef: null`: "it is skipped: its targetRef has no kind or no name",
		`{targetRef: null, selector: {matchLabels: {app: web}}}`:                                "it is skipped: it has a selector (autoscaling.k8s.io/v1beta1) and no targetRef. Set targetRef to its workload",
		`resourcePolicy: {containerPolicies: [{containerName: app, maxAllowed: {cpu: much}}]}`:  `it is skipped, because it cannot be read: resourcePolicy.containerPolicies[0].maxAllowed has "much" for cpu. Write a quantity, e.g. 250m or 512Mi`,
		`resourcePolicy: {containerPolicies: [{}, {minAllowed: {memory: 64MB}}]}`:               `it is skipped, because it cannot be read: resourcePolicy.containerPolicies[1].minAllowed has "64MB" for memory. Write a quantity, e.g. 250m or 512Mi`,
		`resourcePolicy: {containerPolicies: [{maxAllowed: {memory: true}}]}`:                   `it is skipped, because it cannot be read: resourcePolicy.containerPolicies[0].maxAllowed has true for memory. Write a quantity, e.g. 250m or 512Mi`,
		`startupBoost: {cpu: {type: Factor, factor: 1.5}}`:                                      "it is skipped, because it cannot be read: startupBoost.cpu.factor is of type number 1.5. Write a whole number, e.g. 3",
		`resourcePolicy: {containerPolicies: {containerName: "*"}}`:                             "it is skipped, because it cannot be read: resourcePolicy.containerPolicies is of type object. Write a list, e.g. [cpu]",
		`resourcePolicy: {containerPolicies: [{containerName: app, controlledResources: cpu}]}`: "it is skipped, because it cannot be read: resourcePolicy.containerPolicies.controlledResources is of type string. Write a list, e.g. [cpu]",
		`updatePolicy: {updateMode: true}`:                                                      `it is skipped, because it cannot be read: updatePolicy.updateMode is of type bool. Write a text, e.g. "Off"`,
		`updatePolicy: Off`:                                                                     "it is skipped, because it cannot be read: updatePolicy is of type bool. Write an object with fields",
		`resourcePolicy: {containerPolicies: [{containerName: app, mode: true}]}`:               `mode is of type bool. Write a text, e.g. "Off"`,
	} {
		spec, notes := imported(t, spec)
		assert.Empty(t, spec)
		require.Len(t, notes, 1)
		assert.Contains(t, notes[0], want)
	}
	made, notes := Import(&unstructured.Unstructured{Object: map[string]any{"spec": "text"}})
	assert.Nil(t, made)
	assert.Len(t, notes, 1)
}

// YAML reads a bare Off as false. The API server rejects such a VPA, but manifests and charts have it.
func TestModesWithoutQuotes(t *testing.T) {
	const why = ": Off without quotes is the boolean false, which the API server rejects. It is imported as Off"
	spec, notes := imported(t, "{updatePolicy: {updateMode: Off}, resourcePolicy: {containerPolicies: [{containerName: app}, {containerName: mesh, mode: Off}]}}")
	assert.Equal(t, "containerPolicies:\n- containerName: app\n- containerName: mesh\n  mode: \"Off\"\nupdateStrategy:\n  type: Recommend\n", spec)
	assert.Equal(t, []string{"updatePolicy.updateMode" + why, "resourcePolicy.containerPolicies[1].mode" + why}, notes)
}

// A manifest may have no name, as with a generator of names.
func TestVPAWithoutAName(t *testing.T) {
	vpa := of(t, "updatePolicy: {updateMode: Later}")
	vpa.SetName("")
	made, notes := Import(vpa)
	assert.Equal(t, "web", made.Metadata.Name, "the name of its workload")
	assert.Equal(t, []string{`VerticalPodAutoscaler shop/without a name: updateMode "Later" is unknown, so its policy only recommends. Set updateStrategy.type`}, notes)
}

// A program that creates VPAs would undo what a user does to them.
func TestCreatorsOfVPAs(t *testing.T) {
	vpa := of(t, "updatePolicy: {updateMode: InPlace}")
	vpa.SetName("goldilocks-web")
	vpa.SetLabels(map[string]string{"creator": "Fairwinds", "source": "goldilocks"})
	made, notes := Import(vpa)
	assert.Equal(t, "web", made.Metadata.Name)
	require.Len(t, notes, 1)
	assert.Contains(t, notes[0], "VerticalPodAutoscaler shop/goldilocks-web: Goldilocks creates it, also after a deletion. To stop it, set the annotation goldilocks.fairwinds.com/vpa-update-mode")
	vpa.SetLabels(nil)
	vpa.SetOwnerReferences([]metav1.OwnerReference{{Kind: "EtcdCluster", Name: "main", Controller: new(true)}})
	made, notes = Import(vpa)
	assert.Equal(t, "goldilocks-web", made.Metadata.Name)
	assert.Equal(t, []string{"VerticalPodAutoscaler shop/goldilocks-web: EtcdCluster main owns it and may change it back. To stop it, change its mode there"}, notes)
}

func TestAnnotationsForTheRecommender(t *testing.T) {
	vpa := of(t, "updatePolicy: {updateMode: InPlace}")
	vpa.SetAnnotations(map[string]string{"vpa-post-processor.kubernetes.io/app_integerCPU": "true", "team": "web"})
	_, notes := Import(vpa)
	assert.Equal(t, []string{"VerticalPodAutoscaler shop/web: annotation vpa-post-processor.kubernetes.io/app_integerCPU: true has no counterpart: attune sets CPU in millicores and memory in bytes, each by its usage"}, notes)
}

// Bounds that are probably without their unit are imported as they are, and named. attune refuses those of memory.
func TestImportDoubtsBounds(t *testing.T) {
	_, notes := imported(t, `{updatePolicy: {updateMode: Initial}, resourcePolicy: {containerPolicies: [{containerName: "*", minAllowed: {cpu: 250, memory: 100}, maxAllowed: {cpu: 400, memory: 512}}]}}`)
	assert.Equal(t, []string{
		"its policy is invalid, correct it before you apply it: containerPolicies[*]: memory.minAllowed 100 is less than 1Mi. Add the unit, e.g. 512Mi; containerPolicies[*]: memory.maxAllowed 512 is less than 1Mi. Add the unit, e.g. 512Mi",
		"containerPolicies[*].cpu.minAllowed 250 is more CPU than most nodes have. Write millicores with their unit, e.g. 250m",
	}, notes)
}

// A quantity that would take minutes to parse does not stop an import of all namespaces.
func TestSlowQuantitiesOfAVPA(t *testing.T) {
	for _, name := range []string{"cpu", "memory", "nvidia.com/gpu"} {
		for _, field := range []string{"minAllowed", "maxAllowed"} {
			for _, text := range []string{"1e-300", "1e-90000000", "1e90000000", strings.Repeat("9", 100_000)} {
				x := imports(t, `resourcePolicy: {containerPolicies: [{containerName: app, `+field+`: {`+name+`: "`+text+`"}}]}`)
				require.Nil(t, x.made, "%s %s", name, text)
				require.Len(t, x.notes, 1)
				assert.Contains(t, x.notes[0], "cannot be read")
				assert.Less(t, len(x.notes[0]), 300)
			}
		}
	}
}
