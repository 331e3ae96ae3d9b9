package workload

import (
	"maps"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"attune.io/attune/resize"
	"attune.io/attune/tuning"
)

// nodesLast is how long a node is remembered that no pod of a workload was seen on: longer than any of its facts
// holds. A node that is deleted is forgotten at once; this ends what is noted of one a moment after its deletion.
const nodesLast = 24 * time.Hour

// nodeMemory is what nodes taught. It may be lost: they teach it again. It is safe for concurrent use.
type nodeMemory struct {
	mutex sync.Mutex
	of    map[string]*remembered
	// swept is when nodes that were not seen for long were dropped last.
	swept time.Time
}

// remembered is what is known of one node, and its terms when it was seen last.
type remembered struct {
	facts resize.NodeFacts
	then  resize.NodeTerms
	seen  time.Time
	// boot is the node's boot that was seen last, booted when it was first seen; zero: it was the first one.
	boot   string
	booted time.Time
}

// see adds what is known to a node as it is now.
func (m *nodeMemory) see(node *corev1.Node, now time.Time) tuning.Node {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	m.sweep(now)
	known, terms := m.known(node), resize.TermsOf(node)
	known.facts = known.facts.Now(known.then, terms, now)
	known.then, known.seen = terms, now
	if boot := node.Status.NodeInfo.BootID; boot != known.boot {
		known.boot, known.booted = boot, now
	}
	return tuning.Node{Node: node, Facts: known.facts, Booted: known.booted}
}

// learn takes lessons to heart.
func (m *nodeMemory) learn(lessons []tuning.Lesson, now time.Time) {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	for _, l := range lessons {
		if known := m.of[l.Record.Node]; known != nil {
			known.facts = known.facts.Learn(l.Namespace, l.Record, l.Reason, l.Message, now)
		}
	}
}

// forget drops a node that is gone.
func (m *nodeMemory) forget(name string) {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	delete(m.of, name)
}

// sweep drops nodes that were not seen for long, once in that time.
func (m *nodeMemory) sweep(now time.Time) {
	if now.Sub(m.swept) < nodesLast {
		return
	}
	m.swept = now
	maps.DeleteFunc(m.of, func(_ string, n *remembered) bool { return now.Sub(n.seen) >= nodesLast })
}

func (m *nodeMemory) known(node *corev1.Node) *remembered {
	if m.of == nil {
		m.of = map[string]*remembered{}
	}
	if m.of[node.Name] == nil {
		m.of[node.Name] = &remembered{boot: node.Status.NodeInfo.BootID}
	}
	return m.of[node.Name]
}
