package plane

import (
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// nodeQuarantine is how long a node may be missing before its pods are deleted (pkg/controller/podgc).
const nodeQuarantine = 40 * time.Second

// collect deletes what owners that are gone have left, and pods of nodes that are gone.
func (p *Plane) collect(ctx context.Context, v *view) error {
	if err := p.orphans(ctx, v); err != nil {
		return err
	}
	return p.homeless(ctx, v)
}

// orphans have owners, none of which exists (pkg/controller/garbagecollector, background).
func (p *Plane) orphans(ctx context.Context, v *view) error {
	there, listed := v.uids(), map[string]bool{}
	for _, s := range []struct {
		kind string
		part []Part
	}{
		{"Deployment", nil}, {"ReplicaSet", nil}, {"StatefulSet", nil}, {"DaemonSet", []Part{Daemons}}, {"Job", []Part{Jobs, CronJobs}}, {"CronJob", []Part{CronJobs}},
	} {
		listed[s.kind] = p.runsAny(s.part)
	}
	orphan := func(o client.Object) bool {
		refs := o.GetOwnerReferences()
		for _, ref := range refs {
			if !listed[ref.Kind] || there[ref.UID] {
				return false
			}
		}
		return len(refs) > 0
	}
	for _, rs := range v.replicaSets {
		if err := p.sweep(ctx, rs, orphan(rs)); err != nil {
			return err
		}
	}
	for _, job := range v.jobs {
		if err := p.sweep(ctx, job, orphan(job)); err != nil {
			return err
		}
	}
	for _, pod := range append([]*corev1.Pod(nil), v.pods...) {
		if orphan(pod) && pod.DeletionTimestamp == nil {
			if err := p.remove(ctx, v, pod); err != nil {
				return err
			}
		}
	}
	return nil
}

// sweep deletes an orphan.
func (p *Plane) sweep(ctx context.Context, o client.Object, orphan bool) error {
	if !orphan || o.GetDeletionTimestamp() != nil {
		return nil
	}
	return client.IgnoreNotFound(p.Client.Delete(ctx, o, client.PropagationPolicy(metav1.DeletePropagationBackground)))
}

// uids of everything that may own something.
func (v *view) uids() map[types.UID]bool {
	there := map[types.UID]bool{}
	note := func(o client.Object) { there[o.GetUID()] = true }
	for _, o := range v.deployments {
		note(o)
	}
	for _, o := range v.replicaSets {
		note(o)
	}
	for _, o := range v.stateful {
		note(o)
	}
	for _, o := range v.daemons {
		note(o)
	}
	for _, o := range v.jobs {
		note(o)
	}
	for _, o := range v.cronJobs {
		note(o)
	}
	return there
}

// homeless pods are on a node that is gone: no kubelet will let them go.
func (p *Plane) homeless(ctx context.Context, v *view) error {
	nodes := map[string]bool{}
	for _, node := range v.nodes {
		nodes[node.Name] = true
		delete(p.missing, node.Name)
	}
	for _, pod := range append([]*corev1.Pod(nil), v.pods...) {
		node := pod.Spec.NodeName
		if node == "" || nodes[node] || len(p.Nodes) > 0 && !slices.Contains(p.Nodes, node) {
			continue
		}
		if p.missing == nil {
			p.missing = map[string]time.Time{}
		}
		since, known := p.missing[node]
		if !known {
			since, p.missing[node] = v.now, v.now
		}
		if at := since.Add(nodeQuarantine); v.now.Before(at) {
			p.wake(v, at)
			continue
		}
		if err := p.bury(ctx, v, pod); err != nil {
			return err
		}
	}
	return nil
}

// bury fails a pod whose node is gone, and deletes it at once (podgc.markFailedAndDeletePodWithCondition).
func (p *Plane) bury(ctx context.Context, v *view, pod *corev1.Pod) error {
	changed := pod.DeepCopy()
	if !finished(pod) {
		changed.Status.Phase = corev1.PodFailed
		setPodCondition(v, changed, corev1.PodCondition{
			Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: "DeletionByPodGC", Message: "PodGC: node no longer exists",
		})
		if err := p.writeStatus(ctx, changed); err != nil {
			return err
		}
	}
	err := p.Client.Delete(ctx, changed, client.GracePeriodSeconds(0), client.Preconditions{UID: ptr.To(pod.UID)})
	v.drop(pod)
	return client.IgnoreNotFound(err)
}
