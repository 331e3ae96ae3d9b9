package embedded

import (
	"time"

	"github.com/prometheus/prometheus/model/labels"

	"attune.io/attune/usage"
)

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
	// failures counts failed scrapes in a row. err is the last error; nil after a success.
	failures int
	err      error
	// answered is when the last whole scrape began.
	answered time.Time

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
		if err == nil {
			t.answered = began
		}
	}
	if j.pods != nil {
		t.watchedAt, t.wait = began, wait
	}
}
