package policy

import (
	"reflect"
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"attune.io/attune/internal/policy"
	"attune.io/attune/tuning/targets"
)

// decisions of the policies' last passes. They are forgotten with their policies, and with what a pass does not come to.
// They may be lost: the next look at each workload decides anew. Safe for concurrent use.
type decisions struct {
	mutex sync.Mutex
	of    map[types.NamespacedName]decided
}

// decided is what a pass decided, by the recommendation's name, with the settings that it had.
type decided struct {
	settings policy.Settings
	made     map[string]targets.Decision
}

// last decisions about a policy's workloads; none where the settings are others, of whatever level.
func (d *decisions) last(of types.NamespacedName, settings policy.Settings) map[string]targets.Decision {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	last := d.of[of]
	if !reflect.DeepEqual(last.settings, settings) {
		return nil
	}
	return last.made
}

func (d *decisions) keep(of types.NamespacedName, settings policy.Settings, made map[string]targets.Decision) {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	if d.of == nil {
		d.of = map[types.NamespacedName]decided{}
	}
	d.of[of] = decided{settings, made}
}

func (d *decisions) forget(of types.NamespacedName) {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	delete(d.of, of)
}
