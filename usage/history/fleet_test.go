package history_test

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/workload"
	"attune.io/attune/recommender"
	"attune.io/attune/recommender/replicas"
	"attune.io/attune/usage"
	"attune.io/attune/usage/history"
)

// scaled wants the fleets of Deployments in shop.
func scaled(names ...string) history.Interest {
	interest := deployment(names...)
	for i := range interest.Workloads {
		interest.Workloads[i].Fleet = &history.Fleet{}
	}
	return interest
}

// pods returns a key without a container.
func pods(workload string) history.Key {
	k := key(workload)
	k.Container = ""
	return k
}

// read advances a store minute by minute, and reads the past.
func read(t *testing.T, s *history.Store, until time.Time) {
	t.Helper()
	for at := until.Add(-15 * time.Minute); !at.After(until); at = at.Add(time.Minute) {
		fill(t, s, at)
	}
}

// alive has a value from the first to the last time, both included.
func alive(pod fakePod, first, last time.Time, cpu, memory float64) fakePod {
	pod.cpu, pod.memory = between(first, last, cpu), between(first, last, memory)
	return pod
}

// within checks that the spans of so many pods contain exactly some means, in cores or bytes.
func within(t *testing.T, spans []replicas.Span, ready, unready int32, means ...float64) {
	t.Helper()
	var found []replicas.Span
	for _, span := range spans {
		if span.Ready == ready && span.Unready == unready {
			found = append(found, span)
		}
	}
	require.Len(t, found, len(means), "%+v", spans)
	for _, mean := range means {
		contained := 0
		for _, span := range found {
			if span.Least <= mean && mean <= span.Greatest {
				contained++
				assert.Less(t, span.Greatest/span.Least, 1.07)
			}
		}
		assert.Equal(t, 1, contained, "%g in %+v", mean, found)
	}
}

func TestSpansAreMeansOfReadyPods(t *testing.T) {
	long := now.Add(-48 * time.Hour)
	source := &fake{pods: []fakePod{
		alive(web("aaaaa", nil), long, now, 0.2, 100<<20),
		alive(web("bbbbb", nil), long, now, 0.4, 300<<20),
		alive(web("ccccc", nil), now.Add(-2*time.Hour), now, 0.9, 500<<20),
	}}
	s := newStore(source)
	require.NoError(t, s.Want(scaled("web")))
	read(t, s, now)
	cpu := s.Spans(pods("web"), recommender.CPU)
	within(t, cpu, 2, 0, 300)
	within(t, cpu, 3, 0, 500)
	within(t, cpu, 2, 1, 300) // the first rates are over less than their window
	assert.Len(t, cpu, 3)
	assert.Equal(t, int32(2), cpu[0].Ready, "oldest first")
	memory := s.Spans(pods("web"), recommender.Memory)
	within(t, memory, 2, 0, 200<<20)
	within(t, memory, 3, 0, 300<<20)
	assert.Equal(t, cpu, s.Spans(key("web"), recommender.CPU), "the only container")
	assert.Nil(t, s.Spans(pods("api"), recommender.CPU))
	for _, r := range recommender.Resources {
		c := s.Covered(pods("web"), r)
		assert.Equal(t, 24*time.Hour, c.Window)
		assert.Equal(t, c.Of, c.Known)
		assert.LessOrEqual(t, c.Since, now.Add(-24*time.Hour))
		assert.Less(t, now.Sub(c.Until), 10*time.Minute)
		require.NoError(t, c.Why)
	}
}

func TestNoFleetNoQuery(t *testing.T) {
	source := &fake{pods: []fakePod{web("aaaaa", always(0.2))}}
	s := newStore(source)
	require.NoError(t, s.Want(deployment("web")))
	read(t, s, now)
	for _, query := range source.take() {
		assert.Equal(t, step, query.Step)
	}
	assert.Nil(t, s.Spans(pods("web"), recommender.CPU))
	assert.Equal(t, history.Coverage{}, s.Covered(pods("web"), recommender.CPU))
}

