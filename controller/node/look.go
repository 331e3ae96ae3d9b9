package node

import (
	"time"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/board"
	"attune.io/attune/podview"
	"attune.io/attune/recommender"
	"attune.io/attune/recommender/node"
	"attune.io/attune/resize"
)

// look is what a look at a node saw and whom it chose: values that those are answered from who ask for it. No pod and no
// recommendation is kept, of which every node would keep a version of its own.
type look struct {
	node                   string
	at                     time.Time
	allocatable, available node.Amounts
	// members share the node, with these demands in the same order. others count as they are; nobody is listed where
	// nobody shares.
	members, others []seen
	demands         []node.Pod
	// chosen are the indices of the members that are asked to go.
	chosen []int
}

// seen is a pod as it was seen.
type seen struct {
	name string
	// reason and message say why it does not share, or is frozen.
	reason, message string
	// stays says why it may not be evicted.
	stays string
	// tender: it is not lowered, as it is not ready or restarted a moment ago.
	tender bool
	holds  []podview.Container
	// known says of each container's resources whether their demand was measured; wants is what a new one is born with.
	known [][2]bool
	wants []recommender.Size
}

// look keeps what came of a look.
func (s *scene) look(out shared) *look {
	l := &look{
		node: s.node.Name, at: s.now, allocatable: board.Allocatable(s.node), available: out.ledger.available,
		members: out.ledger.seen, demands: out.ledger.demands, chosen: out.chosen,
	}
	if len(l.members) == 0 {
		return l
	}
	for _, pod := range s.pods {
		rec := s.recommendations[pod.UID]
		if reason, message := board.AsItIs(pod, rec); reason != "" && !resize.Finished(pod) {
			holds := podview.Read(pod)
			l.others = append(l.others, seen{name: pod.Namespace + "/" + pod.Name, reason: reason, message: message, holds: holds, wants: wants(rec, holds)})
		}
	}
	return l
}

// wants are the sizes that new pods of a workload of the strategy are born with.
func wants(rec *v1alpha1.AttuneRecommendation, of []podview.Container) []recommender.Size {
	if rec == nil || rec.Spec.Strategy != v1alpha1.StrategyNode {
		return nil
	}
	sizes := make([]recommender.Size, len(of))
	for i, c := range of {
		if t := targetOf(rec, c.Name); t != nil {
			sizes[i] = podview.FromResources(t.Target)
		}
	}
	return sizes
}
