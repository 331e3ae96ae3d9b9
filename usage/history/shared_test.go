package history_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/workload"
	"attune.io/attune/recommender"
	"attune.io/attune/usage/history"
)

// sharing wants one history for Deployments of shop.
func sharing(members ...string) history.Interest {
	interest := deployment()
	interest.Workloads = []history.Workload{{Kind: v1alpha1.KindDeployment, Name: "identity:web/policy/app", Containers: []string{"app"}}}
	interest.Members = map[workload.KindName][]workload.KindName{{Kind: v1alpha1.KindDeployment, Name: "identity:web/policy/app"}: nil}
	for of := range interest.Members {
		for _, name := range members {
			interest.Members[of] = append(interest.Members[of], workload.KindName{Kind: v1alpha1.KindDeployment, Name: name})
		}
	}
	return interest
}

// release is a pod of a Deployment of shop.
func release(name string, cpu func(time.Time) (float64, bool)) fakePod {
	return fakePod{namespace: "shop", pod: name + "-7d4f8c9b6-aaaaa", container: "app", cpu: cpu, memory: always(1 << 20)}
}

func points(s *history.Store, at time.Time, workload string) int {
	profile, _ := s.Profile(key(workload), at)
	return profile.Of[recommender.CPU].Points
}

// A release starts with the history of the one before, which stays when that one is gone.
func TestMembersShareOneHistory(t *testing.T) {
	source := &fake{pods: []fakePod{release("web-41", always(0.9))}}
	s := newStore(source)
	require.NoError(t, s.Want(sharing("web-41")))
	fill(t, s, now)
	require.Equal(t, 288, points(s, now, "web-41"))
	source.take()

	require.NoError(t, s.Want(sharing("web-41", "web-42")))
	assert.Equal(t, 288, points(s, now, "web-42"), "at once")
	assert.True(t, s.Read(key("web-42")))
	assert.Equal(t, s.News(key("web-41")), s.News(key("web-42")))
	assert.Equal(t, 288, points(s, now, "identity:web/policy/app"))

	at := now.Add(step)
	source.set(func(f *fake) { f.pods = []fakePod{release("web-42", between(at, at.Add(time.Hour), 0.1))} })
	require.NoError(t, s.Want(sharing("web-42")))
	fill(t, s, at)
	assert.Equal(t, 288, points(s, at, "web-42"))
	assert.Zero(t, points(s, at, "web-41"), "it is no member")
	profile, _ := s.Profile(key("web-42"), at)
	assert.InDelta(t, 0.9, float64(profile.Of[recommender.CPU].Peak)/1000, 0.05)
}

// A Deployment that gets an identity takes its past with it, and one that loses it has only its own.
func TestAWorkloadJoinsAndLeavesASharedHistory(t *testing.T) {
	source := &fake{pods: []fakePod{release("web-41", always(0.9)), release("web-42", always(0.1))}}
	s := newStore(source)
	require.NoError(t, s.Want(deployment("web-41", "web-42")))
	fill(t, s, now)
	peak := func(name string) float64 {
		profile, _ := s.Profile(key(name), now)
		return float64(profile.Of[recommender.CPU].Peak) / 1000
	}
	assert.InDelta(t, 0.1, peak("web-42"), 0.02)

	joined := sharing("web-42")
	joined.Workloads = append(joined.Workloads, deployment("web-41").Workloads...)
	require.NoError(t, s.Want(joined))
	fill(t, s, now)
	assert.InDelta(t, 0.1, peak("web-42"), 0.02)
	require.NoError(t, s.Want(sharing("web-41", "web-42")))
	fill(t, s, now)
	assert.InDelta(t, 0.9, peak("web-42"), 0.05, "the past of a member that joins later")

	require.NoError(t, s.Want(deployment("web-41", "web-42")))
	assert.Zero(t, points(s, now, "web-42"))
	fill(t, s, now)
	assert.InDelta(t, 0.1, peak("web-42"), 0.02)
	assert.InDelta(t, 0.9, peak("web-41"), 0.05)
	s.Forget("shop", "policy")
}

// Two policies may have the same workload for a moment, while it changes from one to the other.
func TestAWorkloadOfTwoInterestsHasOneHistory(t *testing.T) {
	source := &fake{pods: []fakePod{release("web-41", always(0.9))}}
	s := newStore(source)
	require.NoError(t, s.Want(sharing("web-41")))
	other := deployment("web-41")
	other.Policy = "another"
	require.NoError(t, s.Want(other))
	fill(t, s, now)
	assert.Equal(t, 288, points(s, now, "web-41"))
	s.Forget("shop", "policy")
	fill(t, s, now)
	assert.Equal(t, 288, points(s, now, "web-41"))
	s.Forget("shop", "another")
	assert.Zero(t, points(s, now, "web-41"))
}
