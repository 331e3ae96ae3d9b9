package answers

import (
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"

	"attune.io/attune/recommender"
)

// DecisionsPort and DecisionsPath are where the leader answers a plugin that forwards a port to its pod: with a NodeAnswer as
// JSON, at DecisionsPath and a name.
const (
	DecisionsPort = 8082
	DecisionsPath = "/nodes/"
)

// NodeAnswer is the answer about one; its JSON is a contract. Pods are in alphabetical order.
type NodeAnswer struct {
	Node string `json:"node"`
	// Allocatable is what the node has for pods, Others what the scheduler counts for pods that count as they are and for
	// the overhead of those that share, Available what is left for those.
	Allocatable NodeAmounts `json:"allocatable"`
	Others      NodeAmounts `json:"others"`
	Available   NodeAmounts `json:"available"`
	Pods        []NodePod   `json:"pods"`
	// Evictions are those of the node's last decision; where that is not known, those that are under way.
	Evictions []NodeEviction `json:"evictions"`
	// Decided is what is known to the leader alone; nil: it was not asked.
	Decided *NodeDecided `json:"decided,omitempty"`
}

// NodeDecided is what a look at a node came to.
type NodeDecided struct {
	At time.Time `json:"at"`
	// Needed is what the pods that stay need: their base demands and the reserve of CPU, their peaks of memory.
	Needed NodeAmounts `json:"needed"`
	// Overcommitted: they do not fit, and no pod may be evicted to make them fit.
	Overcommitted bool `json:"overcommitted"`
	// Holders keep others below their base demands.
	Holders []NodeHolder `json:"holders"`
}

// NodeAmounts is an amount of each resource.
type NodeAmounts struct {
	CPU    string `json:"cpu"`
	Memory string `json:"memory"`
}

// NodePod is one of the node. Those that do not share count as they are, and those that are frozen share and keep what
// they hold for now; Reason and Message say why.
type NodePod struct {
	Name    string `json:"name"`
	Shares  bool   `json:"shares"`
	Frozen  bool   `json:"frozen,omitempty"`
	Group   string `json:"group,omitempty"`
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
	// Ranking is that by which the pod is evicted, Stays why it may not be whatever happens.
	Ranking    string          `json:"ranking,omitempty"`
	Stays      string          `json:"stays,omitempty"`
	Containers []NodeContainer `json:"containers"`
}

// NodeContainer of a pod.
type NodeContainer struct {
	Name string `json:"name"`
	// Holds is what it has; Wants what a new one of its workload is born with; Gets what it is to hold.
	Holds Amounts `json:"holds"`
	Wants Amounts `json:"wants"`
	Gets  Amounts `json:"gets"`
	// Base and Peak are its demand, Share what is its own of the node; absent where the leader was not asked.
	Base  *Quantities `json:"base,omitempty"`
	Peak  *Quantities `json:"peak,omitempty"`
	Share *Amounts    `json:"share,omitempty"`
	// Why says why it gets something else than its share, Steps how its share came about.
	Why   []ShareReason `json:"why,omitempty"`
	Steps []Step        `json:"steps,omitempty"`
}

// ShareReason a container gets something else of a resource than its share.
type ShareReason struct {
	Resource string `json:"resource"`
	// Reason is a word, Message a sentence.
	Reason  string `json:"reason"`
	Message string `json:"message"`
}

// NodeEviction of a pod that does not fit.
type NodeEviction struct {
	Name    string `json:"name"`
	Reason  string `json:"reason"`
	Ranking string `json:"ranking,omitempty"`
	// Waits: it is not asked to go now, as others are.
	Waits bool `json:"waits,omitempty"`
}

// NodeHolder keeps others below their base demands by what it holds above its share.
type NodeHolder struct {
	Name     string `json:"name"`
	Resource string `json:"resource"`
	Above    string `json:"above"`
	Reason   string `json:"reason"`
	Message  string `json:"message"`
}

// NodeAmountsOf writes an amount of each resource.
func NodeAmountsOf(a [2]recommender.Amount) NodeAmounts {
	return NodeAmounts{CPU: recommender.Format(recommender.CPU, a[recommender.CPU]), Memory: recommender.Format(recommender.Memory, a[recommender.Memory])}
}

// LeaseName is that of the lease by which the operator's replicas choose their leader.
const LeaseName = "attune.attune.io"

// LeaderOf is the pod that holds the lease, which its holder's identity begins with; empty: no pod does.
func LeaderOf(lease *coordinationv1.Lease) string {
	if lease.Spec.HolderIdentity == nil {
		return ""
	}
	pod, _, _ := strings.Cut(*lease.Spec.HolderIdentity, "_")
	return pod
}
