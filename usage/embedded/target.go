package embedded

import (
	"time"
)

// forgetAfter is how many scrapes a series may be left out of before its text is forgotten.
const forgetAfter = 10

// target is one node and how it does. The scraper's mutex guards it, but for known, which belongs to the
// scrape that goes on, at most one at a time.
type target struct {
	node Node
	// due is when usage is scraped next, watchDue when what watched pods need is.
	due, watchDue time.Time
	busy          bool
	failures      int
	err           error
	// answered is when the last whole scrape began.
	answered time.Time

	known map[string]*known
	round int
}

// known is a series that a node has told of, and the round it did so last.
type known struct {
	series *series
	round  int
}

// forget the texts that a node does not say any more.
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

// job is what one scrape of a node asks for.
type job struct {
	target *target
	node   Node
	// usage: what containers used; pods, if any, are watched, and need more.
	usage bool
	pods  map[Pod]bool
}

// job at a time, or nil. pressure: what the node itself waited is wanted beside what the pods need.
func (t *target) job(now time.Time, pods map[Pod]bool, pressure bool) *job {
	if t.busy {
		return nil
	}
	j := job{target: t, node: t.node, usage: !t.due.After(now)}
	if (len(pods) > 0 || pressure) && !t.watchDue.After(now) {
		if j.pods = pods; pods == nil {
			j.pods = map[Pod]bool{}
		}
	}
	if !j.usage && j.pods == nil {
		return nil
	}
	return &j
}

// settle notes how a job went that began at a time.
func (t *target) settle(j *job, began, now time.Time, interval time.Duration, err error) {
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
		every := interval
		if len(j.pods) > 0 {
			every = min(interval, watchInterval)
		}
		t.watchDue = began.Add(max(every, wait))
	}
}
