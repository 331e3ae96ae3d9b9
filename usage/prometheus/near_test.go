package prometheus

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"attune.io/attune/resize/climb"
	"attune.io/attune/usage"
)

// The server is queried for pods close to a limit, and then only about those; the times are measurement times.
func TestNearAsksAboutWhoIsCloseAlone(t *testing.T) {
	now := time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)
	var asked []string
	var fails error
	n := &Near{Noise: percent, Raised: raisedIn("shop"), Scope: ScopeOf(map[string]string{"cluster": "eu-1"}), Ask: func(_ context.Context, expression string, q usage.Query, yield func(Element)) (usage.Report, error) {
		asked = append(asked, expression)
		of := Labels{Namespace: "shop", Pod: "web-1", Container: "app"}
		at := func(ago time.Duration, value float64) usage.Sample {
			return usage.Sample{At: q.End.Add(-ago).UnixMilli(), Value: value}
		}
		measured := func(ago time.Duration) float64 { return float64(now.Add(-ago).Unix()) }
		switch {
		case fails != nil:
			return usage.Report{}, fails
		case strings.Contains(expression, "container_spec_memory_limit_bytes"):
			yield(Element{Labels: of, Samples: []usage.Sample{at(0, 0.7)}})
		case strings.Contains(expression, "timestamp("):
			yield(Element{Labels: of, Samples: []usage.Sample{at(45*time.Second, measured(50*time.Second)), at(30*time.Second, measured(50*time.Second)), at(15*time.Second, measured(20*time.Second))}})
		default:
			yield(Element{Labels: of, Samples: []usage.Sample{at(45*time.Second, 100), at(30*time.Second, 100), at(15*time.Second, 200)}})
		}
		return usage.Report{}, nil
	}}
	traces, err := n.Lately(t.Context(), "shop", []string{"web-1", "web-2"}, now)
	require.NoError(t, err)
	assert.Empty(t, traces)
	assert.Empty(t, asked, "none is known to be close")

	pods, err := n.Refresh(t.Context(), now)
	require.NoError(t, err)
	assert.Equal(t, NearPods{Grown: []NearPod{{"shop", "web-1"}}}, pods)
	assert.Contains(t, asked[0], `namespace="shop",cluster="eu-1"`)
	traces, err = n.Lately(t.Context(), "shop", []string{"web-1", "web-2"}, now)
	require.NoError(t, err)
	require.Len(t, asked, 3)
	assert.NotContains(t, asked[1], "web-2")
	assert.Equal(t, usage.Traces{"web-1": {"app": {Samples: []usage.Sample{
		{At: now.Add(-50 * time.Second).UnixMilli(), Value: 100}, {At: now.Add(-20 * time.Second).UnixMilli(), Value: 200},
	}}}}, traces)

	fails = errors.New("no server")
	_, err = n.Lately(t.Context(), "shop", []string{"web-1"}, now)
	require.Error(t, err)
	_, err = n.Refresh(t.Context(), now)
	require.Error(t, err)
	fails = nil
	_, err = n.Refresh(t.Context(), now.Add(time.Hour))
	require.NoError(t, err)
	assert.Len(t, n.seen, 1)
}

// raisedIn allows raises of memory in these namespaces.
func raisedIn(namespaces ...string) func(context.Context) (map[string]bool, error) {
	return func(context.Context) (map[string]bool, error) {
		raised := map[string]bool{}
		for _, namespace := range namespaces {
			raised[namespace] = true
		}
		return raised, nil
	}
}

// answering is a server with a changeable answer.
func answering(answer *[]Element) func(context.Context, string, usage.Query, func(Element)) (usage.Report, error) {
	return func(_ context.Context, _ string, _ usage.Query, yield func(Element)) (usage.Report, error) {
		for _, e := range *answer {
			yield(e)
		}
		return usage.Report{}, nil
	}
}

// holding is a container that uses a fraction of its limit.
func holding(namespace, pod, container string, fraction float64) Element {
	return Element{Labels: Labels{Namespace: namespace, Pod: pod, Container: container}, Samples: []usage.Sample{{Value: fraction}}}
}