func TestFleetsCostOneQueryPerStep(t *testing.T) {
	source := &fake{pods: []fakePod{web("aaaaa", always(0.2)), {namespace: "shop", pod: "api-7d4f8c9b6-aaaaa", container: "app", cpu: always(0.1), memory: always(1 << 20)}}}
	s := newStore(source)
	require.NoError(t, s.Want(scaled("web", "api")))
	read(t, s, now)
	source.take()
	for at := now.Add(time.Minute); !at.After(now.Add(time.Hour)); at = at.Add(time.Minute) {
		fill(t, s, at)
	}
	fine := 0
	for _, query := range source.take() {
		if query.Step == time.Minute {
			fine++
			assert.Equal(t, []string{"api-", "web-"}, query.PodPrefixes)
			assert.Equal(t, int64(7), query.Steps(), "five, and one on each side")
		}
	}
	assert.Equal(t, 12, fine)
}

// TestTheHistoryOfAScaledFleetTellsWhatAnHPAWouldHaveDone reads a day of a fleet that an HPA scales between two loads.
func TestTheHistoryOfAScaledFleetTellsWhatAnHPAWouldHaveDone(t *testing.T) {
	long := now.Add(-48 * time.Hour)
	source := &fake{}
	for i := range 3 {
		source.pods = append(source.pods, alive(web(fmt.Sprint("aaaa", i), nil), long, now, 0.30, 1<<20))
	}
	s := newStore(source)
	require.NoError(t, s.Want(scaled("web")))
	read(t, s, now)
	hpa := replicas.Scaler{Min: 2, Max: 10, Target: 60, Up: replicas.DefaultTolerance, Down: replicas.DefaultTolerance}
	kept := hpa.Keep(s.Spans(pods("web"), recommender.CPU), 500)
	assert.Less(t, kept.Least, 500.0)
	assert.Greater(t, kept.Greatest, 500.0)
	assert.InDelta(t, 500/1.1, kept.Least, 0.06*500, "300m of 60 % is within the tolerance of 10 %")
}

func TestStartingPodsAreUnready(t *testing.T) {
	long, started := now.Add(-48*time.Hour), now.Add(-time.Hour)
	late := alive(web("bbbbb", nil), started, now, 2, 1<<20)
	late.started = started
	steady := alive(web("aaaaa", nil), long, now, 0.2, 1<<20)
	s := newStore(&fake{pods: []fakePod{steady, late}})
	require.NoError(t, s.Want(scaled("web")))
	read(t, s, now)
	cpu := s.Spans(pods("web"), recommender.CPU)
	within(t, cpu, 1, 0, 200)
	within(t, cpu, 1, 1, 200)
	within(t, cpu, 2, 0, 1100)
	within(t, s.Spans(pods("web"), recommender.Memory), 2, 0, 1<<20)
}

func TestStepsWithoutAllPodsAreUnknown(t *testing.T) {
	long, gap := now.Add(-48*time.Hour), now.Add(-3*time.Hour)
	outside := func(value float64) func(time.Time) (float64, bool) {
		return func(at time.Time) (float64, bool) { return value, at.Before(gap) || at.After(gap.Add(time.Hour)) }
	}
	for name, change := range map[string]func(*fakePod){
		"a pod restarts":              func(p *fakePod) { p.cpu = outside(0.5) },
		"a huge sample":               func(p *fakePod) { p.cpu, p.implausible = outside(0.5), between(gap, gap.Add(time.Hour), 1e6) },
		"it runs, and is not scraped": func(p *fakePod) { p.cpu, p.started = between(gap.Add(time.Hour+time.Minute), now, 0.5), long },
	} {
		t.Run(name, func(t *testing.T) {
			odd := alive(web("bbbbb", nil), long, now, 0.4, 1<<20)
			change(&odd)
			s := newStore(&fake{pods: []fakePod{alive(web("aaaaa", nil), long, now, 0.2, 1<<20), odd}})
			require.NoError(t, s.Want(scaled("web")))
			read(t, s, now)
			cpu, c := s.Spans(pods("web"), recommender.CPU), s.Covered(pods("web"), recommender.CPU)
			for _, span := range cpu {
				assert.Equal(t, int32(2), span.Ready+span.Unready, "no span of the other pod alone: %+v", cpu)
			}
			assert.False(t, c.Known == c.Of && !c.Since.After(gap), "%+v", c)
			whole := s.Covered(pods("web"), recommender.Memory)
			assert.Equal(t, whole.Of, whole.Known, "memory is known")
		})
	}
}

