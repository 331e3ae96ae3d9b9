package history_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/usage"
	"attune.io/attune/usage/history"
)

// hung is a source that does not answer before it is released.
type hung struct {
	fake
	asked chan struct{}
	letGo chan struct{}
}

func (h *hung) Read(ctx context.Context, query usage.Query, yield func(usage.Series)) (usage.Report, error) {
	h.asked <- struct{}{}
	<-h.letGo
	return h.fake.Read(ctx, query, yield)
}

// at is the interest of a policy in a source with an address, in a namespace of its own.
func at(address string) history.Interest {
	interest := deployment("web")
	interest.Namespace = strings.TrimPrefix(address, "http://")
	interest.Policy, interest.Source.Prometheus = address, &v1alpha1.PrometheusSource{Address: address}
	return interest
}

func keyAt(address string) history.Key {
	of := key("web")
	of.Source, of.Namespace = at(address).Source.Digest(), at(address).Namespace
	return of
}

// Hanging sources, more than may run in parallel, delay the others by at most one Patience, and get no other query
// before they answer. Their late answers count and are announced.
func TestSourcesThatHang(t *testing.T) {
	synctest.Test(t, sourcesThatHang)
}

func sourcesThatHang(t *testing.T) {
	good := &fake{pods: []fakePod{web("aaaaa", always(0.2))}}
	slow := &hung{asked: make(chan struct{}, 100), letGo: make(chan struct{})}
	changed := make(chan string, 100)
	s := history.New(history.Options{
		Patience: 50 * time.Millisecond, Changed: func(namespace string) { changed <- namespace },
		Dial: func(settings usage.SourceSettings) (usage.Source, error) {
			if settings.Prometheus == nil {
				return good, nil
			}
			return slow, nil
		},
	})
	const many = 20
	s.Want(deployment("web"))
	for i := range many {
		interest := at(fmt.Sprint("http://hung-", i))
		slow.pods = append(slow.pods, fakePod{namespace: interest.Namespace, pod: "web-7d4f8c9b6-aaaaa", container: "app", cpu: always(0.2)})
		s.Want(interest)
	}
	for range 5 {
		s.Refresh(context.Background(), now)
	}
	assert.Len(t, slow.asked, many, "each once")
	_, known := s.Profile(key("web"), now)
	require.True(t, known, "the other one")
	state, _ := s.State(at("http://hung-7").Source)
	require.ErrorContains(t, state.Err, "no answer within 50ms")
	for len(changed) > 0 {
		<-changed
	}

	close(slow.letGo)
	for range many {
		assert.Contains(t, <-changed, "hung-")
	}
	_, known = s.Profile(keyAt("http://hung-7"), now)
	assert.True(t, known)
	state, _ = s.State(at("http://hung-7").Source)
	assert.NoError(t, state.Err)
}

// A source that fails is queried again at once, and with a backoff from the third failure on, so that other sources do not
// wait for it. The backoff is shorter than the default interval.
func TestASourceThatFailsIsLeftAlone(t *testing.T) {
	source := &fake{fail: func(usage.Query) error { return errDown }}
	s := newStore(source)
	s.Want(deployment("web"))
	for at := now; at.Before(now.Add(time.Hour)); at = at.Add(10 * time.Second) {
		s.Refresh(context.Background(), at)
	}
	assert.Len(t, source.take(), 74, "3, and then one in 50 seconds")
	for at := now.Add(61 * time.Minute); at.Before(now.Add(121 * time.Minute)); at = at.Add(time.Minute) {
		s.Refresh(context.Background(), at)
	}
	assert.Len(t, source.take(), 60, "at each refresh of the default interval")
}

// If its usage is awaited, it gets no more queries, except of the running step until the next step is due.
func TestAnAwaitedSourceThatFails(t *testing.T) {
	l := live(t, now, 3)
	l.run(now.Add(20*time.Minute), nil)
	l.source.set(func(f *fake) { f.fail = func(usage.Query) error { return errDown } })
	l.source.take()
	for at := l.at; at.Before(l.at.Add(time.Hour)); at = at.Add(10 * time.Second) {
		for _, name := range l.names {
			l.Await(key(name), true)
		}
		l.Refresh(context.Background(), at)
	}
	running := 0
	queries := l.source.take()
	for _, query := range queries {
		if query.Running {
			running++
		}
	}
	assert.LessOrEqual(t, running, 10, "one in 30 seconds, in one step")
	assert.LessOrEqual(t, len(queries)-running, 74)
}

// A source that answers after every refresh has ended is slow but does not fail: no failure is reported, and its
// answers are announced.
func TestASourceThatIsSlowDoesNotFail(t *testing.T) {
	synctest.Test(t, aSourceThatIsSlow)
}

func aSourceThatIsSlow(t *testing.T) {
	slow := &hung{fake: fake{pods: []fakePod{web("aaaaa", always(0.2))}}, asked: make(chan struct{}, 100), letGo: make(chan struct{}, 100)}
	changed := make(chan string, 100)
	dialled := 0
	s := history.New(history.Options{
		Patience: time.Millisecond, Changed: func(namespace string) { changed <- namespace },
		Dial: func(usage.SourceSettings) (usage.Source, error) { dialled++; return slow, nil },
	})
	require.NoError(t, s.Want(deployment("web")))
	slow.letGo <- struct{}{}
	for {
		s.Refresh(context.Background(), now)
		if _, known := s.Profile(key("web"), now); known {
			break
		}
	}
	synctest.Wait()
	for len(changed) > 0 {
		<-changed
	}
	for i := range 60 {
		at := now.Add(time.Duration(i+1) * step)
		for len(slow.asked) > 0 {
			<-slow.asked
		}
		for len(slow.asked) == 0 {
			s.Refresh(context.Background(), at)
		}
		state, _ := s.State(settings())
		require.NoError(t, state.Err)
		slow.letGo <- struct{}{}
		synctest.Wait()
		require.NotEmpty(t, changed, "each answer is announced")
		require.Equal(t, "shop", <-changed)
		require.Empty(t, changed, "once")
	}
	assert.LessOrEqual(t, dialled, 6, "it is made anew each hour, in five hours")
	for len(slow.asked) > 0 {
		<-slow.asked
	}
	last := now.Add(61 * step)
	for len(slow.asked) == 0 {
		s.Refresh(context.Background(), last)
	}
	s.Refresh(context.Background(), last.Add(3*step))
	state, _ := s.State(settings())
	assert.ErrorContains(t, state.Err, "no answer within", "data is missing by now")
	close(slow.letGo)
}
