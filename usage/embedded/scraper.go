package embedded

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"k8s.io/utils/clock"

	"attune.io/attune/internal/loop"
	"attune.io/attune/usage"
	"attune.io/attune/usage/embedded/raw"
)

const (
	// maxParallel is how many kubelets are asked at the same time.
	maxParallel = 32
	// watchInterval is how often the nodes of watched pods say what only cAdvisor has: as often as kubelets
	// measure it.
	watchInterval = 15 * time.Second
	// nodesEvery is how often the nodes are looked up.
	nodesEvery = 10 * time.Second
	// past and future are how far a kubelet's clock may be off.
	past, future = 5 * time.Minute, time.Minute
)

// Cluster is what a scraper knows of the cluster; both are answered from caches.
type Cluster interface {
	// Nodes that there are; the errors say which of them cannot be asked, and why.
	Nodes(ctx context.Context) ([]Node, []error, error)
	// Watched are the nodes of pods that are watched after a resize.
	Watched(ctx context.Context) (map[Pod]string, error)
	// Followed are the nodes of pods of which is wanted how long they waited for CPU, with their usage.
	Followed(ctx context.Context) (map[Pod]string, error)
	// NodeOf is the node of a pod; empty: it has none.
	NodeOf(ctx context.Context, pod Pod) (string, error)
}

// Pod is named by namespace and name.
type Pod struct{ Namespace, Name string }

// scraper asks every kubelet once an interval.
type scraper struct {
	cluster  Cluster
	kubelets *kubelets
	interval time.Duration
	clock    clock.WithTicker
	log      *slog.Logger
	metrics  *Metrics
	// keep takes what was scraped; it may change the slice, which is only valid during the call.
	keep   func([]scraped)
	intern func(of labels.Labels) *series
	// pressure: nodes' own CPU pressure is kept too.
	pressure bool

	mutex   sync.Mutex
	targets map[string]*target
	// unusable says why some nodes are not asked.
	unusable []error
	// biggest is the most that any node has had.
	biggest Node

	asked asked

	bodies sync.Pool
}

// run scrapes until the context ends, and returns when no scrape goes on any more.
func (s *scraper) run(ctx context.Context) {
	slots := make(chan struct{}, maxParallel)
	var running sync.WaitGroup
	defer running.Wait()
	var looked time.Time
	watched := map[string]*more{}
	for now := range loop.Every(ctx, s.clock, max(50*time.Millisecond, min(time.Second, s.interval/10))) {
		if now.Sub(looked) >= min(nodesEvery, s.interval) {
			looked = now
			watched = s.look(ctx, now, watched)
		}
		for _, j := range s.due(now, watched, maxParallel-len(slots)) {
			slots <- struct{}{}
			running.Go(func() {
				defer func() { <-slots }()
				s.do(ctx, j)
			})
		}
	}
}

// look at the cluster. What cannot be looked up stays as it was.
func (s *scraper) look(ctx context.Context, now time.Time, before map[string]*more) map[string]*more {
	nodes, unusable, err := s.cluster.Nodes(ctx)
	if err == nil {
		s.follow(nodes, unusable)
	}
	watched, wrong := s.watched(ctx, now)
	if err = errors.Join(err, wrong); err != nil && ctx.Err() == nil {
		s.log.Error("looking up nodes and watched pods; scraping goes on with those known before", "cause", err.Error())
	}
	if wrong != nil {
		return before
	}
	return watched
}

// watched are the pods that need more than usage, by node: those that are watched, those that somebody has asked
// about, and those that are followed.
func (s *scraper) watched(ctx context.Context, now time.Time) (map[string]*more, error) {
	nodes, err := s.cluster.Watched(ctx)
	if err != nil {
		return nil, err
	}
	followed, err := s.cluster.Followed(ctx)
	if err != nil {
		return nil, err
	}
	byNode := map[string]*more{}
	want := func(pod Pod, node string, all bool) {
		if byNode[node] == nil {
			byNode[node] = &more{pods: map[Pod]bool{}}
		}
		byNode[node].pods[pod] = all
		byNode[node].often = byNode[node].often || all
	}
	for pod, node := range followed {
		want(pod, node, false)
	}
	add := func(pod Pod, node string) { want(pod, node, true) }
	for pod, node := range nodes {
		add(pod, node)
	}
	for _, pod := range s.asked.recently(now) {
		if _, known := nodes[pod]; known {
			continue
		}
		node, err := s.cluster.NodeOf(ctx, pod)
		if err != nil {
			return nil, err
		}
		if node != "" {
			add(pod, node)
		}
	}
	return byNode, nil
}

