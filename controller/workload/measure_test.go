package workload

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/policy"
	"attune.io/attune/recommender"
	"attune.io/attune/resize/harm"
	"attune.io/attune/resize/lifecycle"
	"attune.io/attune/tuning"
	"attune.io/attune/usage"
)

// source answers by container name, or fails.
type source struct {
	throttled map[string]float64
	killed    map[string]float64
	held      map[string]float64
	value     float64
	err       error
	asked     int
	// weighed is the number of pods in each query about memory.
	weighed []int
	// windows are those of the last query about OOM kills.
	windows []time.Duration
}

func (s *source) Throttled(_ context.Context, _ string, pods []string, _ time.Duration, _ time.Time) (usage.ByContainer, error) {
	s.asked++
	return of(pods, s.throttled), s.err
}

func (s *source) Waiting(_ context.Context, _ string, pods []string, _ time.Duration, _ time.Time) (usage.ByContainer, error) {
	s.asked++
	return of(pods, map[string]float64{"app": math.NaN()}), s.err
}

func (s *source) Memory(_ context.Context, _ string, pods []string, _ time.Duration, _ time.Time) (usage.ByContainer, error) {
	s.weighed = append(s.weighed, len(pods))
	return of(pods, s.held), s.err
}

func (s *source) OOMKills(_ context.Context, _ string, windows map[string]time.Duration, _ time.Time) (usage.ByContainer, error) {
	s.asked++
	s.windows = slices.Collect(maps.Values(windows))
	return of(slices.Sorted(maps.Keys(windows)), s.killed), s.err
}

func (s *source) Value(context.Context, string, time.Time) (float64, error) {
	s.asked++
	return s.value, s.err
}

func watched(until time.Time, phase v1alpha1.RecordPhase) tuning.View {
	record := v1alpha1.ResizeRecord{
		PodUID: "1", Phase: phase, WatchUntil: &metav1.Time{Time: until},
		Desired: []v1alpha1.ContainerResources{{Name: "app"}, {Name: "sidecar"}},
	}
	rec := &v1alpha1.AttuneRecommendation{}
	rec.Status.Records = []v1alpha1.ResizeRecord{record}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "1"}}
	return tuning.View{Rec: rec, Pods: []*corev1.Pod{pod}, Now: now}
}

func TestPodsAreMeasuredWhenTheirWatchEnds(t *testing.T) {
	tests := map[string]struct {
		world tuning.View
		asked int
	}{
		"before the end":   {watched(now.Add(time.Second), v1alpha1.RecordWatching), 0},
		"at the end":       {watched(now, v1alpha1.RecordWatching), 3},
		"not verified yet": {watched(now, v1alpha1.RecordApplied), 0},
		"being put back":   {watched(now, v1alpha1.RecordReverting), 0},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			s := &source{throttled: map[string]float64{"app": 0.7}}
			measurer{gauges: func(policy.Settings) (Gauge, error) { return s, nil }}.measure(t.Context(), &test.world)
			assert.Equal(t, test.asked, s.asked)
			if test.asked > 0 {
				assert.Equal(t, map[string]float64{"app": 0.7}, test.world.Usage.Signals["1"].Throttle, "what was not measured is left out")
				assert.Empty(t, test.world.Usage.Signals["1"].CPUPressure, "NaN is no measurement")
			}
		})
	}
}

// known holds the measurements of one container and one node, from a time on.
type known struct {
	from  time.Time
	used  recommender.Usage
	busy  float64
	since []time.Time
}

func (k *known) CPU(_ context.Context, namespace, pod, container string, since, _ time.Time) (recommender.Usage, bool) {
	k.since = append(k.since, since)
	return k.used, namespace == "shop" && pod == "web" && container == "app" && !k.from.Before(since)
}

func (k *known) Busy(_ context.Context, node string, since, _ time.Time) (float64, bool) {
	return k.busy, node == "node1" && !k.from.Before(since)
}

