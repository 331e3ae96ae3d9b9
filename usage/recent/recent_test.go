package recent

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/recommender"
	"attune.io/attune/recommender/node"
	"attune.io/attune/usage"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// past is a source in which pod web-1 has used some CPU and memory at every step.
type past struct {
	asked []usage.Query
	err   error
	cpu   float64
	pods  int
	// ends is the time of its last data; zero: no end.
	ends time.Time
	// started is when the container started, in Unix milliseconds; 0: not known. It uses 8 cores for 3 minutes then.
	started int64
}

func (p *past) Read(_ context.Context, q usage.Query, yield func(usage.Series)) (usage.Report, error) {
	p.asked = append(p.asked, q)
	for i := range max(1, p.pods) {
		s := usage.Series{Namespace: "shop", Pod: fmt.Sprintf("web-%d", i+1), Container: "app", Started: p.started}
		for at := q.Start; !at.After(q.End) && (p.ends.IsZero() || !at.After(p.ends)); at = at.Add(q.Step) {
			cpu := p.cpu
			if since := at.UnixMilli() - p.started; since > 0 && since <= 180_000 {
				cpu = 8
			}
			s.CPU = append(s.CPU, usage.Sample{At: at.UnixMilli(), Value: cpu})
			s.Memory = append(s.Memory, usage.Sample{At: at.UnixMilli(), Value: 64 << 20})
		}
		yield(s)
	}
	return usage.Report{}, p.err
}

func storeOf(p *past) (*Store, *int) {
	dialled := 0
	return New(func(usage.SourceSettings) (usage.Source, error) {
		dialled++
		return p, nil
	}), &dialled
}

func interest(policy string, workloads ...string) Interest {
	return Interest{Namespace: "shop", Policy: policy, Source: usage.SourceSettings{RateWindow: 5 * time.Minute}, Workloads: workloads}
}

// A pod's own base is available after the first refresh; later refreshes query only new data.
func TestStoreFollowsPods(t *testing.T) {
	p := &past{cpu: 0.5}
	s, dialled := storeOf(p)
	s.Want(interest("shared", "web"))
	s.Want(interest("other", "db"))
	require.NoError(t, s.Refresh(t.Context(), noon))
	require.Len(t, p.asked, 1, "policies with one source share a question")
	q := p.asked[0]
	assert.GreaterOrEqual(t, q.End.Sub(q.Start), 29*time.Minute, "the longest window")
	assert.Equal(t, []string{"shop"}, q.Namespaces)
	assert.Len(t, q.PodPrefixes, 2)
	assert.True(t, q.Waited, "with the time that was waited for CPU")
	assert.Equal(t, rateWindow, q.RateWindow, "at most")
	base, known := s.Base("shop", "web-1", "app", recommender.CPU, noon)
	assert.True(t, known)
	assert.InDelta(t, 500, float64(base), 0.01)
	base, known = s.Base("shop", "web-1", "app", recommender.Memory, noon)
	assert.True(t, known)
	assert.InDelta(t, 64<<20, float64(base), 4096)
	_, known = s.Base("shop", "web-1", "proxy", recommender.CPU, noon)
	assert.False(t, known)

	require.NoError(t, s.Refresh(t.Context(), noon.Add(time.Minute)))
	assert.LessOrEqual(t, p.asked[1].End.Sub(p.asked[1].Start), time.Minute)
	assert.Equal(t, 1, *dialled)
	s.Want(interest("shared", "web", "api"))
	require.NoError(t, s.Refresh(t.Context(), noon.Add(2*time.Minute)))
	assert.GreaterOrEqual(t, p.asked[2].End.Sub(p.asked[2].Start), 29*time.Minute, "a workload that is new is asked for from the beginning")
}

// The base is the 75th percentile of the window: a spike does not change it, and a lasting change does.
func TestBaseFollowsWhatLasts(t *testing.T) {
	p := &past{cpu: 0.2}
	s, _ := storeOf(p)
	s.Want(interest("shared", "web"))
	require.NoError(t, s.Refresh(t.Context(), noon))
	base := func(after time.Duration, cpu float64) float64 {
		p.cpu = cpu
		require.NoError(t, s.Refresh(t.Context(), noon.Add(after)))
		of, known := s.Base("shop", "web-1", "app", recommender.CPU, noon.Add(after))
		require.True(t, known)
		return float64(of)
	}
	assert.InDelta(t, 200, base(time.Minute, 1), 0.01, "a minute")
	assert.InDelta(t, 1000, base(5*time.Minute, 1), 0.01, "five minutes of ten")
}

