package workload

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/savings"
	"attune.io/attune/internal/table"
	"attune.io/attune/podview"
	"attune.io/attune/recommender"
	"attune.io/attune/tuning"
)

var (
	runningPods = prometheus.NewDesc("attune_pods",
		"Running pods of the workloads that usable policies select: 0 where none of them runs.", []string{"namespace"}, nil)
	realisedCPU = prometheus.NewDesc("attune_savings_realised_cpu_cores",
		"CPU that running pods request less than without attune, at present: a Job counts while it runs; negative: growth.", []string{"namespace"}, nil)
	realisedMemory = prometheus.NewDesc("attune_savings_realised_memory_bytes",
		"Memory that running pods request less than without attune, at present: a Job counts while it runs; negative: growth.", []string{"namespace"}, nil)
	blockedWorkloads = prometheus.NewDesc("attune_resizes_blocked",
		"Workloads with pods that are not resized, by the reason of the condition ResizeBlocked; Other: in the words of an API server or a policy engine.", []string{"reason"}, nil)
)

// fleet is what the newest pass over each workload came to, in figures. It may be lost: each workload is looked at anew
// after the start. mutex guards of, which is bounded by the recommendations.
type fleet struct {
	table.Table[types.NamespacedName, figures]
}

// figures are those of one workload.
type figures struct {
	// running counts pods; realised is what they save, in millicores and bytes.
	running  int
	realised savings.Pair
	// blocked is why its pods are not resized; empty: they are.
	blocked string
}

// note replaces the figures of a workload by those of a pass that decided on this status. Of a workload that no usable
// policy selects what is realised is counted alone: its pods keep their sizes. One that is gone has no figures.
func (x *fleet) note(v tuning.View, decided v1alpha1.AttuneRecommendationStatus) {
	key := client.ObjectKeyFromObject(v.Rec)
	if v.Workload == nil {
		x.Forget(key)
		return
	}
	of := savings.View{Recommendation: v.Rec, Workload: *v.Workload, Settings: &v.Policy.Settings}
	for _, pod := range v.Pods {
		if podview.Running(pod) {
			of.Pods = append(of.Pods, pod)
		}
	}
	f := figures{realised: of.Realised()}
	if v.Policy.Usable {
		f.running, f.blocked = len(of.Pods), blockedBy(decided)
	}
	x.Put(key, f)
}

// blockedBy is the reason of a status's condition ResizeBlocked; empty: it is not True.
func blockedBy(status v1alpha1.AttuneRecommendationStatus) string {
	if c := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionResizeBlocked); c != nil && c.Status == metav1.ConditionTrue {
		return blockedReason(c.Reason)
	}
	return ""
}

// sums are the figures by namespace, and the workloads by what blocks them.
func (x *fleet) sums() (namespaces map[string]figures, blocked map[string]int) {
	namespaces, blocked = map[string]figures{}, map[string]int{}
	for name, f := range x.All() {
		sum := namespaces[name.Namespace]
		namespaces[name.Namespace] = figures{running: sum.running + f.running, realised: sum.realised.Plus(f.realised)}
		if f.blocked != "" {
			blocked[f.blocked]++
		}
	}
	return namespaces, blocked
}

// shownFleet is that of this process; nil before Register.
var shownFleet atomic.Pointer[fleet]

// fleetCollector shows it. It is registered once for the process (prometheus.Collector).
type fleetCollector struct{}

func init() { metrics.Registry.MustRegister(fleetCollector{}) }

// Describe implements prometheus.Collector.
func (fleetCollector) Describe(to chan<- *prometheus.Desc) {
	for _, desc := range []*prometheus.Desc{runningPods, realisedCPU, realisedMemory, blockedWorkloads} {
		to <- desc
	}
}

// Collect implements prometheus.Collector. It adds up at each scrape: sums that are kept beside what they sum drift.
func (fleetCollector) Collect(to chan<- prometheus.Metric) {
	x := shownFleet.Load()
	if x == nil {
		return
	}
	namespaces, blocked := x.sums()
	gauge := func(desc *prometheus.Desc, value float64, label string) {
		to <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value, label)
	}
	for namespace, f := range namespaces {
		gauge(runningPods, float64(f.running), namespace)
		gauge(realisedCPU, float64(f.realised[recommender.CPU])/1000, namespace)
		gauge(realisedMemory, float64(f.realised[recommender.Memory]), namespace)
	}
	for reason, n := range blocked {
		gauge(blockedWorkloads, float64(n), reason)
	}
}
