package policy

import (
	"fmt"
	"strings"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/workload"
)

// notSized is a clause about a kind that the operator does not size: it was not installed when the operator started, or
// its owner does not add it. Empty: it is sized, or no kind.
func notSized(sized workload.Sized, kind v1alpha1.WorkloadKind) string {
	if kind == "" || sized.Has(kind) {
		return ""
	}
	if !workload.IsScaled(kind) {
		return fmt.Sprintf("; the API server does not serve %s: the operator looks again every few minutes", workload.GroupKindOf(kind))
	}
	said := "; the operator does not size this kind: the chart's value scaledKinds adds kinds, as RESOURCE.VERSION.GROUP"
	if len(sized.Scaled) > 0 {
		names := make([]string, len(sized.Scaled))
		for i, of := range sized.Scaled {
			names[i] = of.GroupKind().String()
		}
		said += ", and those that it sizes are " + strings.Join(names, ", ")
	}
	for _, left := range sized.Left {
		if left.Group == workload.GroupKindOf(kind).Group {
			said += fmt.Sprintf("; of %s, which is added, the operator says: %s", left.Resource, left.Why)
		}
	}
	return said
}
