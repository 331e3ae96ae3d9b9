package policy

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/util/strutil"

	"attune.io/attune/internal/clip"
)

// A guardrail of a namespace may be evaluated by a server that the cluster's administrator has set, with the operator's
// rights. Then it reads only series of its namespace, and its cost is bounded: both are decided from its text, before
// it is evaluated.

const (
	// mostQuery is the longest query, in bytes, as in the schema.
	mostQuery = 4096
	// mostNested is how deep the expressions of a query may nest. Handwritten queries have fewer than ten levels.
	mostNested = 32
	// mostWords is how many words, operators and brackets a query may have. The parser takes quadratic time for some.
	mostWords = 512
	// mostSelectors is how many selectors a query may have. Each one reads series, and the engine holds their results
	// until the query ends.
	mostSelectors = 32
	// mostPoints is how often subqueries may evaluate one expression, nested ones multiplied. One hour of steps of 5s
	// has 720. The engine holds that many samples of each series.
	mostPoints = 1000
	// stepOfSubquery stands for the interval of a server, which is the step of a subquery without one.
	stepOfSubquery = 15 * time.Second
	// scrapedFor is how far back a query may look in samples that the operator scraped itself, which keeps no older
	// ones.
	scrapedFor = 75 * time.Minute
)

// labelMakers are functions whose results have labels that the query computes. Nested, they make labels of any length,
// and no limit of samples counts their memory. info also reads series that no selector names.
var labelMakers = []string{"label_replace", "label_join", "info"}

// QueryScope is what the guardrails of a namespace may read on a source of the cluster's administrator. The zero value
// has no limits.
type QueryScope struct {
	// Namespace that every selector must have as its label namespace; empty: there are no limits.
	Namespace string
	// Labels that every selector must have too: those that the AttuneDefaults set for their server.
	Labels map[string]string
	// Back is how far back a query may look.
	Back time.Duration
}

// Restrict returns the query with the scope's labels, and more of them, in each of its selectors, in place of all other
// matchers of these labels. An error is the end of a sentence about a query that would read other series, or whose cost
// has no bound.
func (s QueryScope) Restrict(query string, more map[string]string) (string, error) {
	expression, err := ParseQuery(query)
	if err != nil {
		return "", err
	}
	wanted := map[string]string{}
	maps.Copy(wanted, s.Labels)
	maps.Copy(wanted, more)
	wanted["namespace"] = s.Namespace
	r := restriction{back: s.Back, wanted: wanted}
	r.walk(expression, 1, 1, 0)
	if r.err != nil {
		return "", r.err
	}
	return expression.String(), nil
}

// ParseQuery parses PromQL, if CheckCost allows. An error is the end of a sentence.
func ParseQuery(query string) (parser.Expr, error) {
	if err := CheckCost(query); err != nil {
		return nil, err
	}
	expression, err := parser.NewParser(parser.Options{}).ParseExpr(query)
	if err != nil {
		first, _, _ := strings.Cut(err.Error(), "\n")
		return nil, fmt.Errorf("is not PromQL: %s", clip.Text(first, mostQuoted))
	}
	return expression, nil
}

// CheckCost rejects queries that take long to parse, or whose regular expressions, which the parser compiles, use much
// memory. It only reads the words of a query. An error is the end of a sentence.
func CheckCost(query string) error {
	if len(query) > mostQuery {
		return fmt.Errorf("has %d bytes: use at most %d", len(query), mostQuery)
	}
	lexer, depth, words := parser.Lex(query), 0, 0
	var item, before parser.Item
	for lexer.NextItem(&item); item.Typ != parser.EOF && item.Typ != parser.ERROR; lexer.NextItem(&item) {
		switch item.Typ {
		case parser.COMMENT: // the parser skips it, also between an operator and its regular expression
			continue
		case parser.LEFT_PAREN:
			depth++
		case parser.RIGHT_PAREN:
			depth--
		case parser.STRING:
			if ofPattern(before) && !cheapPattern(item.Val) {
				return errors.New(`has a regular expression with a counted repetition, a case-insensitive part, a Unicode class or a character outside of ASCII: use others, e.g. code=~"5[0-9][0-9]" or [Ee]rror`)
			}
		}
		if words++; words > mostWords {
			return fmt.Errorf("has more than %d words and operators: simplify it, or record a part of it with a recording rule", mostWords)
		}
		if depth > mostNested {
			return errNested
		}
		before = item
	}
	return nil
}

// expensivePatterns are parts of regular expressions that compile to more than a few bytes each: counted repetitions,
// Unicode classes, and characters outside of ASCII, whose ranges are long. A case-insensitive class, such as (?i)\W, takes
// milliseconds each, because the compiler looks up the other case of each of its characters.
var expensivePatterns = regexp.MustCompile(`\{[0-9]|\\[pPx]|[^\x00-\x7f]|\(\?[a-zA-Z-]*i`)

