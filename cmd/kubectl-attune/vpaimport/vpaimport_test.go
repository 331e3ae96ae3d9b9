package vpaimport

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"attune.io/attune/cmd/kubectl-attune/input"
)

// imported returns the policy's spec as YAML without its target, and the notes without the VPA's name.
func imported(t *testing.T, spec string, containers ...string) (string, []string) {
	t.Helper()
	x := imports(t, spec, containers...)
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

func imports(t *testing.T, spec string, containers ...string) (x result) {
	t.Helper()
	x.made, x.notes = Import(of(t, spec), containers)
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
	const evicts = " evicts pods, but attune resizes them in place: to evict pods that do not fit their node, set updateStrategy.resizeMethod to InPlaceOrRecreate"
	for mode, want := range map[string]struct {
		update string
		notes  []string
	}{
		`"Off"`:             {"type: Recommend", nil},
		"Initial":           {"type: Initial", nil},
		"Auto":              {"type: Auto", []string{"mode Auto" + evicts}},
		"Recreate":          {"type: Auto", []string{"mode Recreate" + evicts}},
		`""`:                {"type: Auto", []string{"mode Auto" + evicts}},
		"InPlace":           {"type: Auto", nil},
		"InPlaceOrRecreate": {"resizeMethod: InPlaceOrRecreate\n  type: Auto", nil},
		"Later":             {"type: Recommend", []string{`updateMode "Later" is unknown, so its policy only recommends`}},
	} {
		spec, notes := imported(t, "updatePolicy: {updateMode: "+mode+"}", "app")
		assert.Equal(t, "updateStrategy:\n  "+want.update+"\n", spec, mode)
		assert.Equal(t, want.notes, notes, mode)
	}
}

// later is the note for mode Off on all other containers.
const later = "mode Off of container * covers only the current containers: add later ones to excludedContainers, otherwise attune sizes them"

func TestContainers(t *testing.T) {
	const recommend, head = "updateStrategy:\n  type: Recommend\n", "updatePolicy: {updateMode: \"Off\"}\nresourcePolicy: {containerPolicies: ["
	for name, c := range map[string]struct {
		policies   string
		containers []string
		spec       string
		notes      []string
	}{
		"one for all": {`{containerName: "*", minAllowed: {cpu: 50m}, maxAllowed: {cpu: 2, memory: 1Gi}}`, []string{"app", "side"},
			"cpu:\n  maxAllowed: \"2\"\n  minAllowed: 50m\nmemory:\n  maxAllowed: 1Gi\n" + recommend, nil},
		"one is excluded": {`{containerName: side, mode: "Off"}`, []string{"app", "side"}, "excludedContainers:\n- side\n" + recommend, nil},
		"one is sized": {`{containerName: "*", mode: "Off"}, {containerName: app, mode: Auto, maxAllowed: {cpu: 1}}`, []string{"app", "b", "a"},
			"cpu:\n  maxAllowed: \"1\"\nexcludedContainers:\n- a\n- b\n" + recommend, []string{later}},
		"all but one, and the workload is not known": {`{containerName: "*", mode: "Off"}, {containerName: app, maxAllowed: {cpu: 1}}`, nil,
			"cpu:\n  maxAllowed: \"1\"\n" + recommend, []string{"its policy only recommends (updateStrategy.type Recommend), because it would change more than the VerticalPodAutoscaler: the containers with mode Off (containerName *) are not known: add them to excludedContainers"}},
		"different bounds: the widest": {`{containerName: app, minAllowed: {cpu: 100m}, maxAllowed: {cpu: 1}}, {containerName: "*", minAllowed: {cpu: 50m}, maxAllowed: {cpu: 2}}`, []string{"app", "side"},
			"cpu:\n  maxAllowed: \"2\"\n  minAllowed: 50m\n" + recommend, []string{
				"containers differ in minAllowed.cpu, but a policy has one for all: it is 50m", "containers differ in maxAllowed.cpu, but a policy has one for all: it is 2"}},
		"a container without bounds": {`{containerName: app, maxAllowed: {memory: 1Gi}}`, []string{"app", "side"},
			recommend, []string{"containers differ in maxAllowed.memory, but a policy has one for all: it is not set"}},
		"bounds of the one container": {`{containerName: app, maxAllowed: {memory: 1Gi}}, {containerName: gone, maxAllowed: {memory: 9Gi}}`, []string{"app"},
			"memory:\n  maxAllowed: 1Gi\n" + recommend, nil},
		"limits stay": {`{containerName: "*", controlledValues: RequestsOnly}`, []string{"app"},
			"cpu:\n  controlledValues: RequestsOnly\nmemory:\n  controlledValues: RequestsOnly\n" + recommend, nil},
		"limits of one stay": {`{containerName: app, controlledValues: RequestsOnly}`, []string{"app", "side"},
			"cpu:\n  controlledValues: RequestsOnly\nmemory:\n  controlledValues: RequestsOnly\n" + recommend, []string{"containers differ in controlledValues, but a policy has one for all: it is RequestsOnly"}},
		"none is sized": {`{containerName: "*", mode: "Off"}`, []string{"app"}, "excludedContainers:\n- app\n" + recommend, []string{later, "it manages no container, and neither does its policy"}},
		"a bound of 0, and of another resource": {`{containerName: "*", minAllowed: {cpu: 0, ephemeral-storage: 1Gi}}`, []string{"app"}, recommend,
			[]string{"bounds of ephemeral-storage have no counterpart (container app)"}},
		"both resources, by name": {`{containerName: "*", controlledResources: [memory, cpu]}`, []string{"app"}, recommend, nil},
	} {
		t.Run(name, func(t *testing.T) {
			spec, notes := imported(t, head+c.policies+"]}", c.containers...)
			assert.Equal(t, c.spec, spec)
			assert.Equal(t, c.notes, notes)
		})
	}
}

// A policy only recommends if it would act on a resource that the VPA does not size, whatever the VPA's mode.
func TestOneResourceOfTwo(t *testing.T) {
	because := func(container, resources string) string {
		return "its policy only recommends (updateStrategy.type Recommend), because it would change more than the VerticalPodAutoscaler: controlledResources of container " + container + " is " + resources + ", but a policy manages both cpu and memory"
	}
	for policies, notes := range map[string][]string{
		`{containerName: "*", controlledResources: [cpu]}`:                                                 {because("app", "[cpu]"), because("side", "[cpu]")},
		`{containerName: side, controlledResources: []}`:                                                   {because("side", "[]")},
		`{containerName: injected, controlledResources: [memory]}`:                                         {because("injected", "[memory]")},
		`{containerName: side, mode: "Off", controlledResources: [cpu]}`:                                   nil,
		`{containerName: side, controlledResources: null}`:                                                 nil,
		`{containerName: app}, {containerName: side}, {containerName: "*", controlledResources: [memory]}`: nil,
	} {
		for _, mode := range []string{"InPlace", "Initial", "InPlaceOrRecreate"} {
			x := imports(t, "updatePolicy: {updateMode: "+mode+"}\nresourcePolicy: {containerPolicies: ["+policies+"]}", "app", "side")
			assert.Equal(t, notes == nil, x.made.Acts(), policies)
			assert.Equal(t, notes, x.notes, policies)
		}
	}
	x := imports(t, "updatePolicy: {updateMode: InPlace}\nresourcePolicy: {containerPolicies: [{containerName: \"*\", controlledResources: [cpu]}]}")
	assert.Equal(t, []string{because("*", "[cpu]")}, x.notes, "the workload cannot be read")
	assert.False(t, x.made.Acts())
}

func TestWhatHasNoCounterpartIsSaidOnce(t *testing.T) {
	spec, notes := imported(t, `
updatePolicy: {updateMode: "Off", minReplicas: 2, evictAfterOOMSeconds: 60, evictionRequirements: []}
recommenders: [{name: mine}]
later: true
resourcePolicy:
  containerPolicies:
    - {containerName: a, oomBumpUpRatio: "1.2"}
    - {containerName: b, oomBumpUpRatio: "1.2", startupBoost: {cpu: {factor: 2}}}
`, "a", "b")
	assert.Equal(t, "updateStrategy:\n  type: Recommend\n", spec)
	assert.Equal(t, []string{
		"later has no counterpart",
		"recommenders has no counterpart: attune computes recommendations itself",
		"updatePolicy.evictAfterOOMSeconds has no counterpart: attune reacts to an OOM kill immediately",
		"updatePolicy.evictionRequirements has no counterpart: updateStrategy limits changes by cooldowns, caps per resize and schedules",
		"updatePolicy.minReplicas has no counterpart: attune never evicts the last ready replica",
		"resourcePolicy.containerPolicies.oomBumpUpRatio has no counterpart: attune learns a minimum from an OOM kill",
		"resourcePolicy.containerPolicies.startupBoost has no counterpart: cpu.startupBoost applies to all containers",
	}, notes)
}

func TestStartupBoost(t *testing.T) {
	for boost, want := range map[string]string{
		"{cpu: {type: Factor, factor: 3, durationSeconds: 90}}":     "cpu:\n  startupBoost:\n    duration: 1m30s\n    multiplier: \"3\"\n",
		"{cpu: {type: Quantity, quantity: 1, durationSeconds: 90}}": "",
		"{cpu: {type: Factor, factor: 101, durationSeconds: 90}}":   "",
		"{cpu: {type: Factor, factor: 3}}":                          "",
	} {
		spec, notes := imported(t, "updatePolicy: {updateMode: \"Off\"}\nstartupBoost: "+boost, "app")
		assert.Equal(t, want+"updateStrategy:\n  type: Recommend\n", spec, boost)
		if want == "" {
			assert.Equal(t, []string{"its startupBoost has no counterpart: attune supports a factor from 1 to 100 for a duration between 1s and 1h"}, notes)
		}
	}
}

func TestWhatCannotBeImported(t *testing.T) {
	for spec, want := range map[string]string{
		`targetRef: {apiVersion: apps.openshift.io/v1, kind: DeploymentConfig, name: web}`: `it is skipped, because attune does not manage DeploymentConfig "web"`,
		`targetRef: {apiVersion: example.com/v1, kind: Deployment, name: web}`:             `it is skipped, because attune does not manage Deployment "web"`,
		`targetRef: null`: `it is skipped, because attune does not manage a target without a kind, ""`,
		`resourcePolicy: {containerPolicies: [{containerName: app, maxAllowed: {cpu: much}}]}`: "it is skipped, because it cannot be read: ",
	} {
		spec, notes := imported(t, spec)
		assert.Empty(t, spec)
		require.Len(t, notes, 1)
		assert.Contains(t, notes[0], want)
	}
	made, notes := Import(&unstructured.Unstructured{Object: map[string]any{"spec": "text"}}, nil)
	assert.Nil(t, made)
	assert.Len(t, notes, 1)
}

// Containers that the VPA excludes by name stay excluded, whether or not the template has them today. The name *
// differs, because the names of later containers are not known.
func TestContainersOfLater(t *testing.T) {
	for _, c := range []struct {
		policies   string
		containers []string
		excluded   string
		notes      []string
		acts       bool
	}{
		{`{containerName: istio-proxy, mode: "Off"}`, []string{"app"}, "istio-proxy", nil, true},
		{`{containerName: istio-proxy, mode: "Off"}`, nil, "istio-proxy", nil, true},
		{`{mode: "Off"}`, []string{"app"}, "", nil, true},
		{`{containerName: istio-proxy}`, []string{"app"}, "", nil, true},
		{`{containerName: app}, {containerName: z, mode: "Off"}, {containerName: "*", mode: "Off"}`, []string{"app", "b"}, "b z", []string{later}, true},
		{`{containerName: app}, {containerName: "*", mode: "Off"}`, []string{"app"}, "", []string{later}, true},
		{`{containerName: app}, {containerName: z, mode: "Off"}, {containerName: "*", mode: "Off"}`, nil, "z", []string{
			"its policy only recommends (updateStrategy.type Recommend), because it would change more than the VerticalPodAutoscaler: the containers with mode Off (containerName *) are not known: add them to excludedContainers"}, false},
	} {
		x := imports(t, "updatePolicy: {updateMode: InPlace}\nresourcePolicy: {containerPolicies: ["+c.policies+"]}", c.containers...)
		var excluded []string
		for _, name := range x.made.Spec.ExcludedContainers {
			excluded = append(excluded, string(name))
		}
		assert.Equal(t, c.excluded, strings.Join(excluded, " "), c.policies)
		assert.Equal(t, c.notes, x.notes, c.policies)
		assert.Equal(t, c.acts, x.made.Acts(), c.policies)
	}
}

// If other containers have no lower bound, the policy has none. It would then lower more than the VPA, so it only
// recommends.
func TestALowerBoundThatIsLost(t *testing.T) {
	const because = "its policy only recommends (updateStrategy.type Recommend), because it would change more than the VerticalPodAutoscaler: containers differ in minAllowed.%s, but a policy has one for all: it is not set"
	for policies, notes := range map[string][]string{
		`{containerName: app, minAllowed: {memory: 256Mi}}`:                                                 {strings.ReplaceAll(because, "%s", "memory")},
		`{containerName: app, minAllowed: {cpu: 1}}, {containerName: side, minAllowed: {cpu: 0}}`:           {strings.ReplaceAll(because, "%s", "cpu")},
		`{containerName: app, maxAllowed: {memory: 1Gi}}`:                                                   {"containers differ in maxAllowed.memory, but a policy has one for all: it is not set"},
		`{containerName: app, minAllowed: {memory: 256Mi}}, {containerName: side, mode: "Off"}`:             nil,
		`{containerName: app, minAllowed: {memory: 1Gi}}, {containerName: "*", minAllowed: {memory: 64Mi}}`: {"containers differ in minAllowed.memory, but a policy has one for all: it is 64Mi"},
	} {
		x := imports(t, "updatePolicy: {updateMode: Initial}\nresourcePolicy: {containerPolicies: ["+policies+"]}", "app", "side")
		assert.Equal(t, notes, x.notes, policies)
		assert.Equal(t, !strings.Contains(strings.Join(notes, ""), "Recommend"), x.made.Acts(), policies)
	}
}

// Bounds that are probably without their unit are imported as they are, and named. attune refuses those of memory.
func TestImportDoubtsBounds(t *testing.T) {
	_, notes := imported(t, `{updatePolicy: {updateMode: Initial}, resourcePolicy: {containerPolicies: [{containerName: "*", minAllowed: {cpu: 250, memory: 100}, maxAllowed: {cpu: 400, memory: 512}}]}}`, "app")
	assert.Equal(t, []string{
		"its policy is invalid, correct it before you apply it: memory.minAllowed 100 is less than 1Mi. Add the unit, e.g. 512Mi; memory.maxAllowed 512 is less than 1Mi. Add the unit, e.g. 512Mi",
		"cpu.minAllowed 250 is more CPU than most nodes have. Write millicores with their unit, e.g. 250m",
	}, notes)
}

// A quantity that would take minutes to parse does not stop an import of all namespaces.
func TestSlowQuantitiesOfAVPA(t *testing.T) {
	for _, name := range []string{"cpu", "memory", "nvidia.com/gpu"} {
		for _, field := range []string{"minAllowed", "maxAllowed"} {
			for _, text := range []string{"1e-300", "1e-90000000", "1e90000000", strings.Repeat("9", 100_000)} {
				x := imports(t, `resourcePolicy: {containerPolicies: [{containerName: app, `+field+`: {`+name+`: "`+text+`"}}]}`, "app")
				require.Nil(t, x.made, "%s %s", name, text)
				require.Len(t, x.notes, 1)
				assert.Contains(t, x.notes[0], "cannot be read")
				assert.Less(t, len(x.notes[0]), 300)
			}
		}
	}
}