func TestAPodThatEndsDoesNotCountWithTheRestOfItsRate(t *testing.T) {
	long, ends := now.Add(-48*time.Hour), now.Add(-time.Hour)
	ended := alive(web("bbbbb", nil), long, ends, 0.6, 1<<20)
	ended.cpu = func(at time.Time) (float64, bool) {
		if at.After(ends) {
			return 0.1, !at.After(ends.Add(2 * time.Minute))
		}
		return 0.6, true
	}
	s := newStore(&fake{pods: []fakePod{alive(web("aaaaa", nil), long, now, 0.2, 1<<20), ended}})
	require.NoError(t, s.Want(scaled("web")))
	read(t, s, now)
	cpu := s.Spans(pods("web"), recommender.CPU)
	within(t, cpu, 2, 0, 400)
	within(t, cpu, 1, 0, 200)
}

func TestDuplicateSeriesCountOnce(t *testing.T) {
	long := now.Add(-48 * time.Hour)
	s := newStore(&fake{pods: []fakePod{alive(web("aaaaa", nil), long, now, 0.2, 1<<20), alive(web("aaaaa", nil), long, now, 0.3, 1<<20)}})
	require.NoError(t, s.Want(scaled("web")))
	read(t, s, now)
	cpu := s.Spans(pods("web"), recommender.CPU)
	within(t, cpu, 1, 0, 300)
	assert.Len(t, cpu, 1)
}

func TestAContainerIsAdded(t *testing.T) {
	long := now.Add(-48 * time.Hour)
	source := &fake{pods: []fakePod{alive(web("aaaaa", nil), long, now.Add(time.Hour), 0.2, 1<<20)}}
	s := newStore(source)
	require.NoError(t, s.Want(scaled("web")))
	read(t, s, now)
	added := alive(web("aaaaa", nil), now, now.Add(2*time.Hour), 0.1, 1<<20)
	added.container = "proxy"
	source.set(func(f *fake) {
		f.pods[0] = alive(web("aaaaa", nil), long, now.Add(2*time.Hour), 0.2, 1<<20)
		f.pods = append(f.pods, added)
	})
	interest := scaled("web")
	interest.Workloads[0].Containers = []string{"app", "proxy"}
	require.NoError(t, s.Want(interest))
	read(t, s, now.Add(30*time.Minute))
	within(t, s.Spans(pods("web"), recommender.CPU), 1, 0, 200, 300)
	within(t, s.Spans(key("web"), recommender.CPU), 1, 0, 200)
	proxy := key("web")
	proxy.Container = "proxy"
	within(t, s.Spans(proxy, recommender.CPU), 1, 0, 100)
	for _, k := range []history.Key{pods("web"), proxy} {
		c := s.Covered(k, recommender.CPU)
		assert.False(t, c.Since.Before(now.Add(-time.Hour)), "%s: the pods have had this container since %s", k.Container, now)
	}
}

func TestAnOutageIsVisible(t *testing.T) {
	long, from := now.Add(-48*time.Hour), now.Add(-6*time.Hour)
	pod := alive(web("aaaaa", nil), long, now, 0.2, 1<<20)
	pod.cpu = func(at time.Time) (float64, bool) { return 0.2, at.Before(from) || at.After(from.Add(4*time.Hour)) }
	pod.memory = nil
	s := newStore(&fake{pods: []fakePod{pod}})
	require.NoError(t, s.Want(scaled("web")))
	read(t, s, now)
	c := s.Covered(pods("web"), recommender.CPU)
	assert.InDelta(t, 2*60, c.Known, 20)
	assert.WithinDuration(t, now.Add(-2*time.Hour), c.Since, 20*time.Minute, "since the end of the outage")
	assert.Zero(t, s.Covered(pods("web"), recommender.Memory).Known)
}

func TestPartialAnswersAreNotUsed(t *testing.T) {
	source := &fake{pods: []fakePod{web("aaaaa", always(0.2))}}
	source.report.Lack("shop", "a kubelet does not answer")
	s := newStore(source)
	require.NoError(t, s.Want(scaled("web")))
	at := now
	for range 8 * 60 {
		at = at.Add(time.Minute)
		fill(t, s, at)
	}
	assert.Empty(t, s.Spans(pods("web"), recommender.CPU))
	source.set(func(f *fake) { f.report = usage.Report{} })
	for range 60 {
		at = at.Add(time.Minute)
		fill(t, s, at)
	}
	assert.Len(t, s.Spans(pods("web"), recommender.CPU), 1)
}

