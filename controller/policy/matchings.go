package policy

import (
	"cmp"
	"sync"

	"attune.io/attune/internal/policy"
)

// matchings are the newest matching of each namespace that has policies. They are forgotten with its last one. They
// may be lost: the next look matches all workloads of the namespace again. Safe for concurrent use.
type matchings struct {
	mutex sync.Mutex
	by    map[string]*matching
	// most workloads of a namespace that are sized; 0: policy.MostWorkloads.
	most int
}

func (x *matchings) mostWorkloads() int { return cmp.Or(x.most, policy.MostWorkloads) }

// of a namespace; nil: there is none.
func (x *matchings) of(namespace string) *matching {
	x.mutex.Lock()
	defer x.mutex.Unlock()
	return x.by[namespace]
}

func (x *matchings) keep(namespace string, m *matching) {
	x.mutex.Lock()
	defer x.mutex.Unlock()
	if x.by == nil {
		x.by = map[string]*matching{}
	}
	x.by[namespace] = m
}

func (x *matchings) forget(namespace string) {
	x.mutex.Lock()
	defer x.mutex.Unlock()
	delete(x.by, namespace)
}
