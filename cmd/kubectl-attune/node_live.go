package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/cmd/kubectl-attune/nodeanswer"
	"attune.io/attune/internal/board"
	"attune.io/attune/internal/decision"
	"attune.io/attune/internal/display"
	"attune.io/attune/internal/workload"
	"attune.io/attune/podview"
	"attune.io/attune/recommender"
	"attune.io/attune/resize"
	"attune.io/attune/resize/lifecycle"
)

// podsByNode is the field by which the API server selects pods.
const podsByNode = "spec.nodeName"

// showNode asks the leader, and the API server where the leader cannot be asked or has no pods that share the
// node. In the first of these cases a note gives the reason.
func showNode(ctx context.Context, env *environment, operator, name string) error {
	c, err := env.cluster.Client()
	if err != nil {
		return err
	}
	// The leader is asked first: it alone knows what was granted, and why.
	answer, err := askLeader(ctx, env, c, operator, name)
	if err == nil && len(answer.Pods) > 0 {
		return env.print(nodeanswer.Live{Node: answer, Now: env.now()})
	}
	live, found := storedNode(ctx, c, name)
	if found != nil {
		return found
	}
	if err != nil {
		env.note("grants are not shown: %s", plain(err))
	}
	return env.print(nodeanswer.Live{Node: live, Now: env.now()})
}

// storedNode reads a node, its pods and all recommendations from the API server.
// It needs the rights to get nodes, and to list pods and recommendations in all namespaces.
func storedNode(ctx context.Context, c client.Client, name string) (decision.Node, error) {
	node := &corev1.Node{}
	if err := c.Get(ctx, client.ObjectKey{Name: name}, node); err != nil {
		if apierrors.IsNotFound(err) {
			return decision.Node{}, fmt.Errorf("node %s does not exist: kubectl get nodes lists those that do", name)
		}
		return decision.Node{}, fmt.Errorf("reading node %s: %w", name, err)
	}
	pods := &corev1.PodList{}
	if err := c.List(ctx, pods, client.MatchingFields{podsByNode: name}); err != nil {
		return decision.Node{}, fmt.Errorf("listing the pods of node %s: %w", name, err)
	}
	recommendations := &v1alpha1.AttuneRecommendationList{}
	if err := c.List(ctx, recommendations); err != nil {
		return decision.Node{}, fmt.Errorf("listing the recommendations: %w", err)
	}
	return newLiveNode(node, pods.Items, recommendations.Items), nil
}

// newLiveNode computes the answer from objects, by the same ledger that the node loop uses. Finished pods are left
// out.
//
// The answer has no grants and no Decided: these are the leader's. Pods and evictions are sorted by name.
func newLiveNode(node *corev1.Node, pods []corev1.Pod, recommendations []v1alpha1.AttuneRecommendation) decision.Node {
	of := map[types.NamespacedName]*v1alpha1.AttuneRecommendation{}
	for i := range recommendations {
		of[client.ObjectKeyFromObject(&recommendations[i])] = &recommendations[i]
	}
	recommendation := func(pod *corev1.Pod) *v1alpha1.AttuneRecommendation {
		// The owner is found from the pod alone, by the rule that the operator uses.
		id, ok := workload.OwnerOf(pod, pod.Namespace, nil)
		if !ok {
			return nil
		}
		return of[types.NamespacedName{Namespace: id.Namespace, Name: id.RecommendationName()}]
	}
	// Empty lists instead of nil, so that the JSON has [] and not null.
	answer := decision.Node{Node: node.Name, Pods: []decision.Pod{}, Evictions: []decision.Eviction{}}
	all := make([]*corev1.Pod, len(pods))
	for i := range pods {
		pod := &pods[i]
		all[i] = pod
		if resize.Finished(pod) {
			continue
		}
		rec := recommendation(pod)
		answer.Pods = append(answer.Pods, newLivePod(pod, rec))
		if v, goes := leaving(pod, rec); goes {
			answer.Evictions = append(answer.Evictions, v)
		}
	}
	ledger := board.LedgerOf(node, all, recommendation)
	left := ledger.Available()
	answer.Allocatable, answer.Others = decision.PairOf(ledger.Allocatable), decision.PairOf(ledger.Others)
	answer.Available = decision.PairOf([2]recommender.Amount{max(0, left[0]), max(0, left[1])})
	slices.SortFunc(answer.Pods, func(a, b decision.Pod) int { return cmp.Compare(a.Name, b.Name) })
	slices.SortFunc(answer.Evictions, func(a, b decision.Eviction) int { return cmp.Compare(a.Name, b.Name) })
	return answer
}

