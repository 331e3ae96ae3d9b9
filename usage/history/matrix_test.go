package history_test

import (
	"context"
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"attune.io/attune/recommender"
	"attune.io/attune/usage"
	"attune.io/attune/usage/history"
)

// living is a store that is refreshed every minute, with a source of some workloads.
type living struct {
	*history.Store
	t      *testing.T
	source *fake
	names  []string
	at     time.Time
}

func live(t *testing.T, begin time.Time, workloads int) *living {
	l := &living{t: t, source: &fake{}, at: begin}
	l.Store = newStore(l.source)
	for i := range workloads {
		l.add(fmt.Sprint("app", i))
	}
	return l
}

// add a workload that has always been running.
func (l *living) add(name string) {
	l.names = append(l.names, name)
	l.source.set(func(f *fake) {
		f.pods = append(f.pods, fakePod{namespace: "shop", pod: name + "-7d4f8c9b6-aaaaa", container: "app", cpu: always(0.2), memory: always(1 << 20)})
	})
	require.NoError(l.t, l.Want(deployment(l.names...)))
}

// run until a time, like the operator: once a minute, and a few more times while more of the past is left.
func (l *living) run(until time.Time, each func()) {
	for ; l.at.Before(until); l.at = l.at.Add(time.Minute) {
		if each != nil {
			each()
		}
		for range 20 {
			if !l.Refresh(context.Background(), l.at) {
				break
			}
		}
	}
}

// old returns the workloads whose newest step is older than a time.
func (l *living) old(than time.Time) (names []string) {
	for _, name := range l.names {
		steps := l.Steps(key(name))
		if len(steps) == 0 || steps[len(steps)-1].At.Before(than) {
			names = append(names, name)
		}
	}
	return names
}

// gaps returns the workloads with a missing step between two times.
func (l *living) gaps(from, to time.Time) (names []string) {
	for _, name := range l.names {
		steps := l.Steps(key(name))
		for at := from.Truncate(step).Add(step); !at.After(to); at = at.Add(step) {
			if !slices.ContainsFunc(steps, func(s recommender.StepUsage) bool {
				return s.At.Equal(at) && !math.IsNaN(s.CPUCores) && !math.IsNaN(s.MemoryBytes)
			}) {
				names = append(names, name)
				break
			}
		}
	}
	return names
}

// TestOutagesOfAServer: for any kind and length of an outage, and any place in the step, every workload has fresh data
// within two steps after it, and all missed data within an hour.
func TestOutagesOfAServer(t *testing.T) {
	type trouble struct{ begin, end func(*fake) }
	var pods []fakePod
	kinds := map[string]trouble{
		"down":     {func(f *fake) { f.fail = func(usage.Query) error { return errDown } }, func(f *fake) { f.fail = nil }},
		"too much": {func(f *fake) { f.fail = atMost(0) }, func(f *fake) { f.fail = atMost(30) }},
		"half of the pods": {
			func(f *fake) { f.report.Partial, pods, f.pods = true, f.pods, f.pods[:len(f.pods)/2] },
			func(f *fake) { f.report.Partial, f.pods = false, pods },
		},
		"nothing": {
			func(f *fake) { f.report.Partial, pods, f.pods = true, f.pods, nil },
			func(f *fake) { f.report.Partial, f.pods = false, pods },
		},
	}
	for kind, trouble := range kinds {
		for length := 10 * time.Minute; length <= 120*time.Minute; length += 10 * time.Minute {
			for phase := time.Duration(0); phase < step; phase += time.Minute {
				t.Run(fmt.Sprintf("%s for %s at %s", kind, length, phase), func(t *testing.T) {
					begin := now.Add(phase)
					l := live(t, begin, 6)
					l.run(begin.Add(20*time.Minute), nil)
					require.Empty(t, l.old(begin))
					l.source.set(trouble.begin)
					well := l.at.Add(length)
					l.run(well, nil)
					l.source.set(trouble.end)
					l.run(well.Add(2*step+time.Minute), nil)
					assert.Empty(t, l.old(well), "two steps after it")
					l.run(well.Add(time.Hour), nil)
					assert.Empty(t, l.gaps(begin.Add(-10*time.Hour), well), "an hour after it")
				})
			}
		}
	}
}

