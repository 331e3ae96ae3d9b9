package loops

import (
	"context"
	"strings"
	"time"

	"attune.io/attune/recommender"
	"attune.io/attune/recommender/replicas"
	"attune.io/attune/usage"
	"attune.io/attune/usage/history"
)

// usages is a history in which every container has used the same for a week, up to now.
type usages struct {
	// of a container by its name; Peak, where set, is used in one step of the week.
	of map[string]used
	// profiles are made once for each amount.
	profiles map[used]recommender.Profile
	// own is what the containers of a pod used lately themselves, by the beginning of its name, and busy the used
	// fraction of a node's CPU, by its name; others, and where it is zero, were not measured.
	own  map[string]used
	busy map[string]float64
	// spans are the means over the replicas, by container and resource such as "app cpu", for whole pods " cpu". They are
	// of the week before now.
	spans map[string][]replicas.Span
	now   func() time.Time
	// news never ends.
	news uint64
	// members are the workloads with which one shares its history, as the store has it.
	members map[string][]string
}

// used is CPU in cores and memory in MiB; Days of history, 7 if zero.
type used struct {
	CPU    float64
	Memory float64
	Days   int
}

func newUsages() *usages {
	return &usages{of: map[string]used{}, profiles: map[used]recommender.Profile{}, own: map[string]used{}, busy: map[string]float64{}}
}

func (u *usages) Want(interest history.Interest) error {
	u.members = map[string][]string{}
	for _, members := range interest.Members {
		for _, member := range members {
			for _, other := range members {
				u.members[member.Name] = append(u.members[member.Name], other.Name)
			}
		}
	}
	return nil
}

// find returns what a container uses: its own, of a workload that shares its history, or of every workload.
func (u *usages) find(key history.Key) (used, bool) {
	for _, name := range append([]string{key.Workload}, u.members[key.Workload]...) {
		if of, ok := u.of[name+"/"+key.Container]; ok {
			return of, true
		}
	}
	of, ok := u.of[key.Container]
	return of, ok
}

func (u *usages) Forget(string, string) {}
func (u *usages) State(usage.SourceSettings) (history.State, bool) {
	return history.State{}, true
}

func (*usages) Read(history.Key) bool { return true }

func (u *usages) News(history.Key) uint64 {
	u.news++
	return u.news
}

// Steps are of no use to the strategies that these tests play.
func (*usages) Steps(history.Key) []recommender.StepUsage { return nil }

func (*usages) Unanswered(usage.SourceSettings, string) error { return nil }

func (*usages) Await(history.Key, bool) {}

func (*usages) Lost(usage.SourceSettings, string) int { return 0 }

// Spans are those that the story sets, Covered is the week before.
func (u *usages) Spans(key history.Key, r recommender.Resource) []replicas.Span {
	return u.spans[key.Container+" "+r.String()]
}

func (u *usages) Covered(key history.Key, r recommender.Resource) history.Coverage {
	if len(u.Spans(key, r)) == 0 {
		return history.Coverage{}
	}
	const week = 7 * 24 * time.Hour
	return history.Coverage{Since: u.now().Add(-week), Until: u.now(), Window: week}
}

func (*usages) Forgets(usage.SourceSettings) bool { return false }

func (*usages) Checkpoint(_ history.Key, _ int, stored []byte) []byte { return stored }

func (*usages) Restore(history.Key, []byte, time.Time) error { return nil }

func (*usages) Implausible(history.Key, time.Time) [2]recommender.Implausible {
	return [2]recommender.Implausible{}
}

// Base is what the containers of a pod used lately.
func (u *usages) Base(_, pod, _ string, r recommender.Resource, _ time.Time) (recommender.Usage, bool) {
	for prefix, of := range u.own {
		if strings.HasPrefix(pod, prefix) {
			amount := of.amount(r)
			return amount, amount > 0
		}
	}
	return 0, false
}

// CPU is the same since any time.
func (u *usages) CPU(_ context.Context, namespace, pod, container string, _, now time.Time) (recommender.Usage, bool) {
	return u.Base(namespace, pod, container, recommender.CPU, now)
}

func (u *usages) Busy(_ context.Context, node string, _, _ time.Time) (float64, bool) {
	return u.busy[node], u.busy[node] > 0
}

// Highest is the same in every span of a week.
func (u *usages) Highest(key history.Key, r recommender.Resource, _, _ time.Time) (recommender.Usage, bool) {
	of, ok := u.find(key)
	return of.amount(r), ok
}

func (u used) amount(r recommender.Resource) recommender.Usage {
	if r == recommender.Memory {
		return recommender.Usage(u.Memory * (1 << 20))
	}
	return recommender.Usage(u.CPU * 1000)
}

// Profile ends at the last whole step before now.
func (u *usages) Profile(key history.Key, now time.Time) (recommender.Profile, bool) {
	of, ok := u.find(key)
	if !ok {
		return recommender.Profile{}, false
	}
	profile, made := u.profiles[of]
	if !made {
		profile = week(of, now)
		u.profiles[of] = profile
	}
	return shifted(profile, now.Truncate(5*time.Minute).Sub(profile.Last)), true
}

func week(of used, now time.Time) recommender.Profile {
	const step = 5 * time.Minute
	days := of.Days
	if days == 0 {
		days = 7
	}
	var steps []recommender.StepUsage
	for at := now.Truncate(step).Add(step - time.Duration(days)*24*time.Hour); !at.After(now); at = at.Add(step) {
		steps = append(steps, recommender.StepUsage{At: at, CPUCores: of.CPU, MemoryBytes: of.Memory * (1 << 20)})
	}
	return recommender.NewProfile(steps, step)
}

// shifted is the same history some time later.
func shifted(p recommender.Profile, by time.Duration) recommender.Profile {
	p.First, p.Last = p.First.Add(by), p.Last.Add(by)
	for r := range p.Of {
		p.Of[r].First, p.Of[r].Last = p.Of[r].First.Add(by), p.Of[r].Last.Add(by)
	}
	return p
}
