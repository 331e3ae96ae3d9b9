package plane

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"attune.io/attune/test/kubelet"
)

// Cluster is a control plane with its nodes, played together.
type Cluster struct {
	*Plane
	// Version of the newest write of the API server, so that a step passes over parts for which nothing has changed and
	// nothing is due. Nil: unknown, and every step takes them all.
	Version func() int64

	nodes []*kubelet.Node
	// planeAt and nodesAt are the versions at which the control plane and the kubelets looked last, planeNext when the
	// control plane is due.
	planeAt, nodesAt int64
	planeNext        time.Time
	// silent is how many kubelets were not heard then.
	silent int
}

// NewCluster has no nodes yet. Nodes that it loses touch with become not ready by themselves.
func NewCluster(p *Plane) *Cluster {
	c := &Cluster{Plane: p}
	p.Silent = func(name string) (time.Time, bool) {
		if node := c.Node(name); node != nil {
			return node.Silent()
		}
		return time.Time{}, false
	}
	return c
}

// Nodes that are there, by name.
func (c *Cluster) Nodes() []*kubelet.Node { return slices.Clone(c.nodes) }

// Node by its name, or nil.
func (c *Cluster) Node(name string) *kubelet.Node {
	for _, node := range c.nodes {
		if node.Name == name {
			return node
		}
	}
	return nil
}

// Join adds a node.
func (c *Cluster) Join(ctx context.Context, name string, options kubelet.Options, now time.Time) (*kubelet.Node, error) {
	node, err := kubelet.Join(ctx, c.Client, name, options, now)
	if err != nil {
		return nil, err
	}
	c.nodes = append(c.nodes, node)
	slices.SortFunc(c.nodes, func(a, b *kubelet.Node) int { return compareBool(a.Name < b.Name, b.Name < a.Name) })
	return node, nil
}

// Remove takes a machine away with everything on it, as a cloud does with a spot instance: the kubelet says nothing any
// more, and the cloud controller deletes the Node object.
func (c *Cluster) Remove(ctx context.Context, name string) error {
	node := c.Node(name)
	if node == nil {
		return fmt.Errorf("no node %s", name)
	}
	c.nodes = slices.DeleteFunc(c.nodes, func(other *kubelet.Node) bool { return other == node })
	return client.IgnoreNotFound(c.Client.Delete(ctx, node.Object()))
}

// Step takes the control plane and then every kubelet one step. A caller repeats it until nothing is written.
func (c *Cluster) Step(ctx context.Context, now time.Time) error {
	silent := c.silentNodes()
	if at, same := c.same(c.planeAt); !same || silent != c.silent || !c.planeNext.IsZero() && !now.Before(c.planeNext) {
		if err := c.Plane.Sync(ctx, now); err != nil {
			return err
		}
		c.planeAt, c.planeNext, c.silent = at, c.Plane.Next(now), silent
	}
	at, same := c.same(c.nodesAt)
	if same && !slices.ContainsFunc(c.nodes, func(n *kubelet.Node) bool { return n.Due(now) }) {
		return nil
	}
	c.nodesAt = at
	return c.stepNodes(ctx, now, same)
}

func (c *Cluster) silentNodes() (n int) {
	for _, node := range c.nodes {
		if _, silent := node.Silent(); silent {
			n++
		}
	}
	return n
}

// same: nothing was written since a version.
func (c *Cluster) same(since int64) (at int64, same bool) {
	if c.Version == nil {
		return 0, false
	}
	at = c.Version()
	return at, at == since
}

// stepNodes has the kubelets look; where no object has changed, those alone that are due.
func (c *Cluster) stepNodes(ctx context.Context, now time.Time, same bool) error {
	pods, err := all[*corev1.Pod](ctx, c.Plane, &corev1.PodList{})
	if err != nil {
		return err
	}
	on := map[string][]*corev1.Pod{}
	for _, pod := range pods {
		on[pod.Spec.NodeName] = append(on[pod.Spec.NodeName], pod)
	}
	for _, node := range c.nodes {
		if same && !node.Due(now) {
			continue
		}
		if err := node.SyncPods(ctx, now, on[node.Name]); err != nil {
			return err
		}
	}
	return nil
}

// Next is when the control plane or a kubelet has something to do by itself; zero: none has.
func (c *Cluster) Next(now time.Time) time.Time {
	next := c.Plane.Next(now)
	if c.Version != nil {
		next = time.Time{}
		if c.planeNext.After(now) {
			next = c.planeNext
		}
	}
	for _, node := range c.nodes {
		if at := node.Next(now); at.After(now) && (next.IsZero() || at.Before(next)) {
			next = at
		}
	}
	return next
}
