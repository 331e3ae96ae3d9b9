package policy

import (
	"strconv"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/recommender"
	"attune.io/attune/resize"
)

var (
	labels          = []string{"namespace", "kind", "workload", "container"}
	recommendedCPU  = gauge("attune_recommendation_cpu_cores", "CPU request that a container is heading to.", labels)
	recommendedMem  = gauge("attune_recommendation_memory_bytes", "Memory request that a container is heading to.", labels)
	confidenceGauge = gauge("attune_confidence", "Confidence of a recommendation, from 0 to 1.", labels)
	burstFactor     = gauge("attune_burst_factor", "What room for peaks multiplies a container's recommendation by, where it does.", append(labels[:len(labels):len(labels)], "resource"))
	savedCPU        = gauge("attune_savings_cpu_cores_total", "CPU requests that the targets save over all replicas, compared with the templates; negative: growth.", []string{"namespace"})
	savedMem        = gauge("attune_savings_memory_bytes_total", "Memory requests that the targets save over all replicas, compared with the templates; negative: growth.", []string{"namespace"})
)

func gauge(name, help string, labels []string) *prometheus.GaugeVec {
	g := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, labels)
	metrics.Registry.MustRegister(g)
	return g
}

// container names the series of one container of a workload.
type container struct{ namespace, kind, workload, name string }

// series are what the gauges show of one container, nil for what is not shown.
type series struct {
	of         container
	target     [2]prometheus.Gauge
	burst      [2]prometheus.Gauge
	confidence prometheus.Gauge
	// policy whose pass set them last, and which one of its passes that was.
	policy types.NamespacedName
	pass   int
}

// published is what the gauges show, so that nothing is left of what is gone. It is safe for concurrent use.
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
		part.saved = r.saved()
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
			s.hide()
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

func (c container) values(more ...string) []string {
	return append([]string{c.namespace, c.kind, c.workload, c.name}, more...)
}

// set shows a container's target. What it has no target for is not shown: 0 would be one.
func (s *series) set(c *v1alpha1.ContainerTarget, surfaced bool) {
	if !surfaced {
		s.hideTargets()
	} else {
		size := resize.FromResources(c.Target)
		show(&s.target[recommender.CPU], recommendedCPU, size[recommender.CPU].Request > 0, float64(size[recommender.CPU].Request)/1000, s.of.values)
		show(&s.target[recommender.Memory], recommendedMem, size[recommender.Memory].Request > 0, float64(size[recommender.Memory].Request), s.of.values)
		for _, r := range recommender.Resources {
			factor, known := burstOf(c, r)
			show(&s.burst[r], burstFactor, known, factor, func(...string) []string { return s.of.values(r.String()) })
		}
	}
	confidence, err := strconv.ParseFloat(c.Confidence, 64)
	show(&s.confidence, confidenceGauge, err == nil, confidence, s.of.values)
}

func (s *series) hideTargets() {
	show(&s.target[recommender.CPU], recommendedCPU, false, 0, s.of.values)
	show(&s.target[recommender.Memory], recommendedMem, false, 0, s.of.values)
	for _, r := range recommender.Resources {
		show(&s.burst[r], burstFactor, false, 0, func(...string) []string { return s.of.values(r.String()) })
	}
}

func (s *series) hide() {
	s.hideTargets()
	show(&s.confidence, confidenceGauge, false, 0, s.of.values)
}

// show sets one series, or takes it back; labels are asked for only where it comes or goes.
func show(one *prometheus.Gauge, of *prometheus.GaugeVec, shown bool, value float64, labels func(...string) []string) {
	switch {
	case !shown && *one == nil:
	case !shown:
		of.DeleteLabelValues(labels()...)
		*one = nil
	case *one == nil:
		*one = of.WithLabelValues(labels()...)
		fallthrough
	default:
		(*one).Set(value)
	}
}

// burstOf is the factor of the burst step, as the trace of the computation has it. Most have none.
func burstOf(c *v1alpha1.ContainerTarget, r recommender.Resource) (float64, bool) {
	for _, step := range c.Steps {
		if step.Name != "burst" || step.Resource != r.String() {
			continue
		}
		if step.Before == step.After {
			return 0, false
		}
		before, beforeErr := resource.ParseQuantity(step.Before)
		after, afterErr := resource.ParseQuantity(step.After)
		if beforeErr != nil || afterErr != nil || before.Sign() <= 0 {
			return 0, false
		}
		return after.AsApproximateFloat64() / before.AsApproximateFloat64(), true
	}
	return 0, false
}
