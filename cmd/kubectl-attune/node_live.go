package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/explain"
	"attune.io/attune/internal/grant"
	"attune.io/attune/internal/workload"
	"attune.io/attune/recommender"
	"attune.io/attune/resize"
)

// podsByNode is the field that the API server selects pods by.
const podsByNode = "spec.nodeName"

// liveNode is the answer of node about a node of the cluster. Pods are in alphabetical order.
type liveNode struct {
	Node string `json:"node"`
	// Allocatable is what the node has for pods, Others what the scheduler counts for pods that count as they are and for
	// the overhead of those that share, Available what is left for those.
	Allocatable nodeAmounts `json:"allocatable"`
	Others      nodeAmounts `json:"others"`
	Available   nodeAmounts `json:"available"`
	Pods        []livePod   `json:"pods"`
	// Evictions are those that are under way.
	Evictions []nodeEviction `json:"evictions"`
}

type nodeAmounts struct {
	CPU    string `json:"cpu"`
	Memory string `json:"memory"`
}

// livePod is a pod of the node. Those that do not share count as they are; Reason and Message say why.
type livePod struct {
	Name       string          `json:"name"`
	Shares     bool            `json:"shares"`
	Reason     string          `json:"reason,omitempty"`
	Message    string          `json:"message,omitempty"`
	Containers []liveContainer `json:"containers"`
}

// liveContainer is what a container holds; what its workload wants at its peak, with the memory limit that follows; and
// what it gets: the size of its open resize, else what it holds.
type liveContainer struct {
	Name  string          `json:"name"`
	Holds explain.Amounts `json:"holds"`
	Wants explain.Amounts `json:"wants"`
	Gets  explain.Amounts `json:"gets"`
}

// showNode asks the API server alone: nobody stores more than what recommendations and pods say.
func showNode(ctx context.Context, env *environment, name string) error {
	c, err := env.cluster.Client()
	if err != nil {
		return err
	}
	node := &corev1.Node{}
	if err := c.Get(ctx, client.ObjectKey{Name: name}, node); err != nil {
		if apierrors.IsNotFound(err) {
			return fmt.Errorf("node %s does not exist: kubectl get nodes lists those that do", name)
		}
		return fmt.Errorf("reading node %s: %w", name, err)
	}
	pods := &corev1.PodList{}
	if err := c.List(ctx, pods, client.MatchingFields{podsByNode: name}); err != nil {
		return fmt.Errorf("listing the pods of node %s: %w", name, err)
	}
	recommendations := &v1alpha1.AttuneRecommendationList{}
	if err := c.List(ctx, recommendations); err != nil {
		return fmt.Errorf("listing the recommendations: %w", err)
	}
	return env.print(newLiveNode(node, pods.Items, recommendations.Items))
}

// newLiveNode puts together what the objects say.
func newLiveNode(node *corev1.Node, pods []corev1.Pod, recommendations []v1alpha1.AttuneRecommendation) liveNode {
	of := map[types.NamespacedName]*v1alpha1.AttuneRecommendation{}
	for i := range recommendations {
		of[client.ObjectKeyFromObject(&recommendations[i])] = &recommendations[i]
	}
	answer := liveNode{Node: node.Name, Pods: []livePod{}, Evictions: []nodeEviction{}}
	var has, others, left [2]recommender.Amount
	for i := range pods {
		pod := &pods[i]
		if resize.Finished(pod) {
			continue
		}
		var rec *v1alpha1.AttuneRecommendation
		if id, ok := workload.OwnerOf(pod, pod.Namespace, nil); ok {
			rec = of[types.NamespacedName{Namespace: id.Namespace, Name: id.RecommendationName()}]
		}
		shown := newLivePod(pod, rec)
		taken := resize.Footprint(pod)
		if shown.Shares {
			taken = resize.Overhead(pod)
		}
		for _, r := range recommender.Resources {
			others[r] += taken[r]
		}
		answer.Pods = append(answer.Pods, shown)
		if v, goes := leaving(pod, rec); goes {
			answer.Evictions = append(answer.Evictions, v)
		}
	}
	for _, r := range recommender.Resources {
		has[r] = resize.AmountOf(r, node.Status.Allocatable[resize.NameOf(r)])
		left[r] = max(0, has[r]-others[r])
	}
	answer.Allocatable, answer.Others, answer.Available = nodeAmountsOf(has), nodeAmountsOf(others), nodeAmountsOf(left)
	slices.SortFunc(answer.Pods, func(a, b livePod) int { return cmp.Compare(a.Name, b.Name) })
	slices.SortFunc(answer.Evictions, func(a, b nodeEviction) int { return cmp.Compare(a.Name, b.Name) })
	return answer
}

