package policy

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/policy"
	"attune.io/attune/internal/workload"
)

// run is a Job of an identity, so many minutes after today.
func run(name, identity string, minutes int, team string) workload.Object {
	j := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, UID: "u", ResourceVersion: fmt.Sprint(minutes + 1),
		CreationTimestamp: metav1.NewTime(today.Add(time.Duration(minutes) * time.Minute)), Labels: map[string]string{"team": team}}}
	j.Spec.Template = deployment("web").Spec.Template
	j.Spec.Template.Labels = map[string]string{v1alpha1.IdentityLabel: identity}
	return j
}

func ofJobs(team string) []v1alpha1.AttunePolicy {
	return []v1alpha1.AttunePolicy{claiming("jobs", 0, func(s *v1alpha1.AttunePolicySpec) {
		s.TargetRef.Kind = v1alpha1.KindJob
		s.TargetRef.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"team": team}}
	})}
}

// The Jobs of an identity are one workload, which stays between two runs. The usage of a deleted Job still counts for it.
func TestTheRunsOfAnIdentity(t *testing.T) {
	var none *matching
	etl := workload.Identity{Kind: v1alpha1.KindJob, Namespace: "shop", Name: "identity:etl"}
	m := none.next(ofJobs("blue"), []workload.Object{run("etl-b", "etl", 1, "blue"), run("etl-a", "etl", 2, "blue"), run("alone", "", 1, "blue")}, 10)
	won := m.to("jobs").won
	require.Equal(t, []string{"alone", "identity:etl"}, names(won))
	assert.False(t, won[1].Ended)
	assert.Equal(t, []string{"etl-b", "etl-a"}, m.to("jobs").namesOf(won[1]))
	assert.Equal(t, "etl", m.identities[etl])
	assert.Contains(t, m.to("jobs").neighbours, workload.KindName{Kind: v1alpha1.KindJob, Name: "etl-a"})

	m = m.next(ofJobs("blue"), []workload.Object{run("etl-c", "etl", 3, "blue")}, 10)
	require.Equal(t, []string{"identity:etl"}, names(m.to("jobs").won))
	assert.Equal(t, []string{"etl-b", "etl-a", "etl-c"}, m.runs[etl].names)

	m = m.next(ofJobs("blue"), nil, 10)
	require.Equal(t, []string{"identity:etl"}, names(m.to("jobs").won), "between two runs")
	assert.True(t, m.to("jobs").won[0].Ended, "left out first")
	assert.Empty(t, m.next(ofJobs("red"), nil, 10).to("jobs").won, "another policy")
	assert.Same(t, m, m.withoutOld(today.Add(7*24*time.Hour)))
	assert.Empty(t, m.withoutOld(today.Add(8*24*time.Hour)).next(ofJobs("blue"), nil, 10).to("jobs").won)
}

// What is kept of deleted Jobs is bounded.
func TestTheRunsThatAreKeptAreFew(t *testing.T) {
	var m *matching
	for i := range mostEnded + 50 {
		m = m.next(ofJobs("blue"), []workload.Object{run(fmt.Sprint("etl-", i), "etl", i, "blue")}, 10)
	}
	for i := range mostDormant + 50 {
		m = m.next(ofJobs("blue"), []workload.Object{run(fmt.Sprint("x-", i), fmt.Sprint("x-", i), 10_000+i, "blue")}, 1000)
	}
	assert.Len(t, m.runs, mostDormant+1)
	for id, of := range m.runs {
		assert.LessOrEqual(t, len(of.names), mostEnded+1, id)
	}
}

// One policy for all, or none is sized: also between the runs.
func TestTheRunsOfTwoPoliciesAreNotSized(t *testing.T) {
	var none *matching
	m := none.next(ofJobs("blue"), []workload.Object{run("etl-a", "etl", 1, "red"), run("etl-b", "etl", 2, "blue")}, 10)
	for range 2 {
		of := m.to("jobs")
		assert.Empty(t, of.won)
		assert.Equal(t, 1, of.mixed.workloads)
		rec := &v1alpha1.AttuneRecommendation{ObjectMeta: metav1.ObjectMeta{Namespace: "shop"}}
		rec.Spec.Workload = v1alpha1.WorkloadRef{Kind: v1alpha1.KindJob, Name: "identity:etl"}
		assert.Equal(t, v1alpha1.ReasonIdentityConflict, of.whyReleased(rec))
		m = m.next(ofJobs("blue"), nil, 10)
	}
	m = m.next(ofJobs("blue"), []workload.Object{run("etl-c", "etl", 3, "blue")}, 10)
	assert.Equal(t, []string{"identity:etl"}, names(m.to("jobs").won))
}

// Releases share a history if kind, identity, policy and containers are the same.
func TestTheHistoriesOfReleases(t *testing.T) {
	release := func(name, identity, container, team string) workload.Object {
		d := deployment(name)
		d.Labels, d.Spec.Template.Labels = map[string]string{"team": team}, map[string]string{v1alpha1.IdentityLabel: identity}
		d.Spec.Template.Spec.Containers[0].Name = container
		return d
	}
	blue := claiming("blue", 0, func(s *v1alpha1.AttunePolicySpec) {
		s.TargetRef.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"team": "blue"}}
	})
	var none *matching
	m := none.next([]v1alpha1.AttunePolicy{blue, claiming("all", 1, nil)}, []workload.Object{
		release("a-1", "a", "app", "blue"), release("a-2", "a", "app", "blue"), release("a-3", "a", "server", "blue"), release("a-4", "a", "app", "red"),
		release("b-1", "b", "app", "blue"), release("c-1", "", "app", "blue"),
	}, 10)
	of := func(p v1alpha1.AttunePolicy) map[string][]string {
		out := map[string][]string{}
		wanted, members := wantedHistories(&p, policy.Settings{}, m.to(p.Name))
		for _, w := range wanted {
			out[w.Name] = nil
			for _, member := range members[workload.KindName{Kind: w.Kind, Name: w.Name}] {
				out[w.Name] = append(out[w.Name], member.Name)
			}
		}
		return out
	}
	assert.Equal(t, map[string][]string{
		"identity:a/blue/app": {"a-1", "a-2"}, "identity:a/blue/server": {"a-3"}, "identity:b/blue/app": {"b-1"}, "c-1": nil,
	}, of(blue))
	assert.Equal(t, map[string][]string{"identity:a/all/app": {"a-4"}}, of(claiming("all", 1, nil)))
	id := func(name string) workload.Identity {
		return workload.Identity{Kind: v1alpha1.KindDeployment, Namespace: "shop", Name: name}
	}
	assert.Equal(t, map[workload.Identity]string{id("b-1"): "b"}, m.identities, "different policies size the workloads of a")
}