// CPU of a container's start is not in its base. Memory is.
func TestCPUOfTheStartIsNoBase(t *testing.T) {
	s, _ := storeOf(&past{cpu: 0.5, started: noon.Add(-5 * time.Minute).UnixMilli()})
	s.Want(interest("shared", "web"))
	require.NoError(t, s.Refresh(t.Context(), noon))
	for r, want := range [2]float64{recommender.CPU: 500, recommender.Memory: 64 << 20} {
		base, known := s.Base("shop", "web-1", "app", recommender.Resource(r), noon)
		assert.True(t, known)
		assert.InDelta(t, want, float64(base), want/100)
	}
}

// TestDropsOfStepsThatWereReadAreNotCounted: a refresh reads the last step again.
func TestDropsOfStepsThatWereReadAreNotCounted(t *testing.T) {
	p := &past{cpu: 0.5}
	s, _ := storeOf(p)
	s.Want(interest("shared", "web"))
	require.NoError(t, s.Refresh(t.Context(), noon))
	require.NoError(t, s.Refresh(t.Context(), noon.Add(time.Minute)))
	assert.True(t, p.asked[0].Counted.IsZero())
	assert.Equal(t, noon, p.asked[1].Counted)
}

// The need of a container since a time is the mean of the rates whose window begins after it.
func TestCPUSinceATime(t *testing.T) {
	p := &past{cpu: 0.2}
	s, _ := storeOf(p)
	s.Want(interest("shared", "web"))
	require.NoError(t, s.Refresh(t.Context(), noon))
	p.cpu = 0.8
	require.NoError(t, s.Refresh(t.Context(), noon.Add(4*time.Minute)))
	now := noon.Add(4 * time.Minute)
	cpu, known := s.CPU("shop", "web-1", "app", noon.Add(-5*time.Minute), now)
	assert.True(t, known)
	// 200m from 3 minutes before noon on, 800m from noon on.
	assert.InDelta(t, (6*200.+9*800)/15, float64(cpu), 0.01)
	cpu, known = s.CPU("shop", "web-1", "app", noon, now)
	assert.True(t, known)
	assert.InDelta(t, 800, float64(cpu), 0.01)
	_, known = s.CPU("shop", "web-1", "app", now.Add(-rateWindow+time.Second), now)
	assert.False(t, known, "every rate looks back further")
	_, known = s.CPU("shop", "web-1", "proxy", noon, now)
	assert.False(t, known)
	assert.Len(t, p.asked, 2, "nobody is asked")
}

// A source that fails is queried for all missing data after it recovers; known data is kept until it leaves the window.
func TestASourceThatFails(t *testing.T) {
	p := &past{cpu: 0.5}
	s, dialled := storeOf(p)
	s.Want(interest("shared", "web"))
	require.NoError(t, s.Refresh(t.Context(), noon))
	p.err = errors.New("connection refused")
	require.ErrorContains(t, s.Refresh(t.Context(), noon.Add(time.Minute)), "connection refused")
	_, known := s.Base("shop", "web-1", "app", recommender.CPU, noon.Add(time.Minute))
	assert.True(t, known)
	p.err = nil
	require.NoError(t, s.Refresh(t.Context(), noon.Add(2*time.Minute)))
	last := p.asked[len(p.asked)-1]
	assert.GreaterOrEqual(t, last.End.Sub(last.Start), 29*time.Minute)
	assert.Equal(t, 2, *dialled, "anew, since its credentials may have changed")
}

