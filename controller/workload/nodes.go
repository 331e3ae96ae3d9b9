package workload

import (
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
// a few refused resizes.
type nodeMemory struct{ fresh[string, remembered] }

// remembered is what is known of one node.
type remembered struct {
	// facts are the lessons. then are the node's terms when it was seen last: facts that depend on a
	// changed term are dropped.
	facts resize.NodeFacts
	then  resize.NodeTerms
	// boot is the id of the boot that was seen last; booted is when it was first seen, and zero for the
	// first one: when that began is not known.
	boot   string
	booted time.Time
}

// see adds what is known to a node as the cache shows it now, and updates what is remembered.
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

// learn adds lessons. A lesson about a node that was never seen is dropped: records can name any node, and
// the memory must not grow with them.
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
