package embedded

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/usage"
	"attune.io/attune/usage/history"
)

// measuring is a source with its own schedule, and a history that reads it every minute.
type measuring struct {
	*fixture
	t        *testing.T
	history  *history.Store
	settings usage.SourceSettings
	at       time.Time
}

const containers = 3

func measuringFrom(t *testing.T, begin time.Time) *measuring {
	t.Helper()
	world := func(at time.Time) []Measured {
		var all []Measured
		for i := range containers {
			m := oneContainer(at)[0]
			m.Pod = fmt.Sprintf("app%d-7d4f8c9b6-aaaaa", i)
			all = append(all, m)
		}
		return all
	}
	m := &measuring{t: t, fixture: newFixture(t, world, begin), at: begin}
	m.namespaces = map[string][]string{m.node.Name: {"shop"}}
	m.settings = usage.SourceSettings{HistoryWindow: 24 * time.Hour, QueryStep: 5 * time.Minute, RateWindow: 5 * time.Minute}
	m.history = history.New(history.Options{Dial: func(usage.SourceSettings) (usage.Source, error) { return m.Source, nil }})
	interest := history.Interest{Policy: "all", Namespace: "shop", Source: m.settings}
	for i := range containers {
		interest.Workloads = append(interest.Workloads, history.Workload{Kind: v1alpha1.KindDeployment, Name: fmt.Sprint("app", i)})
	}
	require.NoError(t, m.history.Want(interest))
	return m
}

// run the schedule until a time, with the operator's work of every minute.
func (m *measuring) run(until time.Time) {
	m.t.Helper()
	const tick = 10 * time.Second
	for ; m.at.Before(until); m.at = m.at.Add(tick) {
		m.clock.SetTime(m.at)
		for _, j := range m.scraper.due(m.at, nil, 32) {
			m.scraper.do(context.Background(), j)
		}
		if m.at.Truncate(time.Minute).Equal(m.at) {
			m.recent.forget(m.at)
			for i := range containers { // as a policy does
				if p, _ := m.history.Profile(m.key(i), m.at); m.at.Sub(p.Last) > 2*m.settings.QueryStep+10*time.Minute {
					m.history.Await(m.key(i), true)
				} else if len(m.old()) == 0 {
					m.history.Await(m.key(i), false)
				}
			}
			for i := 0; m.history.Refresh(context.Background(), m.at); i++ {
				require.Less(m.t, i, 100, "it reads without an end")
			}
		}
	}
}

func (m *measuring) key(i int) history.Key {
	return history.Key{Source: m.settings.Digest(), Namespace: "shop", Kind: v1alpha1.KindDeployment, Workload: fmt.Sprint("app", i), Container: "app"}
}

// stale returns the containers without a step with CPU and memory that ended after a time.
func (m *measuring) stale(since time.Time) (names []string) {
	for i := range containers {
		key := m.key(i)
		fresh := false
		for _, step := range m.history.Steps(key) {
			fresh = fresh || step.At.After(since) && !math.IsNaN(step.CPUCores) && !math.IsNaN(step.MemoryBytes)
		}
		if !fresh {
			names = append(names, key.Workload)
		}
	}
	return names
}

// old returns the containers whose usage is out of date.
func (m *measuring) old() (names []string) {
	for i := range containers {
		p, _ := m.history.Profile(m.key(i), m.at)
		for _, of := range p.Of {
			if m.at.Sub(of.Last) > 2*m.settings.QueryStep+10*time.Minute {
				names = append(names, m.key(i).Workload)
			}
		}
	}
	return names
}

// TestOutagesOfAKubelet: for any length of an outage and any place in the step and in the round, every container's usage is
// up to date within three minutes after it, and has a new step within two steps.
func TestOutagesOfAKubelet(t *testing.T) {
	kinds := map[string]func(http.ResponseWriter, *http.Request){
		"refuses": status(http.StatusInternalServerError),
		"forgets": func(http.ResponseWriter, *http.Request) {}, // an answer without a sample
	}
	for kind, instead := range kinds {
		for length := 10 * time.Minute; length <= 120*time.Minute; length += 10 * time.Minute {
			for phase := time.Duration(0); phase < 5*time.Minute; phase += 70 * time.Second {
				t.Run(fmt.Sprintf("%s for %s at %s", kind, length, phase), func(t *testing.T) {
					t.Parallel()
					begin := noon.Add(phase)
					m := measuringFrom(t, begin)
					m.run(begin.Add(25 * time.Minute))
					require.Empty(t, m.stale(begin), "all is well")
					m.kubelet.set(func(k *playedKubelet) { k.instead = instead })
					well := m.at.Add(length)
					m.run(well)
					m.kubelet.set(func(k *playedKubelet) { k.instead = nil })
					for m.run(well.Add(3 * time.Minute)); m.at.Before(well.Add(2*m.settings.QueryStep + 3*time.Minute)); m.run(m.at.Add(time.Minute)) {
						require.Empty(t, m.old(), "%s after it", m.at.Sub(well))
					}
					assert.Empty(t, m.stale(well), "two steps after it is asked again")
					failing, _ := m.scraper.targets.failing()
					assert.Empty(t, failing)
				})
			}
		}
	}
}

// TestClocksThatJump: after a clock was ahead or behind for some minutes, every container has fresh data within two
// steps.
func TestClocksThatJump(t *testing.T) {
	for _, jump := range []time.Duration{-12 * time.Hour, -time.Hour, -7 * time.Minute, 7 * time.Minute, time.Hour, 12 * time.Hour} {
		t.Run(jump.String(), func(t *testing.T) {
			t.Parallel()
			m := measuringFrom(t, noon)
			m.run(noon.Add(30 * time.Minute))
			m.at = m.at.Add(jump)
			m.run(m.at.Add(13 * time.Minute))
			m.at = m.at.Add(-jump)
			back := m.at
			m.run(back.Add(2*m.settings.QueryStep + time.Minute))
			assert.Empty(t, m.stale(back), "what the clock said before it was put right does not count")
		})
	}
}
