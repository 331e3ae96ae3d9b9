package vpaimport

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"

	"attune.io/attune/internal/clip"
	"attune.io/attune/internal/workload"
)

// word is a text of the VPA's spec. YAML reads a bare Off as false: the API server rejects that, but manifests have it.
type word string

// UnmarshalJSON decodes a word.
func (w *word) UnmarshalJSON(text []byte) error {
	if string(text) == "false" {
		*w = "Off"
		return nil
	}
	return json.Unmarshal(text, (*string)(w))
}

// read decodes the spec. If that fails, a sentence names the field, and the result is false.
func (x *importer) read(spec map[string]any) bool {
	text, err := json.Marshal(spec)
	if err == nil {
		err = json.Unmarshal(text, &x.vpa)
	}
	if err != nil {
		x.note("it is skipped, because it cannot be read: %s", unreadable(spec, err))
		return false
	}
	return true
}

// examples are values of the types of fields.
var examples = map[reflect.Kind]string{
	reflect.String: `a text, e.g. "Off"`,
	reflect.Int64:  "a whole number, e.g. 3",
	reflect.Slice:  "a list, e.g. [cpu]",
	reflect.Struct: "an object with fields",
	reflect.Map:    "an object, e.g. {memory: 1Gi}",
}

// unreadable returns what is wrong with a spec that could not be decoded.
func unreadable(spec map[string]any, err error) string {
	if wrong := wrongBound(spec); wrong != "" {
		return wrong
	}
	var of *json.UnmarshalTypeError
	if errors.As(err, &of) && examples[of.Type.Kind()] != "" {
		if of.Field == "" {
			of.Field = "spec"
		}
		return fmt.Sprintf("%s is of type %s. Write %s", of.Field, of.Value, examples[of.Type.Kind()])
	}
	return clip.Text(err.Error(), workload.MostForeignText)
}

// wrongBound names the first bound that is no quantity; empty: there is none.
func wrongBound(spec map[string]any) string {
	in, _ := spec["resourcePolicy"].(map[string]any)
	policies, _ := in["containerPolicies"].([]any)
	for i, p := range policies {
		of, _ := p.(map[string]any)
		for _, field := range []string{"minAllowed", "maxAllowed"} {
			bounds, _ := of[field].(map[string]any)
			for _, name := range slices.Sorted(maps.Keys(bounds)) {
				text, _ := json.Marshal(bounds[name]) // it was decoded from JSON
				if new(workload.BoundedQuantity).UnmarshalJSON(text) != nil {
					return fmt.Sprintf("resourcePolicy.containerPolicies[%d].%s has %s for %s. Write a quantity, e.g. 250m or 512Mi", i, field, shown(string(text)), shown(name))
				}
			}
		}
	}
	return ""
}

// bare notes modes that are Off without quotes.
func (x *importer) bare(spec map[string]any) {
	const why = "%s: Off without quotes is the boolean false, which the API server rejects. It is imported as Off"
	if update, _ := spec["updatePolicy"].(map[string]any); update["updateMode"] == false {
		x.note(why, "updatePolicy.updateMode")
	}
	in, _ := spec["resourcePolicy"].(map[string]any)
	policies, _ := in["containerPolicies"].([]any)
	for i, p := range policies {
		if of, _ := p.(map[string]any); of["mode"] == false {
			x.note(why, fmt.Sprintf("resourcePolicy.containerPolicies[%d].mode", i))
		}
	}
}