// TestUsageIsFreshSoonAfterAnOutage: three minutes after an outage of any kind and length, and from then on, no data is out of
// date. The source has memory one minute after the outage, and CPU after two, because a rate needs two samples.
func TestUsageIsFreshSoonAfterAnOutage(t *testing.T) {
	for _, c := range []struct {
		kind  string
		fails bool
		// from is the first workload without samples.
		from int
	}{{"down", true, 0}, {"no sample", false, 0}, {"half of the pods", false, 3}} {
		for length := 10 * time.Minute; length <= 2*time.Hour; length += 4 * time.Minute {
			for phase := time.Duration(0); phase < step; phase += time.Minute {
				t.Run(fmt.Sprintf("%s for %s at %s", c.kind, length, phase), func(t *testing.T) {
					l := live(t, now.Add(phase), 6)
					var broken, well time.Time
					since := func(value float64, after time.Duration) func(time.Time) (float64, bool) {
						return func(at time.Time) (float64, bool) {
							return value, broken.IsZero() || !at.After(broken) || !well.IsZero() && !at.Before(well.Add(after))
						}
					}
					for i := c.from; i < 6; i++ {
						l.source.pods[i].cpu, l.source.pods[i].memory = since(0.2, 2*time.Minute), since(1<<20, time.Minute)
					}
					old := func() (names []string) {
						for _, name := range l.names {
							p, _ := l.Profile(key(name), l.at)
							for _, of := range p.Of {
								if l.at.Sub(of.Last) > 2*step+10*time.Minute {
									names = append(names, name)
								}
							}
						}
						return names
					}
					minutes := func(n int) {
						for range n {
							for _, name := range old() { // as a policy does
								l.Await(key(name), true)
							}
							for l.Refresh(context.Background(), l.at) {
							}
							if !well.IsZero() && l.at.Sub(well) >= 3*time.Minute {
								require.Empty(t, old(), "%s after it", l.at.Sub(well))
							}
							l.at = l.at.Add(time.Minute)
						}
					}
					minutes(20)
					require.Empty(t, old())
					broken = l.at
					if c.fails {
						l.source.set(func(f *fake) { f.fail = func(usage.Query) error { return errDown } })
					}
					minutes(int(length / time.Minute))
					well = l.at
					l.source.set(func(f *fake) { f.fail = nil })
					l.source.take()
					minutes(20)
					assert.Less(t, len(l.source.take()), 20, "the running step is read for some minutes")
				})
			}
		}
	}
}

// An awaited workload whose pods have no samples costs one small query each minute, and its data stays out of date.
func TestAwaitedUsageThatDoesNotCome(t *testing.T) {
	l := live(t, now, 3)
	gone := l.at.Add(20 * time.Minute)
	l.source.pods[0].cpu, l.source.pods[0].memory = between(now.Add(-12*time.Hour), gone, 0.2), between(now.Add(-12*time.Hour), gone, 1<<20)
	l.run(gone.Add(30*time.Minute), nil)
	before := l.News(key("app0"))
	l.Await(key("app0"), true)
	l.source.take()
	l.run(l.at.Add(10*time.Minute), nil)
	var small int
	for _, query := range l.source.take() {
		if query.Running {
			assert.Equal(t, []string{"app0-"}, query.PodPrefixes)
			assert.Equal(t, query.End, query.Counted, "its dropped samples count when the step has ended")
			small++
		}
	}
	assert.Equal(t, 10, small)
	assert.Equal(t, before, l.News(key("app0")))
	l.Await(key("app0"), false)
	l.run(l.at.Add(10*time.Minute), nil)
	for _, query := range l.source.take() {
		assert.False(t, query.Running)
	}
}