// newLivePod describes one pod: whether it shares the node, what its containers hold, want and get.
func newLivePod(pod *corev1.Pod, rec *v1alpha1.AttuneRecommendation) decision.Pod {
	p := decision.Pod{Name: pod.Namespace + "/" + pod.Name}
	p.Reason, p.Message = board.AsItIs(pod, rec)
	if p.Shares = p.Reason == ""; p.Shares {
		p.Group = board.GroupOf(rec)
		p.Reason, p.Message = board.Frozen(pod, rec)
		p.Frozen = p.Reason != ""
	}
	for _, c := range podview.Read(pod) {
		holds := display.AmountsOf(c.Size)
		shown := decision.Container{Name: c.Name, Holds: holds, Gets: holds}
		// Other pods count as they are, so they have neither demand nor grant.
		if rec != nil && rec.Spec.Strategy == v1alpha1.StrategyNode {
			shown.Wants = wants(rec, c.Name)
			shown.Gets = gets(pod, rec, c)
		}
		p.Containers = append(p.Containers, shown)
	}
	return p
}

// wants returns the seed of the container, which new pods of the workload are born with.
func wants(rec *v1alpha1.AttuneRecommendation, container string) display.Amounts {
	for _, t := range rec.Spec.Containers {
		if t.Name == container {
			return display.AmountsOf(podview.FromResources(t.Target))
		}
	}
	return display.Amounts{}
}

// gets returns the size that the pod's open resize asks for; for values that it does not change, what the
// container holds.
func gets(pod *corev1.Pod, rec *v1alpha1.AttuneRecommendation, holds podview.Container) display.Amounts {
	size := holds.Size
	for _, record := range rec.Status.Records {
		// A record of an earlier pod with the same name is of no interest, and one that puts the pod back asks for
		// its old size.
		if record.PodUID != pod.UID || resize.PuttingBack(record) {
			continue
		}
		// A record holds the containers that its resize changes; others keep what they hold.
		for _, desired := range record.Desired {
			if desired.Name != holds.Name {
				continue
			}
			size = resize.Merge(size, podview.FromResources(desired.Resources))
		}
	}
	return display.AmountsOf(size)
}

// leaving returns the eviction of a pod for want of room; false where none is under way.
func leaving(pod *corev1.Pod, rec *v1alpha1.AttuneRecommendation) (decision.Eviction, bool) {
	if rec == nil {
		return decision.Eviction{}, false
	}
	for _, record := range rec.Status.Records {
		if record.PodUID == pod.UID && lifecycle.Leaving(record) {
			return decision.Eviction{
				Name: pod.Namespace + "/" + pod.Name, Ranking: string(rec.Spec.EvictionRanking),
				Reason: "it does not fit beside the others; the event Evicting of its AttuneRecommendation says why",
			}, true
		}
	}
	return decision.Eviction{}, false
}

// askLeader asks the operator's leader for its last decision about a node, through a forwarded port. operator is
// the operator's namespace. The error is one sentence; the caller then shows what the API server knows.
func askLeader(ctx context.Context, env *environment, c client.Client, operator, node string) (decision.Node, error) {
	// The lease names the pod, so that exactly one pod has to be asked.
	pod, err := leader(ctx, c, operator)
	if err != nil {
		return decision.Node{}, err
	}
	status, body, err := env.cluster.AskPod(ctx, operator, pod, decision.Port, decision.Path+url.PathEscape(node))
	if err != nil {
		return decision.Node{}, fmt.Errorf("asking the leader, pod %s in namespace %s: %w", pod, operator, err)
	}
	// A replica that has just lost the lease answers with a sentence that names the new leader.
	if status != http.StatusOK {
		return decision.Node{}, fmt.Errorf("pod %s says: %s", pod, said(status, body))
	}
	var answer decision.Node
	// An answer without Decided is valid JSON of something else, or of another version.
	if err := json.Unmarshal(body, &answer); err != nil || answer.Decided == nil {
		return decision.Node{}, fmt.Errorf("pod %s answers what is not understood here: use a plugin of the operator's version", pod)
	}
	return answer, nil
}

// said returns the first line of an answer that is not a decision; for a long or an empty one the HTTP status.
// Another server may listen on that port and send anything.
// A line of more than 500 bytes counts as long.
func said(status int, body []byte) string {
	line, _, _ := strings.Cut(strings.TrimSpace(string(body)), "\n")
	if line == "" || len(line) > 500 {
		return fmt.Sprintf("%d %s", status, http.StatusText(status))
	}
	return line
}

// leader returns the name of the operator's pod that holds the lease.
// The holder of the lease is the pod's name and its UID, with an underscore between them. An error says which flag
// or which right is missing.
func leader(ctx context.Context, c client.Client, operator string) (string, error) {
	lease := &coordinationv1.Lease{}
	err := c.Get(ctx, client.ObjectKey{Namespace: operator, Name: decision.LeaseName}, lease)
	switch {
	case apierrors.IsNotFound(err):
		return "", fmt.Errorf("there is no lease %s in namespace %s: say where the operator is with --operator-namespace", decision.LeaseName, operator)
	case err != nil:
		return "", fmt.Errorf("looking for the leader: %w", err)
	}
	if pod := decision.LeaderOf(lease); pod != "" {
		return pod, nil
	}
	return "", errors.New("no replica of the operator leads at the moment")
}