// Pods without measurements are dropped, and so are pods that no policy wants.
func TestStoreForgets(t *testing.T) {
	p := &past{cpu: 0.5}
	s, _ := storeOf(p)
	s.Want(interest("shared", "web"))
	require.NoError(t, s.Refresh(t.Context(), noon))
	s.Forget("shop", "shared")
	require.NoError(t, s.Refresh(t.Context(), noon.Add(5*time.Minute)))
	assert.Len(t, p.asked, 1, "nobody asks")
	_, known := s.Base("shop", "web-1", "app", recommender.CPU, noon.Add(15*time.Minute))
	assert.False(t, known, "its window is over")
	assert.NotEmpty(t, s.of)
	require.NoError(t, s.Refresh(t.Context(), noon.Add(40*time.Minute)))
	assert.Empty(t, s.of)
}

// A later workload is read from the beginning, and the others are not read again.
func TestAWorkloadThatComesIsAskedForFromTheBeginning(t *testing.T) {
	p := &past{cpu: 0.5}
	s, dialled := storeOf(p)
	s.Want(interest("shared", "web"))
	require.NoError(t, s.Refresh(t.Context(), noon))
	s.Want(interest("shared", "web", "api"))
	s.Want(interest("another", "db"))
	require.NoError(t, s.Refresh(t.Context(), noon.Add(time.Minute)))
	require.Len(t, p.asked, 3)
	assert.Equal(t, []string{"api-", "db-"}, p.asked[1].PodPrefixes)
	assert.Equal(t, noon.Add(-29*time.Minute), p.asked[1].Start)
	assert.Equal(t, []string{"api-", "db-", "web-"}, p.asked[2].PodPrefixes)
	assert.Equal(t, noon, p.asked[2].Start)
	require.NoError(t, s.Refresh(t.Context(), noon.Add(2*time.Minute)))
	assert.Len(t, p.asked, 4, "once")
	assert.Equal(t, 1, *dialled)
}

// After a clock that was ahead was corrected, the base is known again at once.
func TestAClockThatWasAhead(t *testing.T) {
	p := &past{cpu: 0.5, ends: noon.Add(time.Minute)}
	s, _ := storeOf(p)
	s.Want(interest("shared", "web"))
	require.NoError(t, s.Refresh(t.Context(), noon))
	require.NoError(t, s.Refresh(t.Context(), noon.Add(12*time.Hour)))
	at := noon.Add(time.Minute)
	require.NoError(t, s.Refresh(t.Context(), at))
	last := p.asked[len(p.asked)-1]
	assert.Equal(t, at.Add(-node.BaseMemoryWindow), last.Start)
	assert.Equal(t, at, last.End)
	_, known := s.Base("shop", "web-1", "app", recommender.CPU, at)
	assert.True(t, known)
}

// Data about pods that do not exist takes no room, and is reported once.
func TestStrangersTakeNoRoom(t *testing.T) {
	liar := &many{namespace: "greedy", pods: 500, letGo: make(chan struct{}), asked: make(chan struct{}, 10)}
	close(liar.letGo)
	s := New(func(usage.SourceSettings) (usage.Source, error) { return liar, nil })
	s.There = func(namespace, pod string) bool { return namespace == "greedy" && pod == "web-7" }
	s.Want(of("greedy", "greedy"))
	require.ErrorContains(t, s.Refresh(t.Context(), noon), "the usage source of namespace greedy reports 499 containers of pods that do not exist")
	require.NoError(t, s.Refresh(t.Context(), noon.Add(time.Minute)), "it is said once")
	assert.Len(t, s.of, 1)
}

// many is a source with pods of a namespace that answers after it is released.
type many struct {
	namespace string
	pods      int
	letGo     chan struct{}
	asked     chan struct{}
}

func (m *many) Read(_ context.Context, q usage.Query, yield func(usage.Series)) (usage.Report, error) {
	m.asked <- struct{}{}
	<-m.letGo
	for i := range m.pods {
		series := usage.Series{Namespace: m.namespace, Pod: fmt.Sprintf("web-%d", i), Container: "app"}
		for at := q.Start; !at.After(q.End); at = at.Add(q.Step) {
			series.CPU = append(series.CPU, usage.Sample{At: at.UnixMilli(), Value: 1})
		}
		yield(series)
	}
	return usage.Report{}, nil
}

func of(namespace, address string) Interest {
	in := interest("shared", "web")
	in.Namespace, in.Source.Prometheus = namespace, &v1alpha1.PrometheusSource{Address: address}
	return in
}

