package e2e

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"attune.io/attune/test/deploy"
)

const (
	// exposition is what dashboards and alerts are tested with: every metric of the operator, with its labels.
	exposition = "../tsdb/monitoring/testdata/operator.prom"
	// scrapeEvery is how often the operator is scraped: series go with the workloads of a test.
	scrapeEvery = 10 * time.Second
	scraper     = "e2e-scraper"
)

// unplayed are metrics that no story of these tests gives a value, each with the reason.
var unplayed = map[string]string{
	"attune_burst_factor":                  "no container has peaks that outgrow its percentile",
	"attune_node_load_ratio":               "the load taint is switched off",
	"attune_pass_incomplete_total":         "what passes need can be read, but for moments",
	"attune_prometheus_query_errors_total": "the server answers, but in the outages",
	"attune_reconcile_errors_total":        "conflicts come by chance",
	"attune_reverts_pending":               "what is taken back finds room, but for moments",
	"attune_usage_recent_refused":          "there is room for all containers",
	"attune_usage_samples_dropped_total":   "kubelets give no samples that are of no use, but by chance",
}

// meter collects what the operator's processes show during a run: of each series the newest value, as a server keeps it.
type meter struct {
	end   context.CancelFunc
	ended chan struct{}
	// types are the lines of the metrics' types, series the newest values by metric and series. Only the goroutine that scrapes
	// uses both before it has ended.
	types  map[string]string
	series map[string]map[string]string
	// processes are the pods that were scraped, in the order in which they were seen.
	processes []string
}

// scraping is held by a scrape, and by a story that counts the callers of the operator's ports.
var scraping sync.Mutex

// meters begins to scrape the operator.
func meters() *meter {
	ctx, cancel := context.WithCancel(context.Background())
	m := &meter{end: cancel, ended: make(chan struct{}), types: map[string]string{}, series: map[string]map[string]string{}}
	go func() {
		defer close(m.ended)
		ticker := time.NewTicker(scrapeEvery)
		defer ticker.Stop()
		for ctx.Err() == nil {
			m.scrape(ctx)
			select {
			case <-ctx.Done():
			case <-ticker.C:
			}
		}
	}()
	return m
}

// scrape all processes. One that does not answer is scraped the next time: tests end and freeze them.
func (m *meter) scrape(ctx context.Context) {
	scraping.Lock()
	defer scraping.Unlock()
	pods := &corev1.PodList{}
	of := []client.ListOption{client.InNamespace(deploy.Namespace), client.MatchingLabels{"app.kubernetes.io/name": "attune"}}
	if mayScrape(ctx, scraper) != nil || env.client.List(ctx, pods, of...) != nil {
		return
	}
	for i := range pods.Items {
		pod := &pods.Items[i]
		if status, text, err := metricsOf(ctx, pod, scraper); err == nil && status == 200 {
			m.take(m.process(pod), text)
		}
	}
}

// process is the name of a pod's process in the file: that of a pod would differ from run to run.
func (m *meter) process(pod *corev1.Pod) string {
	i := slices.Index(m.processes, pod.Name)
	if i < 0 {
		i = len(m.processes)
		m.processes = append(m.processes, pod.Name)
	}
	cluster := only()
	if cluster == "" {
		cluster = "together"
	}
	return fmt.Sprintf("%s-%s-%d", cluster, pod.Labels["app.kubernetes.io/component"], i)
}

// take the operator's metrics of one answer; those of controller-runtime that dashboards and alerts use are among them.
func (m *meter) take(process, text string) {
	known, metric := m.types, ""
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if rest, ok := strings.CutPrefix(line, "# TYPE "); ok {
			metric, _, _ = strings.Cut(rest, " ")
			if !strings.HasPrefix(metric, "attune_") && !slices.Contains(foreign, metric) {
				metric = ""
				continue
			}
			known[metric] = line
			continue
		}
		at := strings.LastIndexByte(line, ' ')
		if metric == "" || strings.HasPrefix(line, "#") || at < 0 {
			continue
		}
		if m.series[metric] == nil {
			m.series[metric] = map[string]string{}
		}
		name, labels, _ := strings.Cut(line[:at], "{")
		labels = strings.TrimSuffix(labels, "}")
		if labels != "" {
			labels = "," + labels
		}
		m.series[metric][fmt.Sprintf("%s{instance=%q%s}", name, process, labels)] = line[at+1:]
	}
}

// foreign are the metrics of controller-runtime that dashboards and alerts use.
var foreign = []string{"leader_election_master_status", "certwatcher_read_certificate_total", "certwatcher_read_certificate_errors_total"}

