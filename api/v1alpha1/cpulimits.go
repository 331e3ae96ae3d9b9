package v1alpha1

import (
	"encoding/json"
	"strings"
)

// UnmarshalJSON stores the value. It never returns an error.
func (l *CPULimits) UnmarshalJSON(text []byte) error {
	l.JSON = string(text[:min(len(text), MaxCPULimits)])
	if len(text) > MaxCPULimits { // no longer JSON: written as text
		l.JSON = strings.ToValidUTF8(l.JSON, "")
	}
	return nil
}

// MarshalJSON returns the value as it was written, or what is left of it as a string.
func (l CPULimits) MarshalJSON() ([]byte, error) {
	if json.Valid([]byte(l.JSON)) {
		return []byte(l.JSON), nil
	}
	return json.Marshal(l.JSON)
}
