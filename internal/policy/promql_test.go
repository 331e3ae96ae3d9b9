package policy_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/policy"
)

var shop = policy.QueryScope{Namespace: "shop", Labels: map[string]string{"cluster": "eu-1"}, Back: time.Hour}

// Every selector is restricted, wherever it stands.
func TestQueriesAreRestricted(t *testing.T) {
	const own = `cluster="eu-1",namespace="shop"`
	for query, want := range map[string]string{
		`up`:         `up{` + own + `}`,
		`1 > bool 0`: ``,
		`sum(rate(http_requests_total{code=~"5.."}[5m])) / sum(rate(http_requests_total[5m]))`: `sum(rate(http_requests_total{cluster="eu-1",code=~"5..",namespace="shop"}[5m])) / sum(rate(http_requests_total{` + own + `}[5m]))`,
		`{__name__=~"bank.*"}`:                               `{__name__=~"bank.*",` + own + `}`,
		`{"my metric"}`:                                      `{__name__="my metric",` + own + `}`,
		`up{namespace="shop"}`:                               `up{` + own + `}`,
		`up{namespace=~".*",cluster!="us-1"}`:                `up{` + own + `}`,
		`max_over_time(sum(up)[1h:1m])`:                      `max_over_time(sum(up{` + own + `})[1h:1m])`,
		`absent(up)`:                                         `absent(up{` + own + `})`,
		`a * on(pod) group_left(x) b unless c`:               ``,
		`a or b offset 5m`:                                   `a{` + own + `} or b{` + own + `} offset 5m`,
		`histogram_quantile(0.9, sum by (le) (rate(x[5m])))`: ``,
		`-(a) ^ b`:                                           `-(a{` + own + `}) ^ b{` + own + `}`,
		`topk(1, a) > bool scalar(b)`:                        `topk(1, a{` + own + `}) > bool scalar(b{` + own + `})`,
		`quantile(scalar(c{namespace="shop"}), predict_linear(a[5m], scalar(b)))`: ``,
	} {
		t.Run(query, func(t *testing.T) {
			got, err := shop.Restrict(query, nil)
			require.NoError(t, err)
			if want != "" {
				assert.Equal(t, want, got)
			}
			checkRestricted(t, query, got)
		})
	}
}

// checkRestricted parses the result again: it has all selectors of the query, each with the labels of the scope.
func checkRestricted(t *testing.T, query, got string) {
	t.Helper()
	restricted, err := policy.ParseQuery(got)
	if err != nil && len(got) > 4096 {
		return // the labels make a query longer
	}
	require.NoError(t, err, got)
	selectors := parser.ExtractSelectors(restricted)
	before, err := policy.ParseQuery(query)
	require.NoError(t, err)
	require.Len(t, selectors, len(parser.ExtractSelectors(before)), got)
	for _, matchers := range selectors {
		found := map[string]string{}
		for _, m := range matchers {
			if m.Name == "namespace" || m.Name == "cluster" {
				require.Equal(t, labels.MatchEqual, m.Type, got)
				found[m.Name] = m.Value
			}
		}
		require.Equal(t, map[string]string{"namespace": "shop", "cluster": "eu-1"}, found, got)
	}
}

// FuzzRestrict: no text of a query that is accepted reads a series outside of its scope.
func FuzzRestrict(f *testing.F) {
	for _, query := range []string{
		`up`, `a{namespace="shop"} / b offset 5m`, `max_over_time(sum by (pod) (rate(a{b=~"x|y"}[5m]))[1h:1m])`, `{__name__="a b", "c d"="e"}`,
		"a{b=`\\`} or c{d='\"'}", `{"my\"metric", b="ü"}`, `a{namespace!~"x", namespace=~"sh.p"}`, `-a @ 5`, `a[5m:] # }`, `0x1F + NaN - Inf`, `a{or="b"}`,
	} {
		f.Add(query)
	}
	f.Fuzz(func(t *testing.T, query string) {
		if got, err := shop.Restrict(query, nil); err == nil {
			checkRestricted(t, query, got)
		}
	})
}

