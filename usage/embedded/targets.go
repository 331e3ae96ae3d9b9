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

	"attune.io/attune/internal/backoff"
	"attune.io/attune/usage"
)

// targets holds the nodes that are scraped, and those that cannot be. mutex guards it, the targets in it included,
// but for the fields that belong to a scrape (see target).
type targets struct {
	// interval is the time between two scrapes of a node.
	interval time.Duration
	mutex    sync.Mutex
	// of holds the nodes that are scraped, by name.
	of map[string]*target
	// unusable says why some nodes are not asked.
	unusable []error
	// biggest has the most cores and the most bytes that any node has had. A container cannot use more.
	biggest Node
}

// follow adds nodes that are new and drops those that are gone. A scrape of a node that is gone goes on to its
// end.
func (t *targets) follow(nodes []Node, unusable []error, now time.Time) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	t.unusable = unusable
	there := map[string]bool{}
	for _, node := range nodes {
		there[node.Name] = true
		t.biggest.Cores, t.biggest.Bytes = max(t.biggest.Cores, node.Cores), max(t.biggest.Bytes, node.Bytes)
		if t.of[node.Name] == nil {
			t.of[node.Name] = &target{due: nextAt(node.Name, t.interval, now), known: map[string]*known{}}
		}
		t.of[node.Name].node = node
	}
	maps.DeleteFunc(t.of, func(name string, _ *target) bool { return !there[name] })
}

// due returns the jobs whose turn it is, at most most; those that have waited longest come first. Their targets
// are busy until finish is called, so that a node has one scrape at a time.
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
		return cmp.Or(a.target.due.Compare(b.target.due), strings.Compare(a.node.Name, b.node.Name))
	})
	jobs = jobs[:min(len(jobs), most)]
	for _, j := range jobs {
		j.target.busy = true
	}
	return jobs
}

// finish records the result of a job. changed is true where its error differs from that of the job before; only
// then the caller logs it.
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

// failing returns one text for each node that does not answer, with the cause, and the number of all nodes.
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

// cores returns the CPU capacity of a node; 0 where the node is not known or reports none.
func (t *targets) cores(node string) float64 {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	if of := t.of[node]; of != nil {
		return of.node.Cores
	}
	return 0
}

// most returns the greatest capacities that any node has had; 0 where no node has reported one.
func (t *targets) most() (cores, bytes float64) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	return t.biggest.Cores, t.biggest.Bytes
}

const (
	// forgetAfter is how many scrapes a series may be left out of before its text is forgotten, and after as many it is
	// looked up again where its pod is.
	forgetAfter = 10
	// maxSeries is how many texts of one node are known at once: 500 pods of four
	// containers have 16,000. Series beyond that are dropped.
	maxSeries = 20_000
)

// target is one node and the state of its scrapes. targets.mutex guards it, except known and round: they belong to
// the running scrape, of which busy allows one at a time.
type target struct {
	node Node
	// due is when usage is scraped next, watchedAt when /metrics/cadvisor was scraped last.
	due, watchedAt time.Time
	// wait is how much later /metrics/cadvisor is scraped again after failures.
	wait time.Duration
	// busy is true while a job of the node is running.
	busy bool
	// haste is why it is scraped more often, and hasteSince since when.
	haste      haste
	hasteSince time.Time
	// failures counts failed scrapes in a row. err is the last error; nil after a success.
	failures int
	err      error

	// known holds each series that the node has reported, by its text, so that labels are parsed once. round
	// counts the scrapes.
	known map[string]*known
	round int
}

// known is the text of a series that a node has reported, and the round in which it did so last.
type known struct {
	// series is nil where drop says why there is none; a series that was taken once stays.
	series *series
	// drop is the reason for which the series is not kept; empty: it is kept.
	drop   usage.Drop
	labels labels.Labels
	// held: it tells of the memory of a container of this pod, whose limit is looked up at each scrape.
	held bool
	pod  Pod
	// limit is the memory limit of that container, in bytes; 0: it is not looked at for that.
	limit float64
	// checked is the round in which it was last looked up where its pod is.
	round, checked int
}

// unsure returns true where the place of the pod is to be looked up again: after forgetAfter rounds, and at each
// round for a pod that is not on this node, because it may have been too new for the cache.
func (k *known) unsure(round int) bool {
	return k.drop == usage.DropElsewhere || k.drop == "" && round-k.checked >= forgetAfter
}

// forget the texts that a node does not report any more.
func (t *target) forget() {
	if t.round%forgetAfter != 0 {
		return
	}
	for text, k := range t.known {
		if t.round-k.round >= forgetAfter {
			delete(t.known, text)
		}
	}
}

// extras say what is wanted of a node's pods beside their usage.
type extras struct {
	// pods: all that only cAdvisor has of them (true), or how long they waited for CPU alone (false).
	pods map[Pod]bool
	// often: one of them is watched after a resize, or was asked about.
	often bool
}

// every is how often it is asked for.
func (e *extras) every(interval time.Duration) time.Duration {
	if e != nil && e.often {
		return min(interval, watchInterval)
	}
	return interval
}

// job is one scrape of a node, with what it asks for.
type job struct {
	target *target
	node   Node
	// usage asks for what containers used (/metrics/resource). pods, if not nil, are those of which more is wanted
	// (/metrics/cadvisor).
	usage bool
	pods  map[Pod]bool
	// haste is how soon it is to be scraped again, by what it found.
	haste haste
}

// job at a time, or nil. pressure: the node's own CPU pressure is wanted beside what is wanted of its pods.
func (t *target) job(now time.Time, wanted *extras, pressure bool, interval time.Duration) *job {
	if t.busy {
		return nil
	}
	if t.due.After(now.Add(mostWait(interval))) { // it was set by a clock that was ahead and was put right
		t.due = now
	}
	j := job{target: t, node: t.node, usage: !t.due.After(now)}
	if (wanted != nil || pressure) && !t.watchedAt.Add(max(wanted.every(interval), t.wait)).After(now) {
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

// finish notes how a job went that began at a time.
func (t *target) finish(j *job, began, now time.Time, interval time.Duration, err error) {
	t.busy = false
	t.err = err
	if err != nil {
		t.failures++
	} else {
		t.failures = 0
	}
	wait := pause(t.failures, interval)
	if j.usage {
		t.due = nextAt(t.node.Name, interval, now.Add(wait))
	}
	if j.pods != nil {
		t.watchedAt, t.wait = began, wait
	}
}

// maxPause bounds the time between two scrapes of a node that fails.
const maxPause = 5 * time.Minute

// nextAt is the first moment after now at which a node's turn comes. Each node has its own place within
// the interval, always the same, so that their turns are spread over it whenever scraping began.
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

// pause after a number of failures in a row: from the third on one interval, doubled with each more, up to maxPause.
func pause(failures int, interval time.Duration) time.Duration {
	return backoff.Wait(interval, max(interval, maxPause), failures-2)
}

// mostWait is an upper bound of the time that a node waits for its turn.
func mostWait(interval time.Duration) time.Duration { return max(interval, maxPause) + 2*interval }
