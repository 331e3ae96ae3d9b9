package workload

import (
	"maps"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"attune.io/attune/resize"
	"attune.io/attune/tuning"
)

// nodesLast is how long a node is remembered on which no pod of a workload was seen: longer than any of
// its facts holds. A deleted node is dropped at once; the limit removes what is noted of a node a moment
// after its deletion.
const nodesLast = 24 * time.Hour

// nodeMemory is what nodes have taught, by name. It may be lost: the nodes teach it again, at the price of
// a few refused resizes. mutex guards all fields; the values behind the pointers too.
type nodeMemory struct {
	mutex sync.Mutex
	of    map[string]*remembered
	// swept is when nodes that were not seen for long were dropped last.
	swept time.Time
}

// remembered is what is known of one node.
type remembered struct {
	// facts are the lessons. then are the node's terms when it was seen last: facts that depend on a
	// changed term are dropped. seen is when that was.
	facts resize.NodeFacts
	then  resize.NodeTerms
	seen  time.Time
	// boot is the id of the boot that was seen last; booted is when it was first seen, and zero for the
	// first one: when that began is not known.
	boot   string
	booted time.Time
}

// see adds what is known to a node as the cache shows it now, and updates what is remembered.
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

// learn adds lessons. A lesson about a node that was never seen is dropped: records can name any node, and
// the memory must not grow with them.
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

// sweep drops nodes that were not seen for nodesLast; it runs once in that time. The caller holds the
// mutex.
func (m *nodeMemory) sweep(now time.Time) {
	if now.Sub(m.swept) < nodesLast {
		return
	}
	m.swept = now
	maps.DeleteFunc(m.of, func(_ string, n *remembered) bool { return now.Sub(n.seen) >= nodesLast })
}

// known returns the entry of a node and creates it where it is new. The caller holds the mutex.
func (m *nodeMemory) known(node *corev1.Node) *remembered {
	if m.of == nil {
		m.of = map[string]*remembered{}
	}
	if m.of[node.Name] == nil {
		m.of[node.Name] = &remembered{boot: node.Status.NodeInfo.BootID}
	}
	return m.of[node.Name]
}