// Queries that read other series, or whose cost has no bound, are refused from their text.
func TestQueriesOfNamespacesAreRefused(t *testing.T) {
	for query, want := range map[string]string{
		`bank_balance_euros{namespace="victim"}`:             `has the matcher namespace="victim", which excludes its own series: leave it out, attune adds namespace="shop"`,
		`up + on() a{namespace=~"v.*"}`:                      `has the matcher namespace=~"v.*", which excludes`,
		`up{namespace!="shop"}`:                              `which excludes its own series`,
		`up{cluster="us-1"}`:                                 `has the matcher cluster="us-1", which excludes`,
		`label_replace(up,"a","$1","b","(.*)")`:              `uses label_replace, which guardrails of a namespace may not use on the cluster's server: aggregate instead, e.g. sum by (pod) (up)`,
		`sum(label_join(up,"a",",","b"))`:                    `uses label_join`,
		`count_values("v", up)`:                              `uses count_values`,
		`info(up)`:                                           `is not PromQL: 1:1: parse error: function "info" is not enabled`,
		`max_over_time(up[1h:1s])`:                           `has subqueries with more than 1000 steps: use a longer step, e.g. [1h:1m]`,
		`max_over_time(max_over_time(up[20m:30s])[30m:30s])`: `has subqueries with more than 1000 steps`,
		`max_over_time(up[1y:1ms])`:                          `has subqueries with more than 1000 steps`,
		`rate(up[2h])`:                                       `looks back 2h, more than the 1h of history: use a shorter range, e.g. rate(http_requests_total[5m])`,
		`up offset 2h`:                                       `looks back 2h`,
		`max_over_time(rate(up[20m] offset 20m)[30m:1m])`:    `looks back 1h10m`,
		`up @ 0`:                           `uses the modifier @: use offset, e.g. up offset 5m`,
		`max_over_time(up[5m:1m] @ end())`: `uses the modifier @`,
		`up{or="x"}`:                       `has the label or in a selector`,
		`{"a b"="c"}`:                      `has the label a b in a selector`,
		`up{a=~"(x{1000}){1000}"}`:         `has a regular expression with a counted repetition`,
		`up{a!~"x\x7b999}"}`:               `has a regular expression with a counted repetition`,
		`up + keep_metric_names(up)`:       `is not PromQL: `,
		strings.Repeat("(", 40) + "up" + strings.Repeat(")", 40):              `nests more than 32 expressions`,
		strings.Repeat("-", 100) + "up":                                       `nests more than 32 expressions`,
		strings.Repeat("up+", 40) + "up":                                      `has more than 32 selectors`,
		strings.Repeat("1+", 2000) + "1":                                      `nests more than 32 expressions`,
		strings.Repeat("1+", 2000) + "1":                                      `has more than 512 words and operators`,
		"up{a=~#\n\"x{1000}\"}":                                               `has a regular expression with a counted repetition`,
		"up{a!~ # 1\n# 2\n`x{1000}`}":                                         `has a regular expression with a counted repetition`,
		`up{a=~"(?i)\\W"}`:                                                    `a case-insensitive part`,
		`up{a=~"x(?s-i:[^a])"}`:                                               `a case-insensitive part`,
		`max_over_time(up[292y] offset 200y)`:                                 `looks back`,
		`max_over_time(max_over_time(up[292y])[1m:1m] offset 290y)`:           `looks back`,
		`max_over_time(max_over_time(up[1m] offset 290y)[1m:1m] offset 290y)`: `looks back`,
		`up{a=~"\\pL"}`:                                                       `a Unicode class`,
		`up{a=~"[A-\u1e94]"}`:                                                 `outside of ASCII`,
		"up #" + strings.Repeat("x", 5000):                                    `has 5004 bytes: use at most 4096`,
	} {
		t.Run(want, func(t *testing.T) {
			_, err := shop.Restrict(query, nil)
			assert.ErrorContains(t, err, want)
		})
	}
}

// longLabels is a query of 364 bytes that makes a label of 2 MiB for each container.
func longLabels() string {
	query := `label_replace(container_memory_working_set_bytes,"a","xxxxxxxx","","")`
	for range 6 {
		query = fmt.Sprintf(`label_replace(%s,"a","$1$1$1$1$1$1$1$1","a","(.*)")`, query)
	}
	return "count(" + query + ")"
}

