package workload

import (
	"cmp"
	"context"
	"math"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/policy"
	"attune.io/attune/podview"
	"attune.io/attune/recommender"
	"attune.io/attune/resize/climb"
	"attune.io/attune/resize/harm"
	"attune.io/attune/resize/lifecycle"
	"attune.io/attune/tuning"
	"attune.io/attune/usage"
)

// Gauge queries a usage source for measurements of pods at a moment; the queries belong to the source. Each query is
// about the containers of some pods of one namespace, and the result is by pod and container. Values that were not
// measured are missing. An error means that the source did not answer.
type Gauge interface {
	// Throttled is the fraction of periods in which each container was throttled over the window.
	Throttled(ctx context.Context, namespace string, pods []string, window time.Duration, at time.Time) (usage.ByContainer, error)
	// Waiting is the fraction of time in which each container waited for CPU.
	Waiting(ctx context.Context, namespace string, pods []string, window time.Duration, at time.Time) (usage.ByContainer, error)
	// Memory is the highest memory of each container's cgroup over the window, page cache included, in bytes.
	Memory(ctx context.Context, namespace string, pods []string, window time.Duration, at time.Time) (usage.ByContainer, error)
	// OOMKills is the number of processes of each container that the kernel killed within its pod's window.
	OOMKills(ctx context.Context, namespace string, windows map[string]time.Duration, at time.Time) (usage.ByContainer, error)
	// Value returns the result of a PromQL query, which a user has written in the policy.
	Value(ctx context.Context, query string, at time.Time) (float64, error)
}

// RecentCPU returns recent CPU measurements that were made for other purposes, without a query. A measurement that
// began before since is not used, because it would mix the time before a resize with the time after it.
type RecentCPU interface {
	// CPU returns the average CPU need of a container since a time, in millicores; false: it was not measured.
	CPU(ctx context.Context, namespace, pod, container string, since, now time.Time) (recommender.Usage, bool)
	// Busy returns the used fraction of a node's CPU since a time (1 = all of it); false: it was not
	// measured.
	Busy(ctx context.Context, node string, since, now time.Time) (float64, bool)
}

// lately is the greatest age of the measurements to use; samples are stored for that long.
const lately = 10 * time.Minute

// measureFor limits how long one pass waits for a usage source. After it, pods are judged by their own status.
const measureFor = 10 * time.Second

// measurer adds measurements of pods whose observation period has ended, and the answers of guardrails during it.
type measurer struct {
	gauges func(policy.Settings) (Gauge, error)
	recent RecentCPU
	// guardrails are those of earlier passes; nil: guardrails are asked at the end only.
	guardrails *guardrailAnswers
}

// measure queries the source for the pods whose observation period has ended, once for all of them. Other observed pods
// are judged by their status and by the policy's guardrails.
func (c measurer) measure(ctx context.Context, w *tuning.View) {
	w.Usage.Signals = map[string]harm.Signals{}
	ended := map[*v1alpha1.ResizeRecord]*corev1.Pod{}
	var during []string
	for i := range w.Rec.Status.Records {
		record := &w.Rec.Status.Records[i]
		switch pod := w.Pod(record.PodUID); {
		case pod == nil || record.Phase != v1alpha1.RecordWatching:
		case w.WatchEnded(*record):
			ended[record] = pod
		case w.Now.Sub(ptr.Deref(record.VerifiedOnce, metav1.Time{}).Time) >= lifecycle.AskEvery: // no answer is from before the resize
			during = append(during, string(record.PodUID))
		}
	}
	if len(ended) == 0 {
		addAnswers(w, during, c.askDuring(ctx, w, len(during) > 0))
		return
	}
	ctx, cancel := context.WithTimeout(ctx, measureFor)
	defer cancel()
	all := c.querySource(ctx, w, ended)
	addAnswers(w, during, all.answers)
	for record, pod := range ended {
		signals := all.of(pod.Name, *record)
		c.addRecent(ctx, &signals, pod, *record, w.Now)
		w.Usage.Signals[string(record.PodUID)] = signals
	}
}

// addAnswers adds the answers of guardrails to the signals of pods under observation.
func addAnswers(w *tuning.View, pods []string, answers map[harm.Question]harm.Answer) {
	for _, pod := range pods {
		if len(answers) > 0 {
			w.Usage.Signals[pod] = harm.Signals{Answers: answers}
		}
	}
}

const (
	// askFor limits how long a pass waits for guardrails during an observation.
	askFor = 5 * time.Second
	// silentFor is how long a source that did not answer in time is not asked again. The end of the observation asks anyway.
	silentFor = 4 * lifecycle.AskEvery
)

