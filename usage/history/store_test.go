package history_test

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/workload"
	"attune.io/attune/recommender"
	"attune.io/attune/usage"
	"attune.io/attune/usage/history"
)

func TestThePastIsReadOnceAndThenWhatIsNew(t *testing.T) {
	source := &fake{pods: []fakePod{web("aaaaa", always(0.2))}}
	s := newStore(source)
	s.Want(deployment("web"))
	assert.Equal(t, 1, fill(t, s, now))

	queries := source.take()
	require.Len(t, queries, 1)
	assert.Equal(t, usage.Query{
		Namespaces: []string{"shop"}, Start: now.Add(-24*time.Hour + step), End: now, Step: step, RateWindow: step,
	}, queries[0])
	assert.Equal(t, 288, profile(t, s, now).Of[recommender.CPU].Points)

	s.Refresh(context.Background(), now.Add(step-time.Second))
	assert.Empty(t, source.take(), "no step has ended since")

	for i := 1; i <= 3; i++ {
		at := now.Add(time.Duration(i)*step + 7*time.Second)
		s.Refresh(context.Background(), at)
		queries := source.take()
		require.Len(t, queries, 1)
		assert.Equal(t, now.Add(time.Duration(i)*step), queries[0].End, "aligned to the step")
		assert.Equal(t, int64(3), queries[0].Steps(), "the new step and two that are read again")
		assert.Equal(t, 288, profile(t, s, at).Of[recommender.CPU].Points, "the window has moved")
	}
}

func TestQueriesDoNotGrowWithWorkloadsAndNamespaces(t *testing.T) {
	for _, size := range []int{1, 10, 300} {
		source := &fake{}
		s := newStore(source)
		for n := range size {
			interest := history.Interest{Policy: "p", Namespace: fmt.Sprint("team-", n), Source: settings()}
			for w := range size {
				interest.Workloads = append(interest.Workloads, history.Workload{Kind: v1alpha1.KindDeployment, Name: fmt.Sprint("app-", w)})
			}
			s.Want(interest)
		}
		at := now
		for range 5 {
			s.Refresh(context.Background(), at)
			at = at.Add(step)
			assert.LessOrEqual(t, len(source.take()), 2, "%d namespaces", size)
		}
	}
}

func TestTheHighestReplicaCounts(t *testing.T) {
	source := &fake{pods: []fakePod{
		web("aaaaa", always(0.2)),
		web("bbbbb", between(now.Add(-time.Hour), now, 0.7)),
		{namespace: "shop", pod: "web-55555-ccccc", container: "app", cpu: between(now.Add(-2*time.Hour), now.Add(-90*time.Minute), 0.9)},
		{namespace: "shop", pod: "web-7d4f8c9b6-aaaaa", container: "sidecar", cpu: always(5)},
		{namespace: "other", pod: "web-7d4f8c9b6-aaaaa", container: "app", cpu: always(6)},
		{namespace: "shop", pod: "web-v2-7d4f8c9b6-aaaaa", container: "app", cpu: always(7)},
	}}
	s := newStore(source)
	s.Want(deployment("web"))
	fill(t, s, now)

	cpu := profile(t, s, now).Of[recommender.CPU]
	assert.Equal(t, 288, cpu.Points, "steps, not replicas' samples")
	assert.InDelta(t, 900, float64(cpu.Peak), 1e-9, "of a replica of another template generation that is gone")
	values := map[float64]int{}
	for _, usage := range s.Steps(key("web")) {
		values[usage.CPUCores]++
	}
	assert.Equal(t, map[float64]int{0.2: 288 - 13 - 7, 0.7: 13, 0.9: 7}, values)
}

func TestPeaksOfCPU(t *testing.T) {
	pod := web("aaaaa", always(0.2))
	pod.peak = between(now.Add(-time.Hour), now.Add(-time.Hour), 3)
	s := newStore(&fake{pods: []fakePod{pod}})
	s.Want(deployment("web"))
	fill(t, s, now)
	cpu := profile(t, s, now).Of[recommender.CPU]
	assert.InDelta(t, 3000, float64(cpu.Peak), 1e-9)
	assert.InDelta(t, 200, float64(cpu.Overall.Quantile(1)), 1e-9, "a peak is not a step's value")
}

