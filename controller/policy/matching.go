package policy

import (
	"cmp"
	"hash/maphash"
	"reflect"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/policy"
	"attune.io/attune/internal/workload"
)

// matching is who sizes each workload of a namespace, and what that was read from. It is not changed any more.
type matching struct {
	policies []claim
	most     int
	// workloads is a digest of their objects' versions, 0 where one has none.
	workloads uint64
	settled   map[workload.Identity]match
	by        map[string]matched
	// neighbours are all workloads.
	neighbours []workload.KindName
	large      []workload.Identity
}

// claim is what of a policy decides about workloads.
type claim struct {
	name     string
	uid      types.UID
	created  int64
	deleting bool
	weight   *int32
	target   v1alpha1.TargetRef
}

// match is who sizes one version of a workload, by names: it outlives the lists that it was read from.
type match struct {
	uid     types.UID
	version string
	// winner is empty where nobody does.
	winner string
	losers []loser
	// unsized is why the winner does not; empty: it does.
	unsized string
}

// loser is a policy that selects the workload too, and why another one is stronger.
type loser struct{ name, reason string }

// matchOf a workload as it is now.
func matchOf(w workload.Workload, matcher policy.Matcher) match {
	m := match{uid: w.UID, version: w.Version}
	winner, losers := matcher.Match(w)
	if winner != nil {
		m.winner = winner.Name
	}
	for _, l := range losers {
		m.losers = append(m.losers, loser{l.Policy.Name, l.Reason()})
	}
	return m
}

// next is the matching of what is there now: m itself where that is what m was made from. What has not changed since m
// is not matched again. So many workloads are sized at most.
func (m *matching) next(policies []v1alpha1.AttunePolicy, objects []workload.Object, most int) *matching {
	next := &matching{policies: claims(policies), most: most, workloads: versions(objects), by: map[string]matched{}}
	var known map[workload.Identity]match
	if m != nil && reflect.DeepEqual(m.policies, next.policies) {
		if m.workloads == next.workloads && next.workloads != 0 && m.most == most {
			return m
		}
		known = m.settled
	}
	workloads := read(objects)
	next.settled = make(map[workload.Identity]match, len(workloads))
	next.neighbours = make([]workload.KindName, 0, len(workloads))
	matcher := policy.NewMatcher(policies)
	for _, w := range workloads {
		if w.Part() {
			continue
		}
		next.neighbours = append(next.neighbours, workload.KindName{Kind: w.Kind, Name: w.Name})
		if w.TooLarge() {
			next.large = append(next.large, w.Identity)
		}
		s, same := known[w.Identity]
		if !same || w.Version == "" || s.version != w.Version || s.uid != w.UID {
			s = matchOf(w, matcher)
		}
		next.settled[w.Identity] = s
	}
	next.bound(workloads)
	for _, w := range workloads {
		next.note(w, next.settled[w.Identity])
	}
	return next
}

// bound what is sized of a namespace.
func (m *matching) bound(workloads []workload.Workload) {
	var sized []workload.Workload
	for _, w := range workloads {
		s := m.settled[w.Identity]
		s.unsized = ""
		switch {
		case s.winner == "":
			continue
		case w.Template != nil && policy.TooManyContainers(&w.Template.Spec):
			s.unsized = v1alpha1.ReasonTooManyContainers
		default:
			sized = append(sized, w)
		}
		m.settled[w.Identity] = s
	}
	for _, w := range policy.Younger(sized, m.most) {
		s := m.settled[w.Identity]
		s.unsized = v1alpha1.ReasonTooManyWorkloads
		m.settled[w.Identity] = s
	}
}

// note a workload with its policies.
func (m *matching) note(w workload.Workload, s match) {
	if s.winner == "" {
		return
	}
	winner := m.by[s.winner]
	switch s.unsized {
	case v1alpha1.ReasonTooManyContainers:
		winner.crowded.add(w)
	case v1alpha1.ReasonTooManyWorkloads:
		winner.younger.add(w)
	default:
		winner.won = append(winner.won, w)
	}
	m.by[s.winner] = winner
	for _, l := range s.losers {
		of := m.by[l.name]
		if of.losses++; of.losses <= maxConflicts {
			of.lost = append(of.lost, v1alpha1.PolicyConflict{Workload: w.String(), Winner: s.winner, Reason: l.reason})
		}
		m.by[l.name] = of
	}
}

// to a policy is what it selects.
func (m *matching) to(policy string) matched {
	out := m.by[policy]
	out.neighbours, out.large, out.settled, out.most = m.neighbours, m.large, m.settled, m.most
	return out
}

func claims(policies []v1alpha1.AttunePolicy) []claim {
	out := make([]claim, 0, len(policies))
	for i := range policies {
		p := &policies[i]
		out = append(out, claim{
			name: p.Name, uid: p.UID, created: p.CreationTimestamp.UnixNano(), deleting: p.DeletionTimestamp != nil,
			weight: p.Spec.Weight, target: p.Spec.TargetRef,
		})
	}
	return out
}

// read the workloads that are there to stay, by kind and name. Their templates are the cache's own.
func read(objects []workload.Object) []workload.Workload {
	out := make([]workload.Workload, 0, len(objects))
	for _, o := range objects {
		if w, ok := workload.From(o); ok && !w.Deleting {
			out = append(out, w)
		}
	}
	kind := func(w workload.Workload) int { return slices.Index(workload.Kinds, w.Kind) }
	slices.SortFunc(out, func(a, b workload.Workload) int {
		return cmp.Or(cmp.Compare(kind(a), kind(b)), cmp.Compare(a.Name, b.Name))
	})
	return out
}

// hashSeed of digests, which nobody outside can aim at.
var hashSeed = maphash.MakeSeed()

// versions is a digest of those of objects, in whatever order they are listed; 0: one has no version.
func versions(objects []workload.Object) uint64 {
	sum := uint64(1)
	var hash maphash.Hash
	hash.SetSeed(hashSeed)
	for _, o := range objects {
		if o.GetResourceVersion() == "" {
			return 0
		}
		hash.Reset()
		for _, part := range []string{string(o.GetUID()), o.GetName(), o.GetResourceVersion()} {
			_, _ = hash.WriteString(part) // it takes everything
			_ = hash.WriteByte(0)
		}
		sum += hash.Sum64()
	}
	return sum
}
