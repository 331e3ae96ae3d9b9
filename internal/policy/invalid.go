package policy

import (
	"fmt"
	"slices"
	"strings"

	"attune.io/attune/internal/clip"
	"attune.io/attune/podview"
)

// InvalidConfig is the error of Resolve: the settings are invalid, and no resize may start until a user changes a
// field. Problems is never empty. For each combination of levels it has the first MostProblems, and one more if there
// are more.
type InvalidConfig struct{ Problems []Problem }

// Limits of messages about settings: an object may not have passed the API server's schema.
const (
	// MostProblems is the number of problems in one message.
	MostProblems = 20
	// mostOfMessage is the size limit of a message, in bytes.
	mostOfMessage = 4 << 10
	// mostOfSentence is the size limit of one sentence, mostQuoted the limit of each value in it, in bytes.
	mostOfSentence = 1 << 10
	mostQuoted     = 100
)

// Problem is one error in the settings.
type Problem struct {
	// Fields are the paths in the spec that conflict, the first one as the main cause. It is never empty.
	Fields []string
	// Levels are the levels that set those fields, in the same order.
	Levels []Level
	// Sentence names the field, its value, and an accepted value.
	Sentence string
}

// Error joins the sentences of the problems (Summary).
func (e *InvalidConfig) Error() string {
	message, _ := Summary(e.Problems)
	return message
}

// Summary joins the sentences of problems and returns the problems that it names: at most MostProblems, and as many as
// fit into 4 KiB. The message says if there are more.
func Summary(problems []Problem) (message string, named []Problem) {
	const between, more = "; ", "; and more"
	var b strings.Builder
	for i, p := range problems {
		if i == MostProblems || b.Len()+len(between)+len(p.Sentence)+len(more) > mostOfMessage {
			return b.String() + more, problems[:i]
		}
		if i > 0 {
			b.WriteString(between)
		}
		b.WriteString(p.Sentence)
	}
	return b.String(), problems
}

// invalid adds a problem with one field.
func (o *overlay) invalid(field, format string, args ...any) {
	o.clash([]string{field}, format, args...)
}

// clash adds a problem between fields. pick has recorded their levels, so read the fields first.
func (o *overlay) clash(fields []string, format string, args ...any) {
	levels := podview.Map(fields, func(field string) Level { return o.origin[field] })
	addProblem(o, Problem{Fields: fields, Levels: levels, Sentence: fmt.Sprintf(format, args...)})
}

// addProblem adds a problem, within the limits of InvalidConfig.
func addProblem(o *overlay, problem Problem) {
	o.found++
	// Count by levels: the problems of one object must not hide those of another.
	same := slices.DeleteFunc(slices.Clone(o.problems), func(p Problem) bool { return !slices.Equal(p.Levels, problem.Levels) })
	if len(same) <= MostProblems { // one more, so that the message can say that there are more
		problem.Sentence = clip.Marked(problem.Sentence, mostOfSentence)
		o.problems = append(o.problems, problem)
	}
}

// quote returns the first mostQuoted bytes of a field's value for a message, with its level unless the policy itself
// sets it. Values of other levels' sources and guardrails are left out: any client that reaches the webhook, and any user
// who reads the policy, gets the message.
func (o *overlay) quote(path string, value any) string {
	level := o.origin[path]
	if private(path) && !o.owns(level) {
		return "(" + levelNames[level.base()] + ")"
	}
	text := fmt.Sprint(value)
	if s, ok := value.(fmt.Stringer); ok {
		text = s.String()
	}
	if text = clip.Marked(text, mostQuoted); text == "" {
		text = `""`
	}
	if !level.OfPolicy() {
		return fmt.Sprintf("%s (%s)", text, levelNames[level.base()])
	}
	return text
}

// private reports whether a field may contain addresses, names of Secrets, headers or queries.
func private(path string) bool {
	return strings.HasPrefix(path, "metricsSource.prometheus.") || path == "metricsSource.labels" || path == "sloGuardrails"
}

// owns reports whether the resolved object itself, the highest layer, is of this level.
func (o *overlay) owns(level Level) bool {
	return len(o.layers) > 0 && o.layers[len(o.layers)-1].level == level
}

// levelNames are the levels as messages name them.
var levelNames = map[Level]string{
	BuiltIn:   "built-in",
	Cluster:   "from the AttuneDefaults",
	Namespace: "from the AttuneNamespaceDefaults",
}

// join formats a list as text: a, b or c.
func join[T any](values []T) string {
	words := podview.Map(values, func(v T) string { return fmt.Sprint(v) })
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	last := len(words) - 1
	return strings.Join(words[:last], ", ") + " or " + words[last]
}
