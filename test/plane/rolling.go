package plane

import (
	"cmp"
	"context"
	"math"
	"slices"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/utils/ptr"
)

// roll replaces pods of old templates by new ones, within the bounds (rolloutRolling).
func (p *Plane) roll(ctx context.Context, v *view, r *rollout) error {
	if err := p.ensureNew(ctx, v, r); err != nil {
		return err
	}
	if to := r.room(size(r.new)); size(r.new) != replicas(r.d) && to != size(r.new) {
		return p.resize(ctx, v, r, r.new, min(to, replicas(r.d)))
	}
	if size(r.new) > replicas(r.d) {
		return p.resize(ctx, v, r, r.new, replicas(r.d))
	}
	if sum(r.old, size) > 0 {
		return p.shrinkOld(ctx, v, r)
	}
	return p.forgetOld(ctx, v, r)
}

// shrinkOld takes pods of old ReplicaSets away: first those that are not available, then as many as may be missing
// (reconcileOldReplicaSets).
func (p *Plane) shrinkOld(ctx context.Context, v *view, r *rollout) error {
	_, unavailable := r.bounds()
	least := replicas(r.d) - unavailable
	most := sum(r.all(), size) - least - (size(r.new) - availableOf(r.new))
	for _, rs := range slices.Clone(r.old) {
		idle := min(most, size(rs)-availableOf(rs))
		if idle <= 0 {
			continue
		}
		if err := p.resize(ctx, v, r, rs, size(rs)-idle); err != nil {
			return err
		}
		most -= idle
	}
	spare := min(sum(r.all(), availableOf)-least, most)
	for _, rs := range slices.Clone(r.old) {
		gone := min(spare, size(rs))
		if gone <= 0 {
			continue
		}
		if err := p.resize(ctx, v, r, rs, size(rs)-gone); err != nil {
			return err
		}
		spare -= gone
	}
	return nil
}

// forgetOld deletes ReplicaSets beyond those that are kept for a rollback (cleanupDeployment).
func (p *Plane) forgetOld(ctx context.Context, v *view, r *rollout) error {
	extra := len(r.old) - int(ptr.Deref(r.d.Spec.RevisionHistoryLimit, 10))
	for i := 0; i < extra; i++ {
		rs := r.old[i]
		if rs.Status.Replicas != 0 || size(rs) != 0 || rs.Generation > rs.Status.ObservedGeneration {
			continue
		}
		if err := ignoreStale(p.Client.Delete(ctx, rs)); err != nil {
			return err
		}
		v.replicaSets = slices.DeleteFunc(v.replicaSets, func(other *appsv1.ReplicaSet) bool { return other.UID == rs.UID })
	}
	return nil
}

// recreate has no new pod begin before the old ones are gone (rolloutRecreate).
func (p *Plane) recreate(ctx context.Context, v *view, r *rollout) error {
	for _, rs := range slices.Clone(r.old) {
		if err := p.resize(ctx, v, r, rs, 0); err != nil {
			return err
		}
	}
	for _, rs := range r.old {
		if slices.ContainsFunc(v.podsOf(rs), running) {
			return nil
		}
	}
	if err := p.ensureNew(ctx, v, r); err != nil {
		return err
	}
	if err := p.resize(ctx, v, r, r.new, replicas(r.d)); err != nil {
		return err
	}
	return p.forgetOld(ctx, v, r)
}

// scale spreads another number of replicas over the ReplicaSets that have pods, without hastening a rollout.
func (p *Plane) scale(ctx context.Context, v *view, r *rollout) error {
	if only := r.activeOrLatest(); only != nil {
		return p.resize(ctx, v, r, only, replicas(r.d))
	}
	if r.new != nil && size(r.new) == replicas(r.d) && availableOf(r.new) == replicas(r.d) {
		for _, rs := range slices.Clone(r.old) {
			if err := p.resize(ctx, v, r, rs, 0); err != nil {
				return err
			}
		}
		return nil
	}
	return p.scaleInProportion(ctx, v, r)
}

// activeOrLatest is the only ReplicaSet with pods, or without any the newest; nil where several have some.
func (r *rollout) activeOrLatest() *appsv1.ReplicaSet {
	active := r.active()
	switch {
	case len(active) == 1:
		return active[0]
	case len(active) > 1:
		return nil
	case r.new != nil:
		return r.new
	case len(r.old) > 0:
		return r.old[len(r.old)-1]
	}
	return nil
}

// scaleInProportion keeps each ReplicaSet's share; what is left over goes to the largest.
func (p *Plane) scaleInProportion(ctx context.Context, v *view, r *rollout) error {
	active := r.active()
	allowed := int32(0)
	if replicas(r.d) > 0 {
		surge, _ := r.bounds()
		allowed = replicas(r.d) + surge
	}
	total := sum(active, size)
	add := allowed - total
	slices.SortStableFunc(active, func(a, b *appsv1.ReplicaSet) int {
		newer := cmp.Compare(revision(b), revision(a))
		if add < 0 {
			newer = -newer
		}
		return cmp.Or(-cmp.Compare(size(a), size(b)), newer)
	})
	sizes, added := make([]int32, len(active)), int32(0)
	for i, rs := range active {
		share := int32(0)
		if add != 0 {
			share = r.portion(rs, total, add, added)
		}
		sizes[i] = size(rs) + share
		added += share
	}
	for i, rs := range active {
		if i == 0 {
			sizes[0] = max(0, sizes[0]+add-added)
		}
		if err := p.resize(ctx, v, r, rs, sizes[i]); err != nil {
			return err
		}
	}
	return nil
}

// portion of what is added that a ReplicaSet gets: as much of the most pods that there may be now as it had of the
// most there could be when it was sized (GetReplicaSetProportion).
func (r *rollout) portion(rs *appsv1.ReplicaSet, total, add, added int32) int32 {
	if add == added {
		return 0
	}
	if replicas(r.d) == 0 {
		return max(-size(rs), add-added)
	}
	surge, _ := r.bounds()
	base := total
	if noted, err := strconv.Atoi(rs.Annotations[annotationMax]); err == nil && noted > 0 {
		base = int32(noted)
	}
	grown := int32(math.Round(float64(size(rs)*(replicas(r.d)+surge)) / float64(base)))
	if add > 0 {
		return min(grown-size(rs), add-added)
	}
	return max(grown-size(rs), add-added)
}
