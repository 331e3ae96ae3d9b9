package workload

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"attune.io/attune/resize"
	"attune.io/attune/tuning"
)

// nodesLast is how long a node without pods of a workload is remembered: longer than any of its facts is valid. A
// deleted node is dropped at once; the limit removes facts that are recorded just after its deletion.
const nodesLast = 24 * time.Hour

// nodeMemory holds what was learned from nodes, by name. It may be lost: it is learned again, with a few refused
// resizes.
type nodeMemory struct{ fresh[string, remembered] }

// remembered is the state of one node.
type remembered struct {
	// facts are the lessons. then are the node's terms when it was last seen: facts that depend on a changed term are
	// dropped.
	facts resize.NodeFacts
	then  resize.NodeTerms
	// boot is the ID of the last seen boot; booted is when it was first seen. It is zero for the first one, because
	// its start is not known.
	boot   string
	booted time.Time
}

// see adds the remembered facts to a node from the cache, and updates them.
func (m *nodeMemory) see(node *corev1.Node, now time.Time) tuning.Node {
	m.sweep(nodesLast, now)
	terms, boot := resize.TermsOf(node), node.Status.NodeInfo.BootID
	var known remembered
	m.Change(node.Name, func(last noted[remembered]) noted[remembered] {
		known = last.value
		if last.at.IsZero() {
			known.boot = boot
		}
		known.facts, known.then = known.facts.Now(known.then, terms, now), terms
		if boot != known.boot {
			known.boot, known.booted = boot, now
		}
		return noted[remembered]{known, now}
	})
	return tuning.Node{Node: node, Facts: known.facts, Booted: known.booted}
}

// learn adds lessons. A lesson about a node that was never seen is dropped: records can name any node, and the memory
// must not grow with them.
func (m *nodeMemory) learn(lessons []tuning.Lesson, now time.Time) {
	for _, l := range lessons {
		if _, known := m.Find(l.Record.Node); known {
			m.Change(l.Record.Node, func(last noted[remembered]) noted[remembered] {
				last.value.facts = last.value.facts.Learn(l.Namespace, l.Record, l.Reason, l.Message, now)
				return last
			})
		}
	}
}