// A hanging source does not delay others, gets no other query meanwhile, and its late answer counts.
func TestASourceThatHangsDelaysNobody(t *testing.T) {
	hung := &many{namespace: "slow", pods: 1, letGo: make(chan struct{}), asked: make(chan struct{}, 10)}
	well := &many{namespace: "shop", pods: 1, letGo: make(chan struct{}), asked: make(chan struct{}, 10)}
	close(well.letGo)
	s := New(func(of usage.SourceSettings) (usage.Source, error) {
		if of.Prometheus.Address == "slow" {
			return hung, nil
		}
		return well, nil
	})
	s.Patience = 50 * time.Millisecond
	s.Want(of("slow", "slow"))
	s.Want(of("shop", "well"))
	require.ErrorContains(t, s.Refresh(t.Context(), noon), "a usage source did not answer within 50ms")
	_, known := s.Base("shop", "web-0", "app", recommender.CPU, noon)
	assert.True(t, known)
	require.NoError(t, s.Refresh(t.Context(), noon.Add(time.Minute)), "it is not waited for again")
	assert.Len(t, hung.asked, 1)
	assert.Len(t, well.asked, 2)
	close(hung.letGo)
	require.Eventually(t, func() bool {
		_, known := s.Base("slow", "web-0", "app", recommender.CPU, noon)
		return known
	}, 10*time.Second, time.Millisecond)
	require.Eventually(t, func() bool { return s.Refresh(t.Context(), noon.Add(2*time.Minute)) == nil && len(hung.asked) == 2 }, 10*time.Second, time.Millisecond)
}

// A namespace that wants all places leaves some for others, and its lack of places is reported once.
func TestPlacesAreShared(t *testing.T) {
	greedy := &many{namespace: "greedy", pods: 500, letGo: make(chan struct{}), asked: make(chan struct{}, 10)}
	late := &many{namespace: "late", pods: 20, letGo: make(chan struct{}), asked: make(chan struct{}, 10)}
	close(greedy.letGo)
	close(late.letGo)
	s := New(func(of usage.SourceSettings) (usage.Source, error) {
		if of.Prometheus.Address == "greedy" {
			return greedy, nil
		}
		return late, nil
	})
	s.room = 300
	s.Want(of("greedy", "greedy"))
	require.ErrorContains(t, s.Refresh(t.Context(), noon), "300 containers of namespace greedy are not followed: attune follows at most 300 containers")
	assert.Len(t, s.of, 200, "two thirds")
	s.Want(of("late", "late"))
	require.NoError(t, s.Refresh(t.Context(), noon.Add(time.Minute)), "it is said once")
	assert.Equal(t, 20, s.held["late"])
	containers, refused := s.Followed()
	assert.Equal(t, 220, containers)
	assert.Equal(t, map[string]int{"greedy": 300}, refused)
	assert.True(t, s.Refused("greedy"))
	assert.False(t, s.Refused("late"))

	s.Forget("greedy", "shared")
	require.NoError(t, s.Refresh(t.Context(), noon.Add(time.Hour)))
	assert.Equal(t, map[string]int{"late": 20}, s.held)
	assert.False(t, s.Refused("greedy"), "no longer")
}

// A created pod is followed from its first sample on, and has a base after half of its window was measured.
func TestANewbornIsNotForgotten(t *testing.T) {
	p := &young{}
	s := New(func(usage.SourceSettings) (usage.Source, error) { return p, nil })
	s.Want(interest("shared", "web"))
	for minute := range 8 {
		at := noon.Add(time.Duration(minute) * time.Minute)
		p.at = at
		require.NoError(t, s.Refresh(t.Context(), at))
		_, known := s.Base("shop", "web-1", "app", recommender.CPU, at)
		assert.Equal(t, minute >= 5, known, "after %d minutes", minute)
	}
}

// young is a source that has one sample at a time.
type young struct{ at time.Time }

func (y *young) Read(_ context.Context, _ usage.Query, yield func(usage.Series)) (usage.Report, error) {
	yield(usage.Series{Namespace: "shop", Pod: "web-1", Container: "app", CPU: []usage.Sample{{At: y.at.UnixMilli(), Value: 1}}})
	return usage.Report{}, nil
}
