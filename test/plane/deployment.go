package plane

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strconv"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
)

// Annotations of ReplicaSets (pkg/controller/deployment/util).
const (
	annotationRevision = "deployment.kubernetes.io/revision"
	annotationDesired  = "deployment.kubernetes.io/desired-replicas"
	annotationMax      = "deployment.kubernetes.io/max-replicas"
)

// rollout is a Deployment with its ReplicaSets, oldest first.
type rollout struct {
	d   *appsv1.Deployment
	new *appsv1.ReplicaSet
	old []*appsv1.ReplicaSet
	// created: the new one was made in this step.
	created bool
}

// deployments takes each one step (pkg/controller/deployment, syncDeployment).
func (p *Plane) deployments(ctx context.Context, v *view) error {
	for _, d := range v.deployments {
		if d.DeletionTimestamp != nil {
			continue
		}
		err := p.deployment(ctx, v, d)
		if err != nil && !refused(err) {
			return err
		}
		if err != nil {
			p.wake(v, v.now.Add(retryCreate))
		}
	}
	return nil
}

func (p *Plane) deployment(ctx context.Context, v *view, d *appsv1.Deployment) error {
	if err := p.adopt(ctx, v, d); err != nil {
		return err
	}
	r := p.rolloutOf(v, d)
	switch {
	case d.Spec.Paused || r.scaled():
		if err := p.scale(ctx, v, r); err != nil {
			return err
		}
		return p.deploymentStatus(ctx, v, r, false)
	case d.Spec.Strategy.Type == appsv1.RecreateDeploymentStrategyType:
		if err := p.recreate(ctx, v, r); err != nil {
			return err
		}
	default:
		if err := p.roll(ctx, v, r); err != nil {
			return err
		}
	}
	return p.deploymentStatus(ctx, v, r, true)
}

// adopt makes the Deployment the controller of ReplicaSets that it selects and that have none (ClaimReplicaSets).
func (p *Plane) adopt(ctx context.Context, v *view, d *appsv1.Deployment) error {
	for _, rs := range v.replicaSets {
		if rs.Namespace != d.Namespace || rs.DeletionTimestamp != nil || metav1.GetControllerOfNoCopy(rs) != nil {
			continue
		}
		selector, err := metav1.LabelSelectorAsSelector(d.Spec.Selector)
		if err != nil || !selector.Matches(labels.Set(rs.Labels)) {
			continue
		}
		changed := rs.DeepCopy()
		changed.OwnerReferences = append(changed.OwnerReferences, owner{d, "apps/v1", "Deployment"}.reference())
		if err := p.Client.Update(ctx, changed); err != nil {
			return err
		}
		swap(v.replicaSets, changed)
	}
	return nil
}

// rolloutOf finds the ReplicaSets of a Deployment. One that it adopted may be of its template without a hash
// (EqualIgnoreHash).
func (p *Plane) rolloutOf(v *view, d *appsv1.Deployment) *rollout {
	r := &rollout{d: d}
	hash := p.hashOf(d, d.Spec.Template)
	for _, rs := range v.replicaSets {
		if !metav1.IsControlledBy(rs, d) || rs.DeletionTimestamp != nil {
			continue
		}
		of, labelled := rs.Labels[appsv1.DefaultDeploymentUniqueLabelKey]
		if !labelled {
			of = p.hashOf(rs, rs.Spec.Template)
		}
		if of == hash {
			r.new = rs
		} else {
			r.old = append(r.old, rs)
		}
	}
	slices.SortFunc(r.old, func(a, b *appsv1.ReplicaSet) int {
		return cmp.Or(cmp.Compare(revision(a), revision(b)), cmp.Compare(a.Name, b.Name))
	})
	return r
}

