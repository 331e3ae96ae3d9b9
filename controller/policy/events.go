package policy

import (
	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/event"
	"attune.io/attune/internal/policy"
)

// invalidConfig: a field of the policy, or of what it rests on, cannot be used.
func invalidConfig(cause *policy.InvalidConfig) event.Event {
	return event.Warning(v1alpha1.EventInvalidConfig, "%s", cause.Error())
}
