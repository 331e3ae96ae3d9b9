package ui_test

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/net/html"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/answers"
	"attune.io/attune/ui"
)

// get requests a page.
func get(t testing.TB, caches ui.Caches, path string) *httptest.ResponseRecorder {
	t.Helper()
	return ask(t, caches, http.MethodGet, path)
}

func ask(t testing.TB, caches ui.Caches, method, path string) *httptest.ResponseRecorder {
	t.Helper()
	w := httptest.NewRecorder()
	ui.NewHandler(caches, func(string, error) {}).ServeHTTP(w, httptest.NewRequest(method, path, nil))
	return w
}

// words returns the texts of a page, with single spaces.
func words(t testing.TB, body string) string {
	t.Helper()
	document, err := html.Parse(strings.NewReader(body))
	require.NoError(t, err)
	var out strings.Builder
	for node := range document.Descendants() {
		if node.Type == html.TextNode {
			out.WriteString(node.Data + " ")
		}
	}
	return strings.Join(strings.Fields(out.String()), " ")
}

// Every page is complete, loads nothing and has no script, whatever names other writers chose.
func TestPagesLoadNothingAndHaveNoScript(t *testing.T) {
	for name, caches := range map[string]ui.Caches{"small": Small(), "sourceless": Sourceless(), "empty": Empty(), "hostile": Hostile(), "great": Great(500), "long": Long()} {
		for _, path := range []string{"/ui/", "/ui/nodes", "/ui/nodes/worker-1", "/ui/nodes/worker-2", "/ui/nodes/" + url.PathEscape(Harm), "/ui/savings", "/ui/savings/shop", "/ui/savings/team-000?page=2",
			"/ui/search", "/ui/search?q=" + url.QueryEscape(Harm), "/ui/search?q=service-0&page=2", "/ui/ns/shop", "/ui/ns/shop/Deployment/web", "/ui/ns/legacy", "/ui/ns/team-000?page=2", "/ui/ns/" + "%3Cscript%3E", "/ui/else"} {
			t.Run(name+path, func(t *testing.T) {
				w := get(t, caches, path)
				body := w.Body.String()
				require.Contains(t, []int{http.StatusOK, http.StatusNotFound}, w.Code, body)
				for _, bad := range []string{"<script", "<img", "ZgotmplZ", "NaN", "javascript:"} {
					assert.NotContains(t, body, bad)
				}
				document, err := html.Parse(strings.NewReader(body))
				require.NoError(t, err)
				ids := map[string]bool{}
				for node := range document.Descendants() {
					if node.Type != html.ElementNode {
						continue
					}
					assert.NotContains(t, []string{"script", "link", "img", "iframe", "object", "embed", "base", "use", "image", "foreignobject"}, strings.ToLower(node.Data))
					for _, a := range node.Attr {
						assert.NotRegexp(t, `(?i)^(on|src|style|xlink|formaction)`, a.Key)
						switch a.Key {
						case "action":
							assert.Equal(t, "/ui/search", a.Val)
						case "method":
							assert.Equal(t, "get", a.Val)
						case "href":
							assert.True(t, strings.HasPrefix(a.Val, "/ui/"), a.Val)
						case "id":
							assert.False(t, ids[a.Val], "id %s comes twice", a.Val)
							ids[a.Val] = true
						}
					}
				}
			})
		}
	}
}

// The Content-Security-Policy allows the page's own style only.
func TestHeaders(t *testing.T) {
	w := get(t, Small(), "/ui/")
	style := regexp.MustCompile(`(?s)<style>(.*?)</style>`).FindStringSubmatch(w.Body.String())
	require.NotNil(t, style)
	sum := sha256.Sum256([]byte(style[1]))
	assert.Equal(t, "default-src 'none'; style-src 'sha256-"+base64.StdEncoding.EncodeToString(sum[:])+"'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'", w.Header().Get("Content-Security-Policy"))
	assert.Equal(t, "no-referrer", w.Header().Get("Referrer-Policy"))
	assert.Equal(t, "nosniff", w.Header().Get("X-Content-Type-Options"))
	assert.Equal(t, "no-store", w.Header().Get("Cache-Control"))
	assert.Empty(t, w.Header().Values("Set-Cookie"))
	assert.Equal(t, "text/html; charset=utf-8", w.Header().Get("Content-Type"))
}

func TestMethods(t *testing.T) {
	for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodDelete, http.MethodPatch, http.MethodOptions} {
		assert.Equal(t, http.StatusMethodNotAllowed, ask(t, Small(), method, "/ui/").Code, method)
	}
	assert.Equal(t, http.StatusOK, ask(t, Small(), http.MethodHead, "/ui/").Code)
}