func TestPodsOfNeighboursAreNotMistaken(t *testing.T) {
	// The Deployment web could have generated the name of the pod of the DaemonSet web-v2.
	pods := []fakePod{web("aaaaa", always(0.2)), {namespace: "shop", pod: "web-v2-bbbbb", container: "app", cpu: always(4)}}
	for _, test := range []struct {
		name       string
		neighbours []workload.KindName
		peak       float64
		dropped    int
	}{
		{"known", []workload.KindName{daemonSet("web-v2")}, 200, 0},
		{"not known", nil, 4000, 0},
		{"ambiguous", []workload.KindName{{Kind: v1alpha1.KindJob, Name: "web-v2"}, daemonSet("web-v2")}, 200, 288},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := newStore(&fake{pods: pods})
			interest := deployment("web")
			interest.Neighbours = test.neighbours
			s.Want(interest)
			fill(t, s, now)
			assert.InDelta(t, test.peak, float64(profile(t, s, now).Of[recommender.CPU].Peak), 1e-9)
			state, _ := s.State(settings())
			assert.Equal(t, test.dropped, state.Last.Dropped[usage.DropAmbiguous])
		})
	}
}

func TestLateSamples(t *testing.T) {
	last := now
	source := &fake{pods: []fakePod{web("aaaaa", func(at time.Time) (float64, bool) { return 0.2, !at.After(last) })}}
	s := newStore(source)
	s.Want(deployment("web"))
	fill(t, s, now)

	// The newest step has no samples at first; they come together with the samples of the next one.
	for i := 1; i <= 2; i++ {
		source.set(func(*fake) { last = now.Add(time.Duration(2*(i-1)) * step) })
		s.Refresh(context.Background(), now.Add(time.Duration(i)*step))
	}
	assert.Equal(t, now.Add(2*step), profile(t, s, now.Add(2*step)).Last)
	assert.Zero(t, profile(t, s, now.Add(2*step)).Gaps)
}

func TestStepsThatAreReadAgainAreReplaced(t *testing.T) {
	value := 0.9
	source := &fake{pods: []fakePod{web("aaaaa", func(at time.Time) (float64, bool) {
		if at.Equal(now) {
			return value, true
		}
		return 0.2, true
	})}}
	s := newStore(source)
	s.Want(deployment("web"))
	fill(t, s, now)
	assert.InDelta(t, 900, float64(profile(t, s, now).Of[recommender.CPU].Peak), 1e-9)

	source.set(func(*fake) { value = 0.3 })
	s.Refresh(context.Background(), now.Add(step))
	assert.InDelta(t, 300, float64(profile(t, s, now).Of[recommender.CPU].Peak), 1e-9, "a first answer about a step is made of fewer samples")
}

// rows is a source that yields the same series for every query.
type rows []usage.Series

func (r rows) Read(_ context.Context, _ usage.Query, yield func(usage.Series)) (usage.Report, error) {
	for _, series := range r {
		yield(series)
	}
	return usage.Report{}, nil
}

func TestOddSamples(t *testing.T) {
	at := func(back int, value float64) usage.Sample {
		return usage.Sample{At: now.Add(-time.Duration(back) * step).UnixMilli(), Value: value}
	}
	nan := usage.Sample{At: now.UnixMilli(), Value: nan()}
	inside := at(3, 0.3)
	inside.At += 1000
	series := usage.Series{Namespace: "shop", Pod: "web-7d4f8c9b6-aaaaa", Container: "app"}
	series.CPU = []usage.Sample{
		at(2, 0.2), at(5, 0.5), at(2, 0.1), at(2, 0.4), // out of order, and one step three times
		inside,                       // between the ends of two steps: it belongs to the later one
		nan, at(1, -1), at(1, inf()), // a counter that ran backwards, and values that are not numbers
		at(-1, 9), at(288, 9), // outside
	}
	s := newStore(rows{series})
	s.Want(deployment("web"))
	fill(t, s, now)

	got := map[time.Time]float64{}
	for _, step := range s.Steps(key("web")) {
		got[step.At] = step.CPUCores
	}
	assert.Equal(t, map[time.Time]float64{now.Add(-5 * step): 0.5, now.Add(-2 * step): 0.4}, got)
	state, _ := s.State(settings())
	assert.Equal(t, map[usage.Drop]int{usage.DropNotANumber: 1, usage.DropNegative: 1, usage.DropInfinite: 1, usage.DropOutside: 2}, state.Last.Dropped)
}

