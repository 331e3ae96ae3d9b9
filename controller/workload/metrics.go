package workload

import (
	"slices"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/answers"
	"attune.io/attune/internal/board"
	"attune.io/attune/internal/loop"
	"attune.io/attune/podview"
	"attune.io/attune/recommender"
	"attune.io/attune/resize"
	"attune.io/attune/resize/lifecycle"
	"attune.io/attune/tuning"
)

var (
	resizes = counter("attune_resize_total",
		"Number of in-place resizes by resource (cpu, memory) and result: success (verified on the pod), failed (the API server, the node or the kubelet did not do it, or it caused a regression and was not reverted), reverted.",
		"resource", "result")
	reverts = counter("attune_reverts_total", "Number of resizes reverted because of a regression, by reason: oomkill, throttle, restart, notready, slo.", "reason")
	raises  = counter("attune_memory_raises_total",
		"Number of memory raises before an OOM kill, by result: raised (verified on the pod), failed (not done), reverted (caused a regression), restored (lowered again after a spike).",
		"result")
	evictions = counter("attune_eviction_total",
		"Number of evictions of pods whose node refused a resize or whose pods do not fit, by result: success (the pod is deleted), denied (by a PodDisruptionBudget or missing permissions).", "result")
)

// counter creates a counter with the labels of a workload and further ones.
func counter(name, help string, labels ...string) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, append([]string{"namespace", "kind", "workload"}, labels...))
}

// incomplete counts passes that continued without starting something new.
var incomplete = prometheus.NewCounterVec(prometheus.CounterOpts{
	Name: "attune_pass_incomplete_total",
	Help: "Number of reconciles of workloads that started nothing new, by what they could not read (autoscalers, namespace, node, nodes, pod, room), or because other pods repeatedly took the free room (unsettled).",
}, []string{"what"})

// durations has the Took of verified resizes only: a failed resize takes as long as its deadline, which does not
// depend on the kubelet.
var durations = prometheus.NewHistogramVec(prometheus.HistogramOpts{
	Name:    "attune_resize_duration_seconds",
	Help:    "Time in seconds from the decision for a resize until the pod had the new resources.",
	Buckets: []float64{1, 3, 10, 30, 120, 300}, // few, because each workload has all of them
}, []string{"namespace", "kind", "workload"})

// counted records the series of a workload, by its recommendation. After the recommendation is deleted, its name no
// longer shows the workload's kind and name, and a search among all series gets more expensive with their number. It
// may be lost with the process, as the series are.
type counted struct {
	board.Table[types.NamespacedName, []series]
}

// series is one series of a metric: the values of its first labels. many is their number.
type series struct {
	metric *prometheus.MetricVec
	labels [5]string
	many   int
}

func (s series) values() []string { return s.labels[:s.many] }

// recordSeries records a series of a recommendation's workload before it is written, and returns the values of its
// labels: those of the workload, then the others.
func (x *counted) recordSeries(rec *v1alpha1.AttuneRecommendation, metric *prometheus.MetricVec, others ...string) []string {
	s := series{metric: metric, labels: [5]string{rec.Namespace, string(rec.Spec.Workload.Kind), rec.Spec.Workload.Name}}
	s.many = 3 + copy(s.labels[3:], others)
	x.Change(client.ObjectKeyFromObject(rec), func(known []series) []series {
		if slices.Contains(known, s) {
			return known
		}
		return append(known, s)
	})
	return s.values()
}

// drop deletes the series of a recommendation's workload.
func (x *counted) drop(name types.NamespacedName) {
	for _, s := range x.Of(name) {
		s.metric.DeleteLabelValues(s.values()...)
	}
	x.Forget(name)
}

// pending sets the gauge of pending reverts; with 0 the series is removed, so that only workloads with a problem have
// one.
func (x *counted) pending(rec *v1alpha1.AttuneRecommendation, n int) {
	if n == 0 {
		pendingReverts.DeleteLabelValues(rec.Namespace, string(rec.Spec.Workload.Kind), rec.Spec.Workload.Name)
		return
	}
	pendingReverts.WithLabelValues(x.recordSeries(rec, pendingReverts.MetricVec)...).Set(float64(n))
}

// pendingReverts counts, for each workload, the pods that wait for their previous size.
var pendingReverts = prometheus.NewGaugeVec(prometheus.GaugeOpts{
	Name: "attune_reverts_pending",
	Help: "Number of pods whose revert is not done yet, because the node has no room or the resize was rejected.",
}, []string{"namespace", "kind", "workload"})

// eviction counts the outcome of an eviction.
func (x *counted) eviction(rec *v1alpha1.AttuneRecommendation, outcome lifecycle.EvictionOutcome) {
	evictions.WithLabelValues(x.recordSeries(rec, evictions.MetricVec, string(outcome))...).Inc()
}

