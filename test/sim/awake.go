package sim

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// decidedWithin is how long a workload waits for a decision at most.
const decidedWithin = 10 * time.Minute

// settles is the least wait that a decision ends with; what asks to be called again sooner has not decided.
const settles = 500 * time.Millisecond

// awake: every workload is decided within 10 minutes of a cause, whatever its neighbours do.
type awake struct {
	deaf
	*scene
	// since is when a workload's passes began to end without a decision.
	since  map[types.NamespacedName]time.Time
	passes map[types.NamespacedName]int
}

func newAwake(s *scene) *awake {
	return &awake{scene: s, since: map[types.NamespacedName]time.Time{}, passes: map[types.NamespacedName]int{}}
}

func (a *awake) passed(p pass) {
	if p.loop != "workload" {
		return
	}
	name := p.request.NamespacedName
	if p.err == nil && (p.result.RequeueAfter == 0 || p.result.RequeueAfter >= settles) {
		delete(a.since, name)
		delete(a.passes, name)
		return
	}
	if a.since[name].IsZero() || a.excused() {
		a.since[name], a.passes[name] = a.now(), 0
	}
	a.passes[name]++
	if a.now().Sub(a.since[name]) > decidedWithin {
		a.violate("decided in time", name.String(), "%s is not decided since %s: %d passes, error %v, next look in %s",
			name, a.since[name], a.passes[name], p.err, p.result.RequeueAfter)
		delete(a.since, name)
	}
}
