package policy

import (
	"fmt"
	"strings"
)

// InvalidConfig says why settings cannot hold. Until a person changes one of the fields, nothing new
// may be started with them.
type InvalidConfig struct{ Problems []Problem }

// Problem is one thing that is wrong.
type Problem struct {
	// Fields that take part, by their paths in the spec; the first is the one to blame.
	Fields []string
	// Levels that set those fields.
	Levels []Level
	// Sentence names field, value and a value that would do.
	Sentence string
}

// Error is the sentences.
func (e *InvalidConfig) Error() string {
	sentences := make([]string, len(e.Problems))
	for i, p := range e.Problems {
		sentences[i] = p.Sentence
	}
	return strings.Join(sentences, "; ")
}

// invalid notes a problem with one field.
func (o *overlay) invalid(field, format string, args ...any) {
	o.clash([]string{field}, format, args...)
}

// clash notes a problem between fields.
func (o *overlay) clash(fields []string, format string, args ...any) {
	levels := make([]Level, len(fields))
	for i, field := range fields {
		levels[i] = o.origin[field]
	}
	o.problems = append(o.problems, Problem{Fields: fields, Levels: levels, Sentence: fmt.Sprintf(format, args...)})
}

// quote writes a field's value, and the level that set it where that is not the policy's own.
func (o *overlay) quote(path string, value any) string {
	text := fmt.Sprint(value)
	if s, ok := value.(fmt.Stringer); ok {
		text = s.String()
	}
	if text == "" {
		text = `""`
	}
	if level := o.origin[path]; level != Policy {
		return fmt.Sprintf("%s (%s)", text, levelNames[level])
	}
	return text
}

var levelNames = map[Level]string{
	BuiltIn:   "built-in",
	Cluster:   "from the AttuneDefaults",
	Namespace: "from the AttuneNamespaceDefaults",
}

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
