package workload

import (
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/resize"
)

// nodeMemory is what nodes taught. It may be lost: they teach it again. It is safe for concurrent use.
type nodeMemory struct {
	mutex sync.Mutex
	of    map[string]*remembered
}

// remembered is what is known of one node, and the node as it was then.
type remembered struct {
	facts resize.NodeFacts
	then  *corev1.Node
	// boot is the node's boot that was seen last, booted when it was first seen; zero: it was the first one.
	boot   string
	booted time.Time
}

// nodeView is a node as it is, with what is known of it.
type nodeView struct {
	*corev1.Node
	facts resize.NodeFacts
	// booted is when the node was first seen after its last boot; zero: it was not seen before that.
	booted time.Time
}

// lesson is what one record says of its node.
type lesson struct {
	record          v1alpha1.ResizeRecord
	reason, message string
}

// see adds what is known to a node as it is now.
func (m *nodeMemory) see(node *corev1.Node, now time.Time) nodeView {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	known := m.known(node)
	known.facts = known.facts.Now(known.then, node, now)
	known.then = node
	if boot := node.Status.NodeInfo.BootID; boot != known.boot {
		known.boot, known.booted = boot, now
	}
	return nodeView{node, known.facts, known.booted}
}

// learn takes lessons to heart.
func (m *nodeMemory) learn(lessons []lesson, now time.Time) {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	for _, l := range lessons {
		if known := m.of[l.record.Node]; known != nil {
			known.facts = known.facts.Learn(l.record, l.reason, l.message, now)
		}
	}
}

// forget drops a node that is gone.
func (m *nodeMemory) forget(name string) {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	delete(m.of, name)
}

func (m *nodeMemory) known(node *corev1.Node) *remembered {
	if m.of == nil {
		m.of = map[string]*remembered{}
	}
	if m.of[node.Name] == nil {
		m.of[node.Name] = &remembered{then: node, boot: node.Status.NodeInfo.BootID}
	}
	return m.of[node.Name]
}
