package policy

import (
	"cmp"
	"reflect"
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"attune.io/attune/internal/policy"
	"attune.io/attune/tuning/targets"
)

// memories are what the loop knows from one look to the next. Any of it may be lost, as with the process.
type memories struct {
	// published is what the gauges show. If it is lost, the next look at each policy publishes it again.
	published published
	// matchings are the newest of each namespace, forgotten with its last policy. If one is lost, the next look matches all
	// workloads of the namespace.
	matchings table[string, *matching]
	// most workloads of a namespace that are sized; 0: policy.MostWorkloads.
	most int
	// refused are the writes that the API server did not take in a policy's newest look. If they are lost, each is tried once
	// more and put off anew.
	refused table[types.NamespacedName, []refusal]
	// decided is what a policy's last look decided, forgotten with the policy. If it is lost, the next look decides anew.
	decided table[types.NamespacedName, decided]
}

func (m *memories) mostWorkloads() int { return cmp.Or(m.most, policy.MostWorkloads) }

// decided is what a pass decided, by the recommendation's name, with the settings that it had.
type decided struct {
	settings policy.Settings
	made     map[string]targets.Decision
}

// under settings: none where those of the pass were others, of whatever level.
func (d decided) under(settings policy.Settings) map[string]targets.Decision {
	if !reflect.DeepEqual(d.settings, settings) {
		return nil
	}
	return d.made
}

// table is a map that is safe for concurrent use.
type table[K comparable, V any] struct {
	mutex sync.Mutex
	by    map[K]V
}

func (t *table[K, V]) of(key K) V {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	return t.by[key]
}

func (t *table[K, V]) keep(key K, value V) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	if t.by == nil {
		t.by = map[K]V{}
	}
	t.by[key] = value
}

func (t *table[K, V]) forget(key K) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	delete(t.by, key)
}
