package policy_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/policy"
	"attune.io/attune/recommender"
)

// A container uses the entry with its exact name, otherwise the entry "*", and never both. The fields of the entry take
// precedence over the policy's, whatever level sets those.
func TestEntriesOfContainers(t *testing.T) {
	defaults := clusterDefaults(t, `{containerPolicies: [{containerName: app, memory: {maxAllowed: 1Gi}}], cpu: {percentile: 80}}`)
	for name, c := range map[string]struct {
		policy, container string
		percentile        int
		most              string
	}{
		"an entry of the defaults":        {`{}`, "app", 80, "1Gi"},
		"over the policy's field":         {`memory: {maxAllowed: 4Gi}`, "app", 80, "1Gi"},
		"another container":               {`memory: {maxAllowed: 4Gi}`, "side", 80, "4Gi"},
		"a list replaces a list":          {`containerPolicies: [{containerName: side, cpu: {percentile: 50}}]`, "app", 80, "0"},
		"an empty list":                   {`containerPolicies: []`, "app", 80, "0"},
		"the exact name":                  {`containerPolicies: [{containerName: "*", cpu: {percentile: 60}}, {containerName: app, memory: {maxAllowed: 2Gi}}]`, "app", 80, "2Gi"},
		"every other one":                 {`containerPolicies: [{containerName: app, memory: {maxAllowed: 2Gi}}, {containerName: "*", cpu: {percentile: 60}}]`, "side", 60, "0"},
		"field by field, over the policy": {`{memory: {maxAllowed: 4Gi}, containerPolicies: [{containerName: app, cpu: {percentile: 99}}]}`, "app", 99, "4Gi"},
	} {
		s, err := policy.Resolve(defaults, nil, aPolicy(t, c.policy))
		require.NoError(t, err, name)
		of := s.For(c.container)
		assert.Equal(t, c.percentile, of.Of[recommender.CPU].Percentile, name)
		assert.Equal(t, c.most, recommender.Format(recommender.Memory, of.Of[recommender.Memory].MaxAllowed), name)
	}
}

// mode Off of an entry and excludedContainers are the same.
func TestContainersThatAreOff(t *testing.T) {
	for spec, want := range map[string]string{
		`containerPolicies: [{containerName: app, mode: "Off"}]`:                                             "app",
		`excludedContainers: [app]`:                                                                          "app",
		`{excludedContainers: [app], containerPolicies: [{containerName: app, cpu: {percentile: 50}}]}`:      "app",
		`{excludedContainers: [app], containerPolicies: [{containerName: app, mode: "Off"}]}`:                "app",
		`containerPolicies: [{containerName: "*", mode: "Off"}]`:                                             "app side",
		`containerPolicies: [{containerName: "*", mode: "Off"}, {containerName: app}]`:                       "side",
		`containerPolicies: [{containerName: "*", mode: "Off"}, {containerName: app, mode: Auto}]`:           "side",
		`{excludedContainers: [app], containerPolicies: [{containerName: side, memory: {minAllowed: 1Gi}}]}`: "app",
		`containerPolicies: [{containerName: app, mode: "Off"}, {containerName: "*", mode: Auto}]`:           "app",
	} {
		s, err := policy.Resolve(nil, nil, aPolicy(t, spec))
		require.NoError(t, err, spec)
		var off []string
		for _, container := range []string{"app", "side"} {
			if s.Resize.Excludes(container) {
				off = append(off, container)
			}
		}
		assert.Equal(t, want, strings.Join(off, " "), spec)
	}
}

func TestControlledResources(t *testing.T) {
	s, err := policy.Resolve(nil, nil, aPolicy(t, `
cpu: {startupBoost: {multiplier: "2", duration: 2m}}
updateStrategy: {type: Auto}
containerPolicies:
- {containerName: app, controlledResources: [memory]}
- {containerName: cache, controlledResources: [cpu], cpu: {startupBoost: {multiplier: "3", duration: 5m}}}
- {containerName: both, controlledResources: [memory, cpu], memory: {raiseBeforeKill: "Off"}}`))
	require.NoError(t, err)
	assert.Equal(t, "containerPolicies[app].controlledResources", s.For("app").Of[recommender.CPU].Uncontrolled)
	assert.Empty(t, s.For("app").Of[recommender.Memory].Uncontrolled)
	assert.Nil(t, s.BoostOf("app"), "a boost is CPU")
	assert.Equal(t, &policy.Boost{Multiplier: 3, Duration: 5 * 60e9}, s.BoostOf("cache"))
	assert.Equal(t, s.StartupBoost, s.BoostOf("both"))
	assert.Equal(t, s.BoostOf("cache").Duration, s.Resize.Boost, "the longest")
	for container, raises := range map[string]bool{"app": true, "cache": false, "both": false, "other": true} {
		assert.Equal(t, raises, s.Resize.RaisesMemory(container), container)
	}
}