// Where nothing runs any more, or CPU is not measured any more, the running step is read for an hour, not for ever.
func TestNothingIsAwaitedForEver(t *testing.T) {
	for name, memory := range map[string]bool{"nothing runs": false, "no CPU": true} {
		t.Run(name, func(t *testing.T) {
			l := live(t, now, 3)
			gone := l.at.Add(20 * time.Minute)
			for i := range l.source.pods {
				l.source.pods[i].cpu = between(now.Add(-12*time.Hour), gone, 0.2)
				if !memory {
					l.source.pods[i].memory = between(now.Add(-12*time.Hour), gone, 1<<20)
				}
			}
			running := func(until time.Time) (count int) {
				l.source.take()
				l.run(until, nil)
				for _, query := range l.source.take() {
					if query.Running {
						count++
					}
				}
				return count
			}
			assert.Positive(t, running(gone.Add(13*step)))
			assert.Zero(t, running(l.at.Add(8*time.Hour)))
			l.Await(key("app0"), true)
			assert.Positive(t, running(l.at.Add(10*time.Minute)))
		})
	}
}

// CPU of 0 of all containers is not measured, in the running step either: it stays out of date. A query about one
// workload cannot compare enough containers, so CPU of 0 is no news there.
func TestAwaitedCPUThatIsNotMeasured(t *testing.T) {
	l := live(t, now, 10)
	broken := l.at.Add(20 * time.Minute)
	for i := range l.source.pods {
		l.source.pods[i].cpu = func(at time.Time) (float64, bool) {
			if at.After(broken) {
				return 0, true
			}
			return 0.2, true
		}
	}
	l.run(broken.Add(30*time.Minute), func() { l.Await(key("app0"), true) })
	p, _ := l.Profile(key("app0"), l.at)
	assert.Equal(t, broken, p.Of[recommender.CPU].Last)
	assert.Less(t, l.at.Sub(p.Of[recommender.Memory].Last), step+time.Minute)
}

// TestDaysOfPartialAnswers: a source that lacks one node for three days gets few additional queries. Its partial data
// is always fresh. After recovery, missed data of the last day is read.
func TestDaysOfPartialAnswers(t *testing.T) {
	l := live(t, now, 6)
	l.run(now.Add(20*time.Minute), nil)
	all := slices.Clone(l.source.pods)
	l.source.set(func(f *fake) { f.report.Partial, f.pods = true, f.pods[:5] })
	l.source.take()
	well := l.at.Add(72 * time.Hour)
	l.run(well, func() {
		for _, name := range l.old(l.at.Add(-3 * step)) {
			require.Equal(t, "app5", name, "at %s", l.at)
		}
	})
	asked := int64(0)
	for _, query := range l.source.take() {
		asked += query.Steps()
	}
	assert.Less(t, asked, int64(72*12*3*2), "steps that were asked for, of 864 new ones")
	t.Logf("72 h of partial answers: %d steps were asked for", asked)
	l.source.set(func(f *fake) { f.report.Partial, f.pods = false, all })
	l.run(well.Add(2*step+time.Minute), nil)
	assert.Empty(t, l.old(well))
	l.run(well.Add(time.Hour), nil)
	assert.Empty(t, l.gaps(well.Add(-20*time.Hour), well))
}

// TestOutagesThatFollowEachOther: after each of many outages, missed data is read within an hour.
func TestOutagesThatFollowEachOther(t *testing.T) {
	l := live(t, now, 3)
	l.run(now.Add(20*time.Minute), nil)
	all := l.source.pods
	for i := range 12 {
		l.source.set(func(f *fake) { f.report.Partial, f.pods = true, nil })
		well := l.at.Add(15 * time.Minute)
		l.run(well, nil)
		l.source.set(func(f *fake) { f.report.Partial, f.pods = false, all })
		l.run(well.Add(70*time.Minute), nil)
		require.Empty(t, l.gaps(well.Add(-5*time.Hour), well), "outage %d", i)
	}
}

