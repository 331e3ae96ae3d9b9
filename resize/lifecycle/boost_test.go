package lifecycle_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/recommender"
	. "attune.io/attune/resize"
	. "attune.io/attune/resize/lifecycle"
)

func annotationOf(given, base, limit string) v1alpha1.Seeded {
	b := v1alpha1.BoostedContainer{Name: "app", CPURequest: quantity(given), BaseCPURequest: quantity(base)}
	if limit != "" {
		q := quantity(limit)
		b.BaseCPULimit = &q
	}
	return v1alpha1.Seeded{Boosted: []v1alpha1.BoostedContainer{b}}
}

// The annotation counts if the pod matches it, and only to remove CPU that a boost can have added.
func TestAcceptedBoostAnnotations(t *testing.T) {
	limited, free := size(400, 800, 256, 0), size(400, 0, 256, 0)
	for name, c := range map[string]struct {
		has      recommender.Size
		note     v1alpha1.Seeded
		least    recommender.Amount
		believed bool
	}{
		"as it was born":              {limited, annotationOf("400m", "200m", "400m"), 10, true},
		"without a limit":             {free, annotationOf("400m", "200m", ""), 10, true},
		"resized since":               {size(390, 800, 256, 0), annotationOf("400m", "200m", "400m"), 10, false},
		"it would raise":              {limited, annotationOf("400m", "500m", "800m"), 10, false},
		"it would change nothing":     {limited, annotationOf("400m", "400m", "800m"), 10, false},
		"nothing would be left":       {limited, annotationOf("400m", "0", "400m"), 10, false},
		"less than the policy allows": {limited, annotationOf("400m", "200m", "400m"), 250, false},
		"no boost is that great":      {limited, annotationOf("400m", "3m", "6m"), 0, false},
		"it would take a limit away":  {limited, annotationOf("400m", "200m", ""), 10, false},
		"it would add a limit":        {free, annotationOf("400m", "200m", "400m"), 10, false},
		"it would raise the limit":    {limited, annotationOf("400m", "200m", "900m"), 10, false},
		"a limit below the request":   {limited, annotationOf("400m", "200m", "100m"), 10, false},
		"another container's":         {limited, v1alpha1.Seeded{Boosted: []v1alpha1.BoostedContainer{{Name: "other"}}}, 10, false},
	} {
		got := Boosted(running(c.has), c.note, func(string) recommender.Amount { return c.least })
		assert.Equal(t, c.believed, len(got) == 1, "%s: %v", name, got)
	}
}

// A boost lasts for its duration from the start of the container, and until the pod is ready.
func TestHowLongABoostLasts(t *testing.T) {
	started := func(ago time.Duration) *corev1.Pod {
		return with(running(size(400, 0, 256, 0)), func(p *corev1.Pod) {
			p.Status.ContainerStatuses[0].State.Running.StartedAt = metav1.NewTime(noon.Add(-ago))
		})
	}
	boosted := wish(size(200, 0, 0, 0))
	left, known := BoostLeft(started(time.Minute), boosted, 3*time.Minute, noon)
	assert.True(t, known)
	assert.Equal(t, 2*time.Minute, left)
	left, known = BoostLeft(started(time.Hour), boosted, 3*time.Minute, noon)
	assert.True(t, known)
	assert.Zero(t, left)
	_, known = BoostLeft(with(started(time.Hour), func(p *corev1.Pod) { p.Status.Conditions = nil }), boosted, 0, noon)
	assert.False(t, known, "it is not ready, for as long as it takes")
	_, known = BoostLeft(with(started(time.Hour), func(p *corev1.Pod) { p.Status.ContainerStatuses[0].State = corev1.ContainerState{} }), boosted, 0, noon)
	assert.False(t, known, "it does not run")
}