// Messages about entries name the entry, and the field that lifts the problem.
func TestInvalidEntries(t *testing.T) {
	for _, c := range []struct{ defaults, policy, want, fields, level string }{
		{policy: `containerPolicies: [{containerName: app, cpu: {percentile: 101}}]`, level: "policy", fields: "containerPolicies[app].cpu.percentile",
			want: "containerPolicies[app]: cpu.percentile 101 must be between 1 and 100, e.g. 95"},
		{policy: `{cpu: {percentile: 101}, containerPolicies: [{containerName: app, memory: {percentile: 50}}]}`, level: "policy", fields: "cpu.percentile",
			want: "cpu.percentile 101 must be between 1 and 100, e.g. 95"},
		{policy: `{memory: {minAllowed: 2Gi}, containerPolicies: [{containerName: app, memory: {maxAllowed: 1Gi}}]}`, level: "policy policy", fields: "memory.minAllowed containerPolicies[app].memory.maxAllowed",
			want: "containerPolicies[app]: memory.minAllowed 2Gi must be less than or equal to memory.maxAllowed 1Gi: set memory.minAllowed to 1Gi or less"},
		{policy: `{excludedContainers: [app], containerPolicies: [{containerName: app, mode: Auto}]}`, level: "policy policy", fields: "excludedContainers containerPolicies[app].mode",
			want: "excludedContainers names app, but containerPolicies[app].mode is Auto: remove app from excludedContainers, or set the mode to Off"},
		{policy: `containerPolicies: [{containerName: app, mode: Auto}]`, defaults: `excludedContainers: [app]`, level: "cluster policy", fields: "excludedContainers containerPolicies[app].mode",
			want: "excludedContainers names app (from the AttuneDefaults), but containerPolicies[app].mode is Auto: remove app from excludedContainers, or set the mode to Off"},
		{policy: `containerPolicies: [{containerName: app, mode: Maybe}]`, level: "policy", fields: "containerPolicies[app].mode",
			want: "containerPolicies[app]: mode Maybe is not one of Auto or Off"},
		{policy: `containerPolicies: [{containerName: app, controlledResources: [gpu]}]`, level: "policy", fields: "containerPolicies[app].controlledResources",
			want: "containerPolicies[app]: controlledResources [gpu] must name cpu, memory or both, e.g. [memory]; to leave the container alone, set mode: Off"},
		{policy: `containerPolicies: [{containerName: app}, {containerName: app}]`, level: "policy", fields: "containerPolicies",
			want: `containerPolicies has an empty containerName, or has app twice: give each entry the name of a container or "*"`},
		{policy: `{updateStrategy: {type: Initial}, containerPolicies: [{containerName: app, cpu: {startupBoost: {multiplier: "2", duration: 1m}}}]}`, level: "policy policy",
			fields: "containerPolicies[app].cpu.startupBoost updateStrategy.type",
			want:   `containerPolicies[app]: cpu.startupBoost 2 times for 1m cannot be removed with updateStrategy.type Initial, which never changes a running pod: use Canary or Auto, or set cpu.startupBoost.multiplier to "1"`},
		{policy: `{}`, defaults: `containerPolicies: [{containerName: app, cpu: {percentile: 101}}]`, level: "cluster", fields: "containerPolicies[app].cpu.percentile",
			want: "containerPolicies[app]: cpu.percentile 101 (from the AttuneDefaults) must be between 1 and 100, e.g. 95"},
	} {
		_, err := policy.Resolve(clusterDefaults(t, c.defaults), nil, aPolicy(t, c.policy))
		found := problems(t, err)
		require.Len(t, found, 1, c.policy)
		assert.Equal(t, c.want, found[0].Sentence)
		assert.Equal(t, c.fields, strings.Join(found[0].Fields, " "))
		assert.Equal(t, c.level, strings.Trim(fmt.Sprint(found[0].Levels), "[]"))
	}
	_, err := policy.ResolveNew(nil, nil, aPolicy(t, `containerPolicies: [{containerName: app, memory: {maxAllowed: 512}}]`), policy.Operator{})
	assert.ErrorContains(t, err, "containerPolicies[app]: memory.maxAllowed 512 is less than 1Mi. Add the unit, e.g. 512Mi")
	p := aPolicy(t, `{}`)
	for i := range 1000 {
		p.Spec.ContainerPolicies = append(p.Spec.ContainerPolicies, v1alpha1.ContainerPolicy{ContainerName: v1alpha1.ContainerName(fmt.Sprint(i))})
	}
	s, err := policy.Resolve(nil, nil, p)
	assert.ErrorContains(t, err, "containerPolicies has 1000 entries: use at most 64")
	assert.Len(t, s.Containers, 64)
}

