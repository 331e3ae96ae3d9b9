package policy

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/prometheus/prometheus/promql/parser"
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
	guardrails := pick(o, path, nil, func(l *layer) *[]v1alpha1.SLOGuardrail { return list(l.SLOGuardrails) })
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
		invalidQuery(o, path, g, err)
	}
}

// invalidQuery adds a problem with a query. An error about a query of another level is left out: it has parts of it.
func invalidQuery(o *overlay, path string, g v1alpha1.SLOGuardrail, err error) {
	if !o.owns(o.origin[path]) {
		err = errors.New("cannot be used: an administrator has to correct it")
	}
	o.invalid(path, "%s[%s].query %s %s", path, clip.Marked(g.Name, mostQuoted), o.quote(path, clip.Marked(g.Query, mostOfQuery)), err)
}

// checkGuardrail adds a problem for each invalid part of a guardrail.
func (o *overlay) checkGuardrail(path string, g v1alpha1.SLOGuardrail) {
	at := fmt.Sprintf("%s[%s]", path, clip.Marked(g.Name, mostQuoted))
	if err := checkQuery(g.Query); err != nil {
		invalidQuery(o, path, g, err)
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

// exampleQuery is a valid query.
const exampleQuery = `sum(rate(http_requests_total{code=~"5.."}[5m]))`

// checkQuery parses a query, and rejects one that gives no number that depends on the workload and can violate its
// condition. An error is the end of a sentence.
func checkQuery(query string) error {
	if strings.TrimSpace(query) == "" {
		return errors.New("is empty: use PromQL that returns one number, e.g. " + exampleQuery)
	}
	expression, err := ParseQuery(withoutExpensivePatterns(query))
	if err != nil {
		return fmt.Errorf("%w; an example is %s", err, exampleQuery)
	}
	for e, is := expression.(*parser.ParenExpr); is; e, is = expression.(*parser.ParenExpr) {
		expression = e.Expr
	}
	text := clip.Marked(expression.String(), mostOfQuery)
	switch expression.Type() {
	case parser.ValueTypeMatrix:
		return fmt.Errorf("returns a range of samples and not one number: use a function over it, e.g. max_over_time(%s)", text)
	case parser.ValueTypeString:
		return errors.New("is a text and not a query: use PromQL that returns one number, e.g. " + exampleQuery)
	}
	if len(parser.ExtractSelectors(expression)) == 0 {
		return errors.New("reads no series, so its result is the same with each size: query the workload, e.g. " + exampleQuery)
	}
	switch e := expression.(type) {
	case *parser.BinaryExpr:
		if e.Op.IsComparisonOperator() && !e.ReturnBool {
			of := e.LHS
			if of.Type() == parser.ValueTypeScalar {
				of = e.RHS
			}
			return fmt.Errorf("has no result when %s does not hold, so a violation is never seen: write %s, and set comparison and threshold", text, clip.Marked(of.String(), mostOfQuery))
		}
	case *parser.Call:
		if strings.HasPrefix(e.Func.Name, "absent") {
			return errors.New("has no result while its series exist: use count(up) with comparison and threshold")
		}
	}
	return nil
}

// withoutExpensivePatterns replaces regular expressions that are expensive to compile by others of the same length, so
// that the query can be parsed. The server that evaluates the query compiles them.
func withoutExpensivePatterns(query string) string {
	if len(query) > mostQuery {
		return query
	}
	text, lexer := []byte(query), parser.Lex(query)
	var item, before parser.Item
	for lexer.NextItem(&item); item.Typ != parser.EOF && item.Typ != parser.ERROR; lexer.NextItem(&item) {
		if item.Typ == parser.STRING && ofPattern(before) && !cheapPattern(item.Val) {
			copy(text[item.Pos:], `"`+strings.Repeat("x", len(item.Val)-2)+`"`)
		}
		if item.Typ != parser.COMMENT {
			before = item
		}
	}
	return string(text)
}