// stop scraping, and note what was shown: for the process that looks at all of them, and among the artifacts. An error is
// what is not as the dashboards' tests take it to be.
func (m *meter) stop() error {
	m.end()
	<-m.ended
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	m.scrape(ctx)
	var out bytes.Buffer
	for _, metric := range slices.Sorted(maps.Keys(m.types)) {
		fmt.Fprintln(&out, m.types[metric])
		for _, series := range slices.Sorted(maps.Keys(m.series[metric])) {
			fmt.Fprintln(&out, series, m.series[metric][series])
		}
	}
	files := []string{recordFile("metrics", "prom")}
	if artifacts := os.Getenv("ATTUNE_ARTIFACTS"); artifacts != "" {
		files = append(files, filepath.Join(artifacts, filepath.Base(files[0])))
	}
	for _, file := range files {
		if err := os.WriteFile(file, out.Bytes(), 0o600); err != nil {
			return err
		}
	}
	if out.Len() == 0 {
		return errors.New("metrics: no process of the operator was scraped")
	}
	recorded, err := os.ReadFile(exposition)
	if err != nil {
		return err
	}
	return errors.Join(strangers(shapes(out.Bytes()), shapes(recorded))...)
}

// judgeMeters of all clusters: what of the recorded metrics no operator has shown.
func judgeMeters() error {
	recorded, err := os.ReadFile(exposition)
	if err != nil {
		return err
	}
	files, err := filepath.Glob(filepath.Join(os.Getenv(rightsVariable), "metrics-*.prom"))
	if err != nil {
		return err
	}
	live := map[string]string{}
	for _, file := range files {
		body, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		maps.Copy(live, shapes(body))
	}
	fmt.Printf("metrics: %d shown, in %d clusters\n", len(live), len(files))
	return errors.Join(missing(live, shapes(recorded))...)
}

// strangers are metrics that are not among the recorded ones as they are.
func strangers(live, recorded map[string]string) (problems []error) {
	for _, metric := range slices.Sorted(maps.Keys(live)) {
		if want, known := recorded[metric]; !known || live[metric] != want {
			problems = append(problems, fmt.Errorf("metric %s is %q, and %q in %s", metric, live[metric], want, exposition))
		}
	}
	return problems
}

// missing are recorded metrics that were not shown, though stories are played that give them a value.
func missing(live, recorded map[string]string) (problems []error) {
	for _, metric := range slices.Sorted(maps.Keys(recorded)) {
		if _, shown := live[metric]; !shown && unplayed[metric] == "" {
			problems = append(problems, fmt.Errorf("metric %s was shown by no operator", metric))
		}
	}
	return problems
}

// shapes are the types and the names of the labels of metrics, by the metric's name. What an exposition names of targets
// and buckets is left out.
func shapes(exposed []byte) map[string]string {
	all, kind, metric := map[string]string{}, "", ""
	lines := bufio.NewScanner(bytes.NewReader(exposed))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		line := lines.Text()
		if rest, ok := strings.CutPrefix(line, "# TYPE "); ok {
			metric, kind, _ = strings.Cut(rest, " ")
			continue
		}
		if metric == "" || strings.HasPrefix(line, "#") {
			continue
		}
		_, labels, _ := strings.Cut(line[:strings.LastIndexByte(line, ' ')], "{")
		var names []string
		for _, label := range strings.Split(labels, `",`) {
			if name, _, ok := strings.Cut(label, `="`); ok && name != "instance" && name != "le" {
				names = append(names, name)
			}
		}
		all[metric] = strings.TrimSpace(kind + " " + strings.Join(names, " "))
	}
	return all
}

// TestShapes needs no cluster: what the comparison of metrics sees.
func TestShapes(t *testing.T) {
	m := &meter{types: map[string]string{}, series: map[string]map[string]string{}}
	m.take("together-controller-0", `# HELP attune_resize_total Resizes.
# TYPE attune_resize_total counter
attune_resize_total{namespace="shop",resource="cpu"} 2
# TYPE attune_usage_series gauge
attune_usage_series 1
# TYPE go_goroutines gauge
go_goroutines 9
# TYPE attune_kubelet_scrape_seconds histogram
attune_kubelet_scrape_seconds_bucket{le="0.1"} 1
attune_kubelet_scrape_seconds_count 1
`)
	assert.Equal(t, map[string]string{`attune_usage_series{instance="together-controller-0"}`: "1"}, m.series["attune_usage_series"])
	var text bytes.Buffer
	for metric, line := range m.types {
		fmt.Fprintln(&text, line)
		for series, value := range m.series[metric] {
			fmt.Fprintln(&text, series, value)
		}
	}
	live := shapes(text.Bytes())
	want := map[string]string{"attune_resize_total": "counter namespace resource", "attune_usage_series": "gauge", "attune_kubelet_scrape_seconds": "histogram"}
	assert.Equal(t, want, live)
	assert.Empty(t, strangers(live, want))
	assert.Len(t, strangers(live, map[string]string{"attune_resize_total": "counter namespace", "attune_usage_series": "counter"}), 3)
	assert.Empty(t, missing(live, want))
	assert.Len(t, missing(map[string]string{}, want), 3)
	assert.Empty(t, missing(live, map[string]string{"attune_node_load_ratio": "gauge node"}), "no story is played of it")

	recorded, err := os.ReadFile(exposition)
	assert.NoError(t, err)
	for metric := range unplayed {
		assert.Contains(t, shapes(recorded), metric, "there is no such metric any more")
	}
}