// explain names the entry as the layer of its values.
func TestFieldsOfEntries(t *testing.T) {
	p := aPolicy(t, `{cpu: {percentile: 90}, containerPolicies: [{containerName: app, controlledResources: [memory], memory: {maxAllowed: 8Gi}}, {containerName: "*", mode: "Off"}]}`)
	by := map[string]string{}
	for _, f := range policy.Fields(clusterDefaults(t, `memory: {percentile: 70}`), nil, p, policy.Operator{}) {
		if strings.HasPrefix(f.Path, "containerPolicies[") {
			by[f.Path] = f.Value + " " + string(f.Level)
		}
	}
	assert.Equal(t, map[string]string{
		"containerPolicies[app].memory.maxAllowed":   "8Gi policy, containerPolicies[app]",
		"containerPolicies[app].controlledResources": `["memory"] policy, containerPolicies[app]`,
		"containerPolicies[*].mode":                  "Off policy, containerPolicies[*]",
	}, by)
	assert.Equal(t, "AttunePolicy web, containerPolicies[app]", policy.Level("policy, containerPolicies[app]").Object(v1alpha1.PolicyRef{Name: "web"}, "shop"))
	assert.Equal(t, "AttuneDefaults default, containerPolicies[app]", policy.Level("cluster, containerPolicies[app]").Object(v1alpha1.PolicyRef{Name: "web"}, "shop"))
}

func TestRemarksAboutEntries(t *testing.T) {
	for spec, want := range map[string][]string{
		`containerPolicies: [{containerName: app, cpu: {minAllowed: 250}}]`: {"containerPolicies[app].cpu.minAllowed 250 is more CPU than most nodes have. Write millicores with their unit, e.g. 250m"},
		`{strategy: Adaptive, containerPolicies: [{containerName: app, cpu: {percentile: 50}}]}`: {
			"containerPolicies[app].cpu.percentile: no effect with strategy Adaptive. Remove the fields from the policy"},
		`containerPolicies: [{containerName: app, mode: "Off", cpu: {percentile: 50}}]`: {
			"containerPolicies[app].cpu.percentile: no effect with containerPolicies[app], which attune does not size. Remove the fields from the policy"},
		`containerPolicies: [{containerName: app, controlledResources: [memory], cpu: {percentile: 50}, memory: {percentile: 50}}]`: {
			"containerPolicies[app].cpu.percentile: no effect with containerPolicies[app].controlledResources. Remove the fields from the policy"},
		`containerPolicies: [{containerName: app, memory: {percentile: 50}}]`: nil,
	} {
		s, err := policy.Resolve(nil, nil, aPolicy(t, spec))
		require.NoError(t, err, spec)
		assert.Equal(t, want, s.Remarks(), spec)
	}
}

func TestDigestCoversEntries(t *testing.T) {
	seen := map[string]string{}
	for _, spec := range []string{`{}`, `containerPolicies: [{containerName: a, cpu: {percentile: 50}}]`, `containerPolicies: [{containerName: b, cpu: {percentile: 50}}]`,
		`containerPolicies: [{containerName: a, mode: "Off"}]`, `containerPolicies: [{containerName: a, controlledResources: [cpu]}]`} {
		digest := digestOf(t, spec)
		assert.Empty(t, seen[digest], spec)
		seen[digest] = spec
	}
	assert.Equal(t, digestOf(t, `containerPolicies: [{containerName: a, cpu: {percentile: 50}}, {containerName: b, mode: "Off"}]`),
		digestOf(t, `containerPolicies: [{containerName: b, mode: "Off"}, {containerName: a, cpu: {percentile: 50}}]`), "in any order")
}