func TestAFailureLeavesEverythingAsItWas(t *testing.T) {
	source := &fake{pods: []fakePod{web("aaaaa", always(0.2))}}
	s := newStore(source)
	s.Want(deployment("web"))
	fill(t, s, now)
	before := s.Steps(key("web"))

	source.set(func(f *fake) {
		f.fail = func(usage.Query) error { return errDown }
		f.pods[0].cpu = always(9)
	})
	later := now.Add(30 * time.Minute)
	assert.False(t, s.Refresh(context.Background(), later), "there is no hurry to ask a server that is down")
	assert.Empty(t, cmp.Diff(before, s.Steps(key("web")), cmpopts.EquateNaNs()), "an answer that broke off does not count")
	state, known := s.State(settings())
	require.True(t, known)
	assert.Equal(t, errDown, state.Err)
	assert.Equal(t, now, state.LastSuccess)

	source.set(func(f *fake) { f.fail = nil })
	source.take()
	later = later.Add(step)
	s.Refresh(context.Background(), later)
	queries := source.take()
	require.Len(t, queries, 1)
	assert.Equal(t, now.Add(-step), queries[0].Start, "it goes on where it was")
	assert.Equal(t, later, queries[0].End)
	state, _ = s.State(settings())
	assert.NoError(t, state.Err)
	assert.Equal(t, later, state.LastSuccess)
}

func TestASourceIsMadeAnewAfterAFailure(t *testing.T) {
	source := &fake{fail: func(usage.Query) error { return errDown }}
	dialled := 0
	s := history.New(history.Options{Dial: func(usage.SourceSettings) (usage.Source, error) { dialled++; return source, nil }})
	s.Want(deployment("web"))
	s.Refresh(context.Background(), now)
	s.Refresh(context.Background(), now)
	assert.Equal(t, 2, dialled, "a secret may have changed")

	source.set(func(f *fake) { f.fail = nil })
	for i := range 5 {
		s.Refresh(context.Background(), now.Add(time.Duration(i)*step))
	}
	assert.Equal(t, 3, dialled)
}

func TestASourceThatCannotBeMade(t *testing.T) {
	s := history.New(history.Options{Dial: func(usage.SourceSettings) (usage.Source, error) { return nil, errDown }})
	s.Want(deployment("web"))
	assert.False(t, s.Refresh(context.Background(), now))
	state, _ := s.State(settings())
	assert.Equal(t, errDown, state.Err)
	assert.Zero(t, state.LastSuccess)
	assert.False(t, s.Read(key("web")))
}

// A new workload has no past that was read. The past of other workloads in its namespace stays read.
func TestANewWorkloadLeavesThePastOfOthersRead(t *testing.T) {
	s := newStore(&fake{pods: []fakePod{web("aaaaa", always(0.2))}})
	s.Want(deployment("web"))
	assert.False(t, s.Read(key("web")), "nothing has been read")
	fill(t, s, now)
	assert.True(t, s.Read(key("web")))

	theirs := deployment("api")
	theirs.Namespace = "foreign"
	s.Want(theirs)
	of := key("api")
	of.Namespace = theirs.Namespace
	assert.False(t, s.Read(of))
	assert.True(t, s.Read(key("web")))
	fill(t, s, now)
	assert.True(t, s.Read(of))
}

func TestOneSourceDoesNotHoldUpAnother(t *testing.T) {
	good := &fake{pods: []fakePod{web("aaaaa", always(0.2))}}
	s := history.New(history.Options{Dial: func(settings usage.SourceSettings) (usage.Source, error) {
		if settings.Prometheus != nil {
			return nil, errDown
		}
		return good, nil
	}})
	s.Want(deployment("web"))
	broken := deployment("api")
	broken.Policy, broken.Source.Prometheus = "other", &v1alpha1.PrometheusSource{Address: "http://gone"}
	s.Want(broken)
	fill(t, s, now)

	state, _ := s.State(settings())
	assert.NoError(t, state.Err)
	state, _ = s.State(broken.Source)
	assert.Equal(t, errDown, state.Err)
}

