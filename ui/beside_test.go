package ui_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/resource"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/cmd/kubectl-attune/output"
	"attune.io/attune/internal/answers"
	"attune.io/attune/internal/event"
	"attune.io/attune/ui"
)

// page returns the words of a page, which must exist.
func page(t testing.TB, caches ui.Caches, path string) string {
	t.Helper()
	w := get(t, caches, path)
	require.Equal(t, http.StatusOK, w.Code, path)
	return words(t, w.Body.String())
}

// The page of a node has every cell and sentence of kubectl attune node -o wide.
func TestTheWordsOfNode(t *testing.T) {
	caches := Small()
	for i := range caches.Others.Nodes {
		n := caches.Others.Nodes[i]
		got := page(t, caches, "/ui/nodes/"+n.Node)
		text, err := output.LiveNode{NodeAnswer: n, Now: Now}.Human(true)
		require.NoError(t, err)
		for line := range strings.Lines(text) {
			line = strings.TrimSpace(line)
			if regexp.MustCompile("^[A-Z ]+$").MatchString(line) {
				continue // the header of a table
			}
			line = regexp.MustCompile(` {3,}-`).ReplaceAllString(line, " –")
			assert.Contains(t, got, strings.Join(strings.Fields(line), " "))
		}
	}
	assert.Contains(t, page(t, caches, "/ui/nodes/worker-1"), "needed 1924m, 600Mi shared headroom 1976m, 7.3Gi")
	all := page(t, caches, "/ui/nodes")
	assert.Contains(t, all, "worker-1 4 3 100m, 70Mi 3900m, 7.9Gi 1924m, 600Mi 1 Overcommitted")
	assert.Contains(t, all, "worker-2 1 0 100m, 70Mi 3900m, 7.9Gi – 0 –")
	assert.Contains(t, page(t, Empty(), "/ui/nodes"), "The operator watches only some namespaces")
	assert.Contains(t, page(t, Great(5000), "/ui/nodes?page=2"), "101 to 200 of 252")
}

// The pages of savings have every sentence and amount of kubectl attune savings.
func TestTheWordsOfSavings(t *testing.T) {
	caches := Small()
	of := caches.Savings(t.Context())
	for path, namespace := range map[string]string{"/ui/savings": "", "/ui/savings/shop": "shop"} {
		cluster, err := caches.All(t.Context(), namespace)
		require.NoError(t, err)
		var entries []answers.SavingsEntry
		for i := range cluster.Recommendations {
			entries = append(entries, of(&cluster.Recommendations[i]))
		}
		answer, got := output.Savings{SavingsReport: answers.NewSavingsReport(entries, true)}, page(t, caches, path)
		text, err := answer.Human(false)
		require.NoError(t, err)
		for i, line := range strings.Split(text, "\n")[:3] {
			assert.Contains(t, got, line, "sentence %d", i)
		}
		assert.Contains(t, got, answers.NodeAutoscalerText)
	}
	assert.Contains(t, page(t, caches, "/ui/savings"), "shop 3 750m 3Gi €25.20 1860m -384Mi €39.63 Not counted: 3 blocked resources.")
	assert.Contains(t, page(t, caches, "/ui/savings/shop"), "Deployment/web 250m 1Gi €8.40 620m -128Mi €13.21 AllowDecrease")
	web := page(t, caches, "/ui/ns/shop/Deployment/web")
	assert.Contains(t, web, "Saved already: 250m of CPU and 1Gi of memory (€8.40 a month). Available, not applied yet: 620m of CPU and -128Mi of memory (€13.21 a month). Not counted: 1 blocked resource.")
	assert.Contains(t, web, "not counted: app, memory: AllowDecrease : memory is lowered only with allowDecrease")
	assert.Contains(t, page(t, Empty(), "/ui/savings"), "There is no recommendation yet.")
}

// If there is no time to sum all savings, the page does not show a part of the sum as the total.
func TestSavingsThatTakeTooLong(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	stop()
	w := httptest.NewRecorder()
	ui.NewHandler(Small(), func(string, error) {}).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/ui/savings", nil).WithContext(ctx))
	assert.Equal(t, http.StatusServiceUnavailable, w.Code)
	assert.Contains(t, words(t, w.Body.String()), "The savings of 4 workloads could not be computed in time")
}

