// Package pod sizes new pods at admission (a mutating webhook).
//
// The path of a review:
//  1. handler.go reads the AdmissionReview; review.go decodes only the parts that are needed.
//  2. workload.OwnerOf finds the pod's workload; index.go has its recommendation (seed.go) and the limits of its
//     namespace, both kept in memory by informers.
//  3. decide.go fits the seed to the pod: seeded.go reads the result of an earlier call, fit.go sizes each
//     container, pod.go adds up what the scheduler, quotas and QoS classes count.
//  4. patch.go writes the JSON patch, review.go the answer, and handler.go counts it.
//
// The decision is a pure function of the pod, the seed and the namespace's limits. The package never rejects a pod
// and never calls the API server: a new pod waits for no lookup, and is created unsized if anything is missing. Start
// reading with Handler.Answer and SeedPod.
package pod

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"attune.io/attune/podview"
	"attune.io/attune/recommender"
	"attune.io/attune/resize"
)

// unit is one container of a pod, of either list, with its sizes. Sizes are in millicores and bytes.
type unit struct {
	*Container
	// init is true for a container in initContainers; index is its position in its list.
	init  bool // listed under initContainers
	index int
	// was is the size before attune, is the size in the received object, will the size that the object is to have.
	was, is, will recommender.Size
	// facts decide what may be changed. unkept is the memory that the seed would give without volumes that keep the
	// limit; zero: no volume does.
	facts  resize.SpecFacts
	unkept recommender.Allocation
	// tight is true for resources that are not changed, because no whole amount fits below the limit.
	tight [2]bool
	// boost is true if the container may get a startup boost, and claimed if it already has one from an earlier call.
	// plain is its CPU without the boost.
	boost, claimed bool
	plain          recommender.Allocation
}

// sidecar reports whether the container is a native sidecar: an init container that runs as long as the pod.
func (u *unit) sidecar() bool { return u.init && podview.IsAlways(u.RestartPolicy) }

// runs reports whether the container runs as long as the pod, and so is sized.
func (u *unit) runs() bool { return !u.init || u.sidecar() }

// unitsOf returns init containers first and in their order, because the effective request of the pod depends on the
// order.
func unitsOf(p *Pod) []unit {
	facts := resize.SpecFacts{
		Critical: podview.Critical(p.Spec.PriorityClassName, p.Spec.Priority),
		Queue:    podview.QueueOf(p.Metadata.Labels, p.Metadata.Annotations, bool(p.Spec.SchedulingGroup), bool(p.Spec.SchedulingGates)),
	}
	units := make([]unit, 0, len(p.Spec.InitContainers)+len(p.Spec.Containers))
	for i := range p.Spec.InitContainers {
		units = append(units, unitOf(&p.Spec.InitContainers[i], facts, true, i))
	}
	for i := range p.Spec.Containers {
		units = append(units, unitOf(&p.Spec.Containers[i], facts, false, i))
	}
	if len(p.Spec.Volumes) > 0 {
		for i := range units {
			units[i].facts.Volumes = p.Spec.Volumes.mountedBy(units[i].Container)
		}
	}
	return units
}

// unitOf reads one container. Until recall finds an earlier call, the present size counts as the original.
func unitOf(c *Container, facts resize.SpecFacts, init bool, index int) unit {
	u := unit{Container: c, facts: facts, init: init, index: index}
	for _, told := range [...]*podview.Told{c.Env.told, c.Command.told, c.Args.told} {
		if told == nil {
			continue
		}
		if least := recommender.WithHeadroom(told.Heap); least > u.facts.LeastLimit {
			u.facts.LeastLimit, u.facts.LeastLimitBy = least, told.HeapBy
		}
	}
	u.boost = u.mayBoost()
	for _, r := range recommender.Resources {
		u.is[r], u.tight[r] = allocationOf(r, c.Resources.requests().of(r), c.Resources.limits().of(r))
	}
	u.was, u.will = u.is, u.is
	return u
}

// allocationOf reads a request and its limit so that the two amounts are equal if and only if the quantities are. It
// is tight if no whole amount fits below the limit. A limit of zero is tight too: it counts as no limit, but the API
// server accepts no request above it.
func allocationOf(r recommender.Resource, request, limit *resource.Quantity) (a recommender.Allocation, tight bool) {
	a = recommender.Allocation{Request: podview.AmountOf(r, *request), Limit: podview.AtMost(r, *limit)}
	if limit.Format == "" { // absent
		return a, false
	}
	switch order := request.Cmp(*limit); {
	case order < 0 && a.Request >= a.Limit:
		a.Limit, tight = a.Request+1, true
	case order == 0, a.Limit == 0:
		tight = a.Limit == 0
		a.Limit = podview.AmountOf(r, *limit)
	}
	return a, tight
}

// whole reports whether a quantity has no fraction of a millicore or byte.
func whole(r recommender.Resource, q resource.Quantity) bool {
	return podview.AtMost(r, q) == podview.AmountOf(r, q)
}

// absent stands for a quantity that is not set.
var absent resource.Quantity

// of returns the quantity of one resource; a quantity that is not set has no format.
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

// sane reports whether all amounts are small enough for sums and products without overflow (podview.Plausible).
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

// version selects one of a unit's sizes: was, is or will.
type version func(*unit) recommender.Size

func was(u *unit) recommender.Size  { return u.was }
func is(u *unit) recommender.Size   { return u.is }
func will(u *unit) recommender.Size { return u.will }

// effective is the amount that the scheduler and quotas count for the pod: the sum of the containers that run
// together, or the largest init step if that is more. Init containers run one by one, together with the sidecars that
// started before them.
func effective(units []unit, r recommender.Resource, of version) (total recommender.Allocation) {
	var step, sidecars recommender.Allocation
	for i := range units {
		u, a := &units[i], of(&units[i])[r]
		switch {
		case u.sidecar():
			sidecars = plus(sidecars, a)
			total = plus(total, a)
		case u.init:
			step = podview.Greater(step, plus(sidecars, a))
		default:
			total = plus(total, a)
		}
	}
	return podview.Greater(total, step)
}

// plus and greater work on request and limit separately, as Kubernetes' resource helpers do.
func plus(a, b recommender.Allocation) recommender.Allocation {
	return recommender.Allocation{Request: a.Request + b.Request, Limit: a.Limit + b.Limit}
}

// classOf is the QoS class of the units together.
func classOf(units []unit, of version) corev1.PodQOSClass {
	var q podview.QOS
	for i := range units {
		q.Add(of(&units[i]))
	}
	return q.Class()
}
