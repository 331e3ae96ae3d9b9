package history_test

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/workload"
	"attune.io/attune/recommender"
	"attune.io/attune/usage"
	"attune.io/attune/usage/history"
)

var errHuge = fmt.Errorf("422: %w", usage.ErrTooMuch)

// webIn returns the interest, the pod and the key of a workload in a namespace.
func webIn(namespace, workload string) (history.Interest, fakePod, history.Key) {
	interest, pod, of := deployment(workload), web("aaaaa", always(0.2)), key(workload)
	interest.Namespace, interest.Policy, pod.namespace, of.Namespace = namespace, namespace, namespace, namespace
	pod.pod = workload + "-7d4f8c9b6-aaaaa"
	return interest, pod, of
}

// minutes of refreshes, with a few more per minute while more is left.
func minutes(s *history.Store, from time.Time, n int) (until time.Time) {
	for i := range n {
		for range 50 {
			if !s.Refresh(context.Background(), from.Add(time.Duration(i)*time.Minute)) {
				break
			}
		}
	}
	return from.Add(time.Duration(n) * time.Minute)
}

// After a restart the past is queried in parts if all of it is too large, for any limit: steps, namespaces or
// workloads.
func TestThePastIsCutByWorkloads(t *testing.T) {
	for name, fail := range map[string]func(usage.Query) error{
		"two namespaces at once": func(q usage.Query) error { return tooMuchIf(len(q.Namespaces) > 2) },
		"three workloads at once": func(q usage.Query) error {
			return tooMuchIf(q.Steps() > 3 && (len(q.PodPrefixes) == 0 || len(q.PodPrefixes) > 3))
		},
		"so many values":   atMost(40),
		"a dozen of steps": func(q usage.Query) error { return tooMuchIf(q.Steps() > 12) },
	} {
		t.Run(name, func(t *testing.T) {
			source := &fake{fail: fail}
			s := newStore(source)
			var keys []history.Key
			for _, namespace := range []string{"a", "b", "c", "d", "e"} {
				for _, workload := range []string{"api", "db", "web"} {
					interest, pod, of := webIn(namespace, workload)
					interest.Policy = workload
					require.NoError(t, s.Want(interest))
					source.pods = append(source.pods, pod)
					keys = append(keys, of)
				}
			}
			later := minutes(s, now, 20)
			for _, of := range keys {
				require.True(t, s.Read(of), "%v", of)
				p, known := s.Profile(of, later)
				require.True(t, known)
				assert.Equal(t, 288, p.Of[recommender.CPU].Points, "%v", of)
			}
			assert.Less(t, len(source.take()), 600)
		})
	}
}

func tooMuchIf(so bool) error {
	if so {
		return errHuge
	}
	return nil
}

// A workload whose past is always too large does not stop the others. It is queried again at times, and is reported
// only in its namespace.
func TestAPastThatIsAlwaysTooMuchStopsNobody(t *testing.T) {
	shop, pod, of := webIn("shop", "web")
	ci, job, ofCI := webIn("ci", "job")
	source := &fake{pods: []fakePod{pod, job}}
	source.fail = func(q usage.Query) error { return tooMuchIf(slices.Contains(q.Namespaces, "ci") && q.Steps() > 6) }
	s := newStore(source)
	require.NoError(t, s.Want(shop))
	fill(t, s, now)
	require.NoError(t, s.Want(ci))
	at := minutes(s, now, 60)
	shop.Workloads = append(shop.Workloads, deployment("new").Workloads...)
	source.set(func(f *fake) {
		f.pods = append(f.pods, fakePod{namespace: "shop", pod: "new-7d4f8c9b6-aaaaa", container: "app", cpu: always(1), memory: always(1)})
	})
	require.NoError(t, s.Want(shop))
	ofNew := of
	ofNew.Workload = "new"
	at = minutes(s, at, 2*5+1)
	assert.True(t, s.Read(ofNew), "two steps later")

	source.take()
	refused := 0
	for range 24 * 60 {
		at = minutes(s, at, 1)
		p, known := s.Profile(of, at)
		require.True(t, known)
		require.LessOrEqual(t, at.Sub(p.Last), 2*step)
		state, _ := s.State(settings())
		require.NoError(t, state.Err, "the source answers")
	}
	for _, q := range source.take() {
		if slices.Contains(q.Namespaces, "ci") && q.Steps() > 6 {
			refused++
		}
	}
	assert.LessOrEqual(t, refused, 60, "refused questions in a day")
	assert.False(t, s.Read(ofCI))
	assert.ErrorIs(t, s.Unanswered(settings(), "ci"), usage.ErrTooMuch)
	assert.NoError(t, s.Unanswered(settings(), "shop"))

	source.set(func(f *fake) { f.fail = nil })
	minutes(s, at, 61)
	assert.True(t, s.Read(ofCI), "an hour after it is not too much any more")
	assert.NoError(t, s.Unanswered(settings(), "ci"))
}

