package plane

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// retryEviction is how long kubectl drain waits after a budget has refused an eviction.
const retryEviction = 5 * time.Second

// Cordon sets whether a node takes no further pods.
func (p *Plane) Cordon(ctx context.Context, node string, unschedulable bool) error {
	object := &corev1.Node{}
	if err := p.Client.Get(ctx, types.NamespacedName{Name: node}, object); err != nil {
		return err
	}
	object.Spec.Unschedulable = unschedulable
	return p.Client.Update(ctx, object)
}

// Drain cordons a node and has its pods evicted with the coming steps, as far as budgets allow, but for those of
// DaemonSets.
func (p *Plane) Drain(ctx context.Context, node string) error {
	if p.drained == nil {
		p.drained = map[string]time.Time{}
	}
	p.drained[node] = time.Time{}
	return p.Cordon(ctx, node, true)
}

// Uncordon ends a drain.
func (p *Plane) Uncordon(ctx context.Context, node string) error {
	delete(p.drained, node)
	return p.Cordon(ctx, node, false)
}

// drains evicts what is left on the nodes that are drained.
func (p *Plane) drains(ctx context.Context, v *view) error {
	for _, node := range v.nodes {
		at, drained := p.drained[node.Name]
		if !drained {
			continue
		}
		if v.now.Before(at) {
			p.wake(v, at)
			continue
		}
		refused, err := p.evictAll(ctx, v, node.Name)
		if err != nil {
			return err
		}
		if refused {
			p.drained[node.Name] = v.now.Add(retryEviction)
			p.wake(v, p.drained[node.Name])
		}
	}
	return nil
}

// evictAll asks for the eviction of each pod of a node, and says whether one was refused for now.
func (p *Plane) evictAll(ctx context.Context, v *view, node string) (refused bool, err error) {
	for _, pod := range v.pods {
		owner := metav1.GetControllerOfNoCopy(pod)
		if pod.Spec.NodeName != node || !active(pod) || owner != nil && owner.Kind == "DaemonSet" {
			continue
		}
		eviction := &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name}}
		switch err := p.Client.SubResource("eviction").Create(ctx, pod.DeepCopy(), eviction); {
		case apierrors.IsTooManyRequests(err):
			refused = true
		case ignoreStale(err) != nil:
			return refused, err
		}
	}
	return refused, nil
}
