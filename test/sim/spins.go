package sim

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// mostPasses over one name in a minute, whatever happens: a wave of fifty pods takes some 200.
const mostPasses = 400

// spins: no loop works on the same name again and again.
type spins struct {
	deaf
	*scene
	since map[string]time.Time
	count map[string]int
}

func newSpins(s *scene) *spins {
	return &spins{scene: s, since: map[string]time.Time{}, count: map[string]int{}}
}

func (s *spins) passed(p pass) {
	key := p.loop + " " + p.request.String()
	if s.now().Sub(s.since[key]) > time.Minute {
		s.since[key], s.count[key] = s.now(), 0
	}
	s.count[key]++
	if s.count[key] == mostPasses {
		about := types.NamespacedName{}
		if p.loop == "workload" {
			about = p.request.NamespacedName
		}
		s.violate("no spinning", about.String(), "the %s loop passed %d times over %s within %s; the last ended with %v, next look in %s",
			p.loop, mostPasses, p.request, s.now().Sub(s.since[key]), p.err, p.result.RequeueAfter)
	}
}