func TestTheCallerGivesUp(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	source := &fake{fail: func(usage.Query) error { cancel(); return ctx.Err() }}
	s := newStore(source)
	s.Want(deployment("web"))
	assert.False(t, s.Refresh(ctx, now))
	state, _ := s.State(settings())
	assert.NoError(t, state.Err, "nothing is wrong with the source")
}

func TestAPastThatIsTooMuchIsReadInPieces(t *testing.T) {
	source := &fake{pods: []fakePod{web("aaaaa", always(0.2))}, fail: func(q usage.Query) error {
		if q.Steps() > 40 {
			return fmt.Errorf("422: %w", usage.ErrTooMuch)
		}
		return nil
	}}
	s := newStore(source)
	s.Want(deployment("web"))

	for s.Refresh(context.Background(), now) {
		assert.LessOrEqual(t, len(source.queries), 20)
		state, _ := s.State(settings())
		assert.NoError(t, state.Err)
	}
	assert.True(t, s.Read(key("web")))
	assert.Equal(t, 288, profile(t, s, now).Of[recommender.CPU].Points, "nothing is lost between the pieces")

	var spans []int64
	for _, query := range source.take() {
		spans = append(spans, query.Steps())
	}
	assert.Equal(t, []int64{288, 3, 144, 72, 36, 36, 36, 36, 36, 36, 36, 36}, spans, "what is new does not wait")

	source.set(func(f *fake) { f.fail = nil })
	s.Want(deployment("web", "api"))
	s.Refresh(context.Background(), now)
	queries := source.take()
	require.Len(t, queries, 1)
	assert.Equal(t, int64(288), queries[0].Steps(), "what was too much then is tried again")
}

func TestAPastThatIsAlwaysTooMuch(t *testing.T) {
	source := &fake{fail: func(usage.Query) error { return usage.ErrTooMuch }}
	s := newStore(source)
	s.Want(deployment("web"))
	assert.Less(t, fill(t, s, now), 10)
	state, _ := s.State(settings())
	assert.ErrorIs(t, state.Err, usage.ErrTooMuch)
}

func TestNewestPastFirst(t *testing.T) {
	source := &fake{pods: []fakePod{web("aaaaa", always(0.2))}, fail: func(q usage.Query) error {
		if q.Steps() > 150 {
			return usage.ErrTooMuch
		}
		return nil
	}}
	s := newStore(source)
	s.Want(deployment("web"))
	s.Refresh(context.Background(), now)
	s.Refresh(context.Background(), now)
	p := profile(t, s, now)
	assert.Equal(t, now, p.Last)
	assert.Equal(t, now.Add(-143*step), p.First)

	// New steps are read before the rest of the past.
	s.Refresh(context.Background(), now.Add(step))
	queries := source.take()
	require.Len(t, queries, 5)
	assert.Equal(t, int64(3), queries[1].Steps(), "all of the past was too much")
	assert.Equal(t, now.Add(step), queries[3].End)
	assert.Equal(t, now.Add(-144*step), queries[4].End)
}

func TestAPartialAnswerOnlyRaises(t *testing.T) {
	value := 0.5
	source := &fake{pods: []fakePod{web("aaaaa", func(time.Time) (float64, bool) { return value, true })}}
	s := newStore(source)
	s.Want(deployment("web"))
	fill(t, s, now)

	source.set(func(f *fake) { value, f.report.Partial = 0.1, true })
	s.Refresh(context.Background(), now.Add(step))
	steps := s.Steps(key("web"))
	assert.InDelta(t, 0.5, steps[len(steps)-2].CPUCores, 0, "the highest replica may be what is missing")
	assert.InDelta(t, 0.1, steps[len(steps)-1].CPUCores, 0, "better than nothing")

	source.set(func(f *fake) { value = 0.9 })
	s.Refresh(context.Background(), now.Add(2*step))
	steps = s.Steps(key("web"))
	assert.InDelta(t, 0.9, steps[len(steps)-2].CPUCores, 0)
	state, _ := s.State(settings())
	assert.True(t, state.Last.Partial)
	assert.NoError(t, state.Err, "a partial answer is data with gaps")
}