// The gates that pace resize steps do not block the end of a boost, except for a cooldown after a regression.
func TestGatesOfBoostEnd(t *testing.T) {
	pod := running(size(400, 800, 256, 0))
	plan, refusal := boostPlan(pod, wish(size(200, 400, 0, 0)))
	require.Nil(t, refusal)
	assert.Equal(t, size(200, 400, 256, 0), plan.Moves[0].To)
	busy := GateInput{Now: noon, Rules: auto(), Workload: WorkloadInput{Rollout: "1 of 2", Replicas: 1, DataUntil: noon.Add(-100 * time.Hour), StaleAfter: time.Hour}}
	busy.Rules.Schedule = Schedule{Days: map[time.Weekday]bool{time.Sunday: true}, Location: time.UTC}
	busy.Status.CooldownFrom = &metav1.Time{Time: noon}
	busy.Workload.HPA = map[string]Held{"app": {Of: [2]bool{true, false}, By: "web"}}
	_, refusal = Admit(pod, plan, busy)
	require.Nil(t, refusal, "%v", refusal)

	for reason, edit := range map[string]func(*GateInput){
		ReasonSkipped: func(w *GateInput) {
			w.Workload.TemplateAnnotations = map[string]string{v1alpha1.SkipAnnotation: "true"}
		},
		ReasonVPA:          func(w *GateInput) { w.Workload.VPA = "web" },
		ReasonRecordsFull:  func(w *GateInput) { w.Status.Records = openOf(MostBoosts, WaveBoost) },
		ReasonReverting:    func(w *GateInput) { w.Status.Records = []v1alpha1.ResizeRecord{{Phase: v1alpha1.RecordReverting}} },
		ReasonCooldown:     func(w *GateInput) { w.Status.Backoff = &v1alpha1.Backoff{ConsecutiveReverts: 1} },
		ReasonNodePressure: func(w *GateInput) { w.Node.Capabilities.Pressure = []string{"DiskPressure"} },
	} {
		w := GateInput{Now: noon, Rules: auto()}
		w.Status.CooldownFrom = &metav1.Time{Time: noon}
		edit(&w)
		_, refusal := Admit(pod, plan, w)
		require.NotNil(t, refusal, reason)
		assert.Equal(t, reason, refusal.Reason)
	}
	for reason, stop := range map[string]func(*GateInput){
		ReasonPaused:         func(w *GateInput) { w.Rules.Paused = []string{"cluster"} },
		ReasonMode:           func(w *GateInput) { w.Rules.Mode = v1alpha1.UpdateInitial },
		ReasonWorkloadPaused: func(w *GateInput) { w.Workload.Annotations = map[string]string{v1alpha1.PausedAnnotation: "true"} },
		ReasonExcluded:       func(w *GateInput) { w.Rules.Excluded = map[string]bool{"app": true} },
	} {
		w := GateInput{Now: noon, Rules: auto()}
		stop(&w)
		admitted, refusal := Admit(pod, plan, w)
		require.Nil(t, refusal, reason)
		assert.Len(t, admitted.Moves, 1, "the pod would keep the boost: %s", reason)
		plan := plan
		plan.Wave = WaveReboost
		_, refusal = Admit(pod, plan, w)
		require.NotNil(t, refusal, "no boost begins: %s", reason)
		assert.Equal(t, reason, refusal.Reason)
	}
	_, refusal = boostPlan(with(pod, func(p *corev1.Pod) { p.Status.Conditions = nil }), wish(size(200, 400, 0, 0)))
	require.NotNil(t, refusal)
	assert.Equal(t, ReasonNotReady, refusal.Reason)
}

func openOf(n int, wave string) []v1alpha1.ResizeRecord {
	records := make([]v1alpha1.ResizeRecord, n)
	for i := range records {
		records[i].Wave = wave
	}
	return records
}

// Boosts leave records free for other resizes, and as many for boosts as exist.
func TestBoostsLeaveRecordsToOthers(t *testing.T) {
	pod := running(size(400, 800, 256, 0))
	plan, refusal := boostPlan(pod, wish(size(200, 400, 0, 0)))
	require.Nil(t, refusal)
	for name, tc := range map[string]struct {
		records []v1alpha1.ResizeRecord
		want    bool
	}{
		"one less than the most":   {openOf(MostBoosts-1, WaveBoost), true},
		"the most":                 {openOf(MostBoosts, WaveBoost), false},
		"steps do not count":       {append(openOf(MostBoosts-1, WaveBoost), openOf(5, WaveNext)...), true},
		"all records are taken":    {openOf(v1alpha1.MaxRecords, WaveNext), false},
		"all but one are a step's": {openOf(v1alpha1.MaxRecords-1, WaveNext), true},
	} {
		_, refusal := Admit(pod, plan, GateInput{Now: noon, Rules: auto(), Status: v1alpha1.AttuneRecommendationStatus{Records: tc.records}})
		assert.Equal(t, tc.want, refusal == nil, "%s: %v", name, refusal)
	}
}

// The end of a boost is observed for the window of the throttling query, not for the whole period.
func TestHowLongABoostIsWatched(t *testing.T) {
	record := recorded(desired)
	record.Wave = WaveBoost
	rules := auto()
	rules.RateWindow = 90 * time.Second
	assert.Equal(t, 90*time.Second, WatchFor(record, rules))
	rules.RateWindow = 30 * time.Second
	assert.Equal(t, time.Minute, WatchFor(record, rules))
	rules.Observation = 45 * time.Second
	assert.Equal(t, 45*time.Second, WatchFor(record, rules), "as the policy says")
}

// Nothing is learned about sizes: no size is stored as verified, no wave is smaller, and no workload becomes degraded.
func TestTheEndOfABoostIsNoStep(t *testing.T) {
	record := v1alpha1.ResizeRecord{Wave: WaveBoost, Phase: v1alpha1.RecordWatching, Reason: ReasonBoost}
	settled := Next(State{Kind: Settled}, record, auto(), Circumstances{}, noon)
	assert.Equal(t, Forget, settled.Kind)
	assert.Equal(t, ResultSuccess, settled.Result)
	assert.Equal(t, ReasonBoost, settled.Reason)
	assert.False(t, settled.Keep)
	assert.Equal(t, Revert, Next(State{Kind: Harmed, Verdict: Verdict{Harm: HarmThrottle}}, record, auto(), Circumstances{}, noon).Kind)
}