func newLivePod(pod *corev1.Pod, rec *v1alpha1.AttuneRecommendation) livePod {
	p := livePod{Name: pod.Namespace + "/" + pod.Name}
	p.Reason, p.Message = grant.AsItIs(pod, rec)
	p.Shares = p.Reason == ""
	for _, c := range resize.Read(pod) {
		holds := explain.AmountsOf(c.Size)
		shown := liveContainer{Name: c.Name, Holds: holds, Gets: holds}
		if rec != nil && rec.Spec.Strategy == v1alpha1.StrategyNode {
			shown.Wants = wants(rec, c.Name)
			shown.Gets = gets(pod, rec, c)
		}
		p.Containers = append(p.Containers, shown)
	}
	return p
}

// wants is the size that a new pod of the workload is born with.
func wants(rec *v1alpha1.AttuneRecommendation, container string) explain.Amounts {
	for _, t := range rec.Spec.Containers {
		if t.Name == container {
			return explain.AmountsOf(resize.FromResources(t.Target))
		}
	}
	return explain.Amounts{}
}

// gets is what the pod's open resize asks for, over what it holds.
func gets(pod *corev1.Pod, rec *v1alpha1.AttuneRecommendation, holds resize.Container) explain.Amounts {
	size := holds.Size
	for _, record := range rec.Status.Records {
		if record.PodUID != pod.UID || resize.PuttingBack(record) {
			continue
		}
		for _, desired := range record.Desired {
			if desired.Name != holds.Name {
				continue
			}
			for r, a := range resize.FromResources(desired.Resources) {
				if a.Request > 0 {
					size[r].Request = a.Request
				}
				if a.Limit > 0 {
					size[r].Limit = a.Limit
				}
			}
		}
	}
	return explain.AmountsOf(size)
}

// leaving is the eviction of a pod for want of room, where one is under way.
func leaving(pod *corev1.Pod, rec *v1alpha1.AttuneRecommendation) (nodeEviction, bool) {
	if rec == nil {
		return nodeEviction{}, false
	}
	for _, record := range rec.Status.Records {
		if record.PodUID == pod.UID && resize.Leaving(record) {
			return nodeEviction{Name: pod.Namespace + "/" + pod.Name, Reason: "it does not fit beside the others; the event Evicting of its AttuneRecommendation says why", as: string(rec.Spec.EvictionRanking)}, true
		}
	}
	return nodeEviction{}, false
}

func nodeAmountsOf(a [2]recommender.Amount) nodeAmounts {
	return nodeAmounts{CPU: recommender.Format(recommender.CPU, a[recommender.CPU]), Memory: recommender.Format(recommender.Memory, a[recommender.Memory])}
}

func (a nodeAmounts) text() string {
	return explain.Readable(recommender.CPU, a.CPU) + " of CPU and " + explain.Readable(recommender.Memory, a.Memory) + " of memory"
}

// Human implements document.
func (a liveNode) Human(w io.Writer, wide bool) error {
	if _, err := fmt.Fprintf(w, "Node %s has %s: %s for pods that count as they are, %s for those that share\n\n",
		a.Node, a.Allocatable.text(), a.Others.text(), a.Available.text()); err != nil {
		return err
	}
	if err := a.table(wide).write(w); err != nil {
		return err
	}
	if len(a.Evictions) == 0 {
		return nil
	}
	return blankThen(w, nodeAnswer{Evictions: a.Evictions}.evictions())
}

func (a liveNode) table(wide bool) table {
	const cpu, memory = recommender.CPU, recommender.Memory
	t := table{header: []string{"POD", "CONTAINER", "CPU", "CPU PEAK", "CPU GETS", "MEMORY", "MEMORY PEAK", "MEMORY GETS", "MEMORY LIMIT", "AS IT IS"}}
	if wide {
		t.header = append(t.header, "WHY")
	}
	for _, p := range a.Pods {
		for _, c := range p.Containers {
			row := []string{p.Name, c.Name,
				cell(cpu, c.Holds.CPURequest), cell(cpu, c.Wants.CPURequest), cell(cpu, c.Gets.CPURequest),
				cell(memory, c.Holds.MemoryRequest), cell(memory, c.Wants.MemoryRequest), cell(memory, c.Gets.MemoryRequest), cell(memory, c.Gets.MemoryLimit), p.Reason}
			if wide {
				row = append(row, p.Message)
			}
			t.add(row...)
		}
	}
	return t
}
