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

// targets are the nodes that are scraped, and those that cannot be. The mutex guards all of it, the targets included.
type targets struct {
	interval time.Duration
	mutex    sync.Mutex
	of       map[string]*target
	// unusable says why some nodes are not asked.
	unusable []error
	// biggest is the most that any node has had: a greater usage cannot be true.
	biggest Node
}

// follow takes up nodes that are new and drops those that are gone.
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

// due are the jobs whose turn it is, at most so many; those that have waited longest come first. Their targets are busy
// until finish.
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

// finish notes how a job went, and says whether it went otherwise than the one before.
func (t *targets) finish(j *job, began, now time.Time, err error) (changed bool) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	changed = (err == nil) != (j.target.err == nil) || err != nil && err.Error() != j.target.err.Error()
	j.target.finish(j, began, now, t.interval, err)
	return changed
}

// failing says which nodes do not answer, and why, and of how many.
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

// cores that a node has; 0: it does not say, or is not known.
func (t *targets) cores(node string) float64 {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	if of := t.of[node]; of != nil {
		return of.node.Cores
	}
	return 0
}

// most that any node has had, in cores and bytes; 0: no node says.
func (t *targets) most() (cores, bytes float64) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	return t.biggest.Cores, t.biggest.Bytes
}