// A page says if an object does not exist. It does not show read errors to the viewer.
func TestMissingObjects(t *testing.T) {
	for path, want := range map[string]string{
		"/ui/ns/none":                   "Namespace none has no AttunePolicy and no AttuneRecommendation.",
		"/ui/ns/shop/Deployment/none":   "Deployment/none in namespace shop has no AttuneRecommendation.",
		"/ui/ns/shop/StatefulSet/web":   "StatefulSet/web in namespace shop has no AttuneRecommendation.",
		"/ui/ns/shop/Deployment/web/at": "There is no such page.",
		"/ui/nodes/none":                "Node none is not known to the operator.",
		"/ui/savings/none":              "Namespace none has no AttuneRecommendation.",
	} {
		w := get(t, Small(), path)
		assert.Equal(t, http.StatusNotFound, w.Code, path)
		assert.Contains(t, words(t, w.Body.String()), want)
	}
	var told error
	w := httptest.NewRecorder()
	ui.NewHandler(broken{}, func(_ string, err error) { told = err }).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/ui/", nil))
	assert.Equal(t, http.StatusInternalServerError, w.Code)
	assert.NotContains(t, w.Body.String(), "secret")
	assert.EqualError(t, told, "secret")
}

type broken struct{ ui.Caches }

func (broken) All(context.Context, string) (ui.Cluster, error) {
	return ui.Cluster{}, errors.New("secret")
}

// The page of a workload has every line of kubectl attune explain, word for word, and the same amounts as its JSON.
func TestTheWordsOfExplain(t *testing.T) {
	caches := Small()
	for i := range caches.Recommendations {
		rec := &caches.Recommendations[i]
		page := words(t, get(t, caches, fmt.Sprintf("/ui/ns/%s/%s/%s", rec.Namespace, rec.Spec.Workload.Kind, rec.Spec.Workload.Name)).Body.String())
		answer, err := Live(rec)
		require.NoError(t, err)
		text, err := answer.Human(false)
		require.NoError(t, err)
		for line := range strings.Lines(text) {
			line = strings.Join(strings.Fields(line), " ")
			// The page shows the summary as a table with a cell for each amount.
			if regexp.MustCompile(`^(cpu|memory): request`).MatchString(line) || line == "pods" {
				continue
			}
			if name, basis, found := strings.Cut(line, ": confidence"); found {
				assert.Contains(t, page, name+" confidence"+basis)
				continue
			}
			line = strings.Replace(line, "blocked, ", "blocked , ", 1)
			if reason, blocks := strings.CutPrefix(line, "Blocked, "); blocks { // a list under a heading
				line = strings.Replace(reason, ": ", " : ", 1)
			}
			if next, found := strings.CutPrefix(line, "Next resize: "); found {
				line = "next resize " + strings.TrimSuffix(next, ".")
			}
			if pod, moves, found := strings.Cut(line, ": "); found && strings.Contains(pod, "-6d4b75cb6d-") {
				line = pod + " " + moves
			}
			assert.Contains(t, page, line)
		}
		for _, c := range answer.Containers {
			raw, err := json.Marshal(c.Target)
			require.NoError(t, err)
			var target answers.Amounts
			require.NoError(t, json.Unmarshal(raw, &target))
			if target.CPURequest != nil {
				assert.Contains(t, page, "request "+*c.Current.CPURequest+" "+*c.Next.CPURequest+" "+*target.CPURequest)
				assert.Contains(t, words(t, get(t, caches, "/ui/ns/"+rec.Namespace).Body.String()), *c.Current.CPURequest+" → "+*target.CPURequest)
			}
		}
	}
}

// The sums of the fleet are the sums of its namespaces.
func TestSumsAgree(t *testing.T) {
	fleet := words(t, get(t, Small(), "/ui/").Body.String())
	// web has 3 pods with 2 containers, db and invoices have 3 with one each, and agent has no target: (6+3+3) * 200m
	// and 768Mi.
	assert.Contains(t, fleet, "policies 3 workloads 4 containers 5 CPU recommended 2400m memory recommended 9Gi CPU savings 3600m memory savings 3Gi")
	assert.Contains(t, fleet, "billing 1 1 1 600m 2.3Gi 1800m 1.5Gi 1 0 0")
	assert.Contains(t, fleet, "shop 1 3 4 1800m 6.8Gi 1800m 1.5Gi 7 1 0")
	assert.Contains(t, fleet, "legacy 1 0 0 0 0 0 0 0 0 1")
	assert.Contains(t, fleet, "legacy , policy all: InvalidConfig : spec.updateStrategy.cooldown")
	shop := words(t, get(t, Small(), "/ui/ns/shop").Body.String())
	assert.Contains(t, shop, "CPU recommended 1800m")
	assert.Contains(t, shop, "StatefulSet/db api Auto Paused postgres 500m → 200m 1Gi → 768Mi 0.92 Paused, memory:AllowDecrease")
	assert.Contains(t, shop, "DaemonSet/agent api Auto Idle agent 500m, no recommendation 1Gi, no recommendation 0.10 cpu:InsufficientData, memory:InsufficientData")
}

// Amounts beyond those of real machines are capped.
func TestSumsOfGreatAmounts(t *testing.T) {
	caches := Small()
	for i := range caches.Recommendations {
		for j := range caches.Recommendations[i].Spec.Containers {
			caches.Recommendations[i].Spec.Containers[j].Target.MemoryRequest = ptr.To(resource.MustParse("9E"))
		}
		caches.Recommendations[i].Status.Pods.Total = math.MaxInt32
	}
	for i := range caches.Policies {
		caches.Policies[i].Status.Savings = &v1alpha1.Savings{CPURequestReduction: resource.MustParse("-9P"), MemoryRequestReduction: resource.MustParse("9E")}
	}
	assert.Contains(t, words(t, get(t, caches, "/ui/").Body.String()), "memory recommended 8Pi CPU savings -9007199254740992m memory savings 8Pi")
}