// An answer that is partial for one namespace replaces the values of others.
func TestPartialForANamespace(t *testing.T) {
	for missing, want := range map[string]float64{"shop": 0.5, "bank": 0.1} {
		value := 0.5
		source := &fake{pods: []fakePod{web("aaaaa", func(time.Time) (float64, bool) { return value, true })}}
		s := newStore(source)
		require.NoError(t, s.Want(deployment("web")))
		fill(t, s, now)
		source.set(func(f *fake) { value, f.report.Missing = 0.1, map[string]string{missing: "1 of 2 nodes fails"} })
		s.Refresh(context.Background(), now.Add(step))
		steps := s.Steps(key("web"))
		assert.InDelta(t, want, steps[len(steps)-2].CPUCores, 0, missing)
		state, _ := s.State(settings())
		assert.Equal(t, missing == "shop", state.Last.Lacks("shop"))
	}
}

// Memory that is not measured any more is out of date, although CPU is.
func TestFreshnessIsPerResource(t *testing.T) {
	pod := web("aaaaa", always(0.2))
	pod.memory = func(at time.Time) (float64, bool) { return 1 << 20, !at.After(now) }
	s := newStore(&fake{pods: []fakePod{pod}})
	require.NoError(t, s.Want(deployment("web")))
	fill(t, s, now)
	s.Await(key("web"), true)
	later := now
	for later.Before(now.Add(time.Hour)) {
		later = later.Add(time.Minute)
		s.Refresh(context.Background(), later)
	}
	p := profile(t, s, later)
	assert.LessOrEqual(t, later.Sub(p.Of[recommender.CPU].Last), step)
	assert.Equal(t, now, p.Of[recommender.Memory].Last)
}

func TestAPartialPastIsReadAgainLater(t *testing.T) {
	source := &fake{report: usage.Report{Partial: true}}
	s := newStore(source)
	s.Want(deployment("web"))
	fill(t, s, now)
	source.set(func(f *fake) { f.report, f.pods = usage.Report{}, []fakePod{web("aaaaa", always(0.2))} })

	long := 0
	for at := now; !at.After(now.Add(3 * time.Hour)); at = at.Add(step) {
		source.take()
		s.Refresh(context.Background(), at)
		for _, query := range source.take() {
			if query.Steps() > 100 {
				long++
				assert.Equal(t, now.Add(time.Hour), at)
			}
		}
	}
	assert.Equal(t, 1, long, "once, as the answer was complete")
	assert.Zero(t, profile(t, s, now.Add(3*time.Hour)).Gaps)
	assert.Equal(t, 288, profile(t, s, now.Add(3*time.Hour)).Of[recommender.CPU].Points)
}

func TestAWorkloadThatIsWantedLater(t *testing.T) {
	source := &fake{pods: []fakePod{
		web("aaaaa", always(0.2)),
		{namespace: "shop", pod: "api-7d4f8c9b6-aaaaa", container: "app", cpu: always(0.4)},
	}}
	s := newStore(source)
	s.Want(deployment("web"))
	fill(t, s, now)
	source.take()

	s.Want(deployment("web", "api"))
	s.Refresh(context.Background(), now.Add(step))
	queries := source.take()
	require.Len(t, queries, 2)
	assert.Empty(t, queries[0].PodPrefixes)
	assert.Equal(t, int64(3), queries[0].Steps())
	assert.Equal(t, []string{"api-"}, queries[1].PodPrefixes, "only the new one's past")
	assert.Equal(t, int64(288), queries[1].Steps())

	p, ok := s.Profile(key("api"), now)
	require.True(t, ok)
	assert.Equal(t, 288, p.Of[recommender.CPU].Points)
	assert.Equal(t, 288, profile(t, s, now).Of[recommender.CPU].Points)
}