// Known CPU measurements are used without a query, if they were made while the pod had its new size, and no further
// back than samples are stored.
func TestKnownMeasurementsAreReused(t *testing.T) {
	tests := map[string]struct {
		verified, measured time.Duration
		since              time.Duration
		want               harm.Signals
	}{
		"since it was verified": {-5 * time.Minute, -time.Minute, -5 * time.Minute, harm.Signals{CPUUsage: map[string]recommender.Amount{"app": 400}, NodeBusy: 0.95}},
		"a long watch":          {-24 * time.Hour, -9 * time.Minute, -10 * time.Minute, harm.Signals{CPUUsage: map[string]recommender.Amount{"app": 400}, NodeBusy: 0.95}},
		"before it":             {-5 * time.Minute, -6 * time.Minute, -5 * time.Minute, harm.Signals{CPUUsage: map[string]recommender.Amount{}}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			k := &known{from: now.Add(test.measured), used: 400.9, busy: 0.95}
			w := watched(now, v1alpha1.RecordWatching)
			w.Rec.Status.Records[0].Node = "node1"
			w.Rec.Status.Records[0].VerifiedOnce = &metav1.Time{Time: now.Add(test.verified)}
			measurer{recent: k}.measure(t.Context(), &w)
			assert.Equal(t, test.want, w.Usage.Signals["1"])
			assert.Equal(t, []time.Time{now.Add(test.since), now.Add(test.since)}, k.since, "of either container")
		})
	}
}

// An unavailable source does not hide the known measurements.
func TestKnownMeasurementsOutliveTheirSource(t *testing.T) {
	w := watched(now, v1alpha1.RecordWatching)
	w.Policy.Settings.Resize.Guardrails = []v1alpha1.SLOGuardrail{{Name: "latency", Threshold: "1"}}
	w.Rec.Status.Records[0].Node, w.Rec.Status.Records[0].VerifiedOnce = "node1", &metav1.Time{Time: now.Add(-time.Minute)}
	m := measurer{
		recent: &known{from: now, used: 400, busy: 0.95},
		gauges: func(policy.Settings) (Gauge, error) { return nil, errors.New("no address") },
	}
	m.measure(t.Context(), &w)
	assert.Equal(t, harm.Signals{
		CPUUsage: map[string]recommender.Amount{"app": 400}, NodeBusy: 0.95,
		Answers: map[harm.Question]harm.Answer{{Name: "latency"}: {Failed: "no address"}}, Unanswered: "no address",
	}, w.Usage.Signals["1"])
}

// The end of a wave costs three queries and one for each guardrail, however many pods it had.
func TestAWavesEndCostsAFewQuestions(t *testing.T) {
	w := watched(now, v1alpha1.RecordWatching)
	one, pod := w.Rec.Status.Records[0], w.Pods[0]
	w.Rec.Status.Records, w.Pods = nil, nil
	for i := range 50 {
		record, copied := *one.DeepCopy(), pod.DeepCopy()
		copied.Name, copied.UID = fmt.Sprint("web-", i), types.UID(fmt.Sprint(i))
		record.PodUID, record.WrittenAt = copied.UID, metav1.Time{Time: now.Add(-time.Duration(i) * time.Second)}
		w.Rec.Status.Records, w.Pods = append(w.Rec.Status.Records, record), append(w.Pods, copied)
	}
	w.Policy.Settings.Resize.Guardrails = []v1alpha1.SLOGuardrail{
		{Name: "latency", Comparison: "<", Threshold: "1"}, {Name: "errors", Comparison: "<", Threshold: "1"},
	}
	s := &source{throttled: map[string]float64{"app": 0.7}, killed: map[string]float64{"sidecar": 1}, value: 0.5}
	measurer{gauges: func(policy.Settings) (Gauge, error) { return s, nil }}.measure(t.Context(), &w)
	assert.Equal(t, 5, s.asked)
	require.Len(t, w.Usage.Signals, 50)
	for _, signals := range w.Usage.Signals {
		assert.Equal(t, harm.Signals{
			Throttle: map[string]float64{"app": 0.7}, OOMEvents: map[string]float64{"sidecar": 1},
			Answers: map[harm.Question]harm.Answer{{Name: "latency"}: {Value: 0.5}, {Name: "errors"}: {Value: 0.5}},
		}, signals)
	}
}

