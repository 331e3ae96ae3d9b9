// Package monitoring tests the chart's dashboards and alerts in Prometheus's own engine, on what the operator exposes.
package monitoring

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/promql/promqltest"
	"github.com/prometheus/prometheus/storage"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const chart = "../../../charts/attune/"

var (
	promQL = parser.NewParser(parser.Options{})
	engine = promql.NewEngine(promql.EngineOpts{
		MaxSamples: 5e7, Timeout: time.Minute, LookbackDelta: 5 * time.Minute, EnableAtModifier: true, EnableNegativeOffset: true, Parser: promQL,
	})
	start = time.Unix(0, 0)
)

// exposed is a scrape. That of the operator, in which every metric has a value, is kept true by TestExposition
// (cmd/attune) and by the tests on real kubelets; what the API server counts of its webhooks is beside it, what
// kubelets measure, and what the scraper itself adds.
type exposed struct {
	// labels of each metric, by the name of its series: a histogram has three names.
	labels map[string][]string
	// db has the scrape, every 30 s for three hours. Counters grow with each scrape.
	db storage.Queryable
}

func readExposed(t *testing.T, files ...string) exposed {
	t.Helper()
	os.Getenv("ATTUNE_INPUTS") // the digest of what is read outside of this module, so that Go's test cache sees a change
	var page []byte
	for _, of := range files {
		shown, err := os.ReadFile("testdata/" + of + ".prom")
		require.NoError(t, err)
		page = append(page, shown...)
	}
	all := exposed{labels: map[string][]string{}}
	load, grows := "load 30s\n", false
	for line := range strings.Lines(string(page)) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "#") {
			grows = strings.HasSuffix(line, " counter") || strings.HasSuffix(line, " histogram")
			continue
		}
		at := strings.LastIndexByte(line, ' ')
		series, value := line[:at], line[at+1:]
		metric, err := promQL.ParseMetric(series)
		require.NoError(t, err, line)
		all.labels[metric.Get(labels.MetricName)] = namesOf(metric)
		// As the server names the target that it scrapes.
		builder := labels.NewBuilder(metric).Set("job", "attune")
		if !metric.Has("instance") {
			builder.Set("instance", "10.0.0.1:8080")
		}
		target := builder.Labels().String()
		if grows {
			load += fmt.Sprintf("  %s %s+%sx360\n", target, value, value)
		} else {
			load += fmt.Sprintf("  %s %sx360\n", target, value)
		}
	}
	require.Greater(t, len(all.labels), 40)
	all.db = promqltest.LoadedStorage(t, load)
	return all
}

// known is all that queries are about.
func known(t *testing.T) exposed {
	t.Helper()
	return readExposed(t, "operator", "apiserver", "kubelet", "scraper")
}

// namesOf are the names of a series' labels.
func namesOf(series labels.Labels) (names []string) {
	series.Range(func(l labels.Label) {
		if l.Name != labels.MetricName {
			names = append(names, l.Name)
		}
	})
	return names
}

// dashboard is what the tests read of one.
type dashboard struct {
	file       string
	UID, Title string
	Templating struct{ List []variable }
	Panels     []panel
}

type variable struct {
	Name, Type, Query string
	Datasource        source
}

type source struct{ Type, UID string }

type panel struct {
	ID                       int
	Type, Title, Description string
	Datasource               source
	GridPos                  struct{ H, W, X, Y int }
	FieldConfig              struct{ Defaults struct{ Unit string } }
	Targets                  []struct {
		RefID, Expr, LegendFormat string
	}
}

func dashboards(t *testing.T) (all []dashboard) {
	t.Helper()
	files, err := filepath.Glob(chart + "dashboards/*.json")
	require.NoError(t, err)
	require.Len(t, files, 2)
	for _, file := range files {
		raw, err := os.ReadFile(file)
		require.NoError(t, err)
		d := dashboard{file: filepath.Base(file)}
		require.NoError(t, json.Unmarshal(raw, &d), file)
		all = append(all, d)
	}
	return all
}

// TestDashboardsAreWhole: what Grafana shows as an error, or not at all.
func TestDashboardsAreWhole(t *testing.T) {
	uids := map[string]bool{}
	for _, d := range dashboards(t) {
		t.Run(d.file, func(t *testing.T) {
			assert.Equal(t, d.UID+".json", d.file)
			assert.False(t, uids[d.UID])
			uids[d.UID] = true
			assert.NotEmpty(t, d.Title)
			assert.Equal(t, variable{Name: "datasource", Type: "datasource", Query: "prometheus"}, d.Templating.List[0])
			for i, p := range d.Panels {
				for _, other := range d.Panels[:i] {
					assert.NotEqual(t, other.ID, p.ID, p.Title)
					assert.False(t, overlap(p, other), "%s and %s", p.Title, other.Title)
				}
				assert.NotEmpty(t, p.Title)
				assert.LessOrEqual(t, p.GridPos.X+p.GridPos.W, 24, p.Title)
				if p.Type != "row" {
					assertShows(t, p)
				}
			}
		})
	}
}

func overlap(a, b panel) bool {
	p, q := a.GridPos, b.GridPos
	return p.X < q.X+q.W && q.X < p.X+p.W && p.Y < q.Y+q.H && q.Y < p.Y+p.H
}

