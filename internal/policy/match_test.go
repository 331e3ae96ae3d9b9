package policy_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/policy"
	"attune.io/attune/internal/trim"
	"attune.io/attune/internal/workload"
)

var epoch = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// named returns a policy of namespace shop. Its creation time is the epoch.
func named(t *testing.T, name, spec string) v1alpha1.AttunePolicy {
	p := aPolicy(t, spec)
	p.Name, p.CreationTimestamp = name, metav1.NewTime(epoch)
	return *p
}

func api(change ...func(*workload.Workload)) workload.Workload {
	w := workload.Workload{
		Identity: workload.Identity{Kind: v1alpha1.KindDeployment, Namespace: "shop", Name: "api"},
		Labels:   map[string]string{"tier": "api"},
	}
	for _, f := range change {
		f(&w)
	}
	return w
}

func TestSelects(t *testing.T) {
	for name, c := range map[string]struct {
		spec string
		want bool
	}{
		"all of the kind":    {`targetRef: {kind: Deployment}`, true},
		"another kind":       {`targetRef: {kind: StatefulSet}`, false},
		"by name":            {`targetRef: {kind: Deployment, name: api}`, true},
		"another name":       {`targetRef: {kind: Deployment, name: api-v2}`, false},
		"another kind's":     {`targetRef: {kind: StatefulSet, name: api}`, false},
		"by label":           {`targetRef: {kind: Deployment, selector: {matchLabels: {tier: api}}}`, true},
		"another label":      {`targetRef: {kind: Deployment, selector: {matchLabels: {tier: web}}}`, false},
		"every label counts": {`targetRef: {kind: Deployment, selector: {matchLabels: {tier: api, region: eu}}}`, false},
		"by expression":      {`targetRef: {kind: Deployment, selector: {matchExpressions: [{key: tier, operator: In, values: [web, api]}]}}`, true},
		"labels absent":      {`targetRef: {kind: Deployment, selector: {matchExpressions: [{key: batch, operator: DoesNotExist}]}}`, true},
		"empty selector":     {`targetRef: {kind: Deployment, selector: {}}`, false},
		"empty parts":        {`targetRef: {kind: Deployment, selector: {matchLabels: {}, matchExpressions: []}}`, false},
		"broken selector":    {`targetRef: {kind: Deployment, selector: {matchExpressions: [{key: tier, operator: Like}]}}`, false},
		"name and selector":  {`targetRef: {kind: Deployment, name: api, selector: {matchLabels: {tier: api}}}`, false},
		"no kind":            {`targetRef: {kind: ""}`, false},
	} {
		t.Run(name, func(t *testing.T) {
			winner, losers := policy.NewMatcher([]v1alpha1.AttunePolicy{named(t, "p", c.spec)}).Match(api())
			assert.Equal(t, c.want, winner != nil)
			assert.Empty(t, losers)
		})
	}
}

func TestNeverSelected(t *testing.T) {
	all := func(kind v1alpha1.WorkloadKind) []v1alpha1.AttunePolicy {
		return []v1alpha1.AttunePolicy{named(t, "p", fmt.Sprintf(`targetRef: {kind: %s}`, kind))}
	}
	owned := func(kind v1alpha1.WorkloadKind, group, owner string) workload.Workload {
		return api(func(w *workload.Workload) {
			w.Kind = kind
			w.OwnedBy = workload.Owner{GroupKind: schema.GroupKind{Group: group, Kind: owner}, Name: "owner"}
		})
	}
	for name, c := range map[string]struct {
		workload workload.Workload
		want     bool
	}{
		"a Deployment's ReplicaSet":      {owned("ReplicaSet", "apps", "Deployment"), false},
		"an Argo Rollout's ReplicaSet":   {owned("ReplicaSet", "argoproj.io", "Rollout"), false},
		"a ReplicaSet that stands alone": {api(func(w *workload.Workload) { w.Kind = "ReplicaSet" }), true},
		"a CronJob's Job":                {owned("Job", "batch", "CronJob"), false},
		"a Job of some operator":         {owned("Job", "jobset.x-k8s.io", "JobSet"), true},
		"a Deployment of some operator":  {owned("Deployment", "example.com", "App"), true},
		"another namespace":              {api(func(w *workload.Workload) { w.Namespace = "bank" }), false},
	} {
		t.Run(name, func(t *testing.T) {
			winner, _ := policy.NewMatcher(all(c.workload.Kind)).Match(c.workload)
			assert.Equal(t, c.want, winner != nil)
		})
	}

	deleted := all("Deployment")
	now := metav1.Now()
	deleted[0].DeletionTimestamp = &now
	winner, _ := policy.NewMatcher(deleted).Match(api())
	assert.Nil(t, winner, "a policy that is being deleted")
}

func TestTheStrongestWins(t *testing.T) {
	older, heavier, named1, named2, light := named(t, "older", `{}`), named(t, "heavier", `weight: 101`), named(t, "a", `weight: 100`), named(t, "b", `{}`), named(t, "light", `weight: 1`)
	older.CreationTimestamp = metav1.NewTime(epoch.Add(-time.Second))

	winner, losers := policy.NewMatcher([]v1alpha1.AttunePolicy{light, named2, older, named1, heavier}).Match(api())
	require.NotNil(t, winner)
	assert.Equal(t, "heavier", winner.Name)
	assert.Equal(t, map[string]string{"older": "weight 101 over 100", "a": "weight 101 over 100", "b": "weight 101 over 100", "light": "weight 101 over 1"}, reasons(losers))

	winner, losers = policy.NewMatcher([]v1alpha1.AttunePolicy{named2, older, named1}).Match(api())
	assert.Equal(t, "older", winner.Name)
	const since = "equal weight 100; created 2026-01-02T03:04:04Z, before 2026-01-02T03:04:05Z"
	assert.Equal(t, map[string]string{"a": since, "b": since}, reasons(losers))

	winner, losers = policy.NewMatcher([]v1alpha1.AttunePolicy{named2, named1}).Match(api())
	assert.Equal(t, "a", winner.Name)
	assert.Equal(t, map[string]string{"b": "equal weight 100 and age; name a before b"}, reasons(losers))
}

