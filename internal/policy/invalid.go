package policy

import (
	"fmt"
	"slices"
	"strings"

	"attune.io/attune/internal/clip"
)

// InvalidConfig is the error of Resolve: settings that cannot be applied. Until one of the fields is changed,
// nothing new may be started with them. Problems is never empty; of those in which the same levels take part it has the
// first MostProblems, and one more where there are more.
type InvalidConfig struct{ Problems []Problem }

// What messages about settings are bounded by: an object need not have been through the API server's schema.
const (
	// MostProblems are reported at once.
	MostProblems = 20
	// mostOfMessage is how many bytes the sentences of one message have together.
	mostOfMessage = 4 << 10
	// mostOfSentence is how many bytes one sentence has, mostQuoted each value in it.
	mostOfSentence = 1 << 10
	mostQuoted     = 100
)

// Problem is one thing that is wrong with the settings.
type Problem struct {
	// Fields are the paths in the spec that take part; the first one is blamed. Never empty.
	Fields []string
	// Levels are the levels that set those fields, in the same order.
	Levels []Level
	// Sentence names the field, its value, and a value that would be accepted.
	Sentence string
}

// Error joins the sentences of the problems (Summary).
func (e *InvalidConfig) Error() string {
	message, _ := Summary(e.Problems)
	return message
}

// Summary joins the sentences of problems, and returns the problems that it names: the first MostProblems at most, and as
// many as fit into 4 KiB. It says so where there are more.
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

// clash adds a problem between fields. Their levels are those that pick noted, so the fields have to be read
// first.
func (o *overlay) clash(fields []string, format string, args ...any) {
	levels := make([]Level, len(fields))
	for i, field := range fields {
		levels[i] = o.origin[field]
	}
	o.found++
	// Counted by levels: those of one object must not hide those of another.
	same := 0
	for _, p := range o.problems {
		if slices.Equal(p.Levels, levels) {
			same++
		}
	}
	if same <= MostProblems { // one more, so that a message can say that there are more
		o.problems = append(o.problems, Problem{Fields: fields, Levels: levels, Sentence: clip.Marked(fmt.Sprintf(format, args...), mostOfSentence)})
	}
}

// quote writes the first mostQuoted bytes of a field's value for a message, with the level that set it unless that is the
// policy itself.
func (o *overlay) quote(path string, value any) string {
	text := fmt.Sprint(value)
	if s, ok := value.(fmt.Stringer); ok {
		text = s.String()
	}
	if text = clip.Marked(text, mostQuoted); text == "" {
		text = `""`
	}
	if level := o.origin[path]; !level.OfPolicy() {
		return fmt.Sprintf("%s (%s)", text, levelNames[level])
	}
	return text
}

// levelNames are the levels as messages name them.
var levelNames = map[Level]string{
	BuiltIn:   "built-in",
	Cluster:   "from the AttuneDefaults",
	Namespace: "from the AttuneNamespaceDefaults",
}

// join writes a list as a person would: a, b or c.
func join[T any](values []T) string {
	words := make([]string, len(values))
	for i, v := range values {
		words[i] = fmt.Sprint(v)
	}
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	last := len(words) - 1
	return strings.Join(words[:last], ", ") + " or " + words[last]
}