// Guardrails of a namespace are restricted on servers that it does not name, at every level that belongs to it. Those of
// the cluster's administrator are not, and neither are those that a namespace sends to its own server.
func TestWhoseGuardrailsAreRestricted(t *testing.T) {
	guardrail := func(query string) string {
		return fmt.Sprintf("sloGuardrails: [{name: q, query: %q, threshold: \"1\", comparison: \"<\"}]", query)
	}
	const victim = `sum(up{namespace="victim"})`
	const central = `metricsSource: {prometheus: {address: "http://central:9090"}, labels: {cluster: eu-1}}`
	const mine = `metricsSource: {prometheus: {address: "http://mine:9090"}}`
	resolve := func(cluster, namespace, own string) (policy.Settings, error) {
		return policy.ResolveAllowed(clusterDefaults(t, cluster), namespaceDefaults(t, namespace), aPolicy(t, own), policy.Operator{SourceNamespaces: []string{"shop"}})
	}
	for name, c := range map[string]struct {
		cluster, namespace, policy string
		denied                     bool
	}{
		"policy, operator's server":                {``, ``, guardrail(victim), true},
		"policy, server of the defaults":           {central, ``, guardrail(victim), true},
		"namespace defaults, operator's server":    {``, guardrail(victim), `{weight: 1}`, true},
		"policy, own server":                       {central, ``, mine + "\n" + guardrail(victim), false},
		"policy, server of the namespace defaults": {central, mine, guardrail(victim), false},
		"patterns that only the server compiles":   {``, ``, mine + "\n" + guardrail(`sum(a{code=~"5[0-9]{2}"})`), false},
		"cases that only the server compiles":      {``, ``, mine + "\n" + guardrail("sum(a{code=~`(?i)error`})"), false},
		"a pattern before an error":                {``, ``, mine + "\n" + guardrail(`sum(a{code=~"5[0-9]{2}"}`), true},
		"labels that grow, own server":             {``, ``, mine + "\n" + guardrail(longLabels()), false},
		"labels that grow":                         {``, ``, guardrail(longLabels()), true},
		"AttuneDefaults":                           {guardrail(victim), ``, `{weight: 1}`, false},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := resolve(c.cluster, c.namespace, c.policy)
			if !c.denied {
				require.NoError(t, err)
				assert.Len(t, s.Resize.Guardrails, 1)
				assert.Empty(t, s.GuardrailScope.Namespace)
				return
			}
			assert.Contains(t, problems(t, err)[0].Sentence, "sloGuardrails[q].query ")
			assert.Empty(t, s.Resize.Guardrails)
		})
	}
	s, err := resolve(central, ``, guardrail(`sum(up)`))
	require.NoError(t, err)
	assert.Equal(t, policy.QueryScope{Namespace: "shop", Labels: map[string]string{"cluster": "eu-1"}, Back: 168 * time.Hour}, s.GuardrailScope)

	p := policy.Instance(&v1alpha1.AttuneClusterPolicy{Spec: v1alpha1.AttuneClusterPolicySpec{PolicySettings: aPolicy(t, guardrail(victim)).Spec.PolicySettings}}, "shop", true)
	s, err = policy.ResolveAllowed(nil, nil, p, policy.Operator{})
	require.NoError(t, err)
	assert.Empty(t, s.GuardrailScope.Namespace)

	s, err = policy.ResolveAllowed(nil, nil, aPolicy(t, guardrail(`sum(up)`)), policy.Operator{SourceNamespaces: []string{"shop"}, Embedded: true})
	require.NoError(t, err)
	assert.Equal(t, policy.QueryScope{Namespace: "shop", Back: 75 * time.Minute}, s.GuardrailScope)
}

// A query is refused without being evaluated, and without compiling its regular expressions.
func BenchmarkRefusedQueries(b *testing.B) {
	for name, query := range map[string]string{
		"labels that grow": longLabels(), "repetitions": `up{a=~"` + strings.Repeat(`.{999}`, 600) + `"}`,
		"many selectors": strings.Repeat("up+", 1300) + "up", "classes": `up{a=~"` + strings.Repeat(`\\pL`, 1000) + `"}`,
		"alternatives": `up{a=~"` + strings.Repeat(`a|`, 2000) + `"}`, "cases": `up{a=~"(?i)` + strings.Repeat(`\\W`, 1000) + `"}`, "nested": strings.Repeat("-", 4000) + "up",
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for range b.N {
				_, _ = shop.Restrict(query, nil)
			}
		})
	}
}

// Refusing the query that took 898 MB costs little memory.
func TestARefusalAllocatesLittle(t *testing.T) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := shop.Restrict(longLabels(), nil)
	runtime.ReadMemStats(&after)
	require.Error(t, err)
	assert.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(256<<10))
}

// A message about a guardrail of another level has no part of its query: each user who reads the policy gets it.
func TestMessagesHaveNoQueryOfOtherLevels(t *testing.T) {
	for _, query := range []string{`s3cret s3cret`, `s3cret(`, `s3cret[5m]`, `s3cret > 1`, `up{namespace="s3cret"}`, `absent(s3cret)`} {
		defaults := namespaceDefaults(t, `paused: false`)
		defaults.Spec.SLOGuardrails = []v1alpha1.SLOGuardrail{{Name: "q", Query: query, Threshold: "1", Comparison: "<"}}
		_, err := policy.ResolveAllowed(nil, defaults, aPolicy(t, `{weight: 1}`), policy.Operator{SourceNamespaces: []string{"shop"}})
		assert.NotContains(t, err.Error(), "s3cret")
		assert.Contains(t, err.Error(), "sloGuardrails[q].query (from the AttuneNamespaceDefaults)")
		_, err = policy.ResolveAllowed(nil, defaults, nil, policy.Operator{SourceNamespaces: []string{"shop"}})
		assert.ErrorContains(t, err, "s3cret", "the level itself")
	}
}
