package validation

import (
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"attune.io/attune/api/v1alpha1"
)

// maxGuardrails and maxWindows bound lists whose entries are checked one by one. They are the bounds of the CRDs'
// schema.
const (
	maxGuardrails = 16
	maxWindows    = 24
)

// bounded refuses lists that are longer than the schema allows. The API server applies its schema before it calls
// the webhook, so only another caller sends such an object; it must not cost more than an API server does.
func bounded(settings *v1alpha1.PolicySettings) error {
	if n := len(settings.SLOGuardrails); n > maxGuardrails {
		return fmt.Errorf("sloGuardrails has %d entries: use at most %d", n, maxGuardrails)
	}
	if u := settings.UpdateStrategy; u != nil && u.Schedule != nil && len(u.Schedule.Windows) > maxWindows {
		return fmt.Errorf("updateStrategy.schedule.windows has %d entries: use at most %d", len(u.Schedule.Windows), maxWindows)
	}
	return nil
}

// settingsOf returns the settings of an object; those of an unknown type are empty.
func settingsOf(object client.Object) *v1alpha1.PolicySettings {
	switch o := object.(type) {
	case *v1alpha1.AttunePolicy:
		return &o.Spec.PolicySettings
	case *v1alpha1.AttuneDefaults:
		return &o.Spec.PolicySettings
	case *v1alpha1.AttuneNamespaceDefaults:
		return &o.Spec.PolicySettings
	}
	return &v1alpha1.PolicySettings{}
}
