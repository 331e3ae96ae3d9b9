package policy

import (
	"errors"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/clip"
	"attune.io/attune/internal/workload"
	"attune.io/attune/recommender"
)

// checkCombinations checks rules about two or more fields on the merged settings, because the fields may come from
// different levels. It changes no setting: it only reports invalid combinations.
func (o *overlay) checkCombinations(s Settings) {
	for _, r := range recommender.Resources {
		o.checkBounds(s.Recommender.Of[r], r)
	}
	checkLimits(o, s)
	o.checkWindows(s)
	o.checkModes(s)
	checkPromotion(o, s)
}

// checkPromotion rejects mode Auto with autoPromote: false in the same object: its author expects attune to wait. In
// different objects it is a remark, because defaults are for policies of other modes too.
func checkPromotion(o *overlay, s Settings) {
	const mode, promote = "updateStrategy.type", "updateStrategy.canary.autoPromote"
	if s.Resize.Mode == v1alpha1.UpdateAuto && !s.Resize.AutoPromote && o.origin[mode] == o.origin[promote] {
		o.clash([]string{promote, mode}, "%s %s has no effect with %s %s, which continues after the first wave by itself: use %s and kubectl attune promote, or remove canary.autoPromote",
			promote, o.quote(promote, false), mode, o.quote(mode, s.Resize.Mode), v1alpha1.UpdateCanary)
	}
}

// checkBounds rejects a minimum above the maximum of a resource. MaxAllowed 0 means no maximum. The message quotes the
// amounts as the users wrote them.
func (o *overlay) checkBounds(s recommender.ResourceSettings, r recommender.Resource) {
	if s.MaxAllowed == 0 || s.MinAllowed <= s.MaxAllowed {
		return
	}
	least, most := r.String()+".minAllowed", r.String()+".maxAllowed"
	minimum := pick(o, least, resource.Quantity{}, func(l *layer) *resource.Quantity { return l.of(r).MinAllowed })
	maximum := pick(o, most, resource.Quantity{}, func(l *layer) *resource.Quantity { return l.of(r).MaxAllowed })
	o.clash([]string{least, most}, "%s %s must be less than or equal to %s %s: set %s to %s or less",
		least, o.quote(least, minimum.String()), most, o.quote(most, maximum.String()), least, maximum.String())
}

// checkWindows rejects a rate window longer than the history, and a number of data points that the history cannot have:
// the workload would wait for its first target for ever.
func (o *overlay) checkWindows(s Settings) {
	const window, rate, points, step = "metricsSource.historyWindow", "metricsSource.rateWindow", "metricsSource.minimumDataPoints", "metricsSource.queryStep"
	if s.Source.RateWindow > s.Source.HistoryWindow {
		o.clash([]string{rate, window}, "%s %s must be less than or equal to %s %s: set %s to %s",
			rate, o.quote(rate, short(s.Source.RateWindow)), window, o.quote(window, short(s.Source.HistoryWindow)), rate, short(max(s.Source.QueryStep, minRateWindow)))
	}
	if held := stepsIn(s.Source); s.Recommender.MinimumDataPoints > held {
		o.clash([]string{points, window, step}, "%s %s can never be reached: %s %s has only %d samples with %s %s; set %s to %d or less",
			points, o.quote(points, s.Recommender.MinimumDataPoints), window, o.quote(window, short(s.Source.HistoryWindow)),
			held, step, o.quote(step, short(s.Source.QueryStep)), points, held)
	}
}

// nodeModes are the modes of strategy Node. It sizes a pod by its node, so it has no first wave and no canary pod.
var nodeModes = []v1alpha1.UpdateType{v1alpha1.UpdateObserve, v1alpha1.UpdateRecommend, v1alpha1.UpdateInitial, v1alpha1.UpdateAuto}

// checkModes rejects modes that strategy Node does not support, and a boost that attune cannot revert: mode Initial
// never changes a running pod, and strategy Node lowers a pod to its share as soon as it sees the pod.
func (o *overlay) checkModes(s Settings) {
	const mode, strategy, boost = "updateStrategy.type", "strategy", "cpu.startupBoost"
	byNode := s.Strategy == v1alpha1.StrategyNode
	if byNode && !slices.Contains(nodeModes, s.Resize.Mode) {
		o.clash([]string{mode, strategy}, "%s %s is not supported with %s %s: use %s, or strategy Workload",
			mode, o.quote(mode, s.Resize.Mode), strategy, o.quote(strategy, s.Strategy), join(nodeModes))
	}
	if s.StartupBoost == nil {
		return
	}
	boosts := o.quote(boost, plain(s.StartupBoost.Multiplier)+" times for "+short(s.StartupBoost.Duration))
	if s.Resize.Mode == v1alpha1.UpdateInitial {
		o.clash([]string{boost, mode}, `%s %s cannot be removed with %s %s, which never changes a running pod: use Canary or Auto, or set %s.multiplier to "1"`,
			boost, boosts, mode, o.quote(mode, s.Resize.Mode), boost)
	}
	if byNode {
		o.clash([]string{boost, strategy}, `%s %s is not supported with %s %s, which gives a new pod its peak usage and later its share: set %s.multiplier to "1", or use strategy %s`,
			boost, boosts, strategy, o.quote(strategy, s.Strategy), boost, v1alpha1.StrategyWorkload)
	}
}

// checkTarget reports a targetRef that selects nothing.
func (o *overlay) checkTarget() {
	for _, l := range o.layers {
		if l.target == nil {
			continue
		}
		o.origin["targetRef"] = l.level
		if _, err := targetOf(*l.target, l.level.ofCluster()); err != nil {
			o.invalid("targetRef", "%s", err)
		}
	}
}

// targetOf returns the selector of a targetRef; labels.Everything if it has no selector. An error is one sentence about
// the problem. It rejects an empty selector: in Kubernetes it selects everything, which is probably a mistake. anyKind
// allows an empty kind.
func targetOf(ref v1alpha1.TargetRef, anyKind bool) (labels.Selector, error) {
	if !slices.Contains(workload.Kinds, ref.Kind) && !workload.IsScaled(ref.Kind) && (ref.Kind != "" || !anyKind) {
		return nil, fmt.Errorf("targetRef.kind %q is not one of %s, nor KIND.GROUP of another kind, such as CloneSet.apps.kruise.io", clip.Marked(string(ref.Kind), mostQuoted), join(workload.Kinds))
	}
	if ref.Name != "" && ref.Selector != nil {
		return nil, errors.New("targetRef must not have both name and selector: remove one of them")
	}
	return selectorOf("targetRef.selector", ref.Selector, "target every workload of the kind", "{tier: api}")
}

// selectorOf reads the selector of a field; nil selects everything. without says, for messages, what leaving out the
// field does.
func selectorOf(field string, s *metav1.LabelSelector, without, example string) (labels.Selector, error) {
	switch {
	case s == nil:
		return labels.Everything(), nil
	case len(s.MatchLabels) == 0 && len(s.MatchExpressions) == 0:
		return nil, fmt.Errorf("%s {} is empty: leave it out to %s, or set matchLabels, e.g. %s", field, without, example)
	case clip.GreatSelector(s):
		return nil, fmt.Errorf("%s is larger than 16 KiB: use fewer labels, e.g. %s", field, example)
	}
	selector, err := metav1.LabelSelectorAsSelector(s)
	if err != nil {
		return nil, fmt.Errorf("%s is invalid (%s): use matchLabels, e.g. %s", field, clip.Marked(err.Error(), 4*mostQuoted), example)
	}
	return selector, nil
}
