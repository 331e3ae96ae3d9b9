package policy

import (
	"math"
	"strconv"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/podview"
	"attune.io/attune/recommender"
)

var (
	labels          = []string{"namespace", "kind", "workload", "container"}
	recommendedCPU  = prometheus.NewDesc("attune_recommendation_cpu_cores", "CPU request that a container is heading to.", labels, nil)
	recommendedMem  = prometheus.NewDesc("attune_recommendation_memory_bytes", "Memory request that a container is heading to.", labels, nil)
	confidenceGauge = prometheus.NewDesc("attune_confidence", "Confidence of a recommendation, from 0 to 1.", labels, nil)
	burstFactor     = prometheus.NewDesc("attune_burst_factor", "What room for peaks multiplies a container's recommendation by, where it does.", append(labels[:len(labels):len(labels)], "resource"), nil)
	savedCPU        = gauge("attune_savings_cpu_cores_total", "CPU requests that the targets save over all replicas, compared with the templates; negative: growth.")
	savedMem        = gauge("attune_savings_memory_bytes_total", "Memory requests that the targets save over all replicas, compared with the templates; negative: growth.")
)

func gauge(name, help string) *prometheus.GaugeVec {
	g := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, []string{"namespace"})
	metrics.Registry.MustRegister(g)
	return g
}

// exposed is what the loop of this process has published. A gauge for each figure of each container would take ten
// times the memory: they become metrics when these are read.
var exposed atomic.Pointer[published]

func init() { metrics.Registry.MustRegister(collector{}) }

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

// container names the series of one container of a workload.
type container struct{ namespace, kind, workload, name string }

// series are what is shown of one container, NaN for what is not.
type series struct {
	of            container
	target, burst [2]float64
	confidence    float64
	// policy whose pass set them last, and which one of its passes that was.
	policy types.NamespacedName
	pass   int
}

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

// set what is shown of a container. What it has no target for is not: 0 would be one.
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
