package sim

import (
	"context"
	"fmt"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/test/kubelet"
	"attune.io/attune/test/plane"
)

// cluster is all that lives beside the operator: controllers, scheduler and kubelets.
type cluster struct {
	*plane.Cluster
	w *world
	// next is when it looks next; zero: it does not.
	next time.Time
}

// looksEvery is how long nothing is looked at where nothing happens: usage moves without an event.
const looksEvery = time.Minute

func newCluster(w *world) *cluster {
	c := &cluster{w: w, Cluster: plane.NewCluster(&plane.Plane{
		Client: w.server.As("plane", nil), Contents: []client.ObjectList{&v1alpha1.AttunePolicyList{}, &v1alpha1.AttuneRecommendationList{}},
	})}
	c.Version, c.Stored = w.server.Version, w.server.Stored
	c.CPU, c.Memory = w.recentCPU, w.recentMemory
	if w.follows != nil {
		c.Synced = w.follows.sync
	}
	for i := range w.plan.Nodes {
		c.join(fmt.Sprintf("node-%d", i))
	}
	return c
}

// join adds a node.
func (c *cluster) join(name string) {
	options := kubelet.Options{Minor: c.w.plan.Minor, CPU: c.w.plan.NodeCPU, Memory: c.w.plan.NodeMemory, Processes: processes{c.w}, RestartAfter: time.Second, CgroupV1: true}
	node, err := c.Join(context.Background(), name, options, c.w.time.now)
	c.w.must(err)
	node.Faults.LeastMemory, node.Faults.TooSmall = c.w.plan.LeastMemory, c.w.plan.TooSmall
}

// wake has it look after a while.
func (c *cluster) wake(d time.Duration) {
	at := c.w.time.now.Add(d)
	if !c.next.IsZero() && !at.Before(c.next) && c.next.After(c.w.time.now) {
		return
	}
	c.next = at
	c.w.time.at(at, func() {
		if c.next.Equal(at) {
			c.look()
		}
	})
}

// look has everybody look until nothing more is written.
func (c *cluster) look() {
	ctx, now := context.Background(), c.w.time.now
	c.next = time.Time{}
	for range 20 {
		before := c.w.server.Version()
		c.w.must(c.Step(ctx, now))
		if c.w.server.Version() == before {
			break
		}
	}
	next := now.Add(looksEvery)
	if at := c.Next(now); !at.IsZero() && at.Before(next) {
		next = at
	}
	c.wake(next.Sub(now))
}
