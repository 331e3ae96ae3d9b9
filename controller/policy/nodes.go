package policy

import (
	"cmp"
	"context"
	"crypto/sha256"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	scheduling "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/board"
	"attune.io/attune/internal/clip"
	"attune.io/attune/internal/loop"
	"attune.io/attune/internal/workload"
	"attune.io/attune/podview"
	"attune.io/attune/recommender"
	"attune.io/attune/resize"
)

// Nodes is the source of the cluster's nodes.
type Nodes struct {
	// Reader lists nodes, the pods of a node (index workload.PodsByNode) and recommendations from the cache; nil: no
	// node is known.
	client.Reader
	// AtLeast is the largest node of pools that may be empty now (value nodes.largest), in millicores and bytes,
	// indexed by resource; 0: not set.
	AtLeast [2]recommender.Amount
	// Largest publishes the largest node to the usage sources, which check samples against it.
	Largest *board.Largest
}

// nodeIndex has the largest node for each placement: node selector, required affinity and tolerations. It lists the
// nodes again after one has changed, and searches them once for each placement. So a pass over unchanged workloads
// costs one map access for each. After searchedFor it searches again, because DaemonSets change without their nodes. It
// is safe for concurrent use. It may be lost.
type nodeIndex struct {
	mutex sync.Mutex
	// current is false until the nodes are listed, and after one has changed. listed is when they were listed.
	current bool
	listed  time.Time
	// read is true once the stored bounds have been read.
	read bool
	// bySize are the nodes, the largest first, indexed by resource. They are the cache's own.
	bySize [2][]sizedNode
	// found are the results of earlier searches, indexed by resource.
	found map[placement][2]nodeBound
	// daemons are the requests of the DaemonSet pods of nodes that were searched, by the name of the node.
	daemons map[string][2]recommender.Amount
}

// placement is a search: the nodes on which pods may run (placementOf), and whether the smallest one is wanted.
type placement struct {
	of       string
	smallest bool
}

// nodeBound is what a node has for the pods of a placement, without its DaemonSet pods unless the smallest node was
// searched; the zero value: no node is suitable.
type nodeBound struct {
	node   string
	amount recommender.Amount
}

type sizedNode struct {
	*corev1.Node
	allocatable [2]recommender.Amount
	virtual     bool
}

// nodesChanged passes changes of nodes that affect where a pod may run, but not their heartbeats.
func nodesChanged() predicate.Predicate {
	return loop.Updated(func(before, after *corev1.Node) bool {
		return !equality.Semantic.DeepEqual(before.Status.Allocatable, after.Status.Allocatable) ||
			!equality.Semantic.DeepEqual(before.Labels, after.Labels) || !equality.Semantic.DeepEqual(before.Spec.Taints, after.Spec.Taints)
	})
}

// forgetNodes makes the next reconcile list the nodes again. It wakes no policy: their resync is soon enough.
func (c *Controller) forgetNodes(context.Context, client.Object) []reconcile.Request {
	c.nodes.mutex.Lock()
	defer c.nodes.mutex.Unlock()
	c.nodes.current = false
	return nil
}

// listNodes updates the index, and publishes the largest known node to the usage sources, which check samples against
// it.
func (c *Controller) listNodes(ctx context.Context) error {
	if c.Nodes.Reader == nil {
		return nil
	}
	x := &c.nodes
	x.mutex.Lock()
	defer x.mutex.Unlock()
	now := c.Clock.Now()
	if x.current && now.Sub(x.listed) < searchedFor {
		return nil
	}
	list := &corev1.NodeList{}
	if err := c.Nodes.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
		return err
	}
	if !x.read {
		if err := c.readLargest(ctx); err != nil {
			return err
		}
		x.read = true
	}
	x.set(list.Items)
	x.listed = now
	largest := c.Nodes.AtLeast
	for _, r := range recommender.Resources {
		for _, node := range x.bySize[r] {
			if !node.virtual {
				largest[r] = max(largest[r], node.allocatable[r])
				break
			}
		}
	}
	c.Nodes.Largest.Raise(float64(largest[recommender.CPU])/1000, float64(largest[recommender.Memory]))
	return nil
}

// readLargest publishes the largest nodes that recommendations have stored: their node pools may have been scaled to
// zero before this process started.
func (c *Controller) readLargest(ctx context.Context) error {
	list := &v1alpha1.AttuneRecommendationList{}
	if err := c.Nodes.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
		return err
	}
	oldest := c.Clock.Now().Add(-mostRemembered)
	for i := range list.Items {
		if stored := list.Items[i].Spec.LargestNode; stored != nil && stored.SeenAt.After(oldest) {
			of := podview.LargestNode(stored)
			c.Nodes.Largest.Raise(float64(of[recommender.CPU])/1000, float64(of[recommender.Memory]))
		}
	}
	return nil
}

// mostRemembered is the longest history window: an older node does not matter for the stored samples.
const mostRemembered = 90 * 24 * time.Hour

