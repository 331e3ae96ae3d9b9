package board

import "sync"

// Largest is the largest node that the policy loop has seen, or remembers in recommendations. It never falls while the
// process lives, so that a node pool that scaled down does not delete true history. It is safe for concurrent use; the zero
// value knows no node.
type Largest struct {
	mutex        sync.RWMutex
	cores, bytes float64
}

// Raise notes a node; 0: not known.
func (l *Largest) Raise(cores, bytes float64) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.cores, l.bytes = max(l.cores, cores), max(l.bytes, bytes)
}

// Node is the largest that is known, by each of its resources; 0: none is.
func (l *Largest) Node() (cores, bytes float64) {
	l.mutex.RLock()
	defer l.mutex.RUnlock()
	return l.cores, l.bytes
}
