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

// combination holds the rules about two or more fields. They are checked on the merged settings, because the
// fields may come from different levels.
type combination struct {
	*overlay
	Settings
}

// check applies all rules. It changes no setting: a combination that is wrong is only reported.
func (o combination) check() {
	for _, r := range recommender.Resources {
		o.checkBounds(r)
	}
	o.checkWindows()
	o.checkNodeMode()
	o.checkBoostMode()
	o.checkNodeBoost()
}

// checkBounds refuses a minimum above the maximum of a resource. MaxAllowed 0 is no bound.
func (o combination) checkBounds(r recommender.Resource) {
	s := o.Recommender.Of[r]
	least, most := r.String()+".minAllowed", r.String()+".maxAllowed"
	if s.MaxAllowed == 0 || s.MinAllowed <= s.MaxAllowed {
		return
	}
	o.clash([]string{least, most}, "%s %s must be less than or equal to %s %s: set %s to %s or less",
		least, o.quote(least, o.quantity(least)), most, o.quote(most, o.quantity(most)), least, o.quantity(most))
}

// quantity is the text of a bound as its author wrote it.
func (o combination) quantity(path string) string {
	field := map[string]func(layer) *resource.Quantity{
		"cpu.minAllowed":    func(l layer) *resource.Quantity { return l.CPU.MinAllowed },
		"cpu.maxAllowed":    func(l layer) *resource.Quantity { return l.CPU.MaxAllowed },
		"memory.minAllowed": func(l layer) *resource.Quantity { return l.Memory.MinAllowed },
		"memory.maxAllowed": func(l layer) *resource.Quantity { return l.Memory.MaxAllowed },
	}[path]
	value := pick(o.overlay, path, resource.Quantity{}, field)
	return value.String()
}

// checkWindows refuses a rate window longer than the history, and a number of data points that the history cannot
// have: the workload would wait for its first target for ever.
func (o combination) checkWindows() {
	const window, rate, points, step = "metricsSource.historyWindow", "metricsSource.rateWindow", "metricsSource.minimumDataPoints", "metricsSource.queryStep"
	if o.Source.RateWindow > o.Source.HistoryWindow {
		o.clash([]string{rate, window}, "%s %s must be less than or equal to %s %s: set %s to %s",
			rate, o.quote(rate, short(o.Source.RateWindow)), window, o.quote(window, short(o.Source.HistoryWindow)), rate, short(max(o.Source.QueryStep, minRateWindow)))
	}
	if held := stepsIn(o.Source); o.Recommender.MinimumDataPoints > held {
		o.clash([]string{points, window, step}, "%s %s can never be reached: %s %s holds %d steps of %s %s; set %s to %d or less",
			points, o.quote(points, o.Recommender.MinimumDataPoints), window, o.quote(window, short(o.Source.HistoryWindow)),
			held, step, o.quote(step, short(o.Source.QueryStep)), points, held)
	}
}

// nodeModes are the modes of the strategy Node. It sizes a pod by its node, so there is no first wave and no
// single pod to try a size on.
var nodeModes = []v1alpha1.UpdateType{v1alpha1.UpdateObserve, v1alpha1.UpdateRecommend, v1alpha1.UpdateInitial, v1alpha1.UpdateAuto}

// checkNodeMode refuses modes that the strategy Node does not know.
func (o combination) checkNodeMode() {
	if o.Strategy != v1alpha1.StrategyNode || slices.Contains(nodeModes, o.Resize.Mode) {
		return
	}
	const mode, strategy = "updateStrategy.type", "strategy"
	o.clash([]string{mode, strategy}, "%s %s does not go with %s %s: use %s, or strategy Workload",
		mode, o.quote(mode, o.Resize.Mode), strategy, o.quote(strategy, o.Strategy), join(nodeModes))
}

// checkBoostMode refuses a boost in mode Initial, which never changes a running pod and so could not take the
// boost back.
func (o combination) checkBoostMode() {
	if o.StartupBoost == nil || o.Resize.Mode != v1alpha1.UpdateInitial {
		return
	}
	const boost, mode = "cpu.startupBoost", "updateStrategy.type"
	o.clash([]string{boost, mode}, `%s %s cannot be taken back with %s %s, which never touches a running pod: use Canary or Auto, or set %s.multiplier to "1"`,
		boost, o.quote(boost, plain(o.StartupBoost.Multiplier)+" times for "+short(o.StartupBoost.Duration)), mode, o.quote(mode, o.Resize.Mode), boost)
}

// checkNodeBoost refuses a boost with the strategy Node, which lowers a pod to its share as soon as it sees the
// pod.
func (o combination) checkNodeBoost() {
	if o.StartupBoost == nil || o.Strategy != v1alpha1.StrategyNode {
		return
	}
	const boost, strategy = "cpu.startupBoost", "strategy"
	o.clash([]string{boost, strategy}, `%s %s does not go with %s %s, which gives a new pod its peak of a day and then its share: set %s.multiplier to "1", or use strategy %s`,
		boost, o.quote(boost, plain(o.StartupBoost.Multiplier)+" times for "+short(o.StartupBoost.Duration)), strategy, o.quote(strategy, o.Strategy), boost, v1alpha1.StrategyWorkload)
}

// checkTarget reports a targetRef that can select nothing.
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

// targetOf returns the selector of a targetRef; labels.Everything where it has none. An error is one sentence
// about what is wrong. An empty selector is refused: in Kubernetes it would select everything, which is more
// likely a mistake. anyKind allows that it names no kind.
func targetOf(ref v1alpha1.TargetRef, anyKind bool) (labels.Selector, error) {
	if !slices.Contains(workload.Kinds, ref.Kind) && !workload.IsScaled(ref.Kind) && (ref.Kind != "" || !anyKind) {
		return nil, fmt.Errorf("targetRef.kind %q is not one of %s, nor KIND.GROUP of another kind, such as CloneSet.apps.kruise.io", clip.Marked(string(ref.Kind), mostQuoted), join(workload.Kinds))
	}
	if ref.Name != "" && ref.Selector != nil {
		return nil, errors.New("targetRef takes at most one of name and selector: leave out either")
	}
	return selectorOf("targetRef.selector", ref.Selector, "target every workload of the kind", "{tier: api}")
}

// selectorOf reads the selector of a field; nil selects everything. Without the field, it would do what without says.
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
		return nil, fmt.Errorf("%s cannot be read (%s): use matchLabels, e.g. %s", field, clip.Marked(err.Error(), 4*mostQuoted), example)
	}
	return selector, nil
}