func TestAContainerThatIsWantedLater(t *testing.T) {
	source := &fake{pods: []fakePod{web("aaaaa", always(0.2)), {namespace: "shop", pod: "web-7d4f8c9b6-aaaaa", container: "sidecar", cpu: always(0.1)}}}
	s := newStore(source)
	s.Want(deployment("web"))
	fill(t, s, now)
	source.take()
	assert.Equal(t, []string{"app"}, s.Containers(key("web")))

	more := deployment("web")
	more.Workloads[0].Containers = nil
	s.Want(more)
	fill(t, s, now)
	require.Len(t, source.take(), 1)
	assert.Equal(t, []string{"app", "sidecar"}, s.Containers(key("web")))

	s.Want(deployment("web"))
	fill(t, s, now)
	assert.Empty(t, source.take(), "wanting less asks nothing")
	assert.Equal(t, []string{"app"}, s.Containers(key("web")))
}

// pausing is a source that lets the test act in the middle of a read.
type pausing struct {
	*fake
	during func()
}

func (p *pausing) Read(ctx context.Context, query usage.Query, yield func(usage.Series)) (usage.Report, error) {
	if during := p.during; during != nil {
		p.during = nil
		during()
	}
	return p.fake.Read(ctx, query, yield)
}

func TestWantingMoreDuringARead(t *testing.T) {
	source := &pausing{fake: &fake{pods: []fakePod{web("aaaaa", always(0.2)), {namespace: "shop", pod: "web-7d4f8c9b6-aaaaa", container: "sidecar", cpu: always(0.1)}}}}
	s := newStore(source)
	s.Want(deployment("web"))
	source.during = func() {
		more := deployment("web")
		more.Workloads[0].Containers = []string{"app", "sidecar"}
		s.Want(more)
	}
	assert.True(t, s.Refresh(context.Background(), now), "the read did not know of the sidecar")
	fill(t, s, now)
	k := key("web")
	k.Container = "sidecar"
	p, ok := s.Profile(k, now)
	require.True(t, ok)
	assert.Equal(t, 288, p.Of[recommender.CPU].Points)
}

func TestForgettingDuringARead(t *testing.T) {
	source := &pausing{fake: &fake{pods: []fakePod{web("aaaaa", always(0.2))}}}
	s := newStore(source)
	s.Want(deployment("web"))
	source.during = func() { s.Forget("shop", "policy") }
	assert.False(t, s.Refresh(context.Background(), now))
	_, ok := s.Profile(key("web"), now)
	assert.False(t, ok)
	_, known := s.State(settings())
	assert.False(t, known)
}

func TestPoliciesShareAndForget(t *testing.T) {
	source := &fake{pods: []fakePod{web("aaaaa", always(0.2)), {namespace: "shop", pod: "api-7d4f8c9b6-aaaaa", container: "app", cpu: always(0.4)}}}
	s := newStore(source)
	first, second := deployment("web"), deployment("web", "api")
	second.Policy = "second"
	s.Want(first)
	s.Want(second)
	fill(t, s, now)
	assert.Len(t, source.take(), 1, "equal settings share their queries")

	s.Forget("shop", "second")
	_, ok := s.Profile(key("web"), now)
	assert.True(t, ok, "still wanted by the first")
	_, ok = s.Profile(key("api"), now)
	assert.False(t, ok)

	s.Forget("shop", "nobody")
	s.Forget("shop", "policy")
	_, known := s.State(settings())
	assert.False(t, known)
	s.Refresh(context.Background(), now.Add(step))
	assert.Empty(t, source.take())
}

func TestAPolicyThatChangesItsSource(t *testing.T) {
	source := &fake{pods: []fakePod{web("aaaaa", always(0.2))}}
	s := newStore(source)
	s.Want(deployment("web"))
	fill(t, s, now)

	changed := deployment("web")
	changed.Source.HistoryWindow = 48 * time.Hour
	s.Want(changed)
	_, known := s.State(settings())
	assert.False(t, known, "nobody wants the old one any more")
	fill(t, s, now)
	k := key("web")
	k.Source = changed.Source.Digest()
	p, ok := s.Profile(k, now)
	require.True(t, ok)
	assert.Equal(t, 576, p.Of[recommender.CPU].Points)
}

