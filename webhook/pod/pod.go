// Package pod sizes new pods at admission: it decodes a pod, finds its workload's recommendation and
// fits the recommendation's seed to the pod. The decision is a pure function of the pod, the seed and
// what binds the namespace (limit ranges, quotas); it asks nobody, so a new pod waits for no lookup.
package pod

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"attune.io/attune/podview"
	"attune.io/attune/recommender"
)

// unit is one container of a pod, of whichever list.
type unit struct {
	*Container
	init  bool // listed under initContainers
	index int
	// was is what the container had before attune, is what the object has now and will be what it shall have.
	was, is, will recommender.Size
	// tight resources stay as they are.
	tight [2]bool
	// boost: it may be given more CPU to start with; plain is what it has without that.
	// claimed: it has its boost already, from an earlier call.
	boost, claimed bool
	plain          recommender.Allocation
}

// sidecar reports a native sidecar: an init container that runs as long as the pod.
func (u *unit) sidecar() bool { return u.init && podview.IsAlways(u.RestartPolicy) }

// runs reports whether the container lives while the pod does, and so is sized.
func (u *unit) runs() bool { return !u.init || u.sidecar() }

// unitsOf lists init containers first: the effective request of a pod depends on their order.
func unitsOf(p *Pod) []unit {
	units := make([]unit, 0, len(p.Spec.InitContainers)+len(p.Spec.Containers))
	for i := range p.Spec.InitContainers {
		units = append(units, unitOf(&p.Spec.InitContainers[i], true, i))
	}
	for i := range p.Spec.Containers {
		units = append(units, unitOf(&p.Spec.Containers[i], false, i))
	}
	return units
}

func unitOf(c *Container, init bool, index int) unit {
	u := unit{Container: c, init: init, index: index}
	u.boost = u.mayBoost()
	for _, r := range recommender.Resources {
		u.is[r], u.tight[r] = allocationOf(r, c.Resources.requests().of(r), c.Resources.limits().of(r))
	}
	u.was, u.will = u.is, u.is
	return u
}

// allocationOf reads a request and its limit such that they are equal if and only if the quantities are.
// It is tight where no whole amount can be asked for below the limit: also a limit of zero is one, though
// it counts as none, and the API server takes no request above it.
func allocationOf(r recommender.Resource, request, limit *resource.Quantity) (a recommender.Allocation, tight bool) {
	a = recommender.Allocation{Request: podview.AmountOf(r, *request), Limit: podview.AtMost(r, *limit)}
	if limit.Format == "" { // absent
		return a, false
	}
	switch order := request.Cmp(*limit); {
	case a.Limit == 0:
		tight = true
		fallthrough
	case order == 0:
		a.Limit = podview.AmountOf(r, *limit)
	case order < 0 && a.Request >= a.Limit:
		a.Limit, tight = a.Request+1, true
	}
	return a, tight
}

// whole reports a quantity without a part of a millicore or of a byte.
func whole(r recommender.Resource, q resource.Quantity) bool {
	return podview.AtMost(r, q) == podview.AmountOf(r, q)
}

var absent resource.Quantity

// of one resource; an absent quantity has no format.
func (q *Quantities) of(r recommender.Resource) *resource.Quantity {
	switch {
	case q == nil:
		return &absent
	case r == recommender.Memory:
		return &q.Memory.Quantity
	default:
		return &q.CPU.Quantity
	}
}

// sane reports whether every amount can be computed with.
func sane(units []unit) bool {
	for i := range units {
		for _, a := range units[i].is {
			if a.Request > podview.Plausible || a.Limit > podview.Plausible {
				return false
			}
		}
	}
	return true
}

// version picks which of a unit's sizes is meant.
type version func(*unit) recommender.Size

func was(u *unit) recommender.Size  { return u.was }
func is(u *unit) recommender.Size   { return u.is }
func will(u *unit) recommender.Size { return u.will }

// effective is what the scheduler and quotas count for the pod: the sum of what runs together, or the
// greatest init step where that is more (init containers run one by one, beside the sidecars started
// before them).
func effective(units []unit, r recommender.Resource, of version) (total recommender.Allocation) {
	var step, sidecars recommender.Allocation
	for i := range units {
		u, a := &units[i], of(&units[i])[r]
		switch {
		case u.sidecar():
			sidecars = plus(sidecars, a)
			total = plus(total, a)
		case u.init:
			step = greater(step, plus(sidecars, a))
		default:
			total = plus(total, a)
		}
	}
	return greater(total, step)
}

func plus(a, b recommender.Allocation) recommender.Allocation {
	return recommender.Allocation{Request: a.Request + b.Request, Limit: a.Limit + b.Limit}
}

func greater(a, b recommender.Allocation) recommender.Allocation {
	return recommender.Allocation{Request: max(a.Request, b.Request), Limit: max(a.Limit, b.Limit)}
}

// classOf is the quality of service that the units have together.
func classOf(units []unit, of version) corev1.PodQOSClass {
	var q podview.QOS
	for i := range units {
		q.Add(of(&units[i]))
	}
	return q.Class()
}
