package policy

import (
	"math"
	"slices"
	"strconv"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/answers"
	"attune.io/attune/internal/loop"
	"attune.io/attune/internal/workload"
	"attune.io/attune/podview"
	"attune.io/attune/recommender"
)

var (
	labels          = []string{"namespace", "kind", "workload", "container"}
	recommendedCPU  = prometheus.NewDesc("attune_recommendation_cpu_cores", "Target of the CPU request of a container, in cores.", labels, nil)
	recommendedMem  = prometheus.NewDesc("attune_recommendation_memory_bytes", "Target of the memory request of a container, in bytes.", labels, nil)
	confidenceGauge = prometheus.NewDesc("attune_confidence", "Confidence of a container's recommendation, from 0 (no history) to 1 (enough history).", labels, nil)
	burstFactor     = prometheus.NewDesc("attune_burst_factor", "Factor that the burst step applies to a container's recommendation, by resource (cpu, memory); no series if it applies none.", append(labels[:len(labels):len(labels)], "resource"), nil)
	savingsCPU      = prometheus.NewDesc("attune_savings_cpu_cores", "CPU in cores that the templates request minus the targets, over all replicas, by namespace, without Jobs and blocked resources; negative if attune recommends an increase.", labels[:1], nil)
	savingsMem      = prometheus.NewDesc("attune_savings_memory_bytes", "Memory in bytes that the templates request minus the targets, over all replicas, by namespace, without Jobs and blocked resources; negative if attune recommends an increase.", labels[:1], nil)
)

func init() { loop.Show(&published{}) }

// Describe implements prometheus.Collector.
func (*published) Describe(to chan<- *prometheus.Desc) {
	for _, desc := range []*prometheus.Desc{recommendedCPU, recommendedMem, confidenceGauge, burstFactor, savingsCPU, savingsMem} {
		to <- desc
	}
}

// container identifies the series of one container of a workload; it is a map key.
type container struct{ namespace, kind, workload, name string }

// series holds the figures of one container. NaN stands for a figure that is not shown.
type series struct {
	of container
	// target is in cores and bytes, burst is a factor, both by resource.
	target, burst [2]float64
	// confidence is between 0 and 1.
	confidence float64
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

// set sets the figures of a container. Without a target there is no figure, because 0 would mean a target of 0.
// surfaced false (mode Observe) shows only the confidence.
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

// burstOf returns the factor of the step named burst in the stored explanation; false: the step is missing or changed
// nothing.
func burstOf(c *v1alpha1.ContainerTarget, r recommender.Resource) (float64, bool) {
	for _, step := range c.Steps {
		if step.Name != "burst" || step.Resource != r.String() {
			continue
		}
		if step.Before == step.After {
			return 0, false
		}
		before, beforeErr := workload.ParseQuantity(step.Before)
		after, afterErr := workload.ParseQuantity(step.After)
		if beforeErr != nil || afterErr != nil || before.Sign() <= 0 {
			return 0, false
		}
		return after.AsApproximateFloat64() / before.AsApproximateFloat64(), true
	}
	return 0, false
}

// published holds the figures of each policy. Gauges for each figure of each container would take ten times the
// memory: the figures become metrics only when Prometheus scrapes them. A policy's newest pass replaces its earlier
// figures, and takes over its containers from other policies, so that no outdated figure remains. The number of sized
// containers limits its size.
type published struct {
	mutex sync.Mutex
	// policies are by namespace and name: the instances of a cluster policy in thousands of namespaces must not make
	// a pass of one more expensive.
	policies map[string]map[string]share
}

// share is one policy's part of the gauges: its containers, and the savings of its targets (millicores and bytes).
type share struct {
	shown []series
	saved answers.SavedAmounts
}

// publish replaces the figures of a policy's recommendations.
func (x *published) publish(of types.NamespacedName, r report) {
	part, mine := share{}, map[container]bool{}
	// In the mode Observe, only the progress of the data is shown.
	surfaced := r.settings.Resize.Mode != v1alpha1.UpdateObserve
	for _, rec := range r.recommendations {
		for i := range rec.Spec.Containers {
			c := &rec.Spec.Containers[i]
			s := series{of: container{rec.Namespace, string(rec.Spec.Workload.Kind), rec.Spec.Workload.Name, c.Name}}
			s.set(c, surfaced)
			part.shown, mine[s.of] = append(part.shown, s), true
		}
	}
	if surfaced {
		part.saved = saved(r)
	}
	x.mutex.Lock()
	defer x.mutex.Unlock()
	in := x.policies[of.Namespace]
	for name, other := range in {
		other.shown = slices.DeleteFunc(other.shown, func(s series) bool { return mine[s.of] })
		in[name] = other
	}
	podview.SetIn(&in, of.Name, part)
	podview.SetIn(&x.policies, of.Namespace, in)
}

// forget removes all figures of a policy.
func (x *published) forget(of types.NamespacedName) {
	x.mutex.Lock()
	defer x.mutex.Unlock()
	if delete(x.policies[of.Namespace], of.Name); len(x.policies[of.Namespace]) == 0 {
		delete(x.policies, of.Namespace)
	}
}

// Collect implements prometheus.Collector: it sends the series of all containers, and the savings of each namespace's
// policies together.
func (x *published) Collect(to chan<- prometheus.Metric) {
	x.mutex.Lock()
	defer x.mutex.Unlock()
	for namespace, in := range x.policies {
		total := answers.SavedAmounts{}
		for _, part := range in {
			for i := range part.shown {
				part.shown[i].collect(to)
			}
			total = total.Plus(part.saved)
		}
		to <- prometheus.MustNewConstMetric(savingsCPU, prometheus.GaugeValue, float64(total[recommender.CPU])/1000, namespace)
		to <- prometheus.MustNewConstMetric(savingsMem, prometheus.GaugeValue, float64(total[recommender.Memory]), namespace)
	}
}
