package policy

import (
	"math/rand/v2"
	"sync/atomic"
	"time"

	"attune.io/attune/recommender"
	"attune.io/attune/recommender/replicas"
	"attune.io/attune/usage"
	"attune.io/attune/usage/history"
)

// past is a history that is the same for each 16th workload and moves with the clock.
type past struct {
	// implausible of every container.
	implausible [2]recommender.Implausible
	// young is State.Young.
	young bool

	profiles [16]recommender.Profile
	steps    [16][]recommender.StepUsage
	// since is Interest.Since of the last call of Want.
	since atomic.Value
	// awaited is the argument of the last call of Await.
	awaited atomic.Bool
}

func newPast() *past {
	p := &past{}
	random := rand.New(rand.NewPCG(1, 2))
	for i := range p.profiles {
		var steps []recommender.StepUsage
		for at := today.Add(-7 * 24 * time.Hour); !at.After(today); at = at.Add(5 * time.Minute) {
			steps = append(steps, recommender.StepUsage{At: at, CPUCores: 0.2 * random.Float64(), MemoryBytes: 3e8 * (1 + random.Float64())})
		}
		p.profiles[i], p.steps[i] = recommender.NewProfile(steps, 5*time.Minute), steps
	}
	return p
}

func (p *past) Want(of history.Interest) error {
	p.since.Store(of.Since)
	return nil
}
func (*past) Forget(string, string) {}
func (p *past) State(usage.SourceSettings) (history.State, bool) {
	return history.State{Young: p.young}, true
}

func (*past) Read(history.Key) bool { return true }

// news grows forever, because these histories move with the time.
var news atomic.Uint64

func (*past) News(history.Key) uint64 { return news.Add(1) }

func (*past) Unanswered(usage.SourceSettings, string) error { return nil }

func (p *past) Await(_ history.Key, awaited bool) { p.awaited.Store(awaited) }

func (*past) Lost(usage.SourceSettings, string) int { return 0 }

func (p *past) Implausible(history.Key, time.Time) [2]recommender.Implausible { return p.implausible }

func (p *past) Profile(key history.Key, now time.Time) (recommender.Profile, bool) {
	profile := p.profiles[int(key.Workload[len(key.Workload)-1])%len(p.profiles)]
	later := now.Truncate(5 * time.Minute).Sub(profile.Last)
	profile.First, profile.Last = profile.First.Add(later), profile.Last.Add(later)
	for r := range profile.Of {
		profile.Of[r].First, profile.Of[r].Last = profile.Of[r].First.Add(later), profile.Of[r].Last.Add(later)
	}
	return profile, true
}

// Steps end today, whatever the time is.
func (p *past) Steps(key history.Key) []recommender.StepUsage {
	return p.steps[int(key.Workload[len(key.Workload)-1])%len(p.steps)]
}

func (p *past) Highest(history.Key, recommender.Resource, time.Time, time.Time) (recommender.Usage, bool) {
	return 0, false
}

func (*past) Spans(history.Key, recommender.Resource) []replicas.Span { return nil }

func (*past) Covered(history.Key, recommender.Resource) history.Coverage { return history.Coverage{} }

func (*past) Forgets(usage.SourceSettings) bool { return false }

func (*past) Checkpoint(_ history.Key, _ int, stored []byte) []byte { return stored }

func (*past) Restore(history.Key, []byte, time.Time) error { return nil }

// withoutCheckpoints are histories of a source that stores its past.
type withoutCheckpoints struct{ History }

func (withoutCheckpoints) Forgets(usage.SourceSettings) bool { return false }

func (withoutCheckpoints) Checkpoint(_ history.Key, _ int, stored []byte) []byte { return stored }

func (withoutCheckpoints) Restore(history.Key, []byte, time.Time) error { return nil }