// New workloads all the time do not delay the past of others forever.
func TestThePastOfNobodyWaitsForEver(t *testing.T) {
	shop, pod, of := webIn("shop", "web")
	source := &fake{pods: []fakePod{pod}, fail: func(q usage.Query) error { return tooMuchIf(q.Steps() > 24) }}
	s := newStore(source)
	require.NoError(t, s.Want(shop))
	ci, _, _ := webIn("ci", "job")
	ci.Workloads = nil
	n := 0
	for ; n < 200 && !s.Read(of); n++ {
		if n%5 == 4 {
			ci.Workloads = append(slices.Clone(ci.Workloads), deployment(fmt.Sprint("job", n)).Workloads...)
			require.NoError(t, s.Want(ci))
		}
		s.Refresh(context.Background(), now)
	}
	assert.Less(t, n, 60, "refreshes, with 12 pieces of the past")
}

// Rejected steps of one namespace, while the others were answered, are read again when they are answered.
func TestWhatWasTooMuchOfOneNamespaceIsReadAgain(t *testing.T) {
	a, podA, ofA := webIn("a", "web")
	b, podB, ofB := webIn("b", "web")
	source := &fake{pods: []fakePod{podA, podB}}
	s := newStore(source)
	require.NoError(t, s.Want(a))
	require.NoError(t, s.Want(b))
	fill(t, s, now)
	source.set(func(f *fake) {
		f.fail = func(q usage.Query) error { return tooMuchIf(slices.Contains(q.Namespaces, "b")) }
	})
	source.take()
	at := now
	for range 60 {
		at = minutes(s, at, 1)
		state, _ := s.State(settings())
		require.NoError(t, state.Err, "the source answers")
	}
	assert.ErrorIs(t, s.Unanswered(settings(), "b"), usage.ErrTooMuch)
	assert.LessOrEqual(t, len(source.take()), 12*5, "questions in twelve steps")
	source.set(func(f *fake) { f.fail = nil })
	at = minutes(s, at, 11)
	for _, of := range []history.Key{ofA, ofB} {
		p, known := s.Profile(of, at)
		require.True(t, known)
		assert.LessOrEqual(t, at.Sub(p.Last), 2*step, "%s is fresh", of.Namespace)
	}
	at = minutes(s, at, 50)
	for _, of := range []history.Key{ofA, ofB} {
		p, _ := s.Profile(of, at)
		assert.Zero(t, p.Gaps, "%s", of.Namespace)
		assert.Equal(t, 288, p.Of[recommender.CPU].Points)
	}
	assert.NoError(t, s.Unanswered(settings(), "b"))
}

// An additional workload costs the same with many policies in the namespace as with one: shared data is stored once.
func TestManyPoliciesOfANamespace(t *testing.T) {
	const policies, workloads = 50, 200
	s := newStore(&fake{})
	neighbours := func(n int) (all []workload.KindName) {
		for i := range n {
			all = append(all, workload.KindName{Kind: v1alpha1.KindDeployment, Name: fmt.Sprint("app", i)})
		}
		return all
	}
	want := func(n int) func() {
		return func() {
			for i := range policies {
				interest := deployment(fmt.Sprint("app", i))
				interest.Policy, interest.Neighbours = fmt.Sprint("policy", i), neighbours(n)
				require.NoError(t, s.Want(interest))
			}
		}
	}
	allocated := func(do func()) uint64 {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		do()
		runtime.ReadMemStats(&after)
		return after.TotalAlloc - before.TotalAlloc
	}
	want(workloads)()
	again := allocated(want(workloads))
	more := allocated(want(workloads + 1))
	assert.Less(t, more, again+again/2, "bytes, where a workload more and none more are wanted")
}