// guardrailAnswers are the last answers of the guardrails of each policy and namespace, for all workloads. If they are
// lost, the source is asked once more.
type guardrailAnswers struct {
	answered fresh[guardrailKey, map[harm.Question]harm.Answer]
	silent   fresh[guardrailKey, struct{}]
}

type guardrailKey struct {
	namespace string
	policy    v1alpha1.PolicyRef
}

// askDuring returns the answers of guardrails for observed pods that are at most lifecycle.AskEvery old.
func (c measurer) askDuring(ctx context.Context, w *tuning.View, observed bool) map[harm.Question]harm.Answer {
	asked := harm.QuestionsDuring(w.Policy.Settings.Resize)
	if !observed || len(asked) == 0 || c.gauges == nil || c.guardrails == nil {
		return nil
	}
	key := guardrailKey{w.Rec.Namespace, w.Rec.Spec.Policy}
	if _, silent := c.guardrails.silent.read(key, silentFor, w.Now); silent {
		return nil
	}
	answers, known := c.guardrails.answered.read(key, lifecycle.AskEvery, w.Now)
	if known {
		return answers
	}
	// Other workers do not ask the same meanwhile.
	c.guardrails.answered.record(key, nil, lifecycle.AskEvery, w.Now)
	ctx, cancel := context.WithTimeout(ctx, askFor)
	defer cancel()
	gauge, err := c.gauges(w.Policy.Settings)
	answers = answersOf(ctx, gauge, err, asked, w.Now)
	c.guardrails.answered.record(key, answers, lifecycle.AskEvery, w.Now)
	if ctx.Err() != nil {
		c.guardrails.silent.record(key, struct{}{}, silentFor, w.Now)
	}
	return answers
}

// heard is the answer of a source about all pods whose observation period has ended. The zero value: there is no
// source.
type heard struct {
	// killed are counts of OOM kills; throttled and waiting are fractions of time between 0 and 1.
	killed, throttled, waiting usage.ByContainer
	// answers are the results of the triggers' queries, for the workload as a whole.
	answers map[harm.Question]harm.Answer
	// unanswered is why the source did not answer at least one query; empty: it answered all.
	unanswered string
}

// querySource sends the source all queries, and continues after an error, because one answer is better than none. The
// window of OOM kills is that of each record, from its write until now; throttling and waiting are measured over the
// policy's rate window.
func (c measurer) querySource(ctx context.Context, w *tuning.View, ended map[*v1alpha1.ResizeRecord]*corev1.Pod) heard {
	if c.gauges == nil {
		return heard{}
	}
	gauge, err := c.gauges(w.Policy.Settings)
	asked := harm.Questions(w.Policy.Settings.Resize)
	if err != nil {
		return heard{answers: answersOf(ctx, nil, err, asked, w.Now), unanswered: err.Error()}
	}
	var pods []string
	windows := map[string]time.Duration{}
	for record, pod := range ended {
		pods = append(pods, pod.Name)
		windows[pod.Name] = w.Now.Sub(record.WrittenAt.Time)
	}
	slices.Sort(pods)
	namespace, window := w.Rec.Namespace, w.Policy.Settings.Resize.RateWindow
	var a heard
	var failures [3]error
	a.killed, failures[0] = gauge.OOMKills(ctx, namespace, windows, w.Now)
	a.throttled, failures[1] = gauge.Throttled(ctx, namespace, pods, window, w.Now)
	a.waiting, failures[2] = gauge.Waiting(ctx, namespace, pods, window, w.Now)
	if err := cmp.Or(failures[:]...); err != nil {
		a.unanswered = err.Error()
	}
	a.answers = answersOf(ctx, gauge, nil, asked, w.Now)
	return a
}

// answersOf sends the queries of triggers to a source. err is why there is no source.
func answersOf(ctx context.Context, gauge Gauge, err error, asked []harm.Question, now time.Time) map[harm.Question]harm.Answer {
	answers := make(map[harm.Question]harm.Answer, len(asked))
	for _, q := range asked {
		value, failed := 0.0, err
		if err == nil {
			value, failed = gauge.Value(ctx, q.Query, now)
		}
		if failed != nil {
			answers[q] = harm.Answer{Failed: failed.Error()}
			continue
		}
		answers[q] = harm.Answer{Value: value}
	}
	return answers
}