func reasons(losers []policy.Conflict) map[string]string {
	all := map[string]string{}
	for _, l := range losers {
		all[l.Policy.Name] = l.Reason()
	}
	return all
}

// A cache lists objects in any order.
func TestOrderChangesNothing(t *testing.T) {
	var policies []v1alpha1.AttunePolicy
	for i := range 12 {
		p := named(t, fmt.Sprintf("p%02d", i), fmt.Sprintf(`weight: %d`, 100+i%3))
		p.CreationTimestamp = metav1.NewTime(epoch.Add(time.Duration(i%2) * time.Hour))
		policies = append(policies, p)
	}
	winner, losers := policy.NewMatcher(policies).Match(api())
	require.Equal(t, "p02", winner.Name)
	want := reasons(losers)
	random := rand.New(rand.NewPCG(1, 2))
	for range 50 {
		random.Shuffle(len(policies), func(i, j int) { policies[i], policies[j] = policies[j], policies[i] })
		winner, others := policy.NewMatcher(policies).Match(api())
		require.Equal(t, "p02", winner.Name)
		require.Equal(t, want, reasons(others))
	}
}

// The matcher returns the objects of the given list.
func TestAMatcherKnowsEveryNamespace(t *testing.T) {
	policies := []v1alpha1.AttunePolicy{named(t, "shop", `{}`), named(t, "bank", `{}`)}
	policies[1].Namespace = "bank"
	m := policy.NewMatcher(policies)
	winner, _ := m.Match(api())
	assert.Same(t, &policies[0], winner)
	winner, _ = m.Match(api(func(w *workload.Workload) { w.Namespace = "bank" }))
	assert.Same(t, &policies[1], winner)
}

// Workloads must not change their policy until a user corrects a typing error.
func TestAnInvalidPolicyKeepsItsWorkloads(t *testing.T) {
	broken, other := named(t, "broken", `{weight: 500, cpu: {percentile: 101}}`), named(t, "other", `{}`)
	winner, _ := policy.NewMatcher([]v1alpha1.AttunePolicy{other, broken}).Match(api())
	assert.Equal(t, "broken", winner.Name)
}

func BenchmarkMatch(b *testing.B) {
	var policies []v1alpha1.AttunePolicy
	for i := range 100 {
		p := v1alpha1.AttunePolicy{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint(i), Namespace: "shop"}}
		p.Spec.TargetRef = v1alpha1.TargetRef{Kind: v1alpha1.KindDeployment, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"tier": fmt.Sprint(i)}}}
		policies = append(policies, p)
	}
	m, w := policy.NewMatcher(policies), api()
	b.ReportAllocs()
	for b.Loop() {
		m.Match(w)
	}
}

// If the cache dropped the labels of a workload, no selector selects it, not even one that requires an absent label.
func TestNoSelectorMatchesAWorkloadWhoseLabelsAreNotKnown(t *testing.T) {
	large := api(func(w *workload.Workload) {
		w.Labels, w.Annotations = nil, map[string]string{workload.TooLargeAnnotation: "true"}
	})
	for spec, want := range map[string]bool{
		`targetRef: {kind: Deployment}`:                                                                              true,
		`targetRef: {kind: Deployment, name: api}`:                                                                   true,
		`targetRef: {kind: Deployment, selector: {matchLabels: {tier: api}}}`:                                        false,
		`targetRef: {kind: Deployment, selector: {matchExpressions: [{key: batch, operator: DoesNotExist}]}}`:        false,
		`targetRef: {kind: Deployment, selector: {matchExpressions: [{key: tier, operator: NotIn, values: [web]}]}}`: false,
	} {
		winner, _ := policy.NewMatcher([]v1alpha1.AttunePolicy{named(t, "p", spec)}).Match(large)
		assert.Equal(t, want, winner != nil, spec)
	}
}

// A policy with dropped fields is invalid and says so: it neither selects by a part of a selector nor queries a server
// with a part of the headers.
func TestTooLargePolicyIsReported(t *testing.T) {
	whole := aPolicy(t, `targetRef: {kind: Deployment, selector: {matchLabels: {tier: api}}}`)
	for i := range 300 {
		whole.Spec.TargetRef.Selector.MatchLabels[fmt.Sprint("label-", i)] = strings.Repeat("v", 60)
	}
	kept, err := trim.Object(whole.DeepCopy())
	require.NoError(t, err)
	for _, p := range []*v1alpha1.AttunePolicy{whole, kept.(*v1alpha1.AttunePolicy)} {
		_, err := policy.Resolve(nil, nil, p)
		assert.ErrorContains(t, err, "targetRef.selector is larger than 16 KiB")
	}
	asks := aPolicy(t, `metricsSource: {prometheus: {headers: {X-Scope-OrgID: a}}}`)
	asks.Spec.MetricsSource.Prometheus.Headers["X-Long"] = strings.Repeat("h", 20<<10)
	kept, err = trim.Object(asks)
	require.NoError(t, err)
	_, err = policy.Resolve(nil, nil, kept.(*v1alpha1.AttunePolicy))
	assert.ErrorContains(t, err, "its headers and parameters are more than 16 KiB")
}