// Each field of an entry's cpu and memory has an effect on its container, and on no other one. A new field of the API
// fails here until the resolver reads it for single containers too.
func TestEveryFieldOfAnEntryHasAnEffect(t *testing.T) {
	values := map[string]string{
		"percentile": "51", "overhead": `"51"`, "minAllowed": "51M", "maxAllowed": "51M", "controlledValues": "RequestsOnly", "maxChangePercent": "51",
		"burstSensitivity": `"0.51"`, "startupBoost": `{multiplier: "5.1", duration: 51s}`, "allowDecrease": "true", "raiseBeforeKill": `"Off"`,
		"limits": `{ratio: "5.1"}`,
	}
	for resource, of := range map[string]reflect.Type{"cpu": reflect.TypeFor[v1alpha1.CPUSettings](), "memory": reflect.TypeFor[v1alpha1.MemorySettings]()} {
		for _, field := range reflect.VisibleFields(of) {
			name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
			if name == "" || name == "hpa" { // hpa has one value so far
				continue
			}
			require.Contains(t, values, name, "a value of %s.%s that is not its default", resource, name)
			s, err := policy.Resolve(nil, nil, aPolicy(t, fmt.Sprintf(`{updateStrategy: {type: Auto}, containerPolicies: [{containerName: app, %s: {%s: %s}}]}`,
				resource, name, strings.ReplaceAll(values[name], "51M", map[string]string{"cpu": "51", "memory": "51Mi"}[resource]))))
			require.NoError(t, err)
			assert.NotEqual(t, effects(&s, "side"), effects(&s, "app"), "%s.%s", resource, name)
			plain, err := policy.Resolve(nil, nil, aPolicy(t, `updateStrategy: {type: Auto}`))
			require.NoError(t, err)
			assert.Equal(t, effects(&plain, "side"), effects(&s, "side"), "%s.%s", resource, name)
		}
	}
}

// effects are the settings and rules of a container.
func effects(s *policy.Settings, container string) string {
	of := s.Resize.Of(container)
	text, _ := json.Marshal([]any{s.For(container), s.BoostOf(container), of.RaiseBeforeKill, of.Boost, s.Resize.Excludes(container), s.Resize.RaisesMemory(container)})
	return string(text)
}

// draw returns a random object of settings of one resource, as in a manifest.
func draw(d *rand.Rand, resource string) map[string]any {
	out := map[string]any{}
	set := func(key string, values ...any) {
		if d.IntN(3) == 0 {
			out[key] = values[d.IntN(len(values))]
		}
	}
	set("percentile", 1, 50, 90, 100)
	set("overhead", "0", "12.5", "300")
	set("burstSensitivity", "0", "2")
	set("maxChangePercent", 1, 50, 1000)
	set("controlledValues", "RequestsOnly", "RequestsAndLimits")
	if resource == "cpu" {
		set("minAllowed", "10m", "1")
		set("maxAllowed", "1", "8")
		set("startupBoost", map[string]any{"multiplier": "2", "duration": "2m"}, map[string]any{"multiplier": "1", "duration": "1m"}, map[string]any{"multiplier": "3", "duration": "9m"})
	} else {
		set("minAllowed", "10Mi", "50Mi")
		set("maxAllowed", "50Mi", "1Gi")
		set("allowDecrease", true, false)
		set("raiseBeforeKill", "Auto", "Off")
	}
	return out
}

