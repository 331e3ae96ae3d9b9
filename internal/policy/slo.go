package policy

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/clip"
	"attune.io/attune/usage"
)

// comparisons are the operators between a guardrail's result and its threshold.
var comparisons = []v1alpha1.Comparison{"<", "<=", ">", ">="}

// sloGuardrails returns the valid guardrails, and what their queries may read. It adds a problem for each invalid one.
func (o *overlay) sloGuardrails(source usage.SourceSettings, operator Operator) (sound []v1alpha1.SLOGuardrail, scope QueryScope) {
	const path = "sloGuardrails"
	guardrails := pick(o, path, nil, func(l layer) *[]v1alpha1.SLOGuardrail { return list(l.SLOGuardrails) })
	scope = o.queryScope(o.origin[path], source, operator)
	for _, g := range guardrails {
		before := o.found
		o.checkGuardrail(path, g)
		if o.found == before && scope.Namespace != "" {
			checkScope(o, path, g, scope)
		}
		if o.found == before {
			sound = append(sound, g)
		}
	}
	if len(sound) == 0 {
		scope = QueryScope{}
	}
	return sound, scope
}

// queryScope returns what guardrails of a level may read. Those of the cluster's administrator may read everything, and
// those of a namespace everything on a server that the namespace names, with its own credentials.
func (o *overlay) queryScope(level Level, source usage.SourceSettings, operator Operator) QueryScope {
	if level != Namespace && level != Policy || source.OfPolicy {
		return QueryScope{}
	}
	s := QueryScope{Namespace: cmp.Or(namespaceOf(o.layers, level), metav1.NamespaceDefault), Labels: clusterLabels(o.layers), Back: source.HistoryWindow}
	if operator.Embedded && source.Prometheus == nil { // scraped series have no labels of servers
		s.Back, s.Labels = scrapedFor, nil
	}
	return s
}

// checkScope adds a problem if a query could read more than its scope, or if its cost has no bound.
func checkScope(o *overlay, path string, g v1alpha1.SLOGuardrail, scope QueryScope) {
	if _, err := scope.Restrict(g.Query, nil); err != nil {
		o.invalid(path, "%s[%s].query %s %s", path, clip.Marked(g.Name, mostQuoted), o.quote(path, clip.Marked(g.Query, mostOfQuery)), err)
	}
}

// checkGuardrail adds a problem for each invalid part of a guardrail.
func (o *overlay) checkGuardrail(path string, g v1alpha1.SLOGuardrail) {
	at := fmt.Sprintf("%s[%s]", path, clip.Marked(g.Name, mostQuoted))
	if why := checkQuery(g.Query); why != "" {
		o.invalid(path, "%s.query %s %s", at, o.quote(path, clip.Marked(g.Query, mostOfQuery)), why)
	}
	if !decimal.MatchString(string(g.Threshold)) {
		o.invalid(path, "%s.threshold %s must be a decimal number, e.g. \"99.9\"", at, o.quote(path, g.Threshold))
	}
	if !slices.Contains(comparisons, g.Comparison) {
		o.invalid(path, "%s.comparison %s is not one of %s", at, o.quote(path, g.Comparison), join(comparisons))
	}
}

// mostOfQuery is the size limit of a query in a message, in bytes.
const mostOfQuery = 60

// closing maps opening brackets to closing ones.
var closing = map[rune]rune{'(': ')', '[': ']', '{': '}'}

// checkQuery finds errors that no PromQL can contain: unpaired brackets or quotes, or an empty query. It is not a
// parser; other errors appear when the server runs the query. It returns the end of a sentence; empty if it finds no
// error.
func checkQuery(query string) string {
	const example = `, e.g. sum(rate(http_requests_total{code=~"5.."}[5m]))`
	if strings.TrimSpace(query) == "" {
		return "is empty: use PromQL that returns one number" + example
	}
	var p pairs
	for _, r := range query {
		if !p.take(r) {
			return "has an unmatched " + string(r) + ": pair the brackets" + example
		}
	}
	switch {
	case p.quote != 0:
		return "has an unclosed quote " + string(p.quote) + ": close it" + example
	case len(p.open) > 0:
		return "is missing " + string(p.open[len(p.open)-1]) + ": close the bracket" + example
	}
	return ""
}

// pairs is the state of a scan over a query: the open brackets and quotes at the current character. Brackets within
// quotes and comments do not count.
type pairs struct {
	// open has the closing brackets that are still missing, the next one last.
	open []rune
	// quote is the open quote; 0 if no quote is open. Within backquotes a backslash escapes nothing, as in PromQL.
	quote            rune
	escaped, comment bool
}

// take processes one character. It returns false for a closing bracket that matches no open one.
func (p *pairs) take(r rune) bool {
	switch {
	case p.comment:
		p.comment = r != '\n'
	case p.quote != 0:
		p.quoted(r)
	case r == '"' || r == '\'' || r == '`':
		p.quote = r
	case r == '#':
		p.comment = true
	case closing[r] != 0:
		p.open = append(p.open, closing[r])
	case r == ')' || r == ']' || r == '}':
		return p.close(r)
	}
	return true
}

// quoted processes a character between quotes.
func (p *pairs) quoted(r rune) {
	if !p.escaped && r == p.quote {
		p.quote = 0
	}
	p.escaped = !p.escaped && r == '\\' && p.quote != '`'
}

// close processes a closing bracket; false if it does not match the last open one.
func (p *pairs) close(r rune) bool {
	last := len(p.open) - 1
	if last < 0 || p.open[last] != r {
		return false
	}
	p.open = p.open[:last]
	return true
}
