package policy

import (
	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/event"
	"attune.io/attune/internal/policy"
)

// invalidConfig is the event about a field that cannot be used, of the policy or of a level beneath it.
func invalidConfig(cause *policy.InvalidConfig) event.Event { return unusable(cause.Error()) }

// unusable is the event about a policy that cannot be used for that reason.
func unusable(why string) event.Event {
	return event.Warning(v1alpha1.EventInvalidConfig, "%s", why)
}
