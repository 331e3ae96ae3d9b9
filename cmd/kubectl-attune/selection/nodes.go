package selection

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"attune.io/attune/cmd/kubectl-attune/answers"
	"attune.io/attune/internal/savings"
	"attune.io/attune/internal/savings/removable"
)

// AllPods are all pods of the cluster, with the figures of those that are sized.
type AllPods struct {
	All []*corev1.Pod
	Of  map[*corev1.Pod]savings.Figures
}

// Add one of the pods.
func (p *AllPods) Add(pod *corev1.Pod) { p.All = append(p.All, pod) }

// Count the nodes. nil: the user may not list them, which note is told.
func (p *AllPods) Count(ctx context.Context, reader client.Reader, note func(sentence string, args ...any)) (*answers.Nodes, error) {
	list := &corev1.NodeList{}
	err := reader.List(ctx, list)
	if apierrors.IsForbidden(err) {
		note("how many nodes are removable is not known: %v", err)
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("listing the nodes: %w", err)
	}
	if len(list.Items) == 0 {
		return nil, nil
	}
	nodes := make([]*corev1.Node, len(list.Items))
	for i := range list.Items {
		nodes[i] = &list.Items[i]
	}
	count := func(less func(savings.Figures) savings.Pair) int {
		return removable.Nodes(nodes, p.All, func(pod *corev1.Pod) savings.Pair { return less(p.Of[pod]) })
	}
	return &answers.Nodes{
		Nodes:     len(nodes),
		Removable: count(func(savings.Figures) savings.Pair { return savings.Pair{} }),
		Before:    count(func(f savings.Figures) savings.Pair { return savings.Pair{-f.Realised[0], -f.Realised[1]} }),
		Potential: count(func(f savings.Figures) savings.Pair { return f.Potential }),
	}, nil
}