// A namespace with more pods close to their limits than there is room for leaves room for others.
func TestPodsCloseToTheirLimitsAreTakenInTurns(t *testing.T) {
	now := time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)
	var answer []Element
	for i := range mostNear + 500 {
		answer = append(answer, holding("greedy", fmt.Sprintf("a-%04d", i), "a", 0.98), holding("watched", fmt.Sprintf("a-%04d", i), "a", 0.99))
	}
	answer = append(answer, holding("shop", "web-1", "app", 0.7), holding("shop", "web-2", "app", 0.65))
	n := &Near{Noise: percent, Raised: raisedIn("greedy", "shop"), Ask: answering(&answer)}
	pods, err := n.Refresh(t.Context(), now)
	require.NoError(t, err)
	assert.Contains(t, pods.Grown, NearPod{"shop", "web-1"})
	assert.Contains(t, pods.Grown, NearPod{"shop", "web-2"})
	assert.Len(t, pods.Grown, mostNear)
	assert.Equal(t, 502, pods.Left)
	for _, pod := range pods.Grown {
		assert.NotEqual(t, "watched", pod.Namespace, "nothing is raised there")
	}
	assert.Equal(t, []string{"web-1"}, n.of("shop", []string{"web-1", "web-3"}))

	// Pods with constant memory yield to the grown pods of their namespace.
	pods, err = n.Refresh(t.Context(), now.Add(15*time.Second))
	require.NoError(t, err)
	assert.Len(t, pods.Grown, 502)
}

// With more namespaces than room, each has its turn.
func TestEachNamespaceHasItsTurn(t *testing.T) {
	now := time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)
	var answer []Element
	var names []string
	for i := range mostNear + 500 {
		names = append(names, fmt.Sprintf("tenant-%04d", i))
		answer = append(answer, holding(names[i], "web-1", "app", 0.9))
	}
	n := &Near{Noise: percent, Raised: raisedIn(names...), Ask: answering(&answer)}
	told := map[NearPod]bool{}
	for i := range 2 {
		pods, err := n.Refresh(t.Context(), now.Add(time.Duration(i)*15*time.Second))
		require.NoError(t, err)
		for _, pod := range pods.Grown {
			told[pod] = true
		}
	}
	assert.Len(t, told, len(names))
}

// No query is sent if no memory may be raised, or if that is unknown.
func TestNothingIsAskedWhereNoMemoryIsRaised(t *testing.T) {
	n := &Near{Noise: percent, Raised: raisedIn(), Ask: func(context.Context, string, usage.Query, func(Element)) (usage.Report, error) {
		t.Error("the server was asked")
		return usage.Report{}, nil
	}}
	pods, err := n.Refresh(t.Context(), time.Unix(0, 0))
	require.NoError(t, err)
	assert.Zero(t, pods)
	n.Raised = func(context.Context) (map[string]bool, error) { return nil, errors.New("no cache") }
	_, err = n.Refresh(t.Context(), time.Unix(0, 0))
	require.Error(t, err)
}

// A pod is reported when it has grown. A pod with constant memory is reported once, and is still queried.
func TestAPodIsNamedWhenItHasGrown(t *testing.T) {
	now := time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		held  []float64
		named []int
	}{
		"rests":                                {held: []float64{0.9, 0.9, 0.905, 0.9, 0.905}, named: []int{0}},
		"crosses the bound":                    {held: []float64{0.602, 0, 0.603, 0, 0.602}},
		"climbs":                               {held: []float64{0.7, 0.75, 0.8, 0.85}, named: []int{0, 1, 2, 3}},
		"climbs slowly: it adds up":            {held: []float64{0.7, 0.704, 0.708, 0.712, 0.716, 0.72, 0.724}, named: []int{0, 3, 6}},
		"the last steps of a climb are small":  {held: []float64{0.99, 0.993, 0.996}, named: []int{0, 1, 2}},
		"climbs again, from where it had been": {held: []float64{0.9, 0.7, 0.75}, named: []int{0, 2}},
		"was gone":                             {held: []float64{0.9, 0, 0.9}, named: []int{0, 2}},
	} {
		t.Run(name, func(t *testing.T) {
			var answer []Element
			n := &Near{Noise: percent, Raised: raisedIn("shop"), Ask: answering(&answer)}
			var named []int
			for i, fraction := range c.held {
				answer = []Element{holding("shop", "web-1", "side", 0.8), holding("shop", "web-2", "app", 0.8)}
				if i == 0 { // the other containers are constant: they do not cause another report of the pod
					_, err := n.Refresh(t.Context(), now)
					require.NoError(t, err)
				}
				if fraction > 0 {
					answer = append(answer, holding("shop", "web-1", "app", fraction))
				}
				pods, err := n.Refresh(t.Context(), now.Add(time.Duration(i)*15*time.Second))
				require.NoError(t, err)
				if len(pods.Grown) > 0 {
					assert.Equal(t, []NearPod{{"shop", "web-1"}}, pods.Grown)
					named = append(named, i)
				}
				assert.Len(t, n.lowest, len(answer), "what is not in the newest answer is forgotten")
				assert.Equal(t, []string{"web-1"}, n.of("shop", []string{"web-1"}))
			}
			assert.Equal(t, c.named, named)
		})
	}
}

// percent: a container has grown by more than 1 % of its limit, and by less if little is left.
func percent(fraction float64) float64 { return climb.Noise(1-fraction, 1) }