// Guardrails are asked during an observation: once for all pods, and for all workloads of a policy and namespace, each
// lifecycle.AskEvery. Other signals are measured at the end only.
func TestGuardrailsAreAskedDuringTheObservation(t *testing.T) {
	s, answers, pass := &source{value: 0.5}, &guardrailAnswers{}, t.Context()
	m := measurer{gauges: func(policy.Settings) (Gauge, error) { return s, nil }, guardrails: answers}
	at := func(after time.Duration, workload string) harm.Signals {
		w := watched(now.Add(time.Hour), v1alpha1.RecordWatching)
		second, pod := *w.Rec.Status.Records[0].DeepCopy(), w.Pods[0].DeepCopy()
		second.PodUID, pod.UID, pod.Name = "2", "2", "web-2"
		w.Rec.Status.Records, w.Pods = append(w.Rec.Status.Records, second), append(w.Pods, pod)
		w.Now, w.Rec.Namespace, w.Rec.Name = now.Add(after), "shop", workload
		w.Rec.Spec.Policy = v1alpha1.PolicyRef{Name: "all"}
		w.Policy.Settings.Resize.Guardrails = []v1alpha1.SLOGuardrail{{Name: "latency"}, {Name: "errors"}}
		m.measure(pass, &w)
		assert.Equal(t, w.Usage.Signals["1"], w.Usage.Signals["2"])
		return w.Usage.Signals["1"]
	}
	half := harm.Signals{Answers: map[harm.Question]harm.Answer{{Name: "latency"}: {Value: 0.5}, {Name: "errors"}: {Value: 0.5}}}
	assert.Equal(t, half, at(0, "a"))
	assert.Equal(t, 2, s.asked)
	s.value = 2
	assert.Equal(t, half, at(0, "b"), "of another workload")
	assert.Equal(t, half, at(lifecycle.AskEvery-time.Second, "a"))
	assert.Equal(t, 2, s.asked)
	assert.Equal(t, harm.Answer{Value: 2}, at(lifecycle.AskEvery, "a").Answers[harm.Question{Name: "errors"}])
	assert.Equal(t, 4, s.asked)

	// A query without a result is asked again as usual. A source that takes too long is asked less often.
	s.err = errors.New("no series")
	assert.Equal(t, harm.Answer{Failed: "no series"}, at(2*lifecycle.AskEvery, "a").Answers[harm.Question{Name: "errors"}])
	assert.Equal(t, 6, s.asked)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	pass = ctx
	at(3*lifecycle.AskEvery, "a")
	assert.Equal(t, 8, s.asked)
	pass, s.err = t.Context(), nil
	assert.Zero(t, at(4*lifecycle.AskEvery, "a"))
	assert.Zero(t, at(6*lifecycle.AskEvery, "b"))
	assert.Equal(t, 8, s.asked)
	assert.Equal(t, harm.Answer{Value: 2}, at(7*lifecycle.AskEvery, "a").Answers[harm.Question{Name: "errors"}])
	assert.Equal(t, 10, s.asked)
}

// An answer from before the resize does not judge it.
func TestGuardrailsAreAskedAfterTheResize(t *testing.T) {
	s := &source{value: 2}
	m := measurer{gauges: func(policy.Settings) (Gauge, error) { return s, nil }, guardrails: &guardrailAnswers{}}
	for after, want := range map[time.Duration]int{0: 0, lifecycle.AskEvery - 1: 0, lifecycle.AskEvery: 1} {
		w := watched(now.Add(time.Hour), v1alpha1.RecordWatching)
		w.Rec.Status.Records[0].VerifiedOnce = &metav1.Time{Time: now.Add(-after)}
		w.Policy.Settings.Resize.Guardrails = []v1alpha1.SLOGuardrail{{Name: "latency"}}
		m.measure(t.Context(), &w)
		assert.Len(t, w.Usage.Signals, want, after)
	}
}

// The answers at the end of one pod's observation are also those of the other pods'.
func TestTheEndOfAnObservationAsksOnce(t *testing.T) {
	w := watched(now, v1alpha1.RecordWatching)
	second, pod := *w.Rec.Status.Records[0].DeepCopy(), w.Pods[0].DeepCopy()
	second.PodUID, pod.UID, pod.Name, second.WatchUntil = "2", "2", "web-2", &metav1.Time{Time: now.Add(time.Minute)}
	w.Rec.Status.Records, w.Pods = append(w.Rec.Status.Records, second), append(w.Pods, pod)
	w.Policy.Settings.Resize.Guardrails = []v1alpha1.SLOGuardrail{{Name: "latency"}}
	s := &source{value: 0.5}
	measurer{gauges: func(policy.Settings) (Gauge, error) { return s, nil }, guardrails: &guardrailAnswers{}}.measure(t.Context(), &w)
	assert.Equal(t, 4, s.asked)
	assert.Equal(t, harm.Signals{Answers: map[harm.Question]harm.Answer{{Name: "latency"}: {Value: 0.5}}}, w.Usage.Signals["2"])
}

func of(pods []string, values map[string]float64) usage.ByContainer {
	all := usage.ByContainer{}
	for _, pod := range pods {
		all[pod] = values
	}
	return all
}
