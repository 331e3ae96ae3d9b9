package embedded

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/prometheus/model/labels"

	"attune.io/attune/usage"
)

// targets has the nodes that are scraped, and the nodes that cannot be. mutex guards it and its targets, except the
// fields that belong to a scrape (see target).
type targets struct {
	// interval is the time between two scrapes of a node.
	interval time.Duration
	mutex    sync.Mutex
	// of has the nodes that are scraped, by name.
	of map[string]*target
	// unusable says why some nodes cannot be scraped, by name. excluded are the names of nodes that are not to be scraped.
	unusable map[string]error
	excluded []string
	// biggest has the most cores and the most bytes that any node has had. A container cannot use more.
	biggest Node
}

// follow adds new nodes and removes deleted ones. A running scrape of a deleted node continues to its end.
func (t *targets) follow(nodes []Node, now time.Time) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	t.unusable, t.excluded = map[string]error{}, nil
	there := map[string]bool{}
	for _, node := range nodes {
		if node.Excluded {
			t.excluded = append(t.excluded, node.Name)
			continue
		}
		if node.Unusable != nil {
			t.unusable[node.Name] = node.Unusable
			continue
		}
		there[node.Name] = true
		t.biggest.Cores, t.biggest.Bytes = max(t.biggest.Cores, node.Cores), max(t.biggest.Bytes, node.Bytes)
		if t.of[node.Name] == nil {
			t.of[node.Name] = &target{due: nextAt(node.Name, t.interval, now), known: map[string]*known{}}
		}
		t.of[node.Name].node = node
	}
	maps.DeleteFunc(t.of, func(name string, _ *target) bool { return !there[name] })
}

// due returns the jobs whose turn it is, at most most; jobs that have waited longest come first. Nodes that do not answer
// come an interval later, because a scrape of them may take its whole timeout. Their targets are busy until finish is
// called, so that a node has one scrape at a time.
func (t *targets) due(now time.Time, watched map[string]*extras, pressure bool, most int) []*job {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	var jobs []*job
	for name, of := range t.of {
		if j := of.job(now, watched[name], pressure, t.interval); j != nil {
			jobs = append(jobs, j)
		}
	}
	slices.SortFunc(jobs, func(a, b *job) int {
		return cmp.Or(a.target.turn(t.interval).Compare(b.target.turn(t.interval)), strings.Compare(a.node.Name, b.node.Name))
	})
	jobs = jobs[:min(len(jobs), most)]
	for _, j := range jobs {
		j.target.busy = true
	}
	return jobs
}

// finish records the result of a job. changed is true if its error differs from the previous one; the caller logs only
// then.
func (t *targets) finish(j *job, began, now time.Time, err error) (changed bool) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	changed = (err == nil) != (j.target.err == nil) || err != nil && err.Error() != j.target.err.Error()
	j.target.finish(j, began, now, t.interval, err)
	if j.usage {
		t.hasten(j, began)
	}
	return changed
}

// failing returns one text with the cause for each node that does not answer, and the number of all nodes.
func (t *targets) failing() (texts []string, nodes int) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	var all []string
	for name, of := range t.of {
		if of.err != nil {
			all = append(all, fmt.Sprintf("node %s: %s", name, of.err))
		}
	}
	for _, err := range t.unusable {
		all = append(all, err.Error())
	}
	slices.Sort(all)
	return all, len(t.of) + len(t.unusable)
}

// unmeasured returns the names of the nodes without usage, in alphabetical order: nodes that do not answer, and excluded
// ones.
func (t *targets) unmeasured() (failing, excluded []string) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	for name, of := range t.of {
		if of.err != nil {
			failing = append(failing, name)
		}
	}
	failing = slices.AppendSeq(failing, maps.Keys(t.unusable))
	slices.Sort(failing)
	return failing, slices.Sorted(slices.Values(t.excluded))
}

// cores returns the CPU capacity of a node; 0 if the node is unknown or reports no capacity.
func (t *targets) cores(node string) float64 {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	if of := t.of[node]; of != nil {
		return of.node.Cores
	}
	return 0
}

// most returns the largest capacities that any node has had; 0 if no node has reported one.
func (t *targets) most() (cores, bytes float64) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	return t.biggest.Cores, t.biggest.Bytes
}

const (
	// forgetAfter is how many scrapes a series may be missing before its text is removed. After as many scrapes, the
	// node of its pod is looked up again.
	forgetAfter = 10
	// maxSeries is how many texts of one node are remembered: 500 pods of four containers have 16,000. Series beyond
	// that are dropped. maxSeriesBytes is how many bytes these texts may have: a label of a hostile kubelet may have
	// megabytes.
	maxSeries      = 20_000
	maxSeriesBytes = 8 << 20
)

