package embedded

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
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