// A paused workload can be resumed, and its page has its further facts.
func TestFactsOfAWorkload(t *testing.T) {
	db := words(t, get(t, Small(), "/ui/ns/shop/StatefulSet/db").Body.String())
	assert.Contains(t, db, "kubectl attune resume statefulset/db -n shop")
	assert.Contains(t, db, "Paused : another writer resized db-0 twice")
	web := words(t, get(t, Small(), "/ui/ns/shop/Deployment/web").Body.String())
	for _, want := range []string{
		"kubectl attune pause deployment/web -n shop", "kubectl attune undo deployment/web -n shop", "pods 3, at target 1, in-flight resizes 1", "app memory 700Mi oomkill",
		"Watching 2026-03-02 11:50 UTC app: cpu request 500m, cpu limit 1, memory request 1Gi, memory limit 2Gi",
		"2026-03-01 16:00 UTC web-6d4b75cb6d-00001 app cpu 700m 500m InPlace Success –", "ResizeBlocked True Quota",
		"next resize not before 2026-03-02T12:05:00Z (Observation). attune observes the last resize until then, and reverts it after a regression",
		"6d4b75cb6d 2026-01-31 12:00 UTC app: cpu request 500m", "request now 500m, limit 1, target 200m",
	} {
		assert.Contains(t, web, want)
	}
	assert.NotContains(t, db, "next resize no", "none is planned")
	assert.Equal(t, 4, strings.Count(get(t, Small(), "/ui/ns/shop/Deployment/web").Body.String(), "<svg"))
}

// If time runs out, the rows say so and the page is still sent.
func TestRowsThatTakeTooLong(t *testing.T) {
	w := httptest.NewRecorder()
	ctx, stop := context.WithCancel(t.Context())
	stop()
	ui.NewHandler(Small(), func(string, error) {}).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/ui/ns/shop", nil).WithContext(ctx))
	assert.Equal(t, http.StatusOK, w.Code)
	assert.Equal(t, 3, strings.Count(w.Body.String(), "Too many pods for one page"))
}

func TestPagesOfALongList(t *testing.T) {
	caches := Great(500)
	for page, want := range map[string][]string{
		"": {"1 to 100 of 500"}, "?page=2": {"101 to 200 of 500", "page=1", "page=3"}, "?page=5": {"401 to 500 of 500", "page=4"},
		"?page=99": {"401 to 500 of 500"}, "?page=-7": {"1 to 100 of 500"}, "?page=99999999999999999999": {"1 to 100 of 500"}, "?page=x": {"1 to 100 of 500"},
	} {
		body := get(t, caches, "/ui/ns/team-000"+page).Body.String()
		for _, w := range want {
			assert.Contains(t, body, w, page)
		}
		assert.Equal(t, 100, strings.Count(body, `href="/ui/ns/team-000/Deployment/`), page)
	}
	assert.NotContains(t, get(t, caches, "/ui/ns/team-000?page=5").Body.String(), "Next")
}

// A page that would be too large is not sent.
func TestBoundOfAPage(t *testing.T) {
	caches := Small()
	caches.Recommendations[0].Spec.Containers[0].Steps = make([]v1alpha1.Step, 5000)
	for i := range caches.Recommendations[0].Spec.Containers[0].Steps {
		caches.Recommendations[0].Spec.Containers[0].Steps[i] = v1alpha1.Step{Resource: "cpu", Name: "x", Reason: strings.Repeat("long ", 300)}
	}
	w := get(t, caches, "/ui/ns/shop/Deployment/web")
	assert.Equal(t, http.StatusInternalServerError, w.Code)
	assert.Less(t, w.Body.Len(), 200)
}

// The first page of 5,000 workloads takes less than 200 ms. The test prints the time.
func TestFirstPageOfAGreatCluster(t *testing.T) {
	caches := Great(5000)
	begin := time.Now()
	w := get(t, caches, "/ui/")
	took := time.Since(begin)
	require.Equal(t, http.StatusOK, w.Code)
	t.Logf("the first page of 5,000 workloads: %v, %d KiB", took, w.Body.Len()>>10)
	assert.Less(t, took, time.Second, "a loaded machine may take more than the 200 ms that are meant")
}

func BenchmarkFleet5000(b *testing.B) {
	caches := Great(5000)
	b.ReportAllocs()
	for b.Loop() {
		get(b, caches, "/ui/")
	}
}

func BenchmarkNamespace500(b *testing.B) {
	caches := Great(500)
	b.ReportAllocs()
	for b.Loop() {
		get(b, caches, "/ui/ns/team-000")
	}
}

func BenchmarkWorkload(b *testing.B) {
	caches := Small()
	b.ReportAllocs()
	for b.Loop() {
		get(b, caches, "/ui/ns/shop/Deployment/web")
	}
}