// assertShows: the panel shows something, and says what.
func assertShows(t *testing.T, p panel) {
	t.Helper()
	assert.NotEmpty(t, p.Description, p.Title)
	assert.NotEmpty(t, p.FieldConfig.Defaults.Unit, p.Title)
	assert.Equal(t, source{"prometheus", "${datasource}"}, p.Datasource, p.Title)
	assert.NotEmpty(t, p.Targets, p.Title)
	for i, target := range p.Targets {
		assert.Equal(t, string(rune('A'+i)), target.RefID, p.Title)
		assert.NotEmpty(t, target.Expr, p.Title)
	}
}

// chosen is what Grafana puts in the place of variables: a namespace, all workloads, and times.
var chosen = strings.NewReplacer("$namespace", "shop", "$workload", ".*", "$__rate_interval", "5m", "$__interval", "5m", "$__range", "1h")

var (
	labelValues = regexp.MustCompile(`^label_values\((.*), ([a-z]+)\)$`)
	inLegend    = regexp.MustCompile(`{{([a-z_]+)}}`)
)

// TestDashboardsHaveData: every query of a dashboard is about metrics and labels that the operator has, and has an answer.
func TestDashboardsHaveData(t *testing.T) {
	operator := known(t)
	for _, d := range dashboards(t) {
		for _, v := range d.Templating.List {
			if v.Type != "query" {
				continue
			}
			t.Run(d.UID+", variable "+v.Name, func(t *testing.T) {
				parts := labelValues.FindStringSubmatch(v.Query)
				require.NotNil(t, parts, v.Query)
				assertAnswered(t, operator, parts[1], []string{parts[2]})
			})
		}
		for _, p := range d.Panels {
			for _, target := range p.Targets {
				t.Run(d.UID+", "+p.Title+" "+target.RefID, func(t *testing.T) {
					var wanted []string
					for _, found := range inLegend.FindAllStringSubmatch(target.LegendFormat, -1) {
						wanted = append(wanted, found[1])
					}
					assertAnswered(t, operator, target.Expr, wanted)
				})
			}
		}
	}
}

// assertAnswered: the expression is about what the operator has, and has numbers for answers, with these labels.
func assertAnswered(t *testing.T, operator exposed, expression string, wanted []string) {
	t.Helper()
	expression = chosen.Replace(expression)
	require.NotContains(t, expression, "$", "a variable that this test does not know")
	assertKnown(t, operator, expression)
	vector := operator.answer(t, expression)
	require.NotEmpty(t, vector, expression)
	for _, sample := range vector {
		assert.False(t, math.IsNaN(sample.F), "%s: %s", expression, sample)
	}
	for _, label := range wanted {
		assert.True(t, slices.ContainsFunc(vector, func(s promql.Sample) bool { return s.Metric.Has(label) }), "no answer of %s has %s", expression, label)
	}
}

// answer of the operator's newest samples to an expression.
func (e exposed) answer(t *testing.T, expression string) promql.Vector {
	t.Helper()
	query, err := engine.NewInstantQuery(t.Context(), e.db, nil, expression, start.Add(3*time.Hour))
	require.NoError(t, err)
	result := query.Exec(t.Context())
	require.NoError(t, result.Err)
	vector, err := result.Vector()
	require.NoError(t, err)
	return vector
}

// assertKnown: the operator has the metrics of an expression, with the labels and the values that it names.
func assertKnown(t *testing.T, operator exposed, expression string) {
	t.Helper()
	parsed, err := promQL.ParseExpr(expression)
	require.NoError(t, err, expression)
	parser.Inspect(parsed, func(node parser.Node, _ []parser.Node) error {
		switch of := node.(type) {
		case *parser.VectorSelector:
			assertSelector(t, operator, of)
		case *parser.AggregateExpr:
			assertLabels(t, operator, of, of.Grouping)
		case *parser.BinaryExpr:
			if of.VectorMatching != nil {
				assertLabels(t, operator, of, of.VectorMatching.MatchingLabels)
			}
		}
		return nil
	})
}

func assertSelector(t *testing.T, operator exposed, of *parser.VectorSelector) {
	t.Helper()
	known, ok := operator.labels[of.Name]
	require.True(t, ok, "the operator has no metric %s", of.Name)
	for _, matcher := range of.LabelMatchers {
		if matcher.Name != labels.MetricName {
			assert.Contains(t, known, matcher.Name, of.Name)
		}
	}
	bare := parser.VectorSelector{Name: of.Name, LabelMatchers: of.LabelMatchers}
	assert.NotEmpty(t, operator.answer(t, bare.String()), "no series is like %s", bare.String())
}

// assertLabels: some metric below a node has each of these labels. Whoever scrapes gives each its target.
func assertLabels(t *testing.T, operator exposed, below parser.Node, names []string) {
	t.Helper()
	known := []string{"instance"}
	parser.Inspect(below, func(node parser.Node, _ []parser.Node) error {
		if of, ok := node.(*parser.VectorSelector); ok {
			known = append(known, operator.labels[of.Name]...)
		}
		return nil
	})
	for _, name := range names {
		assert.Contains(t, known, name, below.String())
	}
}