func TestATooLargeFleetRestsAndSaysWhy(t *testing.T) {
	source := &fake{pods: []fakePod{web("aaaaa", always(0.2))}}
	source.fail = func(q usage.Query) error {
		if q.Step < step {
			return fmt.Errorf("%w: 1", usage.ErrTooMuch)
		}
		return nil
	}
	s := newStore(source)
	require.NoError(t, s.Want(scaled("web")))
	read(t, s, now)
	require.ErrorIs(t, s.Covered(pods("web"), recommender.CPU).Why, usage.ErrTooMuch)
	state, _ := s.State(settings())
	require.NoError(t, state.Err, "histories are read")
	source.take()
	for at := now; at.Before(now.Add(time.Hour)); at = at.Add(time.Minute) {
		fill(t, s, at)
	}
	fine := 0
	for _, query := range source.take() {
		if query.Step < step {
			fine++
		}
	}
	assert.LessOrEqual(t, fine, 6)
	source.set(func(f *fake) { f.fail = nil })
	for at := now.Add(time.Hour); at.Before(now.Add(3 * time.Hour)); at = at.Add(time.Minute) {
		fill(t, s, at)
	}
	c := s.Covered(pods("web"), recommender.CPU)
	require.NoError(t, c.Why)
	assert.Equal(t, c.Of, c.Known)
	assert.GreaterOrEqual(t, c.Until.Sub(c.Since), 24*time.Hour)
}

func TestAFailureOfTheFleetsDoesNotStopHistories(t *testing.T) {
	source := &fake{pods: []fakePod{web("aaaaa", always(0.2))}}
	source.fail = func(q usage.Query) error {
		if q.Step < step {
			return errDown
		}
		return nil
	}
	s := newStore(source)
	require.NoError(t, s.Want(scaled("web")))
	read(t, s, now)
	profile(t, s, now)
	require.ErrorIs(t, s.Covered(pods("web"), recommender.CPU).Why, errDown)
}

func TestFleetsUnderAClockThatWasAhead(t *testing.T) {
	source := &fake{pods: []fakePod{alive(web("aaaaa", nil), now.Add(-72*time.Hour), now.Add(time.Hour), 0.2, 1<<20)}}
	s := newStore(source)
	require.NoError(t, s.Want(scaled("web")))
	read(t, s, now)
	before := s.Covered(pods("web"), recommender.CPU)
	fill(t, s, now.Add(3*time.Hour))
	fill(t, s, now.Add(3*time.Hour+time.Minute))
	read(t, s, now.Add(30*time.Minute))
	c := s.Covered(pods("web"), recommender.CPU)
	assert.LessOrEqual(t, c.Since.Sub(before.Since), 4*time.Hour)
	assert.LessOrEqual(t, c.Known, c.Of)
	assert.GreaterOrEqual(t, 10*c.Known, 9*c.Of)
	for _, span := range s.Spans(pods("web"), recommender.CPU) {
		assert.LessOrEqual(t, span.GreatestAt, now.Add(30*time.Minute).Unix())
	}
}

func TestRenamedWorkloadsAndOtherSourcesBeginAnew(t *testing.T) {
	source := &fake{pods: []fakePod{web("aaaaa", always(0.2))}}
	s := newStore(source)
	require.NoError(t, s.Want(scaled("web")))
	read(t, s, now)
	require.NotEmpty(t, s.Spans(pods("web"), recommender.CPU))
	held := s.Held()
	require.NoError(t, s.Want(scaled("shop")))
	read(t, s, now)
	assert.Empty(t, s.Spans(pods("web"), recommender.CPU))
	assert.Empty(t, s.Spans(pods("shop"), recommender.CPU))
	assert.Less(t, s.Held(), held)
	other := scaled("web")
	other.Source.RateWindow = 10 * time.Minute
	require.NoError(t, s.Want(other))
	assert.Empty(t, s.Spans(pods("web"), recommender.CPU), "the pool is gone")
	read(t, s, now)
	k := pods("web")
	k.Source = other.Source.Digest()
	assert.Len(t, s.Spans(k, recommender.CPU), 1)
	s.Forget("shop", "policy")
	assert.Zero(t, s.Held())
}