// A search finds a part of NAMESPACE/KIND/NAME, and the page escapes the search text.
func TestSearch(t *testing.T) {
	caches := Small()
	for query, want := range map[string]string{
		"web": "1 workload contains “web” in", "SHOP/": "3 workloads contain “SHOP/” in", "shop/daemon": "DaemonSet/agent shop api Auto Idle", "  db ": "“db”", "nothing": "0 workloads contain",
		Harm: "0 workloads contain “" + Harm + "”",
	} {
		assert.Contains(t, page(t, caches, "/ui/search?q="+url.QueryEscape(query)), strings.Join(strings.Fields(want), " "), query)
	}
	assert.NotContains(t, page(t, caches, "/ui/search"), "workloads have")
	great := get(t, Great(5000), "/ui/search?q=service&page=3").Body.String()
	assert.Contains(t, great, "201 to 300 of 5000")
	assert.Contains(t, great, `href="/ui/search?q=service&amp;page=4"`)
	assert.Equal(t, 100, strings.Count(great, "/Deployment/"))
	long := get(t, caches, "/ui/search?q="+strings.Repeat("ä", 10000)).Body.String()
	assert.Less(t, len(long), 10000, "a query is cut")
}

// The pages of a workload have the same sentences about blocked resources as its status.
func TestSentencesOfBlockedResources(t *testing.T) {
	caches := Small()
	for i := range caches.Recommendations {
		rec := &caches.Recommendations[i]
		got := page(t, caches, fmt.Sprintf("/ui/ns/%s/%s/%s", rec.Namespace, rec.Spec.Workload.Kind, rec.Spec.Workload.Name))
		things := answers.BlockedOfWorkload(rec)
		require.NotEmpty(t, things)
		for _, thing := range things {
			assert.Regexp(t, regexp.QuoteMeta(thing.Reason)+" ?: "+regexp.QuoteMeta(thing.Message), got)
		}
	}
}

// The page of a workload says by which proof its requests change although an HPA scales on them, and what that saves.
func TestSentencesOfGrantedRequests(t *testing.T) {
	caches := Small()
	for i := range caches.Recommendations {
		if rec := &caches.Recommendations[i]; rec.Spec.Workload.Name == "web" {
			rec.Spec.Containers[0].Kept = []v1alpha1.KeptRequest{{Resource: "cpu", Least: resource.MustParse("150m"), HPAs: []string{"<b>web"}}}
			assert.Contains(t, page(t, caches, "/ui/ns/shop/Deployment/web"), "granted , "+answers.GrantedOfWorkload(rec)[0].String())
		}
	}
}

// A workload's page has the settings with the objects that set them, and the events that were sent.
func TestSettingsAndEvents(t *testing.T) {
	web := page(t, Small(), "/ui/ns/shop/Deployment/web")
	for _, want := range []string{
		"cpu.percentile 95 AttunePolicy api", "costPricing.cpuPerCoreHour 0.03 AttuneDefaults default", "memory.percentile 99 built-in",
		"2026-02-27 14:00 UTC Warning Reverted web-6d4b75cb6d-00002 Pod web-6d4b75cb6d-00002 has its old size again: oomkill",
	} {
		assert.Contains(t, web, want)
	}
}

// lineOf returns the path of a line in the first or second chart of a page.
func lineOf(t *testing.T, caches ui.Caches, kind string, number int) string {
	t.Helper()
	body := get(t, caches, "/ui/ns/shop/Deployment/web").Body.String()
	charts := regexp.MustCompile(`(?s)<figure.*?</figure>`).FindAllString(body, -1)
	require.Greater(t, len(charts), number)
	found := regexp.MustCompile(`<path class="` + kind + `" d="([^"]*)"`).FindStringSubmatch(charts[number])
	require.NotNil(t, found, kind)
	return found[1]
}

