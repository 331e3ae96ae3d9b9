package backtestpage

import (
	"flag"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/net/html"

	"attune.io/attune/internal/chart"
	"attune.io/attune/recommender"
	"attune.io/attune/recommender/backtest"
)

var update = flag.Bool("update", false, "write the golden file instead of comparing with it")

// usage returns three days with a daily cycle and a spike. The name may contain HTML.
func usage(name string) backtest.Series {
	s := backtest.Series{ID: name}
	began := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for i := range 3 * 288 {
		swing := 1 + 0.5*math.Sin(2*math.Pi*float64(i)/288)
		if i == 700 {
			swing = 4
		}
		s.Samples = append(s.Samples, backtest.Sample{At: began.Add(time.Duration(i+1) * 5 * time.Minute).UnixMilli(), Used: [2]float64{0.2 * swing, 300 * swing * (1 << 20)}})
	}
	return s
}

// estimated returns the settings of the sweep.
func estimated() recommender.Settings {
	return backtest.Alone(recommender.Settings{HistoryWindow: 96 * time.Hour, QueryStep: 5 * time.Minute})
}

func example() Page {
	rules := backtest.Rules{Warmup: 24 * time.Hour, Cadence: time.Hour}
	series := usage(`shop/Deployment/<script>alert("x")</script>/a'b`)
	p := Page{Usage: "https://elsewhere.example/?a=1&b=<b>", At: time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC), Rules: rules, Promises: &backtest.Reliability{}}
	report := func(s backtest.Strategy) backtest.Report {
		return backtest.Summary(s.Name, []backtest.Score{backtest.Replay(series, s, rules)})
	}
	peers := backtest.Peers()
	p.Policy = report(peers[5])
	p.Policy.Name = "attune"
	for _, peer := range peers {
		p.Others = append(p.Others, report(peer))
	}
	for _, risk := range []float64{0.1, 1, 10, 100} {
		p.Sweep = append(p.Sweep, report(backtest.Promising(backtest.Adaptive(risk, estimated()), p.Promises)))
	}
	p.Saved = Saved{Than: `the "current" requests`, Policy: [2]float64{10, 30}, Other: [2]float64{25.5, 20}}
	p.Harmed = []Harm{{Series: series.ID, OOMHours: 2, StarvedMinutes: 35, DeepMinutes: 5, ContainerDays: 2}}
	p.HarmedMore, p.Budgets = 3, []string{"budget exceeded: 2 <resizes> per container-day"}
	_, line := backtest.Drawn(series, peers[5], rules, 60)
	_, limited := backtest.Drawn(series, peers[6], rules, 60)
	p.Series = []Shown{{series.ID, "the most harm", line}, {"b", "the most typical", limited}}
	return p
}

func written(t *testing.T, p Page) string {
	t.Helper()
	var out strings.Builder
	require.NoError(t, Write(&out, p))
	return out.String()
}

func TestPage(t *testing.T) {
	path, got := filepath.Join("testdata", "page.html"), written(t, example())
	if *update {
		require.NoError(t, os.WriteFile(path, []byte(got), 0o644))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err, "run the test with -update to write it")
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s differs (-want +got):\n%s", path, diff)
	}
}

// A browser fetches and runs nothing, whatever the names are. Every chart has a title and a text, every id is unique.
func TestThePageStandsAlone(t *testing.T) {
	for name, p := range map[string]Page{"full": example(), "empty": {}} {
		t.Run(name, func(t *testing.T) {
			text := written(t, p)
			assert.NotContains(t, text, "<script")
			policy := strings.Index(text, `<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'">`)
			assert.Positive(t, policy)
			assert.Less(t, policy, strings.Index(text, "<title"), "a policy covers only what follows it")
			assert.NotContains(t, text, "ZgotmplZ", "html/template refused a value")
			assert.NotContains(t, text, "NaN")
			document, err := html.Parse(strings.NewReader(text))
			require.NoError(t, err)
			ids, charts := map[string]bool{}, 0
			for node := range document.Descendants() {
				if node.Type != html.ElementNode {
					continue
				}
				assert.NotContains(t, []string{"script", "link", "img", "iframe", "object", "embed", "base", "form", "a", "use", "image", "foreignobject"}, strings.ToLower(node.Data))
				of := map[string]string{}
				for _, a := range node.Attr {
					of[a.Key] = a.Val
					assert.NotRegexp(t, `(?i)^(on|href|src|srcset|action|xlink)`, a.Key)
					assert.NotRegexp(t, `(?i)url\(|//|javascript:`, a.Val, a.Key)
				}
				if id := of["id"]; id != "" {
					assert.False(t, ids[id], "id %s comes twice", id)
					ids[id] = true
				}
				if node.Data == "svg" {
					charts++
					assert.Equal(t, "img", of["role"])
					titles := strings.Fields(of["aria-labelledby"])
					require.Len(t, titles, 2)
					for _, id := range titles {
						assert.Regexp(t, `<(title|desc) id="`+regexp.QuoteMeta(id)+`">[^<]+</`, text)
					}
				}
				if node.Data == "style" {
					assert.NotRegexp(t, `(?i)url\(|@import|//`, node.FirstChild.Data)
					assert.Contains(t, node.FirstChild.Data, "prefers-color-scheme: dark")
				}
			}
			if name == "full" {
				assert.Equal(t, 2+4+2, charts)
				assert.Contains(t, text, "&lt;script&gt;")
			} else {
				assert.Zero(t, charts)
			}
		})
	}
}

// Lines have gaps without samples or requests.
func TestGapsOfCharts(t *testing.T) {
	nan := math.NaN()
	line := backtest.Timeline{
		{At: 0, Most: [2]float64{1, nan}}, {At: 1, Most: [2]float64{2, nan}, Request: backtest.Size{4, 0}}, {At: 2, Most: [2]float64{nan, nan}, Request: backtest.Size{3, 0}},
		{At: 3, Most: [2]float64{5, nan}, Request: backtest.Size{3, 0}, Short: [2]bool{true, false}},
	}
	all := plots(Shown{Series: "s", Line: line}, 0)
	require.Len(t, all, 1, "memory was never measured")
	assert.Equal(t, 2, strings.Count(all[0].Usage, "Z"), "two outlines with a gap between")
	assert.Equal(t, 1, strings.Count(all[0].Request, "M"))
	assert.Len(t, all[0].Short, 1)
	assert.Contains(t, all[0].Text, "Usage is above the request in 1 of 4 intervals.")
}

// Names do not cover each other.
func TestLabels(t *testing.T) {
	points := []point{{X: 100, Y: 100, Name: "vpa"}, {X: 100, Y: 100, Name: "vpa-nofloor"}, {X: 103, Y: 104, Name: "krr"}, {X: 300, Y: 100, Name: "far"}, {X: 100, Y: 100}}
	label(points)
	for i, a := range points[:4] {
		for _, b := range points[i+1 : 4] {
			near := math.Abs(float64(a.LabelX-b.LabelX)) < 60 && math.Abs(float64(a.LabelY-b.LabelY)) < labelHigh
			assert.False(t, near, "%s and %s", a.Name, b.Name)
		}
	}
	assert.Equal(t, chart.Place(104), points[3].LabelY)
	assert.Zero(t, points[4].LabelX)
}