// of selects the answers for one record's pod.
func (a heard) of(pod string, record v1alpha1.ResizeRecord) harm.Signals {
	return harm.Signals{
		OOMEvents: measured(a.killed[pod], record), Throttle: measured(a.throttled[pod], record),
		CPUPressure: measured(a.waiting[pod], record), Answers: a.answers, Unanswered: a.unanswered,
	}
}

// measured selects the values of the record's containers that are numbers; nil: none were measured. The judge reports
// missing values.
func measured(values map[string]float64, record v1alpha1.ResizeRecord) map[string]float64 {
	var numbers map[string]float64
	for _, container := range record.Desired {
		value, known := values[container.Name]
		if !known || math.IsNaN(value) || math.IsInf(value, 0) {
			continue
		}
		podview.SetIn(&numbers, container.Name, value)
	}
	return numbers
}

// addRecent adds CPU usage that is already in memory, from the time in which the pod has run with its new size, but
// at most lately.
func (c measurer) addRecent(ctx context.Context, signals *harm.Signals, pod *corev1.Pod, record v1alpha1.ResizeRecord, now time.Time) {
	if c.recent == nil || record.VerifiedOnce == nil {
		return
	}
	since := record.VerifiedOnce.Time
	if earliest := now.Add(-lately); since.Before(earliest) {
		since = earliest
	}
	if busy, known := c.recent.Busy(ctx, record.Node, since, now); known {
		signals.NodeBusy = busy
	}
	signals.CPUUsage = map[string]recommender.Amount{}
	for _, container := range record.Desired {
		if used, known := c.recent.CPU(ctx, pod.Namespace, pod.Name, container.Name, since, now); known {
			signals.CPUUsage[container.Name] = recommender.Amount(used)
		}
	}
}

// memoryLasts is how long an answer is reused: a source has nothing newer before its next scrape.
const memoryLasts = 15 * time.Second

// heldNow is one answer about a pod: the memory of its containers, in bytes; empty: it is not known.
type heldNow struct {
	of map[string]recommender.Amount
	// soon: the memory is not known yet, but will be within seconds.
	soon bool
}

// Climbs returns the recent memory of the containers of some pods of a namespace.
type Climbs interface {
	// Lately returns the newest samples of memory. Values that were not measured are missing.
	Lately(ctx context.Context, namespace string, pods []string, at time.Time) (usage.Traces, error)
}

const (
	// climbsFor limits how long a pass waits for these samples: a climb to the limit is over soon.
	climbsFor = 3 * time.Second
	// climbsLast is how long an answer is reused. A source has nothing newer before its next scrape.
	climbsLast = 4 * time.Second
)

// observeClimbs adds the recent memory of containers with a memory limit, if the policy raises them before an OOM
// kill. If the source does not answer, nothing is raised, and the response follows the kill as usual.
func (c *Controller) observeClimbs(ctx context.Context, w *tuning.View) {
	pods := w.Climbable()
	if c.Climbs == nil || len(pods) == 0 {
		return
	}
	key := client.ObjectKeyFromObject(w.Rec)
	traces, known := c.memory.samples.traced.read(key, climbsLast, w.Now)
	if !known {
		source, err := c.Climbs(w.Policy.Settings)
		if err != nil {
			return
		}
		names := podview.Map(pods, func(pod *corev1.Pod) string { return pod.Name })
		bounded, cancel := context.WithTimeout(ctx, climbsFor)
		defer cancel()
		if traces, err = source.Lately(bounded, w.Rec.Namespace, names, w.Now); err != nil {
			log.FromContext(ctx).V(1).Info("Cannot read the memory usage of pods; raising no memory before an OOM kill", "cause", err.Error())
		}
		c.memory.samples.traced.record(key, traces, climbsLast, w.Now)
	}
	for _, pod := range pods {
		for container, trace := range traces[pod.Name] {
			w.SetClimb(pod.UID, container, tuning.Climb{Samples: samplesOf(trace.Samples), Stalled: trace.Stalled})
		}
	}
}

// samplesOf converts samples for package climb.
func samplesOf(of []usage.Sample) []climb.Sample {
	return podview.Map(of, func(s usage.Sample) climb.Sample {
		return climb.Sample{At: s.Time(), Bytes: recommender.Amount(s.Value)}
	})
}

// Near reports whether the samples of a container climb towards its memory limit, in bytes, so that it must be
// checked often.
func Near(limit float64, of []usage.Sample, now time.Time) bool {
	return climb.Look(climb.Container{Has: recommender.Allocation{Limit: recommender.Amount(limit)}, Samples: samplesOf(of)}, now).Near
}
