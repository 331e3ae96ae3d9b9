package validation

import (
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"attune.io/attune/api/v1alpha1"
)

// The most entries that the schema lets into lists whose entries are judged one by one.
const (
	maxGuardrails = 16
	maxWindows    = 24
)

// bounded refuses what no API server asks about: its schema comes first. Whoever else asks costs no more than it does.
func bounded(settings *v1alpha1.PolicySettings) error {
	if n := len(settings.SLOGuardrails); n > maxGuardrails {
		return fmt.Errorf("sloGuardrails has %d entries: use at most %d", n, maxGuardrails)
	}
	if u := settings.UpdateStrategy; u != nil && u.Schedule != nil && len(u.Schedule.Windows) > maxWindows {
		return fmt.Errorf("updateStrategy.schedule.windows has %d entries: use at most %d", len(u.Schedule.Windows), maxWindows)
	}
	return nil
}

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
