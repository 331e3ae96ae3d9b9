package answers

import (
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"

	"attune.io/attune/recommender"
)

// DecisionsPort and DecisionsPath are where the leader answers a plugin that forwards a port to the leader's pod. The
// path is DecisionsPath plus the name of a node; the answer is a NodeAnswer as JSON.
const (
	DecisionsPort = 8082
	DecisionsPath = "/nodes/"
)

// NodeAnswer describes how pods share one node. Its JSON is a contract with scripts. Pods are in alphabetical order.
type NodeAnswer struct {
	Node string `json:"node"`
	// Allocatable is the node's capacity for pods. Fixed is the footprint of pods outside the sharing, plus the
	// overhead of the sharing pods. Available is the rest, for the sharing pods.
	Allocatable NodeAmounts `json:"allocatable"`
	Fixed       NodeAmounts `json:"fixed"`
	Available   NodeAmounts `json:"available"`
	Pods        []NodePod   `json:"pods"`
	// Evictions are from the node's last decision, or the evictions in progress if the decision is not known.
	Evictions []NodeEviction `json:"evictions"`
	// Decided is what only the leader knows; nil if the leader was not asked.
	Decided *NodeDecided `json:"decided,omitempty"`
}

// NodeDecided is the node loop's last decision about a node.
type NodeDecided struct {
	At time.Time `json:"at"`
	// Needed is what the remaining pods need: base CPU demands plus the CPU reserve, and peak memory.
	Needed NodeAmounts `json:"needed"`
	// Overcommitted: the pods do not fit, and no pod may be evicted to make them fit.
	Overcommitted bool `json:"overcommitted"`
	// Holders are the pods that keep other pods below their base demands.
	Holders []NodeHolder `json:"holders"`
}

// NodeAmounts has one quantity per resource.
type NodeAmounts struct {
	CPU    string `json:"cpu"`
	Memory string `json:"memory"`
}

// NodePod is one pod of the node. A pod with Shares false is counted at its current size. A pod with Frozen true shares
// the node but is not resized for now. Reason and Message say why.
type NodePod struct {
	Name    string `json:"name"`
	Shares  bool   `json:"shares"`
	Frozen  bool   `json:"frozen,omitempty"`
	Group   string `json:"group,omitempty"`
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
	// Ranking is the eviction ranking of the pod. Stays is why attune never evicts it.
	Ranking    string          `json:"ranking,omitempty"`
	Stays      string          `json:"stays,omitempty"`
	Containers []NodeContainer `json:"containers"`
}

// NodeContainer is one container of a pod.
type NodeContainer struct {
	Name string `json:"name"`
	// Holds is the current size. Wants is the size of a new pod of the workload. Gets is the size that the container is
	// resized to.
	Holds Amounts `json:"holds"`
	Wants Amounts `json:"wants"`
	Gets  Amounts `json:"gets"`
	// Base and Peak are the demand of the container, Share is its share of the node; not set if the leader was not
	// asked.
	Base  *Quantities `json:"base,omitempty"`
	Peak  *Quantities `json:"peak,omitempty"`
	Share *Amounts    `json:"share,omitempty"`
	// Why has the reasons why Gets differs from Share. Steps are the computation of Share.
	Why   []ShareReason `json:"why,omitempty"`
	Steps []Step        `json:"steps,omitempty"`
}

// ShareReason is why a container does not get its share of a resource.
type ShareReason struct {
	Resource string `json:"resource"`
	// Reason is a CamelCase word, Message a sentence.
	Reason  string `json:"reason"`
	Message string `json:"message"`
}

// NodeEviction is a pod that has to leave, because the pods of the node do not fit.
type NodeEviction struct {
	Name    string `json:"name"`
	Reason  string `json:"reason"`
	Ranking string `json:"ranking,omitempty"`
	// Waits: the pod is not evicted yet, because other pods are evicted first.
	Waits bool `json:"waits,omitempty"`
}

// NodeHolder is a pod whose excess over its share keeps other pods below their base demands.
type NodeHolder struct {
	Name     string `json:"name"`
	Resource string `json:"resource"`
	Above    string `json:"above"`
	Reason   string `json:"reason"`
	Message  string `json:"message"`
}

// NodeAmountsOf formats one amount per resource.
func NodeAmountsOf(a [2]recommender.Amount) NodeAmounts {
	return NodeAmounts{CPU: recommender.Format(recommender.CPU, a[recommender.CPU]), Memory: recommender.Format(recommender.Memory, a[recommender.Memory])}
}

// LeaseName is the name of the lease that elects the leader of the operator's replicas.
const LeaseName = "attune.attune.io"

// LeaderOf returns the pod that holds the lease: the holder identity begins with its name. Empty if no pod holds the
// lease.
func LeaderOf(lease *coordinationv1.Lease) string {
	if lease.Spec.HolderIdentity == nil {
		return ""
	}
	pod, _, _ := strings.Cut(*lease.Spec.HolderIdentity, "_")
	return pod
}
