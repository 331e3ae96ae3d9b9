package workload

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/resource"

	"attune.io/attune/api/v1alpha1"
)

// slow are texts that take very long to parse or to compute with.
var slow = []string{
	"1e-90000000", "1e90000000", "1E-2147483647", "100e1999999998", "1e-0000000090000000", "-1e+100", " 1e-90000000", "0." + strings.Repeat("0", 3_000_000) + "1", strings.Repeat("9", 65),
}

// fine are texts that users and API servers write.
var fine = []string{"0", "1", "250m", "64Mi", "1.5Gi", "0.1", "1e3", "1E-9", "1e+18", "12E", "1Ei", "100n", "-1", ".5", "1e99"}

func TestSlowQuantitiesAreNotRead(t *testing.T) {
	for _, text := range slow {
		var b BoundedQuantity
		assert.Error(t, json.Unmarshal([]byte(`"`+text+`"`), &b), short(text))
		for _, document := range []string{
			`{"spec":{"cpu":{"minAllowed":%q}}}`, `{"spec":{"memory":{"MAXALLOWED":%q}}}`, `{"original":[{"name":"app"},{"name":"b","cpuRequest":%q}]}`,
			`{"original":[{"cpuRequeſt":%q}]}`, `{"a":["\\\"",{}],"mo\u0073t" : %q}`, `[{"amount":"1","b":"{"},{"amount":
%q}]`,
		} {
			assert.Error(t, UnmarshalBounded([]byte(fmt.Sprintf(document, text)), &struct{}{}), "%s of %s", document, short(text))
		}
	}
	assert.Error(t, CheckQuantities([]byte(`{"minAllowed":1e-90000000}`)), "a number")
	assert.Error(t, json.Unmarshal([]byte(`1e-90000000`), &BoundedQuantity{}), "a number")
}

// Policies, annotations and templates of other programs are read by one rule: the Go code rejects what the rules of the
// CRDs reject.
func TestSlowQuantitiesAreTheSameEverywhere(t *testing.T) {
	source, err := os.ReadFile("../../api/v1alpha1/settings_types.go")
	require.NoError(t, err)
	patterns, sizes := map[string]int{}, map[string]int{}
	for _, found := range regexp.MustCompile(`string\([a-zA-Z.]+\)\.matches\('(\[eE\][^']*)'\)`).FindAllStringSubmatch(string(source), -1) {
		patterns[found[1]]++
	}
	for _, found := range regexp.MustCompile(`string\([a-zA-Z.]+\)\.size\(\) (?:<=|>) ([0-9]+)`).FindAllStringSubmatch(string(source), -1) {
		sizes[found[1]]++
	}
	require.Len(t, patterns, 1, "one rule")
	require.Equal(t, slices.Collect(maps.Keys(sizes)), []string{"64"}, "one rule")
	exponent := regexp.MustCompile(slices.Collect(maps.Keys(patterns))[0])
	for _, text := range slices.Concat(slow, fine, []string{
		"1e001", "5e-007", "1e099", "1e100", "1E+001", "1e", "1e-", "1e12Mi", "1e1e100", strings.Repeat("9", 64), strings.Repeat("9", 62) + "e1", "1e10 0",
	}) {
		want := len(text) > 64 || exponent.MatchString(text)
		quoted, err := json.Marshal(text)
		require.NoError(t, err)
		assert.Equal(t, want, CheckQuantities(fmt.Appendf(nil, `{"cpu":%s}`, quoted)) != nil, "a policy: %s", short(text))
		_, unreadable := ReadForeign[map[string]any](fmt.Appendf(nil, `{"requests":{"cpu":%s}}`, quoted))
		assert.Equal(t, want, unreadable != "", "a template: %s", short(text))
	}
}

func TestOtherQuantitiesAreRead(t *testing.T) {
	for _, text := range fine {
		var b BoundedQuantity
		require.NoError(t, json.Unmarshal([]byte(`"`+text+`"`), &b), text)
		assert.True(t, b.Equal(resource.MustParse(text)), text)
		assert.NoError(t, CheckQuantities([]byte(fmt.Sprintf(`{"spec":{"cpu":{"minAllowed":%q,"maxAllowed":null}}}`, text))))
	}
	assert.NoError(t, CheckQuantities([]byte(`{"metadata":{"labels":{"commit":"1e90000000"},"generation":7},"spec":{"minAllowed":"1"}}`)), "no quantity")
	assert.NoError(t, CheckQuantities([]byte(`{"matchLabels":{"amount":"premier","most":"the owner decides, or somebody else who is at hand: ask before eight"}}`)), "no numbers")
	assert.Error(t, json.Unmarshal([]byte(`"much"`), &BoundedQuantity{}))
}

// A document that is not JSON is an error: other formats have other rules.
func TestDocumentsThatAreNone(t *testing.T) {
	for _, document := range []string{``, `{`, `{"minAllowed"`, `{"minAllowed":}`, `]`, `{minAllowed: 1e-90000000}`, "minAllowed: 1", strings.Repeat("[", 1<<20), strings.Repeat(`{"a":`, 1<<20)} {
		assert.Error(t, CheckQuantities([]byte(document)), short(document))
	}
	for _, document := range []string{`{}`, `[]`, `null`, `"x"`, `7`, `{"a":[1,{"b":null}],"c":true}`} {
		assert.NoError(t, CheckQuantities([]byte(document)), document)
	}
}

// Every field with a quantity is known, so that a new field is checked too.
func TestEveryQuantityOfTheAPIIsKnown(t *testing.T) {
	found := map[string]bool{}
	seen := map[reflect.Type]bool{}
	var look func(of reflect.Type)
	look = func(of reflect.Type) {
		switch of.Kind() {
		case reflect.Pointer, reflect.Slice, reflect.Map, reflect.Array:
			look(of.Elem())
			return
		case reflect.Struct:
		default:
			return
		}
		if seen[of] || !strings.Contains(of.PkgPath(), "attune") {
			return
		}
		seen[of] = true
		for i := range of.NumField() {
			f := of.Field(i)
			kind := f.Type
			for kind.Kind() == reflect.Pointer || kind.Kind() == reflect.Slice || kind.Kind() == reflect.Map {
				kind = kind.Elem()
			}
			if kind == reflect.TypeFor[resource.Quantity]() {
				assert.NotContains(t, []reflect.Kind{reflect.Slice, reflect.Map}, f.Type.Kind(), "Check does not look into those")
				name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
				found[foldName(name)] = true
			}
			look(f.Type)
		}
	}
	for _, root := range []any{
		v1alpha1.AttunePolicy{}, v1alpha1.AttuneDefaults{}, v1alpha1.AttuneNamespaceDefaults{}, v1alpha1.AttuneRecommendation{}, v1alpha1.Seeded{},
	} {
		look(reflect.TypeOf(root))
	}
	assert.Equal(t, quantityFields, found)
}

func short(text string) string { return text[:min(len(text), 40)] }

func FuzzCheck(f *testing.F) {
	for _, text := range append(slow[:6], fine...) {
		f.Add(fmt.Sprintf(`{"spec":{"cpu":{"minAllowed":%q}}}`, text))
	}
	f.Fuzz(func(t *testing.T, document string) {
		if CheckQuantities([]byte(document)) != nil {
			return
		}
		// An accepted document decodes quickly.
		var p v1alpha1.AttunePolicy
		_ = json.Unmarshal([]byte(document), &p)
	})
}
