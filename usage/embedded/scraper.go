package embedded

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/sets"

	"attune.io/attune/internal/loop"
	"attune.io/attune/usage"
)

const (
	// maxParallel is how many kubelets are scraped concurrently.
	maxParallel = 32
	// watchInterval is how often /metrics/cadvisor is scraped on the nodes of observed pods: as often as kubelets
	// measure it.
	watchInterval = 15 * time.Second
	// nodesEvery is how often the nodes are looked up.
	nodesEvery = 10 * time.Second
	// past and future are how far a kubelet's clock may be off.
	past, future = 5 * time.Minute, time.Minute
)

// Cluster has nodes and pods from caches. All methods must be safe for concurrent use and fast, because NodeOf is
// called during a scrape.
type Cluster interface {
	// Nodes returns the nodes of the cluster.
	Nodes(ctx context.Context) ([]Node, error)
	// NamespacesOn returns the namespaces with running pods on a node.
	NamespacesOn(ctx context.Context, node string) ([]string, error)
	// Watched returns the pods observed after a resize, with their nodes.
	Watched(ctx context.Context) (map[Pod]string, error)
	// Followed returns the pods whose waiting time for CPU is wanted with their usage, with their nodes.
	Followed(ctx context.Context) (map[Pod]string, error)
	// NodeOf is the node of a pod; empty if it has none.
	NodeOf(ctx context.Context, pod Pod) (string, error)
}

// Pod is named by namespace and name.
type Pod struct{ Namespace, Name string }

// scraper scrapes every kubelet once per interval, maxParallel at a time. Its loop runs in one goroutine, and each
// scrape in its own.
type scraper struct {
	Options
	kubelets *kubelets
	// recent receives the samples.
	recent *recent
	// targets has the nodes, asked the pods that callers have queried.
	targets targets
	asked   asked
	// bodies are buffers for answers.
	bodies sync.Pool
}

// newScraper returns a scraper that knows no nodes yet.
func newScraper(o Options, recent *recent) *scraper {
	return &scraper{
		Options: o, kubelets: newKubelets(o.Transport), recent: recent, targets: targets{interval: o.Interval, of: map[string]*target{}},
		bodies: sync.Pool{New: func() any { return &body{} }},
	}
}

// run scrapes until the context ends, and returns after the last scrape has ended. The loop itself scrapes no kubelet,
// so a slow node delays no other. If all slots are taken, a due node waits for the next round; Metrics.lateness shows
// for how long.
func (s *scraper) run(ctx context.Context) {
	slots := make(chan struct{}, maxParallel)
	var running sync.WaitGroup
	defer running.Wait()
	var looked time.Time
	watched := map[string]*extras{}
	for now := range loop.Every(ctx, s.Clock, max(50*time.Millisecond, min(time.Second, s.Interval/10))) {
		if now.Sub(looked) >= min(nodesEvery, s.Interval) {
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

// look reads nodes and pods from the cluster. On an error the previous ones stay in use.
func (s *scraper) look(ctx context.Context, now time.Time, before map[string]*extras) map[string]*extras {
	nodes, err := s.Cluster.Nodes(ctx)
	if err == nil {
		s.targets.follow(nodes, s.Clock.Now())
	}
	watched, wrong := s.watched(ctx, now)
	if err = errors.Join(err, wrong); err != nil && ctx.Err() == nil {
		s.Log.Error("Cannot list nodes and watched pods; scraping continues with the known ones", "cause", err.Error())
	}
	if wrong != nil {
		return before
	}
	return watched
}

// watched returns the pods that need more than usage, by node: pods observed after a resize, pods that a caller
// queried, and followed pods. Followed pods come first, so that a pod that is also observed gets everything (all =
// true).
func (s *scraper) watched(ctx context.Context, now time.Time) (map[string]*extras, error) {
	nodes, err := s.Cluster.Watched(ctx)
	if err != nil {
		return nil, err
	}
	followed, err := s.Cluster.Followed(ctx)
	if err != nil {
		return nil, err
	}
	byNode := map[string]*extras{}
	want := func(pod Pod, node string, all bool) {
		if byNode[node] == nil {
			byNode[node] = &extras{pods: map[Pod]bool{}}
		}
		byNode[node].pods[pod] = all
		byNode[node].often = byNode[node].often || all
	}
	for pod, node := range followed {
		want(pod, node, false)
	}
	for pod, node := range nodes {
		want(pod, node, true)
	}
	for _, pod := range s.asked.recently(now) {
		if _, known := nodes[pod]; known {
			continue
		}
		node, err := s.Cluster.NodeOf(ctx, pod)
		if err != nil {
			return nil, err
		}
		if node != "" {
			want(pod, node, true)
		}
	}
	return byNode, nil
}

// due returns the jobs whose turn it is, at most most of them.
func (s *scraper) due(now time.Time, watched map[string]*extras, most int) []*job {
	jobs := s.targets.due(now, watched, s.NodePressure, most)
	for _, j := range jobs {
		if j.usage {
			s.Metrics.lateness.Set(now.Sub(j.target.due).Seconds())
		}
	}
	return jobs
}

// do one job.
func (s *scraper) do(ctx context.Context, j *job) {
	began := s.Clock.Now()
	err := s.scrape(ctx, j, began)
	now := s.Clock.Now()
	if ctx.Err() != nil {
		return
	}
	s.Metrics.scraped(err, now.Sub(began))
	changed := s.targets.finish(j, began, now, err)
	s.Metrics.hastened(s.targets.inHaste)
	switch {
	case changed && err != nil:
		s.Log.Error("Cannot scrape a kubelet; recommendations lack its usage", "node", j.node.Name, "cause", err.Error())
	case changed:
		s.Log.Info("The kubelet answers again", "node", j.node.Name)
	}
}

// scrape reads the paths that a job needs. Samples read before an error are kept.
func (s *scraper) scrape(ctx context.Context, j *job, now time.Time) error {
	body := s.bodies.Get().(*body)
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

// body is memory for one answer and its samples. Scrapes reuse it, because a cAdvisor answer takes megabytes.
type body struct {
	text  bytes.Buffer
	batch []scraped
}

// ask reads one path of a kubelet and keeps the samples of the wanted metrics.
func (s *scraper) ask(ctx context.Context, j *job, path string, most int64, body *body, now time.Time, wanted sets.Set[string], pods map[Pod]bool) error {
	if err := s.kubelets.get(ctx, j.node, path, most, &body.text); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	r := reader{
		scraper: s, target: j.target, node: j.node.Name, pods: pods, now: now.UnixMilli(), batch: body.batch[:0], dropped: map[usage.Drop]int{},
		nodeOf: func(pod Pod) (string, error) { return s.Cluster.NodeOf(ctx, pod) },
	}
	if s.Climb != nil {
		r.limitsOf = func(pod Pod) (map[string]float64, error) { return s.Climb.Limits(ctx, pod) }
	}
	if err := parse(body.text.Bytes(), wanted, r.take); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	body.batch = r.batch
	s.recent.append(r.batch, s.Clock.Now())
	if j.usage && pods == nil {
		j.haste = s.near(r.high, now)
	}
	s.Metrics.took(r.batch, r.dropped)
	return r.clock(path)
}
