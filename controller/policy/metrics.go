package policy

import (
	"math"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/savings"
	"attune.io/attune/podview"
	"attune.io/attune/recommender"
)

var (
	labels          = []string{"namespace", "kind", "workload", "container"}
	recommendedCPU  = prometheus.NewDesc("attune_recommendation_cpu_cores", "CPU request that a container is heading to.", labels, nil)
	recommendedMem  = prometheus.NewDesc("attune_recommendation_memory_bytes", "Memory request that a container is heading to.", labels, nil)
	confidenceGauge = prometheus.NewDesc("attune_confidence", "Confidence of a recommendation, from 0 to 1.", labels, nil)
	burstFactor     = prometheus.NewDesc("attune_burst_factor", "What room for peaks multiplies a container's recommendation by, where it does.", append(labels[:len(labels):len(labels)], "resource"), nil)
	savedCPU        = gauge("attune_savings_cpu_cores_total", "CPU requests that the targets save over all replicas, compared with the templates, without Jobs, whose pods run part-time, and what is held; negative: growth.")
	savedMem        = gauge("attune_savings_memory_bytes_total", "Memory requests that the targets save over all replicas, compared with the templates, without Jobs, whose pods run part-time, and what is held; negative: growth.")
)

// gauge creates and registers a gauge by namespace.
func gauge(name, help string) *prometheus.GaugeVec {
	g := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, []string{"namespace"})
	metrics.Registry.MustRegister(g)
	return g
}

// exposed is what the loop of this process has published; nil before Register. Storing a gauge for each
// figure of each container would take ten times the memory: the figures become metrics only when
// Prometheus scrapes them.
var exposed atomic.Pointer[published]

func init() { metrics.Registry.MustRegister(collector{}) }

// collector is registered once for the process and reads exposed at each scrape (prometheus.Collector).
type collector struct{}

func (collector) Describe(to chan<- *prometheus.Desc) {
	for _, desc := range []*prometheus.Desc{recommendedCPU, recommendedMem, confidenceGauge, burstFactor} {
		to <- desc
	}
}

func (collector) Collect(to chan<- prometheus.Metric) {
	if x := exposed.Load(); x != nil {
		x.collect(to)
	}
}

// container identifies the series of one container of a workload; it is a map key.
type container struct{ namespace, kind, workload, name string }

// series is what is shown of one container. NaN stands for a figure that is not shown.
type series struct {
	of container
	// target is in cores and bytes, burst is a factor, both by resource.
	target, burst [2]float64
	// confidence is between 0 and 1.
	confidence float64
	// policy is the policy whose pass wrote the series last, pass the number of that pass. drop compares
	// both to find what is no longer shown.
	policy types.NamespacedName
	pass   int
}

// collect sends the figures that are not NaN.
func (s *series) collect(to chan<- prometheus.Metric) {
	show := func(desc *prometheus.Desc, value float64, labels ...string) {
		if !math.IsNaN(value) {
			to <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value, append([]string{s.of.namespace, s.of.kind, s.of.workload, s.of.name}, labels...)...)
		}
	}
	show(recommendedCPU, s.target[recommender.CPU])
	show(recommendedMem, s.target[recommender.Memory])
	show(confidenceGauge, s.confidence)
	for _, r := range recommender.Resources {
		show(burstFactor, s.burst[r], r.String())
	}
}

// set takes the figures of a container. Without a target there is no figure: 0 would be read as a target
// of 0. surfaced false (mode Observe) shows the confidence alone.
func (s *series) set(c *v1alpha1.ContainerTarget, surfaced bool) {
	none := math.NaN()
	s.target, s.burst, s.confidence = [2]float64{none, none}, [2]float64{none, none}, none
	if confidence, err := strconv.ParseFloat(c.Confidence, 64); err == nil {
		s.confidence = confidence
	}
	if !surfaced {
		return
	}
	size := podview.FromResources(c.Target)
	if request := size[recommender.CPU].Request; request > 0 {
		s.target[recommender.CPU] = float64(request) / 1000
	}
	if request := size[recommender.Memory].Request; request > 0 {
		s.target[recommender.Memory] = float64(request)
	}
	for _, r := range recommender.Resources {
		if factor, known := burstOf(c, r); known {
			s.burst[r] = factor
		}
	}
}

// burstOf returns the factor of the step named burst in the stored explanation; false: the step is missing
// or changed nothing.
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

// published is what the gauges show, so that nothing stays visible of what is gone. mutex guards both maps
// and the values behind their pointers. Its size is bounded by the containers that are sized.
type published struct {
	mutex      sync.Mutex
	containers map[container]*series
	// policies are by namespace and name: what a cluster policy is in thousands of namespaces must not make the sum of one cost more.
	policies map[string]map[string]*share
}

// share is one policy's part of the gauges: the number of its newest pass, the containers that it showed,
// and what its targets save (millicores and bytes).
type share struct {
	pass  int
	shown map[container]bool
	saved savings.Pair
}

// publish replaces what is shown of a policy's recommendations: new figures are set, and what the policy
// no longer has disappears.
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
	part.saved = savings.Pair{}
	if surfaced {
		part.saved = saved(r)
	}
	x.drop(of, part)
	x.sum(of.Namespace)
}

// forget removes all that a policy has shown. It counts as an empty pass, so that drop removes everything.
func (x *published) forget(of types.NamespacedName) {
	x.mutex.Lock()
	defer x.mutex.Unlock()
	part := x.policies[of.Namespace][of.Name]
	if part == nil {
		return
	}
	part.pass++
	x.drop(of, part)
	delete(x.policies[of.Namespace], of.Name)
	x.sum(of.Namespace)
}

// part returns a policy's part, and creates it where it is new. The caller holds the mutex.
func (x *published) part(of types.NamespacedName) *share {
	if x.policies == nil {
		x.containers, x.policies = map[container]*series{}, map[string]map[string]*share{}
	}
	in := x.policies[of.Namespace]
	if in == nil {
		in = map[string]*share{}
		x.policies[of.Namespace] = in
	}
	if in[of.Name] == nil {
		in[of.Name] = &share{shown: map[container]bool{}}
	}
	return in[of.Name]
}

// series returns the series of a container, and creates it where it is new. The caller holds the mutex.
func (x *published) series(of container) *series {
	s := x.containers[of]
	if s == nil {
		s = &series{of: of}
		x.containers[of] = s
	}
	return s
}

// drop removes what the policy's newest pass did not show. A container that another policy shows by now
// stays.
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

// sum sets what all policies of a namespace save together, and removes the gauge where there is no policy
// left.
func (x *published) sum(namespace string) {
	var total savings.Pair
	for _, part := range x.policies[namespace] {
		total = total.Plus(part.saved)
	}
	if len(x.policies[namespace]) == 0 {
		delete(x.policies, namespace)
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