// ofPattern reports whether the string after an item is a regular expression.
func ofPattern(before parser.Item) bool {
	return before.Typ == parser.EQL_REGEX || before.Typ == parser.NEQ_REGEX
}

func cheapPattern(quoted string) bool {
	pattern, err := strutil.Unquote(quoted)
	return err == nil && !expensivePatterns.MatchString(pattern)
}

var errNested = fmt.Errorf("nests more than %d expressions: simplify it, or record a part of it with a recording rule", mostNested)

// restriction is the state of a walk over a query.
type restriction struct {
	back      time.Duration
	wanted    map[string]string
	selectors int
	err       error
}

// fail stores the first problem.
func (r *restriction) fail(format string, args ...any) {
	if r.err == nil {
		r.err = fmt.Errorf(format, args...)
	}
}

// walk checks an expression and all its parts, and restricts their selectors. depth is the nesting, points how often
// subqueries evaluate the expression, and back how far back they evaluate it.
func (r *restriction) walk(node parser.Node, depth, points int, back time.Duration) {
	if depth > 2*mostNested { // brackets are expressions of their own
		r.fail("%w", errNested)
		return
	}
	switch e := node.(type) {
	case *parser.Call:
		if slices.Contains(labelMakers, e.Func.Name) {
			r.fail("uses %s, which guardrails of a namespace may not use on the cluster's server: aggregate instead, e.g. sum by (pod) (up)", e.Func.Name)
		}
	case *parser.AggregateExpr:
		if e.Op == parser.COUNT_VALUES {
			r.fail("uses count_values, which guardrails of a namespace may not use on the cluster's server: count what you compare with, e.g. count(up == 1)")
		}
	case *parser.MatrixSelector:
		back = further(back, e.Range)
	case *parser.SubqueryExpr:
		r.checkAt(e.Timestamp, e.StartOrEnd)
		step := e.Step
		if step <= 0 {
			step = stepOfSubquery
		}
		points = multiplied(points, int64(e.Range/step)+1)
		if points > mostPoints {
			r.fail("has subqueries with more than %d steps: use a longer step, e.g. [1h:1m]", mostPoints)
		}
		back = further(further(back, e.Range), e.OriginalOffset)
	case *parser.VectorSelector:
		r.checkAt(e.Timestamp, e.StartOrEnd)
		r.restrict(e, further(back, e.OriginalOffset))
	}
	if r.err != nil {
		return
	}
	for child := range parser.ChildrenIter(node) {
		r.walk(child, depth+1, points, back)
	}
}

// multiplied is the product, or more than mostPoints if it could overflow.
func multiplied(points int, steps int64) int {
	return points * int(min(steps, mostPoints+1))
}

// further is the sum of how far back a query looks. Both parts are limited, because the sum of two durations that PromQL
// allows can overflow. A negative offset does not count.
func further(back, by time.Duration) time.Duration {
	const most = 100 * 365 * 24 * time.Hour
	return min(back, most) + min(max(0, by), most)
}

// checkAt rejects the modifier @, which reads at any time.
func (r *restriction) checkAt(timestamp *int64, startOrEnd parser.ItemType) {
	if timestamp != nil || startOrEnd != 0 {
		r.fail("uses the modifier @: use offset, e.g. up offset 5m")
	}
}

// restrict replaces the matchers of the wanted labels. A matcher that excludes the wanted value is an error, because the
// result would be empty and look like a measurement.
func (r *restriction) restrict(selector *parser.VectorSelector, back time.Duration) {
	if r.selectors++; r.selectors > mostSelectors {
		r.fail("has more than %d selectors: simplify it, or record a part of it with a recording rule", mostSelectors)
	}
	if back > r.back {
		r.fail("looks back %s, more than the %s of history: use a shorter range, e.g. rate(http_requests_total[5m])", short(back), short(r.back))
	}
	kept := make([]*labels.Matcher, 0, len(selector.LabelMatchers)+len(r.wanted))
	for _, m := range selector.LabelMatchers {
		value, is := r.wanted[m.Name]
		switch {
		case !is && (!labelName.MatchString(m.Name) || strings.EqualFold(m.Name, "or")):
			// Other servers could read such a name as an operator between matchers.
			r.fail("has the label %s in a selector: use labels of letters, digits and _, e.g. {code=\"500\"}", clip.Marked(m.Name, mostQuoted))
		case !is:
			kept = append(kept, m)
		case !m.Matches(value):
			r.fail("has the matcher %s, which excludes its own series: leave it out, attune adds %s=%q", clip.Marked(m.String(), mostQuoted), m.Name, value)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(r.wanted)) {
		kept = append(kept, labels.MustNewMatcher(labels.MatchEqual, name, r.wanted[name]))
	}
	selector.LabelMatchers = kept
}