// TestWhatIsAlwaysTooMuch: a namespace that is always too large never delays fresh data of the others, and its backoff
// grows.
func TestWhatIsAlwaysTooMuch(t *testing.T) {
	l := live(t, now, 3)
	big := deployment("app0")
	big.Namespace = "big"
	require.NoError(t, l.Want(big))
	l.run(now.Add(20*time.Minute), nil)
	l.source.set(func(f *fake) {
		f.fail = func(q usage.Query) error {
			if slices.Contains(q.Namespaces, "big") {
				return fmt.Errorf("422: %w", usage.ErrTooMuch)
			}
			return nil
		}
	})
	l.source.take()
	told := false
	l.run(now.Add(5*24*time.Hour), func() {
		require.Empty(t, l.old(l.at.Add(-3*step)), "at %s", l.at)
		state, _ := l.State(settings())
		told = told || state.Err != nil
	})
	assert.True(t, told, "it is said")
	asked := int64(0)
	for _, query := range l.source.take() {
		if !slices.Contains(query.Namespaces, "big") {
			asked += query.Steps()
		}
	}
	assert.Less(t, asked, int64(5*288*8), "steps that were asked for, of 1,440 new ones")
	t.Logf("5 days beside what is too much: %d steps were asked for", asked)
}

// TestANewWorkloadEachMinute: workloads that are created and deleted all day do not delay fresh data of the others, and
// each has its own past within two steps.
func TestANewWorkloadEachMinute(t *testing.T) {
	l := live(t, now, 3)
	l.run(now.Add(20*time.Minute), nil)
	minutes := 0
	l.run(now.Add(24*time.Hour), func() {
		l.add(fmt.Sprintf("job%d", minutes))
		minutes++
		if len(l.names) > 30 { // the oldest job is deleted
			l.names = slices.Delete(l.names, 3, 4)
			l.source.set(func(f *fake) { f.pods = slices.Delete(f.pods, 3, 4) })
			require.NoError(t, l.Want(deployment(l.names...)))
		}
		for _, name := range l.names[:3] {
			require.True(t, l.Read(key(name)), "%s is read for ever", name)
		}
		settled := l.names[:max(3, len(l.names)-10)]
		for _, name := range l.old(l.at.Add(-3 * step)) {
			require.NotContains(t, settled, name, "at %s", l.at)
		}
	})
	assert.Equal(t, 24*60-20, minutes)
}

// TestClocksThatJump: after a clock that was hours ahead or behind for some minutes was corrected, every workload has
// fresh data within two steps, and no gap.
func TestClocksThatJump(t *testing.T) {
	for _, jump := range []time.Duration{-12 * time.Hour, -time.Hour, -11 * time.Minute, 11 * time.Minute, time.Hour, 12 * time.Hour} {
		t.Run(jump.String(), func(t *testing.T) {
			l := live(t, now, 6)
			// A source has data up to the true time.
			truth, wrong := now, time.Duration(0)
			so := func(at time.Time) (float64, bool) { return 0.2, !at.After(truth) }
			for i := range l.source.pods {
				l.source.pods[i].cpu, l.source.pods[i].memory = so, so
			}
			tell := func() { truth = l.at.Add(-wrong) }
			l.run(now.Add(20*time.Minute), tell)
			before := l.at
			l.at, wrong = l.at.Add(jump), jump
			l.run(l.at.Add(47*time.Minute), tell)
			l.at, wrong = l.at.Add(-jump), 0
			back := l.at
			l.run(back.Add(2*step+time.Minute), tell)
			assert.Empty(t, l.old(back))
			assert.Empty(t, l.gaps(before.Add(-5*time.Hour), back))
		})
	}
}
