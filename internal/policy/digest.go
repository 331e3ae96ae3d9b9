package policy

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/recommender"
	"attune.io/attune/usage"
)

// Digest changes with any setting that the targets depend on, and with no other: not with the mode,
// the schedule or the level that set a field.
func (s Settings) Digest() string {
	text, err := json.Marshal(struct {
		Recommender recommender.Settings
		Source      usage.SourceSettings
		Strategy    v1alpha1.Strategy
		Risk        v1alpha1.Risk
		Excluded    map[string]bool
	}{s.Recommender, s.Source, s.Strategy, s.Risk, s.Resize.Excluded})
	if err != nil {
		panic("policy: settings that hold only numbers and strings cannot be written as JSON: " + err.Error())
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:8])
}
