package workload

import (
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"attune.io/attune/resize"
)

// declined is what the API server did not take of each workload. It may be lost: a server that is asked again only
// says it again. It is safe for concurrent use.
type declined struct {
	mutex sync.Mutex
	of    map[types.NamespacedName][]resize.Declined
}

func (x *declined) read(workload types.NamespacedName) []resize.Declined {
	x.mutex.Lock()
	defer x.mutex.Unlock()
	return x.of[workload]
}

func (x *declined) add(workload types.NamespacedName, d resize.Declined) {
	x.mutex.Lock()
	defer x.mutex.Unlock()
	if x.of == nil {
		x.of = map[types.NamespacedName][]resize.Declined{}
	}
	x.of[workload] = resize.Remember(x.of[workload], d)
}

// accepted: a resize was taken, so that what was in its way is over. What will never be taken stays so.
func (x *declined) accepted(workload types.NamespacedName) {
	x.mutex.Lock()
	defer x.mutex.Unlock()
	left := slices.DeleteFunc(slices.Clone(x.of[workload]), func(d resize.Declined) bool { return !d.OfOnePod() })
	if len(left) == 0 {
		delete(x.of, workload)
		return
	}
	x.of[workload] = left
}

func (x *declined) forget(workload types.NamespacedName) {
	x.mutex.Lock()
	defer x.mutex.Unlock()
	delete(x.of, workload)
}