// The settings of a container equal those of a policy without entries that has the fields of its entry in place of its own.
func TestAContainerHasTheSettingsOfItsOwnPolicy(t *testing.T) {
	d := rand.New(rand.NewPCG(1, 2))
	resources := []string{"cpu", "memory"}
	rounds := 10_000
	if n, err := strconv.Atoi(os.Getenv("ATTUNE_DRAWS")); err == nil { // make test-long
		rounds = n
	}
	for range rounds {
		spec := map[string]any{"updateStrategy": map[string]any{"type": []string{"Auto", "Canary", "OneShot"}[d.IntN(3)]}}
		if d.IntN(4) == 0 {
			spec["profile"] = []string{"Cost", "Balanced", "Reliability"}[d.IntN(3)]
		}
		for _, r := range resources {
			spec[r] = draw(d, r)
		}
		entries := map[string]map[string]any{}
		var list []any
		for _, name := range []string{"app", "side", "*"} {
			if d.IntN(2) == 0 {
				continue
			}
			entry := map[string]any{"containerName": name}
			for _, r := range resources {
				if d.IntN(2) == 0 {
					entry[r] = draw(d, r)
				}
			}
			if d.IntN(4) == 0 {
				entry["controlledValues"] = []string{"RequestsOnly", "RequestsAndLimits"}[d.IntN(2)]
			}
			if d.IntN(4) == 0 {
				entry["mode"] = []string{"Off", "Auto"}[d.IntN(2)]
			}
			entries[name], list = entry, append(list, entry)
		}
		container := []string{"app", "side", "other"}[d.IntN(3)]
		entry := entries[container]
		if entry == nil {
			entry = entries["*"]
		}
		own := map[string]any{"updateStrategy": spec["updateStrategy"]}
		if spec["profile"] != nil {
			own["profile"] = spec["profile"]
		}
		for _, r := range resources {
			merged := maps.Clone(spec[r].(map[string]any))
			if values := entry["controlledValues"]; values != nil {
				merged["controlledValues"] = values
			}
			if of, set := entry[r].(map[string]any); set {
				maps.Copy(merged, of)
			}
			own[r] = merged
		}
		if entry["mode"] == "Off" {
			own["excludedContainers"] = []string{container}
		}
		spec["containerPolicies"] = list
		want, got := resolved(t, own), resolved(t, spec)
		if !assert.Equal(t, effects(&want, container), effects(&got, container), "%v as %v", spec, own) {
			return
		}
	}
}

// resolved resolves a policy from the fields of its spec.
func resolved(t *testing.T, spec map[string]any) policy.Settings {
	t.Helper()
	text, err := json.Marshal(spec)
	require.NoError(t, err)
	p := &v1alpha1.AttunePolicy{}
	require.NoError(t, json.Unmarshal(text, &p.Spec))
	p.Spec.TargetRef = v1alpha1.TargetRef{Kind: v1alpha1.KindDeployment}
	s, err := policy.Resolve(nil, nil, p)
	require.NoError(t, err, string(text))
	return s
}

// The settings of a container are looked up for each decision.
func TestLookupOfAContainerAllocatesNothing(t *testing.T) {
	s, err := policy.Resolve(nil, nil, aPolicy(t, `containerPolicies: [{containerName: app, cpu: {percentile: 50}}, {containerName: "*", mode: "Off"}]`))
	require.NoError(t, err)
	names := []string{"app", "side"}
	sum := 0
	assert.Zero(t, testing.AllocsPerRun(100, func() {
		for _, name := range names {
			sum += s.For(name).Of[recommender.CPU].Percentile
			if s.Resize.Excludes(name) || s.Resize.RaisesMemory(name) || s.BoostOf(name) != nil {
				sum++
			}
		}
	}))
	assert.True(t, slices.Contains(names, "app"))
	assert.Positive(t, sum)
}

// A pattern in place of a name would exclude nothing, and no message would say so.
func TestNamesOfContainers(t *testing.T) {
	for spec, want := range map[string]string{
		`excludedContainers: [app, istio-proxy]`:                       "",
		`excludedContainers: ["*"]`:                                    "",
		`excludedContainers: ["istio-*"]`:                              `excludedContainers istio-* is not the name of a container: write whole names, e.g. istio-proxy, or "*" for all containers`,
		`excludedContainers: [app, Über]`:                              `excludedContainers Über is not the name of a container: write whole names, e.g. istio-proxy, or "*" for all containers`,
		`excludedContainers: [""]`:                                     `excludedContainers "" is not the name of a container: write whole names, e.g. istio-proxy, or "*" for all containers`,
		`containerPolicies: [{containerName: "istio-*", mode: "Off"}]`: `containerPolicies istio-* is not the name of a container: write whole names, e.g. istio-proxy, or "*" for all containers`,
		`containerPolicies: [{containerName: "a,b"}]`:                  `containerPolicies a,b is not the name of a container: write whole names, e.g. istio-proxy, or "*" for all containers`,
	} {
		_, err := policy.Resolve(nil, nil, aPolicy(t, spec))
		if want == "" {
			assert.NoError(t, err, spec)
			continue
		}
		assert.EqualError(t, err, want, spec)
	}
}