// follow takes up nodes that are new and drops those that are gone.
func (s *scraper) follow(nodes []Node, unusable []error) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.unusable = unusable
	there := map[string]bool{}
	now := s.clock.Now()
	for _, node := range nodes {
		there[node.Name] = true
		s.biggest.Cores, s.biggest.Bytes = max(s.biggest.Cores, node.Cores), max(s.biggest.Bytes, node.Bytes)
		t := s.targets[node.Name]
		if t == nil {
			t = &target{due: nextAt(node.Name, s.interval, now), known: map[string]*known{}}
			s.targets[node.Name] = t
		}
		t.node = node
	}
	maps.DeleteFunc(s.targets, func(name string, _ *target) bool { return !there[name] })
}

// due are the nodes whose turn it is, at most so many; those that have waited longest come first.
func (s *scraper) due(now time.Time, watched map[string]*more, most int) []*job {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	var jobs []*job
	for name, t := range s.targets {
		if j := t.job(now, watched[name], s.pressure, s.interval); j != nil {
			jobs = append(jobs, j)
		}
	}
	slices.SortFunc(jobs, func(a, b *job) int {
		return cmp.Or(a.target.due.Compare(b.target.due), strings.Compare(a.node.Name, b.node.Name))
	})
	jobs = jobs[:min(len(jobs), most)]
	for _, j := range jobs {
		j.target.busy = true
		if j.usage {
			s.metrics.late(now.Sub(j.target.due))
		}
	}
	return jobs
}

// do one job.
func (s *scraper) do(ctx context.Context, j *job) {
	began := s.clock.Now()
	err := s.scrape(ctx, j, began)
	now := s.clock.Now()
	if ctx.Err() != nil {
		return
	}
	s.metrics.scraped(err, now.Sub(began))
	s.mutex.Lock()
	defer s.mutex.Unlock()
	turned := (err == nil) != (j.target.err == nil) || err != nil && err.Error() != j.target.err.Error()
	j.target.settle(j, began, now, s.interval, err)
	switch {
	case turned && err != nil:
		s.log.Error("a kubelet does not say what its containers use; recommendations lack them", "node", j.node.Name, "cause", err.Error())
	case turned:
		s.log.Info("the kubelet answers again", "node", j.node.Name)
	}
}

// scrape asks for what a job wants, and keeps what was said of it before something went wrong.
func (s *scraper) scrape(ctx context.Context, j *job, now time.Time) error {
	body, _ := s.bodies.Get().(*body)
	if body == nil {
		body = newBody()
	}
	defer s.bodies.Put(body)
	j.target.round++
	var err error
	if j.usage {
		err = s.ask(ctx, j, "/metrics/resource", maxResourceBytes, body, now, resourceMetrics, nil)
	}
	if err == nil && j.pods != nil {
		err = s.ask(ctx, j, "/metrics/cadvisor", maxCadvisorBytes, body, now, cadvisorMetrics, j.pods)
	}
	j.target.forget()
	return err
}

// body is memory that scrapes use one after another.
type body struct {
	text  bytes.Buffer
	batch []scraped
}

func newBody() *body { return &body{} }

func (s *scraper) ask(ctx context.Context, j *job, path string, most int64, body *body, now time.Time, wanted func([]byte) bool, pods map[Pod]bool) error {
	if err := s.kubelets.get(ctx, j.node, path, most, &body.text); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	r := reader{
		scraper: s, target: j.target, node: j.node.Name, pods: pods, now: now.UnixMilli(), batch: body.batch[:0],
		nodeOf: func(pod Pod) (string, error) { return s.cluster.NodeOf(ctx, pod) },
	}
	if err := parse(body.text.Bytes(), wanted, r.take); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	body.batch = r.batch
	s.keep(r.batch)
	s.metrics.took(len(r.batch), r.dropped)
	return r.clock(path)
}

// reader turns an exposition into samples.
type reader struct {
	scraper *scraper
	target  *target
	node    string
	pods    map[Pod]bool
	now     int64
	batch   []scraped
	dropped map[usage.Drop]int
	// off is how far a sample's time was from ours, in milliseconds, where that is too far.
	off int64
	// nodeOf is the node that a pod is on, by the API server; empty: none.
	nodeOf func(Pod) (string, error)
	// placed is the pod that was looked up last: kubelets tell a pod's series one after the other.
	placed struct {
		pod  Pod
		node string
		err  error
	}
}