func revision(rs *appsv1.ReplicaSet) int64 {
	n, err := strconv.ParseInt(rs.Annotations[annotationRevision], 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// scaled: somebody changed the number of replicas since the ReplicaSets were sized (isScalingEvent).
func (r *rollout) scaled() bool {
	return slices.ContainsFunc(r.active(), func(rs *appsv1.ReplicaSet) bool {
		desired, noted := rs.Annotations[annotationDesired]
		return noted && desired != strconv.Itoa(int(replicas(r.d)))
	})
}

// all are the ReplicaSets, the new one last.
func (r *rollout) all() []*appsv1.ReplicaSet {
	if r.new == nil {
		return r.old
	}
	return append(slices.Clone(r.old), r.new)
}

// active are those that want pods.
func (r *rollout) active() []*appsv1.ReplicaSet {
	return slices.DeleteFunc(slices.Clone(r.all()), func(rs *appsv1.ReplicaSet) bool { return size(rs) == 0 })
}

func replicas(d *appsv1.Deployment) int32 { return ptr.Deref(d.Spec.Replicas, 1) }
func size(rs *appsv1.ReplicaSet) int32    { return ptr.Deref(rs.Spec.Replicas, 1) }
func sum(list []*appsv1.ReplicaSet, of func(*appsv1.ReplicaSet) int32) (n int32) {
	for _, rs := range list {
		n += of(rs)
	}
	return n
}

func availableOf(rs *appsv1.ReplicaSet) int32 { return rs.Status.AvailableReplicas }

// bounds are how many pods may be too many and too few (util.ResolveFenceposts): not both may be none.
func (r *rollout) bounds() (surge, unavailable int32) {
	if r.d.Spec.Strategy.Type == appsv1.RecreateDeploymentStrategyType || replicas(r.d) == 0 {
		return 0, 0
	}
	quarter := ptr.To(intstr.FromString("25%"))
	maxSurge, maxUnavailable := quarter, quarter
	if u := r.d.Spec.Strategy.RollingUpdate; u != nil {
		maxSurge, maxUnavailable = cmp.Or(u.MaxSurge, quarter), cmp.Or(u.MaxUnavailable, quarter)
	}
	surge, unavailable = scaledValue(maxSurge, replicas(r.d), true), scaledValue(maxUnavailable, replicas(r.d), false)
	if surge == 0 && unavailable == 0 {
		unavailable = 1
	}
	return surge, min(unavailable, replicas(r.d))
}

// scaledValue of a number or a percentage.
func scaledValue(of *intstr.IntOrString, total int32, up bool) int32 {
	n, err := intstr.GetScaledValueFromIntOrPercent(of, int(total), up)
	if err != nil {
		panic("the API server has checked the number: " + err.Error())
	}
	return int32(n)
}

// ensureNew makes the ReplicaSet of the template, or gives it the highest revision where it was an old one's: a
// rollback (getNewReplicaSet).
func (p *Plane) ensureNew(ctx context.Context, v *view, r *rollout) error {
	newest := int64(1)
	if len(r.old) > 0 {
		newest = revision(r.old[len(r.old)-1]) + 1
	}
	if r.new == nil {
		r.new = p.replicaSet(r, newest)
		if err := p.Client.Create(ctx, r.new); err != nil {
			r.new = nil
			return err
		}
		r.created = true
		v.replicaSets = append(v.replicaSets, r.new)
		return nil
	}
	if revision(r.new) >= newest && r.new.Spec.MinReadySeconds == r.d.Spec.MinReadySeconds {
		return nil
	}
	return p.change(ctx, v, r, r.new, func(rs *appsv1.ReplicaSet) {
		rs.Annotations = withLabel(rs.Annotations, annotationRevision, strconv.FormatInt(max(revision(rs), newest), 10))
		rs.Spec.MinReadySeconds = r.d.Spec.MinReadySeconds
	})
}

func (p *Plane) replicaSet(r *rollout, revision int64) *appsv1.ReplicaSet {
	d, hash := r.d, p.hashOf(r.d, r.d.Spec.Template)
	rs := &appsv1.ReplicaSet{}
	rs.Namespace, rs.Name = d.Namespace, d.Name+"-"+hash
	rs.OwnerReferences = []metav1.OwnerReference{owner{d, "apps/v1", "Deployment"}.reference()}
	rs.Spec.Template = *d.Spec.Template.DeepCopy()
	rs.Spec.Template.Labels = withLabel(d.Spec.Template.Labels, appsv1.DefaultDeploymentUniqueLabelKey, hash)
	rs.Labels = maps.Clone(rs.Spec.Template.Labels)
	rs.Spec.Selector = d.Spec.Selector.DeepCopy()
	rs.Spec.Selector.MatchLabels = withLabel(d.Spec.Selector.MatchLabels, appsv1.DefaultDeploymentUniqueLabelKey, hash)
	rs.Spec.MinReadySeconds = d.Spec.MinReadySeconds
	rs.Spec.Replicas = ptr.To(r.room(0))
	rs.Annotations = map[string]string{annotationRevision: strconv.FormatInt(revision, 10)}
	r.note(rs)
	return rs
}

// room is how many pods the new ReplicaSet may have, with so many now (NewRSNewReplicas).
func (r *rollout) room(now int32) int32 {
	if r.d.Spec.Strategy.Type == appsv1.RecreateDeploymentStrategyType {
		return replicas(r.d)
	}
	surge, _ := r.bounds()
	total := sum(r.old, size) + now
	most := replicas(r.d) + surge
	if total >= most {
		return now
	}
	return now + min(most-total, replicas(r.d)-now)
}

// note writes down for what number of replicas a ReplicaSet was sized.
func (r *rollout) note(rs *appsv1.ReplicaSet) {
	surge, _ := r.bounds()
	rs.Annotations = maps.Clone(rs.Annotations)
	if rs.Annotations == nil {
		rs.Annotations = map[string]string{}
	}
	rs.Annotations[annotationDesired] = strconv.Itoa(int(replicas(r.d)))
	rs.Annotations[annotationMax] = strconv.Itoa(int(replicas(r.d) + surge))
}

func withLabel(labels map[string]string, key, value string) map[string]string {
	out := maps.Clone(labels)
	if out == nil {
		out = map[string]string{}
	}
	out[key] = value
	return out
}

// resize gives a ReplicaSet another number of pods (scaleReplicaSet).
func (p *Plane) resize(ctx context.Context, v *view, r *rollout, rs *appsv1.ReplicaSet, to int32) error {
	noted := rs.Annotations[annotationDesired] == strconv.Itoa(int(replicas(r.d)))
	if size(rs) == to && noted {
		return nil
	}
	return p.change(ctx, v, r, rs, func(rs *appsv1.ReplicaSet) {
		rs.Spec.Replicas = ptr.To(to)
		r.note(rs)
	})
}

// change writes a ReplicaSet, and keeps what became of it.
func (p *Plane) change(ctx context.Context, v *view, r *rollout, rs *appsv1.ReplicaSet, edit func(*appsv1.ReplicaSet)) error {
	changed := rs.DeepCopy()
	edit(changed)
	if err := p.Client.Update(ctx, changed); err != nil {
		return err
	}
	swap(v.replicaSets, changed)
	swap(r.old, changed)
	if r.new != nil && r.new.UID == changed.UID {
		r.new = changed
	}
	return nil
}

// progressDeadline of a Deployment.
func progressDeadline(d *appsv1.Deployment) time.Duration {
	return time.Duration(ptr.Deref(d.Spec.ProgressDeadlineSeconds, 600)) * time.Second
}
