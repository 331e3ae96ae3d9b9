package policy

import (
	"fmt"
	"strings"
)

// InvalidConfig is the error of Resolve: settings that cannot be applied. Until one of the fields is changed,
// nothing new may be started with them. Problems is never empty.
type InvalidConfig struct{ Problems []Problem }

// Problem is one thing that is wrong with the settings.
type Problem struct {
	// Fields are the paths in the spec that take part; the first one is blamed. Never empty.
	Fields []string
	// Levels are the levels that set those fields, in the same order.
	Levels []Level
	// Sentence names the field, its value, and a value that would be accepted.
	Sentence string
}

// Error joins the sentences of all problems.
func (e *InvalidConfig) Error() string {
	sentences := make([]string, len(e.Problems))
	for i, p := range e.Problems {
		sentences[i] = p.Sentence
	}
	return strings.Join(sentences, "; ")
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
	o.problems = append(o.problems, Problem{Fields: fields, Levels: levels, Sentence: fmt.Sprintf(format, args...)})
}

// quote writes a field's value for a message, with the level that set it unless that is the policy itself.
func (o *overlay) quote(path string, value any) string {
	text := fmt.Sprint(value)
	if s, ok := value.(fmt.Stringer); ok {
		text = s.String()
	}
	if text == "" {
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

// err returns all problems as one error, or nil. It returns an untyped nil, so that callers can compare with nil.
func (o *overlay) err() error {
	if len(o.problems) == 0 {
		return nil
	}
	return &InvalidConfig{Problems: o.problems}
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
