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

// look is what is kept of a look to explain it later: values only. No pod and no recommendation is kept,
// because each node would otherwise keep a version of its own in memory.
type look struct {
	node string
	at   time.Time
	// allocatable is what the node has, available what its members share, in millicores and bytes.
	allocatable, available node.Amounts
	// members share the node and have these demands, in the same order. others count with what they hold;
	// both are empty where no pod shares.
	members, others []seen
	demands         []node.Pod
	// chosen are the indices of the members that are asked to go.
	chosen []int
}

// seen is a pod as it was seen in a look.
type seen struct {
	name string
	// reason and message are why it does not share, or is frozen; both empty: it shares and may be
	// changed.
	reason, message string
	// stays is why it may not be evicted; empty: it may.
	stays string
	// tender reports that it is not lowered, because it is not ready or restarted a moment ago.
	tender bool
	// holds are the sizes of its containers; known and wants have the same length and order.
	holds []podview.Container
	// known is, for each resource of a container, whether its demand was measured; wants is what a new
	// container is born with.
	known [][2]bool
	wants []recommender.Size
}

// look keeps what is needed to explain a look. It lists other pods only where the node is shared at all.
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

// wants returns the sizes that new pods of a workload are born with; nil under another strategy.
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
