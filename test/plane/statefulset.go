package plane

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/utils/ptr"
)

// statefulSets takes each one step (pkg/controller/statefulset, updateStatefulSet).
func (p *Plane) statefulSets(ctx context.Context, v *view) error {
	p.forgetRevisions(v)
	for _, s := range v.stateful {
		if s.DeletionTimestamp != nil {
			continue
		}
		set := p.setOf(v, s)
		failure := p.order(ctx, v, set)
		if failure != nil && !refused(failure) {
			return failure
		}
		if err := p.statefulStatus(ctx, v, set); err != nil {
			return err
		}
	}
	return nil
}

// ordinals is a StatefulSet with its pods by ordinal.
type ordinals struct {
	s               *appsv1.StatefulSet
	pods            map[int]*corev1.Pod
	current, update string
	first, want     int
}

func (p *Plane) setOf(v *view, s *appsv1.StatefulSet) *ordinals {
	set := &ordinals{s: s, pods: map[int]*corev1.Pod{}, want: int(ptr.Deref(s.Spec.Replicas, 1))}
	if s.Spec.Ordinals != nil {
		set.first = int(s.Spec.Ordinals.Start)
	}
	set.update = s.Name + "-" + p.remember(s, s.Spec.Template)
	set.current = cmp.Or(s.Status.CurrentRevision, set.update)
	for _, pod := range v.podsOf(s) {
		if n, err := strconv.Atoi(strings.TrimPrefix(pod.Name, s.Name+"-")); err == nil {
			set.pods[n] = pod
		}
	}
	return set
}

// order makes, scales down and updates pods: in the order of their ordinals unless the set is Parallel.
func (p *Plane) order(ctx context.Context, v *view, set *ordinals) error {
	inOrder := set.s.Spec.PodManagementPolicy != appsv1.ParallelPodManagement
	for i := set.first; i < set.first+set.want; i++ {
		if wait, err := p.ensure(ctx, v, set, i); err != nil || wait && inOrder {
			return err
		}
	}
	if gone, err := p.condemn(ctx, v, set, inOrder); err != nil || gone && inOrder {
		return err
	}
	return p.renew(ctx, v, set)
}

// ensure has a pod of this ordinal. It says whether those after it have to wait.
func (p *Plane) ensure(ctx context.Context, v *view, set *ordinals, i int) (wait bool, err error) {
	pod := set.pods[i]
	switch {
	case pod == nil:
		if pod, err = p.createOrdinal(ctx, v, set, i); err != nil {
			p.wake(v, v.now.Add(retryCreate))
			return true, err
		}
		set.pods[i] = pod
		return true, nil
	case pod.DeletionTimestamp != nil:
		return true, nil
	case finished(pod):
		delete(set.pods, i)
		return true, p.remove(ctx, v, pod)
	}
	return !p.available(v, pod, set.s.Spec.MinReadySeconds), nil
}

// createOrdinal makes the pod: of the old revision while a rollout has not come down to its ordinal.
func (p *Plane) createOrdinal(ctx context.Context, v *view, set *ordinals, i int) (*corev1.Pod, error) {
	revision := set.update
	old, known := p.templates[set.s.UID][strings.TrimPrefix(set.current, set.s.Name+"-")]
	template := set.s.Spec.Template
	if known && set.current != set.update && set.keeps(i) {
		revision, template = set.current, old
	}
	template = *template.DeepCopy()
	name := fmt.Sprintf("%s-%d", set.s.Name, i)
	for key, value := range map[string]string{
		appsv1.ControllerRevisionHashLabelKey: revision, appsv1.StatefulSetPodNameLabel: name, appsv1.PodIndexLabel: strconv.Itoa(i),
	} {
		template.Labels = withLabel(template.Labels, key, value)
	}
	template.Spec.Hostname, template.Spec.Subdomain = name, set.s.Spec.ServiceName
	if err := p.create(ctx, v, owner{set.s, "apps/v1", "StatefulSet"}, template, name); err != nil {
		return nil, err
	}
	return v.pods[len(v.pods)-1], nil
}