func (r *reader) take(p point) {
	if r.pods != nil && !r.wants(p.text) {
		return
	}
	if drop := usage.DropOf(p.value); drop != "" {
		r.drop(drop)
		return
	}
	if p.at == 0 {
		p.at = r.now
	}
	if off := p.at - r.now; off > future.Milliseconds() || off < -past.Milliseconds() {
		r.off = off
		r.drop(usage.DropClock)
		return
	}
	k := r.known(p)
	if k.drop != "" {
		r.drop(k.drop)
		return
	}
	r.batch = append(r.batch, scraped{k.series, raw.Sample{At: p.at, Value: p.value}})
}

// wants: the series of cAdvisor is one that is asked for.
func (r *reader) wants(text []byte) bool {
	all, known := r.pods[Pod{string(labelOf(text, "namespace")), string(labelOf(text, "pod"))}]
	switch {
	case known:
		return all || string(nameOf(text)) == waited
	case r.scraper.pressure:
		return ofNode(text)
	}
	return false
}

func (r *reader) drop(why usage.Drop) {
	if r.dropped == nil {
		r.dropped = map[usage.Drop]int{}
	}
	r.dropped[why]++
}

// clock complains of a node all of whose samples have impossible times. Single ones are those of containers
// that are gone.
func (r *reader) clock(path string) error {
	if len(r.batch) > 0 || r.off == 0 || r.pods != nil {
		return nil
	}
	return fmt.Errorf("%s: its samples are %s off our clock, more than %s", path, time.Duration(r.off)*time.Millisecond, past)
}

// known is what is known of a text: its series, or why it has none. One that was seen before costs one look-up.
func (r *reader) known(p point) *known {
	k := r.target.known[string(p.text)]
	switch {
	case k == nil && len(r.target.known) >= maxSeries:
		return &known{drop: usage.DropFull}
	case k == nil:
		k = r.learn(p)
		r.target.known[string(p.text)] = k
	case k.unsure(r.target.round):
		r.check(k)
	}
	k.round = r.target.round
	return k
}

// learn a series from its text. Each is told with the node that it is of, whatever the kubelet says: two nodes that
// tell of one pod are two series, of which the highest counts.
func (r *reader) learn(p point) *known {
	var of labels.Labels
	p.labels(&of)
	if _, twice := of.HasDuplicateLabelNames(); twice {
		return &known{drop: usage.DropLabels}
	}
	k := &known{labels: labels.NewBuilder(of).Set("node", r.node).Labels()}
	r.check(k)
	return k
}

// check whether a series is of the node itself or of a pod on it, as the API server says: a kubelet is believed of
// nothing else. Where that cannot be looked up, what was known stays.
func (r *reader) check(k *known) {
	k.checked = r.target.round
	pod := Pod{k.labels.Get("namespace"), k.labels.Get("pod")}
	if pod != (Pod{}) || k.labels.Get("container") != "" {
		node, err := r.placeOf(pod)
		if err == nil && node != r.node || err != nil && k.series == nil {
			k.drop = usage.DropElsewhere
			return
		}
	}
	k.drop = ""
	if k.series == nil {
		k.series = r.scraper.intern(k.labels)
		k.labels = k.series.labels
	}
}

// placeOf is the node of a pod.
func (r *reader) placeOf(pod Pod) (string, error) {
	if r.placed.pod != pod {
		r.placed.pod = pod
		r.placed.node, r.placed.err = r.nodeOf(pod)
	}
	return r.placed.node, r.placed.err
}

// failing says which nodes do not answer, and why, and of how many.
func (s *scraper) failing() (texts []string, nodes int) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	var all []string
	for name, t := range s.targets {
		if t.err != nil {
			all = append(all, fmt.Sprintf("node %s: %s", name, t.err))
		}
	}
	for _, err := range s.unusable {
		all = append(all, err.Error())
	}
	slices.Sort(all)
	return all, len(s.targets) + len(s.unusable)
}

// cores that a node has; 0: it does not say, or is not known.
func (s *scraper) cores(node string) float64 {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if t := s.targets[node]; t != nil {
		return t.node.Cores
	}
	return 0
}

func (s *scraper) most() (cores, bytes float64) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.biggest.Cores, s.biggest.Bytes
}
