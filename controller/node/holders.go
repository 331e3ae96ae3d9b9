package node

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"attune.io/attune/internal/event"
	"attune.io/attune/recommender"
	"attune.io/attune/recommender/node"
)

const (
	// heldFor is how long others have less than their bases before an event names the pod that causes it:
	// most causes pass by themselves within that time.
	heldFor = 15 * time.Minute
	// heldAgain is how soon the event is sent again.
	heldAgain = time.Hour
)

// eventHeld is the reason of events on nodes where pods keep what others lack.
const eventHeld = "NodeHeld"

// holding is, for each resource, since when pods of a node keep others below their bases, and when that
// was last reported; zero times: they do not, or it was not. A loss only moves the next event.
type holding [2]struct{ since, told time.Time }

// settle continues from the last look. It returns the holders to be reported now: for each resource at
// most one, the one that keeps the most.
func (h holding) settle(holders []node.Holder, now time.Time) (holding, []node.Holder) {
	var tell []node.Holder
	for _, r := range recommender.Resources {
		i := slices.IndexFunc(holders, func(x node.Holder) bool { return x.Resource == r })
		switch {
		case i < 0:
			h[r].since = time.Time{}
		case h[r].since.IsZero():
			h[r].since = now
		case now.Sub(h[r].since) >= heldFor && (h[r].told.IsZero() || now.Sub(h[r].told) >= heldAgain):
			h[r].told = now
			tell = append(tell, holders[i])
		}
	}
	return h, tell
}

// tellHolders sends an event for each reported holder, with the number of the others.
func (c *Controller) tellHolders(on *corev1.Node, l *look, out shared, tell []node.Holder) {
	for _, holder := range tell {
		others := -1
		for _, x := range out.holders {
			if x.Resource == holder.Resource {
				others++
			}
		}
		more := ""
		if others > 0 {
			more = fmt.Sprintf("; so do %d others", others)
		}
		c.Events.Send(on, nil, event.Warning(eventHeld, "%s: pods have less than they always need, for %s or longer: pod %s keeps %s above its share, because %s%s",
			holder.Resource, heldFor, holder.Name, recommender.Readable(holder.Resource, holder.Above), l.members[holder.Pod].because(node.Difference{Why: holder.Why}), more))
	}
}
