package history_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"attune.io/attune/usage"
	"attune.io/attune/usage/history"
)

// tenant wants the history of some workloads in a namespace. Its pods use different amounts at each step, so that
// values do not compress well.
func tenant(namespace string, workloads int, settings usage.SourceSettings) (history.Interest, []fakePod) {
	interest := history.Interest{Policy: "all", Namespace: namespace, Source: settings}
	var pods []fakePod
	for i := range workloads {
		name := fmt.Sprintf("app%d", i)
		interest.Workloads = append(interest.Workloads, deployment(name).Workloads...)
		restless := func(at time.Time) (float64, bool) {
			return 1 + float64(at.Unix()/7%1009*int64(i+1)%997), true
		}
		pods = append(pods, fakePod{namespace: namespace, pod: name + "-7d4f8c9b6-aaaaa", container: "app", cpu: restless, memory: restless})
	}
	return interest, pods
}

// TestNobodyTakesTheRoomOfOthers: five namespaces that want all the room, of one source and of several, leave room for
// a later one, whose history is complete.
func TestNobodyTakesTheRoomOfOthers(t *testing.T) {
	const size = 1 << 20
	source := &fake{}
	s := history.New(history.Options{MaxBytes: size, Dial: func(usage.SourceSettings) (usage.Source, error) { return source, nil }})
	greedy := func(n int) string { return fmt.Sprint("greedy-", n) }
	for i := range 5 {
		for _, window := range []time.Duration{24 * time.Hour, 48 * time.Hour} {
			of := settings()
			of.HistoryWindow = window
			interest, pods := tenant(greedy(i), 200, of)
			interest.Policy = window.String()
			s.Want(interest)
			source.pods = append(source.pods, pods...)
		}
	}
	fill(t, s, now)
	for i := range 5 {
		longer := settings()
		longer.HistoryWindow *= 2
		assert.Positive(t, s.Lost(settings(), greedy(i))+s.Lost(longer, greedy(i)), "it is told that its room is used up")
	}

	late, pods := tenant("late", 3, settings())
	source.set(func(f *fake) { f.pods = append(f.pods, pods...) })
	s.Want(late)
	fill(t, s, now.Add(step))
	assert.Zero(t, s.Lost(settings(), "late"))
	for i := range 3 {
		of := key(fmt.Sprint("app", i))
		of.Namespace = "late"
		assert.Len(t, s.Steps(of), 288, "all steps of a day")
	}
}

// TestOneNamespaceMayTakeMost: a single namespace gets two thirds of the room, and room that it releases is available
// to others.
func TestOneNamespaceMayTakeMost(t *testing.T) {
	const size = 256 << 10
	source := &fake{}
	s := history.New(history.Options{MaxBytes: size, Dial: func(usage.SourceSettings) (usage.Source, error) { return source, nil }})
	held := s.Held
	alone, pods := tenant("alone", 400, settings())
	source.pods = pods
	s.Want(alone)
	fill(t, s, now)
	assert.Positive(t, s.Lost(settings(), "alone"))
	assert.InDelta(t, size*2/3, held(), size/20)

	s.Forget("alone", "all")
	again, pods := tenant("again", 400, settings())
	source.set(func(f *fake) { f.pods = pods })
	s.Want(again)
	fill(t, s, now.Add(step))
	assert.InDelta(t, size*2/3, held(), size/20)
	s.Forget("again", "all")
	require.False(t, s.Refresh(context.Background(), now.Add(2*step)))
}

// TestOneNamespaceReadsInAFewWays: each setting costs its own queries, so a namespace may have eight. Policies with one
// of these settings, and other namespaces, are not affected.
func TestOneNamespaceReadsInAFewWays(t *testing.T) {
	s := newStore(&fake{})
	in := func(namespace string, way int) history.Interest {
		interest := deployment("web")
		interest.Namespace, interest.Policy = namespace, fmt.Sprint("policy-", way)
		interest.Source.RateWindow = time.Duration(way+1) * time.Minute
		return interest
	}
	for way := range 8 {
		require.NoError(t, s.Want(in("shop", way)))
	}
	require.EqualError(t, s.Want(in("shop", 8)), "the policies of namespace shop have 8 different metricsSource settings already: use the settings of one of them")
	again := in("shop", 3)
	again.Policy = "policy-8"
	require.NoError(t, s.Want(again), "like another policy")
	require.NoError(t, s.Want(in("bank", 8)))
	require.NoError(t, s.Want(in("shop", 2)), "to want the same again is no other way")

	s.Forget("shop", "policy-5")
	require.NoError(t, s.Want(in("shop", 8)), "there is room again")
	changed := in("shop", 9)
	changed.Policy = "policy-8"
	require.NoError(t, s.Want(changed), "instead of its own")
}
