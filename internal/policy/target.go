package policy

import (
	"errors"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/trim"
)

// kinds are those that a policy may select.
var kinds = []v1alpha1.WorkloadKind{v1alpha1.KindDeployment, v1alpha1.KindStatefulSet, v1alpha1.KindDaemonSet,
	v1alpha1.KindReplicaSet, v1alpha1.KindJob, v1alpha1.KindCronJob}

// checkTarget reports a targetRef that can select nothing.
func (o *overlay) checkTarget() {
	for _, l := range o.layers {
		if l.target == nil {
			continue
		}
		o.origin["targetRef"] = Policy
		if _, err := targetOf(*l.target); err != nil {
			o.invalid("targetRef", "%s", err)
		}
	}
}

// targetOf returns the selector of a targetRef; labels.Everything where it has none. An error is one sentence
// about what is wrong. An empty selector is refused: in Kubernetes it would select everything, which is more
// likely a mistake.
func targetOf(ref v1alpha1.TargetRef) (labels.Selector, error) {
	switch {
	case !slices.Contains(kinds, ref.Kind):
		return nil, fmt.Errorf("targetRef.kind %q is not one of %s", ref.Kind, join(kinds))
	case ref.Name != "" && ref.Selector != nil:
		return nil, errors.New("targetRef takes at most one of name and selector: leave out either")
	case ref.Selector == nil:
		return labels.Everything(), nil
	case len(ref.Selector.MatchLabels) == 0 && len(ref.Selector.MatchExpressions) == 0:
		return nil, errors.New("targetRef.selector {} is empty: leave it out to target every workload of the kind, or set matchLabels, e.g. {tier: api}")
	}
	if trim.GreatSelector(ref.Selector) {
		return nil, errors.New("targetRef.selector is larger than 16 KiB: use fewer labels, e.g. {tier: api}")
	}
	selector, err := metav1.LabelSelectorAsSelector(ref.Selector)
	if err != nil {
		return nil, fmt.Errorf("targetRef.selector cannot be read (%w): use matchLabels, e.g. {tier: api}", err)
	}
	return selector, nil
}