// set replaces the nodes.
func (x *nodeIndex) set(nodes []corev1.Node) {
	all := make([]sizedNode, 0, len(nodes))
	for i := range nodes {
		all = append(all, sizedNode{&nodes[i], podview.Amounts(nodes[i].Status.Allocatable), virtual(&nodes[i])})
	}
	for _, r := range recommender.Resources {
		x.bySize[r] = slices.Clone(all)
		slices.SortFunc(x.bySize[r], func(a, b sizedNode) int {
			return cmp.Or(cmp.Compare(b.allocatable[r], a.allocatable[r]), strings.Compare(a.Name, b.Name))
		})
	}
	x.found, x.daemons, x.current = map[placement][2]nodeBound{}, map[string][2]recommender.Amount{}, true
}

const (
	// searchedFor is how long the results of searches are used while no node changes.
	searchedFor = 10 * time.Minute
	// filledAfter is the age at which a node has its DaemonSet pods.
	filledAfter = 10 * time.Minute
	// mostCompared is how many of the largest nodes of a placement are compared.
	mostCompared = 20
	// daemonSteps is the number of parts of a node to which the requests of its DaemonSet pods are rounded up. So the
	// bound, which each recommendation stores, rarely changes when such a pod is resized.
	daemonSteps = 32
)

// of returns the room of the largest nodes, or the smallest nodes, on which pods of a template may run, indexed by
// resource. daemons returns the requests of a node's DaemonSet pods. The mutex is not held during the search: the
// constraints of one namespace can make it slow, and other namespaces must not wait for it.
func (x *nodeIndex) of(template *corev1.PodTemplateSpec, smallest bool, now time.Time, daemons func(node string) [2]recommender.Amount) [2]nodeBound {
	key := placement{placementOf(template), smallest}
	x.mutex.Lock()
	known, wasFound := x.found[key]
	s := search{x, x.bySize, x.found, x.daemons, smallest}
	x.mutex.Unlock()
	if wasFound {
		return known
	}
	found := s.search(template, now, daemons)
	x.mutex.Lock()
	defer x.mutex.Unlock()
	if s.found != nil {
		s.found[key] = found
	}
	return found
}

// search has the nodes and tables of an index when a search began. If the nodes change, the index has other tables, and
// the results of this search are not used again. The mutex of the index guards the tables.
type search struct {
	index    *nodeIndex
	bySize   [2][]sizedNode
	found    map[placement][2]nodeBound
	daemons  map[string][2]recommender.Amount
	smallest bool
}

func (s search) search(template *corev1.PodTemplateSpec, now time.Time, daemons func(node string) [2]recommender.Amount) (found [2]nodeBound) {
	pod := &corev1.Pod{Spec: template.Spec}
	affinity := nodeaffinity.GetRequiredNodeAffinity(pod)
	for _, r := range recommender.Resources {
		var suitable []*sizedNode
		for i := range s.bySize[r] {
			if s.smallest {
				i = len(s.bySize[r]) - 1 - i
			}
			node := &s.bySize[r][i]
			if node.allocatable[r] == 0 || !node.takes(pod, affinity) {
				continue
			}
			if suitable = append(suitable, node); s.smallest || len(suitable) == mostCompared {
				break
			}
		}
		switch {
		case len(suitable) == 0:
		case s.smallest:
			found[r] = nodeBound{suitable[0].Name, suitable[0].allocatable[r]}
		default:
			found[r] = s.mostRoom(suitable, r, now, daemons)
		}
	}
	return found
}

// mostRoom returns the greatest room of nodes next to their DaemonSet pods. A new node may not have these yet: the most
// of the other nodes count there.
func (s search) mostRoom(nodes []*sizedNode, r recommender.Resource, now time.Time, daemons func(node string) [2]recommender.Amount) (most nodeBound) {
	var greatest recommender.Amount
	taken := make([]recommender.Amount, len(nodes))
	for i, node := range nodes {
		taken[i] = s.daemonsOf(node.Name, daemons)[r]
		greatest = max(greatest, taken[i])
	}
	for i, node := range nodes {
		if now.Sub(node.CreationTimestamp.Time) < filledAfter {
			taken[i] = greatest
		}
		step := max(1, node.allocatable[r]/daemonSteps)
		if left := max(1, node.allocatable[r]-(taken[i]+step-1)/step*step); left > most.amount {
			most = nodeBound{node.Name, left}
		}
	}
	return most
}

// daemonsOf returns the requests of the DaemonSet pods of a node, read once for all searches.
func (s search) daemonsOf(node string, read func(node string) [2]recommender.Amount) [2]recommender.Amount {
	s.index.mutex.Lock()
	sum, known := s.daemons[node]
	s.index.mutex.Unlock()
	if known {
		return sum
	}
	sum = read(node)
	s.index.mutex.Lock()
	defer s.index.mutex.Unlock()
	s.daemons[node] = sum
	return sum
}

