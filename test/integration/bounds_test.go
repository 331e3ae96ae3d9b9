package integration

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"attune.io/attune/api/v1alpha1"
)

// violation is a value that a schema's bound refuses, and a word of the answer.
type violation struct {
	value any
	word  string
}

// violations are values just beyond the bounds of a schema. A long text keeps to no pattern and to no
// rule, so its length alone is looked for in the answer.
func violations(s map[string]any) []violation {
	var all []violation
	if s["enum"] != nil {
		all = append(all, violation{beyondEnum(s), "Unsupported value"})
	}
	if least, ok := s["minimum"].(float64); ok {
		all = append(all, violation{int64(least) - 1, "should be greater than or equal to"})
	}
	if most, ok := s["maximum"].(float64); ok {
		all = append(all, violation{int64(most) + 1, "should be less than or equal to"})
	}
	if most, ok := s["maxLength"].(float64); ok {
		all = append(all, violation{strings.Repeat("1", int(most)+1), "Too long"})
	}
	if _, ok := s["minLength"]; ok {
		all = append(all, violation{"", "should be at least 1 chars long"})
	}
	if most, ok := s["maxProperties"].(float64); ok {
		many := map[string]any{}
		for i := range int(most) + 1 {
			many[fmt.Sprint(i)] = "x"
		}
		all = append(all, violation{many, "must have at most"})
	}
	return all
}

func beyondEnum(s map[string]any) any {
	if s["type"] == "integer" {
		return int64(51)
	}
	return "Nope"
}

// TestEveryBound: each field of a policy refuses what is just beyond its bounds, and names itself.
func TestEveryBound(t *testing.T) {
	c := newClient(t)
	valid := filled[v1alpha1.AttunePolicySpec]()
	spec, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&valid)
	require.NoError(t, err)
	tried := 0
	schemas(t, crds(t)["AttunePolicy"], func(path string, s map[string]any) {
		steps := strings.Split(strings.ReplaceAll(path, "[]", ".[]"), ".")
		if len(steps) < 3 || steps[1] != "spec" {
			return
		}
		for _, v := range violations(s) {
			changed := runtime.DeepCopyJSON(spec)
			if !put(changed, steps[2:], v.value) {
				continue // a half of an either-or that the valid object does not have
			}
			tried++
			u := policyWith(t, `{}`)
			require.NoError(t, unstructured.SetNestedMap(u.Object, changed, "spec"))
			err := c.Create(t.Context(), u, client.DryRunAll)
			if assert.Error(t, err, "%s: %v", path, v.value) {
				assert.ErrorContains(t, err, v.word, path)
				assert.ErrorContains(t, err, strings.ReplaceAll(path[1:], "[]", "[0]"))
			}
		}
	})
	assert.Greater(t, tried, 40)
}

// put sets a value at a path, into the first element of lists. False: there is no such place.
func put(into any, steps []string, value any) bool {
	switch at := into.(type) {
	case map[string]any:
		if _, ok := at[steps[0]]; !ok {
			return false
		}
		if len(steps) == 1 {
			at[steps[0]] = value
			return true
		}
		return put(at[steps[0]], steps[1:], value)
	case []any:
		if len(steps) == 1 {
			at[0] = value
			return true
		}
		return put(at[0], steps[1:], value)
	}
	return false
}

// TestListBounds: lists are short, and their keys are unique.
func TestListBounds(t *testing.T) {
	c := newClient(t)
	for name, list := range map[string]struct{ spec, want string }{
		"containers":         {"excludedContainers: [" + numbered(65, "c%d") + "]", "spec.excludedContainers: Too many: 65: must have at most 64 items"},
		"container twice":    {"excludedContainers: [a, a]", `spec.excludedContainers[1]: Duplicate value: "a"`},
		"guardrails":         {"sloGuardrails: [" + numbered(17, `{name: g%d, query: up, threshold: "1", comparison: "<"}`) + "]", "spec.sloGuardrails: Too many: 17: must have at most 16 items"},
		"guardrail twice":    {`sloGuardrails: [{name: a, query: up, threshold: "1", comparison: "<"}, {name: a, query: up, threshold: "1", comparison: "<"}]`, "spec.sloGuardrails[1]: Duplicate value"},
		"windows":            {"updateStrategy: {schedule: {windows: [" + numbered(25, `{start: "01:00", end: "02:%02d"}`) + "]}}", "spec.updateStrategy.schedule.windows: Too many: 25: must have at most 24 items"},
		"day twice":          {"updateStrategy: {schedule: {daysOfWeek: [Monday, Monday]}}", `spec.updateStrategy.schedule.daysOfWeek[1]: Duplicate value: "Monday"`},
		"no kind":            {"targetRef: {name: a}", "spec.targetRef.kind: Required value"},
		"boost without time": {`cpu: {startupBoost: {multiplier: "2"}}`, "spec.cpu.startupBoost.duration: Required value"},
	} {
		t.Run(name, func(t *testing.T) {
			assert.ErrorContains(t, c.Create(t.Context(), policyWith(t, list.spec), client.DryRunAll), list.want)
		})
	}
}

func numbered(n int, format string) string {
	all := make([]string, n)
	for i := range all {
		all[i] = fmt.Sprintf(format, i)
	}
	return strings.Join(all, ", ")
}

// TestMistypedFieldsAreReported: kubectl asks for strict validation, and so do we.
func TestMistypedFieldsAreReported(t *testing.T) {
	c := newClient(t)
	assert.ErrorContains(t, c.Create(t.Context(), policyWith(t, `cpu: {percentil: 95}`), client.DryRunAll), `unknown field "spec.cpu.percentil"`)
	assert.ErrorContains(t, c.Create(t.Context(), object(t, "AttuneDefaults", `weight: 7`), client.DryRunAll), `unknown field "spec.weight"`)
	assert.ErrorContains(t, c.Create(t.Context(), object(t, "AttuneNamespaceDefaults", `targetRef: {kind: Job}`), client.DryRunAll), `unknown field "spec.targetRef"`)
	assert.ErrorContains(t, c.Create(t.Context(), policyWith(t, `costPricing: {currency: EUR}`), client.DryRunAll), `unknown field "spec.costPricing"`)
}

// TestNumbersAsQuantities: YAML makes a number of an unquoted 4.
func TestNumbersAsQuantities(t *testing.T) {
	c := newClient(t)
	u := policyWith(t, `{cpu: {minAllowed: 1, maxAllowed: 4}, memory: {maxAllowed: 1073741824}}`)
	u.SetNamespace(newNamespace(t, c))
	require.NoError(t, c.Create(t.Context(), u))
	p := &v1alpha1.AttunePolicy{}
	require.NoError(t, c.Get(t.Context(), client.ObjectKeyFromObject(u), p))
	assert.Equal(t, "4", p.Spec.CPU.MaxAllowed.String())
	assert.EqualValues(t, 1<<30, p.Spec.Memory.MaxAllowed.Value())
}