func init() {
	metrics.Registry.MustRegister(resizes, reverts, raises, evictions, pendingReverts, durations, incomplete)
}

// add adds one increment of a decision to its metric (see tuning.Count).
func (x *counted) add(n tuning.Count, rec *v1alpha1.AttuneRecommendation) {
	switch {
	case n.Took > 0:
		durations.WithLabelValues(x.recordSeries(rec, durations.MetricVec)...).Observe(n.Took.Seconds())
	case n.Raise != "":
		raises.WithLabelValues(x.recordSeries(rec, raises.MetricVec, n.Raise)...).Inc()
	case n.Resource == "":
		reverts.WithLabelValues(x.recordSeries(rec, reverts.MetricVec, n.Reason)...).Inc()
	default:
		resizes.WithLabelValues(x.recordSeries(rec, resizes.MetricVec, n.Resource, n.Result)...).Inc()
	}
}

var (
	runningPods = prometheus.NewDesc("attune_pods",
		"Number of running pods of the workloads that valid policies select, by namespace; 0 if no pod runs.", []string{"namespace"}, nil)
	savedCPU = prometheus.NewDesc("attune_saved_cpu_cores",
		"CPU in cores that running pods, including Jobs, request less than without attune, by namespace; negative if they request more.", []string{"namespace"}, nil)
	savedMemory = prometheus.NewDesc("attune_saved_memory_bytes",
		"Memory in bytes that running pods, including Jobs, request less than without attune, by namespace; negative if they request more.", []string{"namespace"}, nil)
	blockedWorkloads = prometheus.NewDesc("attune_resizes_blocked",
		"Number of workloads whose condition ResizeBlocked is True, by its reason; Other is a reason from an API server or a policy engine.", []string{"reason"}, nil)
)

// fleet has the figures of the newest pass over each workload. If it is lost, each workload is reconciled after the
// start anyway. The number of recommendations limits its size.
type fleet struct {
	board.Table[types.NamespacedName, figures]
}

// figures are the figures of one workload.
type figures struct {
	// running counts pods; saved is what they save, in millicores and bytes.
	running int
	saved   answers.SavedAmounts
	// blocked is why its pods are not resized; empty: they are.
	blocked string
}

// storeFigures replaces the figures of a workload with those of a pass that decided on this status. If no usable policy
// selects the workload, only its saved amounts count, because its pods keep their sizes. A deleted workload has no
// figures.
func (x *fleet) storeFigures(v tuning.View, decided v1alpha1.AttuneRecommendationStatus) {
	key := client.ObjectKeyFromObject(v.Rec)
	if v.Workload == nil {
		x.Forget(key)
		return
	}
	running := slices.DeleteFunc(slices.Clone(v.Pods), func(pod *corev1.Pod) bool { return !podview.Running(pod) })
	of := answers.View{Recommendation: v.Rec, Workload: *v.Workload, Settings: &v.Policy.Settings, Pods: running}
	f := figures{saved: of.Saved()}
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

func init() { loop.Show(&fleet{}) }

// Describe implements prometheus.Collector.
func (*fleet) Describe(to chan<- *prometheus.Desc) {
	for _, desc := range []*prometheus.Desc{runningPods, savedCPU, savedMemory, blockedWorkloads} {
		to <- desc
	}
}

// Collect implements prometheus.Collector. It adds up the figures at each scrape, because separately stored sums
// would drift.
func (x *fleet) Collect(to chan<- prometheus.Metric) {
	namespaces, blocked := map[string]figures{}, map[string]int{}
	for name, f := range x.All() {
		sum := namespaces[name.Namespace]
		namespaces[name.Namespace] = figures{running: sum.running + f.running, saved: sum.saved.Plus(f.saved)}
		if f.blocked != "" {
			blocked[f.blocked]++
		}
	}
	gauge := func(desc *prometheus.Desc, value float64, label string) {
		to <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value, label)
	}
	for namespace, f := range namespaces {
		gauge(runningPods, float64(f.running), namespace)
		gauge(savedCPU, float64(f.saved[recommender.CPU])/1000, namespace)
		gauge(savedMemory, float64(f.saved[recommender.Memory]), namespace)
	}
	for reason, n := range blocked {
		gauge(blockedWorkloads, float64(n), reason)
	}
}

// blockedOther stands for every reason that is not attune's own.
const blockedOther = "Other"

// blockedReason is the value of the label for a reason. The API server or a policy engine may invent the reason of a
// rejected resize, and each new reason would be a new series.
func blockedReason(reason string) string {
	if _, known := resize.Reasons[reason]; known {
		return reason
	}
	return blockedOther
}