// placementOf is a digest that is equal for templates whose pods may run on the same nodes; empty: without constraints.
func placementOf(template *corev1.PodTemplateSpec) string {
	if template == nil {
		return ""
	}
	spec := &template.Spec
	if len(spec.NodeSelector)+len(spec.Tolerations) == 0 && spec.Affinity == nil {
		return ""
	}
	parts := struct {
		Selector    map[string]string
		Affinity    *corev1.NodeAffinity
		Tolerations []corev1.Toleration
	}{Selector: spec.NodeSelector, Tolerations: spec.Tolerations}
	if spec.Affinity != nil {
		parts.Affinity = spec.Affinity.NodeAffinity
	}
	return clip.Digest(parts, sha256.Size/2)
}

// Marks of a virtual kubelet's node. Its allocatable is what the provider sells, such as 10,000 CPUs, and no single
// pod can get that.
const (
	virtualLabel, virtualType = "type", "virtual-kubelet"
	virtualTaint              = "virtual-kubelet.io/provider"
)

func virtual(node *corev1.Node) bool {
	return node.Labels[virtualLabel] == virtualType ||
		slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.Key == virtualTaint })
}

// takes reports whether pods may run on the node, by required affinity and taints. Taints that controllers set and
// remove (cordoned, not ready, under pressure, new, about to be removed) do not count.
func (n *sizedNode) takes(pod *corev1.Pod, affinity nodeaffinity.RequiredNodeAffinity) bool {
	if n.virtual && pod.Spec.NodeSelector[virtualLabel] != virtualType &&
		!slices.ContainsFunc(pod.Spec.Tolerations, func(t corev1.Toleration) bool { return t.Key == virtualTaint }) {
		return false
	}
	if _, tainted := scheduling.FindMatchingUntoleratedTaint(logr.Discard(), n.Spec.Taints, pod.Spec.Tolerations, lasting, true); tainted {
		return false
	}
	matches, err := affinity.Match(n.Node)
	return err == nil && matches
}

// passing are the prefixes of taints that controllers set temporarily.
var passing = []string{"node.kubernetes.io/", "node.cloudprovider.kubernetes.io/", "ToBeDeletedByClusterAutoscaler", "DeletionCandidateOfClusterAutoscaler", "karpenter.sh/", v1alpha1.GroupVersion.Group + "/"}

func lasting(t *corev1.Taint) bool {
	return t.Effect != corev1.TaintEffectPreferNoSchedule &&
		!slices.ContainsFunc(passing, func(prefix string) bool { return strings.HasPrefix(t.Key, prefix) })
}

// largestNow returns the most that the pods of a workload may request, given the nodes that exist, in millicores and
// bytes; 0: no node is known. It is the largest node minus its DaemonSet pods; for a DaemonSet the smallest node minus
// the pods of other DaemonSets.
func (c *Controller) largestNow(ctx context.Context, w workload.Workload) (out [2]recommender.Amount) {
	if c.Nodes.Reader == nil || w.Template == nil {
		return out
	}
	smallest := w.Kind == v1alpha1.KindDaemonSet
	all := func(node string) [2]recommender.Amount { return c.daemons(ctx, node, workload.Identity{}) }
	found := c.nodes.of(w.Template, smallest, c.Clock.Now(), all)
	daemons := map[string][2]recommender.Amount{} // by node: mostly both resources have the same one
	for _, r := range recommender.Resources {
		out[r] = found[r].amount
		switch node := found[r].node; {
		case !smallest:
			out[r] = max(out[r], c.Nodes.AtLeast[r])
		case node != "":
			if _, summed := daemons[node]; !summed {
				daemons[node] = c.daemons(ctx, node, w.Identity)
			}
			out[r] = max(1, out[r]-daemons[node][r])
		}
	}
	return out
}

// daemons returns the requests of a node's accepted DaemonSet pods and static pods, without those of one DaemonSet. It
// returns 0 if the pods cannot be listed.
func (c *Controller) daemons(ctx context.Context, node string, but workload.Identity) (sum [2]recommender.Amount) {
	pods := &corev1.PodList{}
	if err := c.Nodes.List(ctx, pods, client.MatchingFields{workload.PodsByNode: node}, client.UnsafeDisableDeepCopy); err != nil {
		return sum
	}
	for i := range pods.Items {
		pod := &pods.Items[i]
		owner := metav1.GetControllerOf(pod)
		switch {
		case owner == nil || resize.Finished(pod) || owner.Kind != string(v1alpha1.KindDaemonSet) && owner.Kind != "Node":
			continue
		// Users may set the node and the owner of a pod that they create: it counts once the kubelet has accepted it.
		case pod.Status.StartTime == nil && pod.Status.Phase != corev1.PodRunning:
			continue
		case owner.Kind == string(but.Kind) && owner.Name == but.Name && pod.Namespace == but.Namespace:
			continue
		}
		for r, amount := range podview.Requests(pod) {
			sum[r] += amount
		}
	}
	return sum
}