func TestProfilesAreComputedOnce(t *testing.T) {
	source := &fake{pods: []fakePod{web("aaaaa", always(0.2)), {namespace: "shop", pod: "api-7d4f8c9b6-aaaaa", container: "app", cpu: between(now.Add(-time.Hour), now, 0.4)}}}
	s := newStore(source)
	s.Want(deployment("web", "api"))
	fill(t, s, now)
	web := key("web")
	first := profile(t, s, now)
	allocations := testing.AllocsPerRun(10, func() { _, _ = s.Profile(web, now) })
	assert.Zero(t, allocations, "nothing is recomputed when nothing changed")
	runtime.GC()
	assert.Same(t, first.Of[recommender.CPU].Overall, profile(t, s, now).Of[recommender.CPU].Overall, "it is kept while it is in use")

	s.Refresh(context.Background(), now.Add(step))
	second := profile(t, s, now)
	assert.NotSame(t, first.Of[recommender.CPU].Overall, second.Of[recommender.CPU].Overall)
	assert.Equal(t, now.Add(step), second.Last)
}

func TestAProfileEndsWithItsWindow(t *testing.T) {
	source := &fake{pods: []fakePod{web("aaaaa", between(now.Add(-24*time.Hour), now, 0.2))}}
	source.pods[0].memory = nil
	s := newStore(source)
	s.Want(deployment("web"))
	fill(t, s, now)
	assert.Equal(t, 288, profile(t, s, now).Of[recommender.CPU].Points)
	half := now.Add(12 * time.Hour)
	for at := now; !at.After(half); at = at.Add(step) {
		s.Refresh(context.Background(), at)
	}
	assert.Equal(t, 144, profile(t, s, half).Of[recommender.CPU].Points)
	assert.Positive(t, s.Held())

	_, ok := s.Profile(key("web"), now.Add(24*time.Hour))
	assert.False(t, ok, "the source is down since, and all data is older than the window")
	s.Refresh(context.Background(), now.Add(25*time.Hour))
	assert.Empty(t, s.Steps(key("web")))
}

func TestALongOutage(t *testing.T) {
	source := &fake{pods: []fakePod{web("aaaaa", always(0.2))}}
	s := newStore(source)
	s.Want(deployment("web"))
	fill(t, s, now)
	source.take()
	later := now.Add(240 * time.Hour)
	fill(t, s, later)
	queries := source.take()
	require.Len(t, queries, 1)
	assert.Equal(t, int64(288), queries[0].Steps(), "the window, not the outage")
	p := profile(t, s, later)
	assert.Equal(t, 288, p.Of[recommender.CPU].Points)
	assert.Zero(t, p.Gaps)
}

func TestChangedTellsOfNewData(t *testing.T) {
	source := &fake{pods: []fakePod{
		web("aaaaa", always(0.2)), web("bbbbb", always(0.3)),
		{namespace: "bank", pod: "db-0", container: "app", cpu: between(now, now, 1)},
	}}
	var changed []string
	s := history.New(history.Options{
		Dial:    func(usage.SourceSettings) (usage.Source, error) { return source, nil },
		Changed: func(namespace string) { changed = append(changed, namespace) },
	})
	s.Want(deployment("web"))
	bank := history.Interest{Policy: "policy", Namespace: "bank", Source: settings()}
	bank.Workloads = []history.Workload{{Kind: v1alpha1.KindStatefulSet, Name: "db"}}
	s.Want(bank)
	fill(t, s, now)
	assert.Equal(t, []string{"bank", "shop"}, changed, "each once")

	changed = nil
	s.Refresh(context.Background(), now.Add(step))
	assert.Equal(t, []string{"shop"}, changed, "the bank has nothing new")

	changed = nil
	source.set(func(f *fake) { f.fail = func(usage.Query) error { return errDown } })
	s.Refresh(context.Background(), now.Add(2*step))
	assert.Equal(t, []string{"bank", "shop"}, changed, "a source that fails is news")

	changed = nil
	s.Refresh(context.Background(), now.Add(3*step))
	assert.Empty(t, changed, "that it still fails is none")

	source.set(func(f *fake) { f.fail = nil })
	s.Refresh(context.Background(), now.Add(3*step))
	assert.Equal(t, []string{"bank", "shop"}, changed, "that it answers again is")
}

