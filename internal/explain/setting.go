package explain

import (
	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/policy"
)

// Setting is one field of the settings by which a workload is sized.
type Setting struct {
	// Field is its path in the spec of a policy, such as cpu.percentile.
	Field string `json:"field"`
	// Value as an object has it; empty: none.
	Value string `json:"value"`
	// SetBy names the object that sets it, such as AttunePolicy web, or is built-in.
	SetBy   string `json:"setBy"`
	builtIn bool
}

// SettingsOf are the settings of a recommendation's policy: first those that an object sets, then those built-in ones
// that have a value.
func SettingsOf(fields []policy.Field, rec *v1alpha1.AttuneRecommendation) []Setting {
	var settings []Setting
	for _, builtIn := range []bool{false, true} {
		for _, f := range fields {
			if (f.Level == policy.BuiltIn) == builtIn && (!builtIn || f.Value != "") {
				settings = append(settings, Setting{f.Path, f.Value, f.Level.Object(rec.Spec.Policy, rec.Namespace), builtIn})
			}
		}
	}
	return settings
}