// The lines of a chart begin when the leader started recording. The history of resizes extends the request further
// back.
func TestLinesOverTime(t *testing.T) {
	caches := Small()
	// The chart spans 7 days over 632 units from 76: 96 h before its end is at 346.9. The limit was 1400m, the
	// maximum, and then 1.
	assert.Equal(t, "M346.7 14H632.7V58.6H708", lineOf(t, caches, "limit", 0))
	assert.Equal(t, "M346.7 134.3H482.2V143.3H677.9V147.7H708", lineOf(t, caches, "target", 0))
	body := page(t, caches, "/ui/ns/shop/Deployment/web")
	assert.Contains(t, body, "shown since 2026-02-26 12:00, when the leader started to record them.")
	assert.Contains(t, body, "2026-02-27 13:59 UTC: OOM kill")
	assert.Contains(t, body, "Marks: accepted resizes (dots): 0, reverted, withdrawn or failed ones (triangles): 1, OOM kills (crosses): 1.")

	short := shortly{caches}
	assert.Contains(t, page(t, short, "/ui/ns/shop/Deployment/web"), "shown since 2026-03-02 11:00, when the leader started to record them. Earlier requests are from the history.")
	// 700m to 500m 20 hours ago, with a maximum of 1 core.
	assert.Equal(t, "M632.7 60.8H632.7V92H708", lineOf(t, short, "request", 0))

	caches.WithoutPast = true
	body = page(t, caches, "/ui/ns/shop/Deployment/web")
	assert.Contains(t, body, "Request, limit and target show the current values: the leader has not recorded earlier ones.")
	assert.Equal(t, "M76 92H708", lineOf(t, caches, "request", 0))
}

// shortly has a leader that started recording an hour ago.
type shortly struct{ Caches }

func (s shortly) Beside(ctx context.Context, rec *v1alpha1.AttuneRecommendation) ui.Beside {
	out := s.Caches.Beside(ctx, rec)
	at := Now.Add(-time.Hour).UnixMilli()
	for name := range out.Trails {
		out.Trails[name] = event.Trail{Points: [2][]event.TrailPoint{{{At: at, TrailValues: event.TrailValues{Request: 500, Limit: 1000, Target: 200}}}, {{At: at, TrailValues: event.TrailValues{Request: 1 << 30, Limit: 2 << 30, Target: 768 << 20}}}}}
	}
	return out
}

// The total allocation of a page, garbage included, is bounded: a few hundred bytes for a workload that is only
// counted, and more only for the rows on the page.
func TestMemoryOfPages(t *testing.T) {
	few, many := Great(2500), Great(10000)
	for i := range many.Recommendations {
		many.Recommendations[i].Namespace = few.Recommendations[i%2500].Namespace
	}
	many.Policies = few.Policies
	for path, most := range map[string]uint64{
		"/ui/": 8 << 20, "/ui/nodes": 2 << 20, "/ui/savings": 4 << 20, "/ui/savings/team-000": 16 << 20, "/ui/search?q=service": 4 << 20, "/ui/ns/team-000": 16 << 20, "/ui/ns/team-024/Deployment/service-2400": 4 << 20,
	} {
		taken := func(caches ui.Caches) uint64 {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			w := get(t, caches, path)
			runtime.ReadMemStats(&after)
			require.Equal(t, http.StatusOK, w.Code, path)
			return after.TotalAlloc - before.TotalAlloc
		}
		a, b := taken(few), taken(many)
		t.Logf("%s: %d KiB for 2,500 workloads, %d KiB for 10,000", path, a>>10, b>>10)
		assert.Less(t, b, most, path)
	}
}

// A name of 253 bytes and messages without spaces still render a complete page.
func TestLongNames(t *testing.T) {
	caches := Long()
	name := caches.Recommendations[0].Spec.Workload.Name
	assert.Contains(t, page(t, caches, "/ui/ns/shop/Deployment/"+name), "Deployment/"+name)
	assert.Contains(t, page(t, caches, "/ui/search?q="+name[:100]), "1 workload contains")
	assert.Contains(t, page(t, caches, "/ui/nodes/"+caches.Others.Nodes[0].Node), "Node "+caches.Others.Nodes[0].Node)
}