// keeps: a pod of this ordinal is still of the old revision (newVersionedStatefulSetPod).
func (set *ordinals) keeps(i int) bool {
	u := set.s.Spec.UpdateStrategy
	if u.Type == appsv1.OnDeleteStatefulSetStrategyType {
		return false
	}
	if u.RollingUpdate == nil || ptr.Deref(u.RollingUpdate.Partition, 0) == 0 {
		return i < set.first+int(set.s.Status.CurrentReplicas)
	}
	return i < set.first+int(*u.RollingUpdate.Partition)
}

// condemn deletes pods beyond the number wanted, from the top, one at a time where in order.
func (p *Plane) condemn(ctx context.Context, v *view, set *ordinals, inOrder bool) (any bool, err error) {
	for _, i := range set.descending() {
		if i < set.first+set.want && i >= set.first {
			continue
		}
		pod := set.pods[i]
		if pod.DeletionTimestamp == nil {
			if err := p.remove(ctx, v, pod); err != nil {
				return true, err
			}
		}
		any = true
		if inOrder {
			return true, nil
		}
	}
	return any, nil
}

func (set *ordinals) descending() (list []int) {
	for i := range set.pods {
		list = append(list, i)
	}
	slices.Sort(list)
	slices.Reverse(list)
	return list
}

// renew deletes pods of the old revision from the top down to the partition, while no other is unavailable.
func (p *Plane) renew(ctx context.Context, v *view, set *ordinals) error {
	u := set.s.Spec.UpdateStrategy
	if u.Type == appsv1.OnDeleteStatefulSetStrategyType {
		return nil
	}
	least := set.first
	if u.RollingUpdate != nil {
		least = set.first + int(ptr.Deref(u.RollingUpdate.Partition, 0))
	}
	for i := set.first + set.want - 1; i >= least; i-- {
		pod := set.pods[i]
		if pod == nil {
			return nil
		}
		if revisionOf(pod) != set.update && pod.DeletionTimestamp == nil {
			return p.remove(ctx, v, pod)
		}
		if pod.DeletionTimestamp != nil || !p.available(v, pod, set.s.Spec.MinReadySeconds) {
			return nil
		}
	}
	return nil
}

func (p *Plane) statefulStatus(ctx context.Context, v *view, set *ordinals) error {
	before := set.s.Status
	status := appsv1.StatefulSetStatus{
		ObservedGeneration: set.s.Generation, CurrentRevision: set.current, UpdateRevision: set.update,
		CollisionCount: before.CollisionCount, Conditions: before.Conditions,
	}
	for _, pod := range v.podsOf(set.s) {
		status.Replicas++
		if ready(pod) && pod.DeletionTimestamp == nil {
			status.ReadyReplicas++
		}
		if pod.DeletionTimestamp == nil && p.available(v, pod, set.s.Spec.MinReadySeconds) {
			status.AvailableReplicas++
		}
		if active(pod) && revisionOf(pod) == set.current {
			status.CurrentReplicas++
		}
		if active(pod) && revisionOf(pod) == set.update {
			status.UpdatedReplicas++
		}
	}
	set.complete(&status)
	if equality.Semantic.DeepEqual(before, status) {
		return nil
	}
	changed := set.s.DeepCopy()
	changed.Status = status
	swap(v.stateful, changed)
	return p.writeStatus(ctx, changed)
}

// complete ends a rollout all of whose pods are new and ready (completeRollingUpdate).
func (set *ordinals) complete(status *appsv1.StatefulSetStatus) {
	rolling := set.s.Spec.UpdateStrategy.Type != appsv1.OnDeleteStatefulSetStrategyType
	if rolling && status.UpdatedReplicas == status.Replicas && status.ReadyReplicas == status.Replicas {
		status.CurrentReplicas, status.CurrentRevision = status.UpdatedReplicas, status.UpdateRevision
	}
}
