package monitoring

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// silent are the selectors that the recorded run on real kubelets has no series for, by what they begin with, each with
// the reason. A query without an answer has to rest on one of them, and each has to be needed.
var silent = map[string]string{
	"apiserver_admission_webhook_":                   "what the API server counts is not recorded; TestMoments (e2e) reads it there",
	"container_":                                     "what kubelets measure is not recorded",
	`attune_admission_total{result="Failed"}`:        "the webhook meets no defect of its own",
	`attune_pass_incomplete_total{what!="unsettled"`: "what passes need can be read",
	"attune_prometheus_query_errors_total":           "the server answers",
	"attune_reconcile_errors_total{error_type!~":     "writes meet conflicts, and nothing worse",
	"attune_usage_recent_refused":                    "there is room for all containers",
	"attune_usage_samples_dropped_total":             "no sample of a kubelet is of no use",
	"attune_burst_factor":                            "no container has peaks that outgrow its percentile",
	"attune_node_load_ratio":                         "the load taint is switched off",
	"attune_node_overcommitted":                      "the pods of the node fit",
	"up":                                             "the scraper adds it to what it scrapes",
}

// shownBy the run: series of every process of the operator, in every cluster (make record-metrics).
func shownBy(t *testing.T) exposed {
	t.Helper()
	return readExposed(t, "e2e")
}

// namespacesOf are those of which a run has recommendations.
func (e exposed) namespacesOf(t *testing.T) (all []string) {
	t.Helper()
	for _, sample := range e.answer(t, "count by (namespace) (attune_confidence)") {
		all = append(all, sample.Metric.Get("namespace"))
	}
	return all
}

// answers reports whether an expression has a number for an answer, in some namespace where it is about one.
func (e exposed) answers(t *testing.T, expression string, namespaces []string) bool {
	t.Helper()
	for _, namespace := range append([]string{".*"}, namespaces...) {
		asked := chosen.Replace(strings.ReplaceAll(expression, "$namespace", namespace))
		if slices.ContainsFunc(e.answer(t, asked), func(s promql.Sample) bool { return !math.IsNaN(s.F) }) {
			return true
		}
	}
	return false
}

// selectors of an expression, as they are written.
func selectors(t *testing.T, expression string) (all []string) {
	t.Helper()
	parsed, err := promQL.ParseExpr(chosen.Replace(strings.ReplaceAll(expression, "$namespace", ".*")))
	require.NoError(t, err, expression)
	parser.Inspect(parsed, func(node parser.Node, _ []parser.Node) error {
		if of, ok := node.(*parser.VectorSelector); ok {
			matchers := slices.DeleteFunc(slices.Clone(of.LabelMatchers), func(m *labels.Matcher) bool {
				return m.Name == "namespace" && m.Value == ".*" || m.Name == "workload" && m.Value == ".*"
			})
			bare := parser.VectorSelector{Name: of.Name, LabelMatchers: matchers}
			all = append(all, bare.String())
		}
		return nil
	})
	return all
}

// TestDashboardsOnARealRun: every query of the dashboards is answered by what the operator showed on real kubelets, and
// every selector of the alerts has series there; what has none is listed with the reason.
func TestDashboardsOnARealRun(t *testing.T) {
	run := shownBy(t)
	namespaces := run.namespacesOf(t)
	require.NotEmpty(t, namespaces)
	needed := map[string]bool{}
	excused := func(selectors []string) bool {
		found := false
		for _, selector := range selectors {
			for begin := range silent {
				if strings.HasPrefix(selector, begin) {
					needed[begin], found = true, true
				}
			}
		}
		return found
	}
	answered := 0
	check := func(t *testing.T, expression string) {
		t.Helper()
		if run.answers(t, expression, namespaces) {
			answered++
			return
		}
		assert.True(t, excused(selectors(t, expression)), "no answer, and no reason why: %s", expression)
	}
	for _, d := range dashboards(t) {
		for _, v := range d.Templating.List {
			if parts := labelValues.FindStringSubmatch(v.Query); parts != nil {
				check(t, fmt.Sprintf("count by (%s) (%s)", parts[2], parts[1]))
			}
		}
		for _, p := range d.Panels {
			for _, target := range p.Targets {
				t.Run(d.UID+", "+p.Title+" "+target.RefID, func(t *testing.T) { check(t, target.Expr) })
			}
		}
	}
	for _, rule := range alerts(t) {
		t.Run(rule.Alert, func(t *testing.T) {
			for _, selector := range selectors(t, rule.Expr) {
				check(t, selector)
			}
		})
	}
	assert.Greater(t, answered, 100)
	for begin, reason := range silent {
		assert.True(t, needed[begin], "%s has series (or no query asks for it): %s", begin, reason)
	}
}

// TestTheRunIsTheOperators: what was recorded has the labels that the operator's own collectors have.
func TestTheRunIsTheOperators(t *testing.T) {
	run, operator := shownBy(t), readExposed(t, "operator")
	for metric, has := range run.labels {
		assert.ElementsMatch(t, append(slices.Clone(operator.labels[metric]), "instance"), has, metric)
	}
}