func TestStepsOfAnEarlierNamespaceDoNotCount(t *testing.T) {
	source := &fake{pods: []fakePod{web("aaaaa", always(0.2))}}
	s := newStore(source)
	interest := scaled("web")
	interest.Since = now.Add(-5 * time.Hour)
	require.NoError(t, s.Want(interest))
	read(t, s, now)
	c := s.Covered(pods("web"), recommender.CPU)
	assert.False(t, c.Since.Add(time.Hour).Before(interest.Since))
	assert.LessOrEqual(t, c.Known, 5*60)
}

func TestAFleetOfAnIdentityIsNotCounted(t *testing.T) {
	s := newStore(&fake{pods: []fakePod{web("aaaaa", always(0.2))}})
	interest := scaled("group/x")
	interest.Members = map[workload.KindName][]workload.KindName{{Kind: v1alpha1.KindDeployment, Name: "group/x"}: {{Kind: v1alpha1.KindDeployment, Name: "web"}}}
	require.NoError(t, s.Want(interest))
	read(t, s, now)
	assert.Empty(t, s.Spans(pods("web"), recommender.CPU), "its pods belong to several HPAs")
}

func TestSpansLeaveWithTheWindow(t *testing.T) {
	high := now.Add(-20 * time.Hour)
	pod := web("aaaaa", func(at time.Time) (float64, bool) {
		if at.After(high) && !at.After(high.Add(time.Hour)) {
			return 0.9, true
		}
		return 0.2, true
	})
	s := newStore(&fake{pods: []fakePod{pod}})
	require.NoError(t, s.Want(scaled("web")))
	read(t, s, now)
	within(t, s.Spans(pods("web"), recommender.CPU), 1, 0, 200, 900)
	read(t, s, now.Add(7*time.Hour))
	within(t, s.Spans(pods("web"), recommender.CPU), 1, 0, 200)
	assert.False(t, math.IsNaN(s.Spans(pods("web"), recommender.CPU)[0].Least))
}

// TestANewLeaderContinuesWithTheSpans although its source forgets: it knows what the one before knew.
func TestANewLeaderContinuesWithTheSpans(t *testing.T) {
	swing := func(at time.Time) (float64, bool) { return 0.1 + float64(at.Unix()/60%100)/100, true }
	source := &fake{pods: []fakePod{web("aaaaa", swing), web("bbbbb", always(0.2))}}
	forgets := func() *history.Store {
		return history.New(history.Options{
			Dial:    func(usage.SourceSettings) (usage.Source, error) { return source, nil },
			Forgets: func(usage.SourceSettings) bool { return true },
		})
	}
	old := forgets()
	require.NoError(t, old.Want(scaled("web")))
	assert.Equal(t, []byte("stored"), old.Checkpoint(pods("web"), 12<<10, []byte("stored")), "nothing has been read yet")
	read(t, old, now)
	stored := old.Checkpoint(pods("web"), 12<<10, nil)
	t.Logf("%d bytes", len(stored))
	require.NotEmpty(t, stored)
	assert.LessOrEqual(t, len(stored), 4096)
	assert.Equal(t, stored, old.Checkpoint(pods("web"), 12<<10, stored))
	assert.LessOrEqual(t, len(old.Checkpoint(pods("web"), 500, stored)), 500)

	source.set(func(f *fake) { f.pods = nil })
	s := forgets()
	require.NoError(t, s.Restore(pods("web"), stored, now), "no policy wants it")
	require.NoError(t, s.Want(scaled("web")))
	require.NoError(t, s.Restore(pods("web"), stored, now))
	fill(t, s, now)
	assert.Equal(t, stored, s.Checkpoint(pods("web"), 12<<10, nil), "nothing is new")
	read(t, s, now.Add(30*time.Minute))
	assert.Equal(t, old.Spans(pods("web"), recommender.CPU), s.Spans(pods("web"), recommender.CPU))
	assert.Equal(t, old.Spans(key("web"), recommender.Memory), s.Spans(key("web"), recommender.Memory))
	before, c := old.Covered(pods("web"), recommender.CPU), s.Covered(pods("web"), recommender.CPU)
	assert.InDelta(t, before.Known, c.Known, 90)
	assert.LessOrEqual(t, c.Known, c.Of)
	require.NoError(t, s.Restore(pods("web"), []byte("garbage"), now), "once")

	odd := forgets()
	require.NoError(t, odd.Want(scaled("web")))
	require.ErrorContains(t, odd.Restore(pods("web"), []byte("garbage"), now), "cannot be used")
	require.NoError(t, odd.Restore(pods("web"), []byte("garbage"), now), "it was said once")
	for name, at := range map[string]time.Time{"it is from the future": now.Add(-3 * time.Hour), "before the history window": now.Add(48 * time.Hour)} {
		s := forgets()
		require.NoError(t, s.Want(scaled("web")))
		require.ErrorContains(t, s.Restore(pods("web"), stored, at), name)
		assert.Empty(t, s.Spans(pods("web"), recommender.CPU))
	}
}