// target is one node and the state of its scrapes. targets.mutex guards it, except known, bytes and round: they belong
// to the running scrape, and busy allows only one at a time.
type target struct {
	node Node
	// due is the time of the next usage scrape, watchedAt the time of the last scrape of /metrics/cadvisor.
	due, watchedAt time.Time
	// busy is true while a job of the node is running.
	busy bool
	// haste is why the node is scraped more often, and hasteSince since when.
	haste      haste
	hasteSince time.Time
	// failures counts consecutive failed scrapes. err is the last error; nil after a success.
	failures int
	err      error

	// known has each series that the node has reported, by its text, so that labels are parsed once. bytes is the length
	// of these texts. round counts the scrapes.
	known map[string]*known
	bytes int
	round int
}

// known is the text of a series that a node has reported, and the round of its last report.
type known struct {
	// series is nil if drop says why it is missing; an accepted series stays.
	series *series
	// drop is the reason why the series is not kept; empty if it is kept.
	drop   usage.Drop
	labels labels.Labels
	// held: the series is the memory use of a container of this pod. Its limit is looked up at each scrape.
	held bool
	pod  Pod
	// limit is the memory limit of that container, in bytes; 0: the container is not checked.
	limit float64
	// checked is the round of the last lookup of the pod's node.
	round, checked int
}

// unsure reports whether the pod's node must be looked up again: after forgetAfter rounds, and in each round for a pod
// of another node, because it may have been too new for the cache.
func (k *known) unsure(round int) bool {
	return k.drop == usage.DropElsewhere || k.drop == "" && round-k.checked >= forgetAfter
}

// forget removes the texts that a node does not report any more.
func (t *target) forget() {
	if t.round%forgetAfter != 0 {
		return
	}
	for text, k := range t.known {
		if t.round-k.round >= forgetAfter {
			delete(t.known, text)
			t.bytes -= len(text)
		}
	}
}

// extras are the cAdvisor metrics wanted of a node's pods.
type extras struct {
	// pods: all metrics that only cAdvisor has (true), or only the waiting time for CPU (false).
	pods map[Pod]bool
	// often: a pod is observed after a resize, or was queried.
	often bool
}

// every is the interval of the extra scrapes.
func (e *extras) every(interval time.Duration) time.Duration {
	if e != nil && e.often {
		return min(interval, watchInterval)
	}
	return interval
}

// job is one scrape of a node, with the metrics that it reads.
type job struct {
	target *target
	node   Node
	// usage reads container usage (/metrics/resource). pods, if not nil, are the pods whose /metrics/cadvisor is read.
	usage bool
	pods  map[Pod]bool
	// haste is how soon the node is scraped again, according to the result.
	haste haste
}

// job returns the job that is due, or nil. pressure: the node's own CPU pressure is read in addition to the extras of
// its pods.
func (t *target) job(now time.Time, wanted *extras, pressure bool, interval time.Duration) *job {
	if t.busy {
		return nil
	}
	if t.due.After(now.Add(2 * interval)) { // a clock that was ahead set it, and was corrected
		t.due = now
	}
	j := job{target: t, node: t.node, usage: !t.due.After(now)}
	every := wanted.every(interval)
	if t.failures >= mostFailures {
		every = interval
	}
	if (wanted != nil || pressure) && !t.watchedAt.Add(every).After(now) {
		j.pods = map[Pod]bool{}
		if wanted != nil {
			j.pods = wanted.pods
		}
	}
	if !j.usage && j.pods == nil {
		return nil
	}
	return &j
}

// finish records the result of a job that began at a time. A failing node keeps its turn, so that its usage is known soon
// after it answers again. The second scrape comes early then, because a CPU rate needs two.
func (t *target) finish(j *job, began, now time.Time, interval time.Duration, err error) {
	t.busy = false
	answers := t.err != nil && err == nil
	t.err = err
	if err != nil {
		t.failures++
	} else {
		t.failures = 0
	}
	if j.usage {
		t.due = nextAt(t.node.Name, interval, now)
		if soon := began.Add(highEvery); answers && soon.Before(t.due) {
			t.due = soon
		}
	}
	if j.pods != nil {
		t.watchedAt = began
	}
}

// mostFailures is after how many consecutive failures a node's /metrics/cadvisor is read only once per interval.
const mostFailures = 3

// turn is the place of a scrape among those that are due.
func (t *target) turn(interval time.Duration) time.Time {
	if t.failures > 0 {
		return t.due.Add(interval)
	}
	return t.due
}

// nextAt is a node's next turn after now. Each node has its own fixed place within the interval. So the scrapes are
// spread evenly, regardless of when scraping began.
func nextAt(node string, interval time.Duration, now time.Time) time.Time {
	hash := fnv.New64a()
	_, _ = hash.Write([]byte(node))
	place := time.Duration(hash.Sum64() % uint64(interval))
	next := now.Truncate(interval).Add(place)
	for !next.After(now) {
		next = next.Add(interval)
	}
	return next
}
