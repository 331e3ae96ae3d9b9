package policy

import (
	"fmt"
	"slices"
	"strings"

	"attune.io/attune/api/v1alpha1"
)

var comparisons = []v1alpha1.Comparison{"<", "<=", ">", ">="}

// sloGuardrails leaves out those that are wrong, each with a problem of its own.
func (o *overlay) sloGuardrails() []v1alpha1.SLOGuardrail {
	const path = "sloGuardrails"
	var sound []v1alpha1.SLOGuardrail
	for _, g := range pick(o, path, nil, func(l layer) *[]v1alpha1.SLOGuardrail { return list(l.SLOGuardrails) }) {
		before := len(o.problems)
		o.checkGuardrail(path, g)
		if len(o.problems) == before {
			sound = append(sound, g)
		}
	}
	return sound
}

func (o *overlay) checkGuardrail(path string, g v1alpha1.SLOGuardrail) {
	at := fmt.Sprintf("%s[%s]", path, g.Name)
	if why := checkQuery(g.Query); why != "" {
		o.invalid(path, "%s.query %s %s", at, o.quote(path, excerpt(g.Query)), why)
	}
	if !decimal.MatchString(string(g.Threshold)) {
		o.invalid(path, "%s.threshold %s must be a decimal number, e.g. \"99.9\"", at, o.quote(path, g.Threshold))
	}
	if !slices.Contains(comparisons, g.Comparison) {
		o.invalid(path, "%s.comparison %s is not one of %s", at, o.quote(path, g.Comparison), join(comparisons))
	}
}

// excerpt keeps a long query out of a sentence.
func excerpt(query string) string {
	const most = 60
	if len(query) <= most {
		return query
	}
	return strings.ToValidUTF8(query[:most], "") + "…"
}

// closing brackets by their opening ones.
var closing = map[rune]rune{'(': ')', '[': ']', '{': '}'}

// checkQuery finds what no PromQL can hold: brackets or quotes that do not pair, or nothing at all. It
// is no parser; a query that the server cannot answer shows when it is asked. Empty: nothing found.
func checkQuery(query string) string {
	const example = `, e.g. sum(rate(http_requests_total{code=~"5.."}[5m]))`
	if strings.TrimSpace(query) == "" {
		return "is empty: use PromQL that answers one number" + example
	}
	var open []rune
	var quote rune
	escaped, comment := false, false
	for _, r := range query {
		switch {
		case comment:
			comment = r != '\n'
		case quote != 0:
			if !escaped && r == quote {
				quote = 0
			}
			escaped = !escaped && r == '\\' && quote != '`'
		case r == '"' || r == '\'' || r == '`':
			quote = r
		case r == '#':
			comment = true
		case closing[r] != 0:
			open = append(open, closing[r])
		case r == ')' || r == ']' || r == '}':
			if len(open) == 0 || open[len(open)-1] != r {
				return "closes " + string(r) + " where nothing opened it: pair the brackets" + example
			}
			open = open[:len(open)-1]
		}
	}
	switch {
	case quote != 0:
		return "leaves the quote " + string(quote) + " open: close it" + example
	case len(open) > 0:
		return "lacks " + string(open[len(open)-1]) + ": close the bracket" + example
	}
	return ""
}