// TestACheckpointIsRestoredDuringARead of pods with another container: nothing is lost.
func TestACheckpointIsRestoredDuringARead(t *testing.T) {
	source := &fake{pods: []fakePod{web("aaaaa", always(0.2))}}
	options := history.Options{
		Dial:    func(usage.SourceSettings) (usage.Source, error) { return source, nil },
		Forgets: func(usage.SourceSettings) bool { return true },
	}
	old := history.New(options)
	require.NoError(t, old.Want(scaled("web")))
	read(t, old, now)
	stored := old.Checkpoint(pods("web"), 12<<10, nil)
	s := history.New(options)
	interest := scaled("web")
	interest.Workloads[0].Containers = []string{"app", "main"}
	require.NoError(t, s.Want(interest))
	source.set(func(f *fake) {
		f.pods[0].container, f.pods[0].cpu = "main", always(0.7)
		other := f.pods[0]
		other.container, other.cpu = "app", always(0.2)
		f.pods = append(f.pods, other)
		f.fail = func(q usage.Query) error {
			if q.Step < step {
				return s.Restore(pods("web"), stored, now)
			}
			return nil
		}
	})
	fill(t, s, now)
	within(t, s.Spans(pods("web"), recommender.CPU), 1, 0, 200, 900)
	within(t, s.Spans(key("web"), recommender.CPU), 1, 0, 200)
	other := key("web")
	other.Container = "main"
	within(t, s.Spans(other, recommender.CPU), 1, 0, 700)
}

func TestASourceThatKeepsThePastNeedsNoCheckpointOfSpans(t *testing.T) {
	s := newStore(&fake{pods: []fakePod{web("aaaaa", always(0.2))}})
	require.NoError(t, s.Want(scaled("web")))
	read(t, s, now)
	assert.Nil(t, s.Checkpoint(pods("web"), 12<<10, []byte("stored")))
	require.NoError(t, s.Restore(pods("web"), []byte("garbage"), now))
}

func TestImplausibleSpansOfACheckpoint(t *testing.T) {
	source := &fake{pods: []fakePod{web("aaaaa", always(200))}}
	options := history.Options{
		Dial:    func(usage.SourceSettings) (usage.Source, error) { return source, nil },
		Forgets: func(usage.SourceSettings) bool { return true },
	}
	s := history.New(options)
	require.NoError(t, s.Want(scaled("web")))
	read(t, s, now)
	stored := s.Checkpoint(pods("web"), 12<<10, nil)
	options.Most = func() usage.Most { return usage.MostOn(64, 1<<40) }
	s = history.New(options)
	require.NoError(t, s.Want(scaled("web")))
	require.ErrorContains(t, s.Restore(pods("web"), stored, now), "more than any node has")
}

func TestNothingIsAllocatedAtRest(t *testing.T) {
	source := &fake{pods: []fakePod{web("aaaaa", always(0.2))}}
	s := newStore(source)
	require.NoError(t, s.Want(deployment("web")))
	read(t, s, now)
	alone := s.Held()
	without := testing.AllocsPerRun(10, func() { s.Refresh(t.Context(), now) })
	require.NoError(t, s.Want(scaled("web")))
	read(t, s, now)
	assert.InDelta(t, without, testing.AllocsPerRun(10, func() { s.Refresh(t.Context(), now) }), 0)
	assert.LessOrEqual(t, s.Held()-alone, int64(1024), "of constant usage")
	require.NoError(t, s.Want(deployment("web")))
	assert.Equal(t, alone, s.Held())
}

