package wizard

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/cmd/kubectl-attune/input"
)

// question is answered by a line, or in advance by a flag with the same syntax.
type question struct {
	// flag is the name of the flag. It also identifies the question.
	flag string
	// asks is the question; %s in it is the namespace.
	asks string
	// usual is the answer of an empty line.
	usual string
	// options can be chosen by name or number. Without options the answer is free text, and hint describes its
	// syntax.
	options []option
	hint    string
	// set writes a valid answer into the spec.
	set func(spec *v1alpha1.AttunePolicySpec, answer string) error
}

// option is one answer and its meaning.
type option struct{ name, means string }

// questions are in their order. The usual answers are the built-in settings.
var questions = []question{
	{
		flag: "workloads", asks: "Which workloads of namespace %s? (-n chooses another namespace)", usual: "deployment",
		hint: "KIND, KIND/NAME or KIND,LABELS: deployment, statefulset/db, deployment,tier=api", set: setTarget,
	},
	{
		flag: "mode", asks: "What may attune do with them?", usual: string(v1alpha1.UpdateRecommend), set: setMode,
		options: []option{
			{string(v1alpha1.UpdateObserve), "nothing; show how much usage data exists"},
			{string(v1alpha1.UpdateRecommend), "nothing; compute and explain recommendations"},
			{string(v1alpha1.UpdateInitial), "size new pods, never resize running pods"},
			{string(v1alpha1.UpdateOneShot), "resize running pods, one at a time"},
			{string(v1alpha1.UpdateCanary), "size new pods, and resize running pods after a canary"},
			{string(v1alpha1.UpdateAuto), "as Canary, and always continue after the canary"},
		},
	},
	{
		flag: "strategy", asks: "How are recommendations computed?", usual: string(v1alpha1.StrategyWorkload), set: setStrategy,
		options: []option{
			{string(v1alpha1.StrategyWorkload), "one for all replicas: percentile plus margin"},
			{"Adaptive-Low", "calibrated on each container's own history, low risk of shortage"},
			{"Adaptive-Medium", "the same, medium risk"},
			{"Adaptive-High", "the same, high risk"},
			{string(v1alpha1.StrategyNode), "per pod: base demand plus a share of the node's capacity for peaks"},
		},
	},
	{
		flag: "resizes", asks: "How are running pods resized (modes OneShot, Canary, Auto)?", usual: inPlace, set: setResizes,
		options: []option{
			{inPlace, "without a restart, 10 % of a workload's pods at a time"},
			{oneByOne, "without a restart, one pod of a workload at a time"},
			{orRecreate, "pods that do not fit their node are evicted, if PodDisruptionBudgets allow it"},
		},
	},
}

// Answers of the last question.
const (
	inPlace    = "InPlace"
	oneByOne   = "OneByOne"
	orRecreate = "OrRecreate"
)

// applyAnswer parses an answer and writes it into the spec. An empty answer means the usual one.
func (q *question) applyAnswer(spec *v1alpha1.AttunePolicySpec, answer string) error {
	answer = cmp.Or(strings.TrimSpace(answer), q.usual)
	if len(q.options) == 0 {
		return q.set(spec, answer)
	}
	at := slices.IndexFunc(q.options, func(o option) bool { return strings.EqualFold(o.name, answer) })
	if n, err := strconv.Atoi(answer); err == nil && 1 <= n && n <= len(q.options) {
		at = n - 1
	}
	if at < 0 {
		return fmt.Errorf("%q is not one of %s", answer, q.names())
	}
	return q.set(spec, q.options[at].name)
}

// optionNames returns the names of the options; empty if the answer is free text.
func (q *question) optionNames() []string {
	names := make([]string, len(q.options))
	for i, o := range q.options {
		names[i] = o.name
	}
	return names
}

// names lists the options for sentences.
func (q *question) names() string {
	names := q.optionNames()
	last := len(names) - 1
	return strings.Join(names[:last], ", ") + " or " + names[last]
}

// text returns the question as it is printed.
func (q *question) text(number int, namespace string) string {
	asks := q.asks
	if strings.Contains(asks, "%s") {
		asks = fmt.Sprintf(asks, namespace)
	}
	lines := []string{fmt.Sprintf("%d/%d  %s", number, len(questions), asks)}
	if q.hint != "" {
		lines = append(lines, "     "+q.hint)
	}
	for i, o := range q.options {
		lines = append(lines, fmt.Sprintf("     %d %-15s %s", i+1, o.name, o.means))
	}
	return strings.Join(lines, "\n") + fmt.Sprintf("\n     [%s] ", q.usual)
}

func setTarget(spec *v1alpha1.AttunePolicySpec, answer string) error {
	spelled, labels, labelled := strings.Cut(answer, ",")
	if strings.Contains(spelled, "/") {
		if labelled {
			return fmt.Errorf("%q has a name and labels: write KIND/NAME or KIND,LABELS", answer)
		}
		id, err := input.ParseWorkload(spelled, "")
		if err != nil {
			return err
		}
		if _, known := input.KindNames[id.Kind]; !known {
			return fmt.Errorf("%q: the wizard supports only kinds of Kubernetes and Rollouts; for other kinds, write the policy with targetRef.kind KIND.GROUP, e.g. CloneSet.apps.kruise.io", spelled)
		}
		spec.TargetRef = v1alpha1.TargetRef{Kind: id.Kind, Name: id.Name}
		return nil
	}
	kind, known := input.KindNamed(spelled)
	if !known {
		return fmt.Errorf("%q is not a kind that attune manages: use %s", spelled, input.SizedKinds)
	}
	spec.TargetRef = v1alpha1.TargetRef{Kind: kind}
	if !labelled {
		return nil
	}
	selector, err := metav1.ParseToLabelSelector(labels)
	if err != nil || len(selector.MatchLabels)+len(selector.MatchExpressions) == 0 {
		return fmt.Errorf("%q is not a valid label selector: write e.g. deployment,tier=api", labels)
	}
	spec.TargetRef.Selector = selector
	return nil
}

func setMode(spec *v1alpha1.AttunePolicySpec, answer string) error {
	input.Made(&spec.UpdateStrategy).Type = new(v1alpha1.UpdateType(answer))
	return nil
}

func setStrategy(spec *v1alpha1.AttunePolicySpec, answer string) error {
	name, risk, _ := strings.Cut(answer, "-")
	spec.Strategy, spec.Adaptive = new(v1alpha1.Strategy(name)), nil
	if risk != "" {
		spec.Adaptive = &v1alpha1.AdaptiveSettings{Risk: new(v1alpha1.Risk(risk))}
	}
	return nil
}

func setResizes(spec *v1alpha1.AttunePolicySpec, answer string) error {
	how := input.Made(&spec.UpdateStrategy)
	how.MaxConcurrentResizes, how.ResizeMethod = nil, new(v1alpha1.ResizeInPlaceOnly)
	switch answer {
	case oneByOne:
		how.MaxConcurrentResizes = new(intstr.FromInt32(1))
	case orRecreate:
		how.ResizeMethod = new(v1alpha1.ResizeInPlaceOrRecreate)
	}
	return nil
}
