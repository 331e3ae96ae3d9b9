package policy

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/recommender"
)

// published is what the gauges show, so that nothing is left of what is gone. It may be lost: the next look at each policy
// publishes all of it again. Safe for concurrent use.
type published struct {
	mutex      sync.Mutex
	containers map[container]*series
	policies   map[types.NamespacedName]*share
}

// share is a policy's part of the gauges.
type share struct {
	pass  int
	shown map[container]bool
	saved [2]recommender.Amount
}

// publish sets the gauges of a policy's recommendations, and takes back those that it no longer has.
func (x *published) publish(of types.NamespacedName, r report) {
	x.mutex.Lock()
	defer x.mutex.Unlock()
	part := x.part(of)
	part.pass++
	// Observe shows the progress of the data alone.
	surfaced := r.settings.Resize.Mode != v1alpha1.UpdateObserve
	for _, rec := range r.recommendations {
		for i := range rec.Spec.Containers {
			c := &rec.Spec.Containers[i]
			s := x.series(container{rec.Namespace, string(rec.Spec.Workload.Kind), rec.Spec.Workload.Name, c.Name})
			s.policy, s.pass = of, part.pass
			part.shown[s.of] = true
			s.set(c, surfaced)
		}
	}
	part.saved = [2]recommender.Amount{}
	if surfaced {
		part.saved = saved(r)
	}
	x.drop(of, part)
	x.sum(of.Namespace)
}

// forget takes back all that a policy has shown.
func (x *published) forget(of types.NamespacedName) {
	x.mutex.Lock()
	defer x.mutex.Unlock()
	part := x.policies[of]
	if part == nil {
		return
	}
	part.pass++
	x.drop(of, part)
	delete(x.policies, of)
	x.sum(of.Namespace)
}

func (x *published) part(of types.NamespacedName) *share {
	if x.policies == nil {
		x.containers, x.policies = map[container]*series{}, map[types.NamespacedName]*share{}
	}
	if x.policies[of] == nil {
		x.policies[of] = &share{shown: map[container]bool{}}
	}
	return x.policies[of]
}

func (x *published) series(of container) *series {
	s := x.containers[of]
	if s == nil {
		s = &series{of: of}
		x.containers[of] = s
	}
	return s
}

// drop takes back what the policy's newest pass did not show. Another policy may have it by now.
func (x *published) drop(of types.NamespacedName, part *share) {
	for c := range part.shown {
		s := x.containers[c]
		if s != nil && s.policy == of && s.pass == part.pass {
			continue
		}
		delete(part.shown, c)
		if s != nil && s.policy == of {
			delete(x.containers, c)
		}
	}
}

// sum sets what all policies of a namespace save.
func (x *published) sum(namespace string) {
	var total [2]recommender.Amount
	any := false
	for of, part := range x.policies {
		if of.Namespace != namespace {
			continue
		}
		any = true
		for r := range total {
			total[r] += part.saved[r]
		}
	}
	if !any {
		savedCPU.DeleteLabelValues(namespace)
		savedMem.DeleteLabelValues(namespace)
		return
	}
	savedCPU.WithLabelValues(namespace).Set(float64(total[recommender.CPU]) / 1000)
	savedMem.WithLabelValues(namespace).Set(float64(total[recommender.Memory]))
}

func (x *published) collect(to chan<- prometheus.Metric) {
	x.mutex.Lock()
	defer x.mutex.Unlock()
	for _, s := range x.containers {
		s.collect(to)
	}
}
