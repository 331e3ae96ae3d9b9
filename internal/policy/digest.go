package policy

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/recommender"
	"attune.io/attune/usage"
)

// Digest identifies the settings on which targets depend. It changes with any of them, and with no other setting:
// not with the mode, the schedule or the level that set a field. The policy loop computes targets again when it
// changes. It is the beginning of a SHA-256 of the settings' JSON, in hexadecimal.
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