func BenchmarkFleets(b *testing.B) {
	for _, count := range []int{0, 1000} {
		b.Run(fmt.Sprint(count), func(b *testing.B) {
			source, interest := &fake{}, history.Interest{Policy: "p", Namespace: "shop", Source: weekSettings()}
			for i := range 1000 {
				name := fmt.Sprint("app", i)
				for j := range 5 {
					source.pods = append(source.pods, fakePod{namespace: "shop", pod: fmt.Sprint(name, "-7d4f8c9b6-aaaa", j), container: "app", cpu: always(0.1 * float64(j+1)), memory: always(1 << 20)})
				}
				interest.Workloads = append(interest.Workloads, history.Workload{Kind: v1alpha1.KindDeployment, Name: name, Containers: []string{"app"}})
				if i < count {
					interest.Workloads[i].Fleet = &history.Fleet{}
				}
			}
			s := newStore(source)
			require.NoError(b, s.Want(interest))
			at := now
			for s.Refresh(b.Context(), at) {
			}
			source.take()
			b.ReportAllocs()
			steps := 0
			for b.Loop() {
				at = at.Add(step)
				steps++
				for s.Refresh(b.Context(), at) {
				}
			}
			b.ReportMetric(float64(len(source.take()))/float64(steps), "queries/op")
			b.ReportMetric(float64(s.Held())/1000, "held-B/workload")
		})
	}
}

// TestACheckpointOfOtherContainers: the containers changed while no operator ran. The sums before that are of other pods.
func TestACheckpointOfOtherContainers(t *testing.T) {
	long := now.Add(-48 * time.Hour)
	source := &fake{pods: []fakePod{alive(web("aaaaa", nil), long, now, 0.2, 1<<20)}}
	old := forgetful(source)
	of := scaled("web")
	of.Workloads[0].Containers = []string{"app"}
	require.NoError(t, old.Want(of))
	read(t, old, now)
	stored := old.Checkpoint(pods("web"), 12<<10, nil)
	require.NotNil(t, stored)
	for _, c := range []struct {
		containers []string
		known      bool
	}{{[]string{"app"}, true}, {[]string{"app", "side"}, false}, {[]string{"side"}, false}} {
		s := forgetful(&fake{})
		of.Workloads[0].Containers = c.containers
		require.NoError(t, s.Want(of))
		require.NoError(t, s.Restore(pods("web"), stored, now))
		read(t, s, now)
		covered := s.Covered(pods("web"), recommender.CPU)
		assert.Equal(t, c.known, !covered.Since.IsZero() && covered.Until.Sub(covered.Since) > time.Hour, "%v: %+v", c.containers, covered)
	}
}

// TestPodsWithoutAContainerAreNotCounted: a container that is not sized was added. What pods used before it is not what
// pods use now.
func TestPodsWithoutAContainerAreNotCounted(t *testing.T) {
	long, rollout := now.Add(-48*time.Hour), now.Add(-2*time.Hour)
	proxy := alive(web("bbbbb", nil), rollout.Add(time.Minute), now, 0.5, 1<<20)
	proxy.container = "proxy"
	source := &fake{pods: []fakePod{
		alive(web("aaaaa", nil), long, rollout, 0.2, 1<<20),
		alive(web("bbbbb", nil), rollout.Add(time.Minute), now, 0.2, 1<<20), proxy,
	}}
	s := newStore(source)
	of := scaled("web")
	of.Workloads[0].Containers, of.Workloads[0].Fleet.Counted = []string{"app"}, []string{"app", "proxy"}
	require.NoError(t, s.Want(of))
	read(t, s, now)
	within(t, s.Spans(pods("web"), recommender.CPU), 1, 0, 700)
	covered := s.Covered(pods("web"), recommender.CPU)
	assert.False(t, covered.Since.Before(rollout.Add(-time.Hour)), "%+v", covered)
}