func TestAFullStoreDropsAndCounts(t *testing.T) {
	source := &fake{}
	for i := range 20 {
		source.pods = append(source.pods, fakePod{namespace: "shop", pod: fmt.Sprintf("app%d-7d4f8c9b6-aaaaa", i), container: "app", cpu: always(0.2)})
	}
	const max = 4 << 10
	s := history.New(history.Options{
		Dial:     func(usage.SourceSettings) (usage.Source, error) { return source, nil },
		MaxBytes: max,
	})
	var names []string
	for i := range 20 {
		names = append(names, fmt.Sprint("app", i))
	}
	s.Want(deployment(names...))
	fill(t, s, now)
	state, _ := s.State(settings())
	assert.LessOrEqual(t, s.Held(), int64(max))
	assert.Positive(t, s.Held())
	assert.Positive(t, state.Last.Dropped[usage.DropFull])
	assert.NoError(t, state.Err)

	// Released room is used again.
	s.Want(deployment("app0"))
	s.Want(deployment("app1"))
	fill(t, s, now)
	p, ok := s.Profile(key("app1"), now)
	require.True(t, ok)
	assert.Equal(t, 288, p.Of[recommender.CPU].Points)
}

func TestUnknownKeys(t *testing.T) {
	s := newStore(&fake{})
	_, ok := s.Profile(key("web"), now)
	assert.False(t, ok)
	assert.Empty(t, s.Steps(key("web")))
	assert.Empty(t, s.Containers(key("web")))
	s.Want(deployment("web"))
	fill(t, s, now)
	_, ok = s.Profile(key("web"), now)
	assert.False(t, ok, "no data")
	_, ok = s.Profile(key("api"), now)
	assert.False(t, ok)
}

func TestConcurrentUse(t *testing.T) {
	source := &fake{}
	for i := range 10 {
		source.pods = append(source.pods, fakePod{namespace: "shop", pod: fmt.Sprintf("app%d-7d4f8c9b6-aaaaa", i), container: "app", cpu: always(0.2), memory: always(1)})
	}
	s := newStore(source)
	var wait sync.WaitGroup
	for worker := range 4 {
		wait.Go(func() {
			for i := range 50 {
				name := fmt.Sprint("app", (worker+i)%10)
				interest := deployment(name, fmt.Sprint("app", worker))
				interest.Policy = fmt.Sprint("policy-", worker)
				s.Want(interest)
				s.Refresh(context.Background(), now.Add(time.Duration(i)*step))
				_, _ = s.Profile(key(name), now)
				_ = s.Steps(key(name))
				_, _ = s.State(settings())
				if i%10 == 9 {
					s.Forget("shop", interest.Policy)
				}
			}
		})
	}
	wait.Wait()
	s.Want(deployment("app3"))
	last := now.Add(100 * step)
	fill(t, s, last)
	p, ok := s.Profile(key("app3"), last)
	require.True(t, ok)
	assert.Equal(t, 288, p.Of[recommender.CPU].Points)
	assert.True(t, slices.IsSorted(s.Containers(key("app3"))))
}

// A source is dialled again each hour: its Secret may have changed, or may now be meant for another server.
func TestASourceIsMadeAnew(t *testing.T) {
	source, dialled := &fake{pods: []fakePod{web("aaaaa", always(0.2))}}, 0
	s := history.New(history.Options{Dial: func(usage.SourceSettings) (usage.Source, error) { dialled++; return source, nil }})
	require.NoError(t, s.Want(deployment("web")))
	for at := now; at.Before(now.Add(10 * time.Hour)); at = at.Add(time.Minute) {
		fill(t, s, at)
	}
	assert.InDelta(t, 10, dialled, 1)
}

// A Secret of a namespace is used for minutes after its annotation no longer permits it.
func TestASourceWithASecretOfANamespaceIsMadeAnewSooner(t *testing.T) {
	source, dialled := &fake{pods: []fakePod{web("aaaaa", always(0.2))}}, 0
	s := history.New(history.Options{Dial: func(usage.SourceSettings) (usage.Source, error) { dialled++; return source, nil }})
	in := deployment("web")
	in.Source.Namespace = "shop"
	require.NoError(t, s.Want(in))
	for at := now; at.Before(now.Add(time.Hour)); at = at.Add(time.Minute) {
		s.Refresh(context.Background(), at)
	}
	assert.InDelta(t, 12, dialled, 1)
}
