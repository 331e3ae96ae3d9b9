package policy_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/policy"
)

func token(name string) *v1alpha1.SecretKey { return &v1alpha1.SecretKey{Name: name, Key: "token"} }

// Settings for one server are not sent to another one, and Secrets come from one namespace.
func TestServer(t *testing.T) {
	const withToken = `metricsSource: {prometheus: {address: "http://central:9090", headers: {X-Scope-OrgID: all}, bearerTokenSecret: {name: central, key: token}}}`
	for name, c := range map[string]struct {
		cluster, policy string
		want            *v1alpha1.PrometheusSource
		namespace       string
	}{
		"the operator's own": {``, `{weight: 1}`, nil, ""},
		"the cluster's": {withToken, `{weight: 1}`,
			&v1alpha1.PrometheusSource{Address: "http://central:9090", Headers: map[string]string{"X-Scope-OrgID": "all"}, BearerTokenSecret: token("central")}, ""},
		"another address leaves token and headers behind": {withToken, `metricsSource: {prometheus: {address: "http://mine:9090"}}`,
			&v1alpha1.PrometheusSource{Address: "http://mine:9090"}, ""},
		"the same address too: it is named anew": {withToken, `metricsSource: {prometheus: {address: "http://central:9090"}}`,
			&v1alpha1.PrometheusSource{Address: "http://central:9090"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := policy.Resolve(clusterDefaults(t, c.cluster), nil, aPolicy(t, c.policy))
			require.NoError(t, err)
			assert.Empty(t, cmp.Diff(c.want, s.Source.Prometheus))
			assert.Equal(t, c.namespace, s.Source.Namespace)
			assert.Equal(t, strings.Contains(c.policy, "address"), s.Source.OfPolicy, "whoever names the address, with credentials or without")
		})
	}
}

// Only AttuneDefaults say how their server is queried: another header could select another tenant, with their token.
func TestServerOfTheDefaultsIsQueriedAsTheySay(t *testing.T) {
	cluster := clusterDefaults(t, `metricsSource: {prometheus: {address: "http://central:9090", headers: {X-Scope-OrgID: shop}, bearerTokenSecret: {name: central, key: token}}}`)
	for name, fields := range map[string]string{
		"headers": `{headers: {X-Scope-OrgID: payroll}}`, "parameters": `{queryParameters: {tenant: payroll}}`,
		"token": `{bearerTokenSecret: {name: mine, key: token}}`, "tls": `{tls: {insecureSkipVerify: true}}`,
		"password": `{basicAuth: {username: a, passwordSecret: {name: a, key: b}}}`,
	} {
		for level, resolve := range map[policy.Level]func(spec string) (policy.Settings, error){
			policy.Policy: func(spec string) (policy.Settings, error) { return policy.Resolve(cluster, nil, aPolicy(t, spec)) },
			policy.Namespace: func(spec string) (policy.Settings, error) {
				return policy.Resolve(cluster, namespaceDefaults(t, spec), aPolicy(t, `{weight: 1}`))
			},
		} {
			t.Run(name+" of "+string(level), func(t *testing.T) {
				s, err := resolve(`metricsSource: {prometheus: ` + fields + `}`)
				found := problems(t, err)
				require.Len(t, found, 1)
				assert.Equal(t, []policy.Level{level}, found[0].Levels)
				assert.Contains(t, found[0].Sentence, "has no address for its other fields")
				assert.Empty(t, cmp.Diff(cluster.Spec.MetricsSource.Prometheus, s.Source.Prometheus))
				assert.Empty(t, s.Source.Namespace)
			})
		}
	}
}

// Policies of two namespaces with one server have equal settings, so that its queries run once.
func TestSharedSourceIsEqualEverywhere(t *testing.T) {
	cluster := clusterDefaults(t, `metricsSource: {prometheus: {address: "http://central:9090", bearerTokenSecret: {name: a, key: b}}}`)
	one, other := aPolicy(t, `{weight: 1}`), aPolicy(t, `{weight: 2}`)
	other.Namespace = "elsewhere"
	a, err := policy.Resolve(cluster, nil, one)
	require.NoError(t, err)
	b, err := policy.Resolve(cluster, nil, other)
	require.NoError(t, err)
	assert.Empty(t, cmp.Diff(a.Source, b.Source))
}

func TestWrongServers(t *testing.T) {
	for name, c := range map[string]struct{ spec, want string }{
		"no address": {`metricsSource: {prometheus: {headers: {A: b}}}`,
			`metricsSource.prometheus has no address for its other fields: set metricsSource.prometheus.address, e.g. http://prometheus.monitoring:9090`},
		"two credentials": {`metricsSource: {prometheus: {address: "http://a", bearerTokenSecret: {name: a, key: b}, basicAuth: {username: a, passwordSecret: {name: a, key: b}}}}`,
			`metricsSource.prometheus must not have both bearerTokenSecret and basicAuth: remove one of them`},
		"line break": {`metricsSource: {prometheus: {address: "http://a", headers: {X-A: "a\nX-B: b"}}}`,
			`metricsSource.prometheus.headers holds "X-A", which is not a valid HTTP header: use letters, digits and dashes, e.g. X-Scope-OrgID`},
		"header name": {`metricsSource: {prometheus: {address: "http://a", headers: {"X A": a}}}`,
			`metricsSource.prometheus.headers holds "X A", which is not a valid HTTP header: use letters, digits and dashes, e.g. X-Scope-OrgID`},
		"authorization": {`metricsSource: {prometheus: {address: "http://a", headers: {authorization: a}}}`,
			`metricsSource.prometheus.headers must not hold authorization: use bearerTokenSecret or basicAuth for credentials and address for the host`},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := policy.Resolve(nil, nil, aPolicy(t, c.spec))
			assert.EqualError(t, err, c.want)
		})
	}
}

func TestAddresses(t *testing.T) {
	const (
		notURL   = " is not a URL: use scheme, host and port, e.g. http://prometheus.monitoring:9090"
		scheme   = " must begin with http:// or https://, e.g. http://prometheus.monitoring:9090"
		userinfo = " must not hold a user name or password: use basicAuth and leave them out, e.g. http://prometheus.monitoring:9090"
		query    = " must not hold a query or fragment: use queryParameters, e.g. http://prometheus.monitoring:9090"
		own      = " points to endpoints of the node or of the operator: use a Service, e.g. http://prometheus.monitoring:9090"
	)
	for address, want := range map[string]string{
		"http://prometheus.monitoring:9090":              "",
		"https://mimir.example.com/prometheus":           "",
		"http://10.96.0.12:9090":                         "",
		"http://[fd12::1]:9090":                          "",
		"prometheus:9090":                                notURL,
		"http://":                                        notURL,
		"http://a b":                                     notURL,
		"//prometheus":                                   scheme,
		"ftp://prometheus":                               scheme,
		"file://host/etc/passwd":                         scheme,
		"http://user:secret@prometheus":                  userinfo,
		"http://prometheus?x=1":                          query,
		"http://prometheus#x":                            query,
		"http://169.254.169.254/latest/meta-data":        own,
		"http://169.254.1.1":                             own,
		"http://[fe80::1%25eth0]":                        own,
		"http://[::ffff:169.254.169.254]":                own,
		"http://[fd00:ec2::254]":                         own,
		"http://100.100.100.200":                         own,
		"http://metadata.google.internal":                own,
		"http://METADATA.google.internal.:80":            own,
		"http://0.0.0.0:8080":                            own,
		"http://[::]":                                    own,
		"http://2852039166":                              own,
		"http://0xa9fea9fe":                              own,
		"http://127.1":                                   own,
		"http://127.0.0.1:9090":                          own,
		"http://[::1]:9090":                              own,
		"http://localhost:9090":                          own,
		"http://prometheus.localhost":                    own,
		"http://224.0.0.1":                               own,
		"http://local.localdomain:9090":                  "",
		"http://1prometheus.monitoring.svc.cluster:9090": "",
	} {
		t.Run(address, func(t *testing.T) {
			p := aPolicy(t, `{weight: 1}`)
			p.Spec.MetricsSource = &v1alpha1.MetricsSource{Prometheus: &v1alpha1.PrometheusSource{Address: address}}
			s, err := policy.Resolve(nil, nil, p)
			if want == "" {
				require.NoError(t, err)
				assert.Equal(t, address, s.Source.Prometheus.Address)
				return
			}
			assert.EqualError(t, err, "metricsSource.prometheus.address "+address+want)
			assert.Nil(t, s.Source.Prometheus, "what is refused is not asked")
		})
	}
}

// An administrator may run a proxy in the operator's pod; other users must not reach it.
func TestLoopback(t *testing.T) {
	const spec = `metricsSource: {prometheus: {address: "http://localhost:9090"}}`
	_, err := policy.Resolve(clusterDefaults(t, spec), nil, aPolicy(t, `{weight: 1}`))
	require.NoError(t, err)
	_, err = policy.Resolve(nil, namespaceDefaults(t, spec), aPolicy(t, `{weight: 1}`))
	require.ErrorContains(t, err, "points to endpoints of the node or of the operator")
}

func TestSourceAllowed(t *testing.T) {
	assert.False(t, policy.SourceAllowed("shop", nil))
	assert.False(t, policy.SourceAllowed("shop", []string{"shop-2", "sho"}))
	assert.True(t, policy.SourceAllowed("shop", []string{"bank", "shop"}))
	assert.True(t, policy.SourceAllowed("shop", []string{"*"}))
}

func TestWhatMayNotBeNamed(t *testing.T) {
	const instead = " is not allowed in namespace shop: leave it out to use the operator's source, or have an administrator add shop to usage.policySources.namespaces"
	for name, c := range map[string]struct {
		spec string
		want []string
	}{
		"nothing named": {`metricsSource: {historyWindow: 24h}`, nil},
		"address":       {`metricsSource: {prometheus: {address: "http://a"}}`, []string{"metricsSource.prometheus http://a" + instead}},
		"headers":       {`metricsSource: {prometheus: {headers: {X-Scope-OrgID: bank}}}`, []string{"metricsSource.prometheus without an address" + instead}},
		"tls":           {`metricsSource: {prometheus: {tls: {insecureSkipVerify: true}}}`, []string{"metricsSource.prometheus without an address" + instead}},
		"password":      {`metricsSource: {prometheus: {basicAuth: {username: a, passwordSecret: {name: a, key: b}}}}`, []string{"metricsSource.prometheus without an address" + instead}},
		"secret":        {`metricsSource: {prometheus: {bearerTokenSecret: {name: a, key: b}}}`, []string{"metricsSource.prometheus without an address" + instead}},
		"query":         {`sloGuardrails: [{name: errors, query: up, threshold: "1", comparison: "<"}]`, []string{"sloGuardrails errors" + instead}},
		"address and both": {`{metricsSource: {prometheus: {address: "http://a"}}, sloGuardrails: [{name: a, query: up, threshold: "1", comparison: "<"}, {name: b, query: up, threshold: "1", comparison: "<"}]}`,
			[]string{"metricsSource.prometheus http://a" + instead, "sloGuardrails a" + instead, "sloGuardrails b" + instead}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := policy.ResolveAllowed(nil, nil, aPolicy(t, c.spec), policy.Operator{SourceNamespaces: []string{"bank"}})
			if c.want == nil {
				require.NoError(t, err)
				return
			}
			var got []string
			for _, p := range problems(t, err) {
				got = append(got, p.Sentence)
				assert.Equal(t, []policy.Level{policy.Policy}, p.Levels)
			}
			assert.Equal(t, c.want, got)
		})
	}
}

// A source without permission is not queried, and the other settings apply.
func TestResolveAllowed(t *testing.T) {
	cluster := clusterDefaults(t, `metricsSource: {prometheus: {address: "http://central:9090"}}`)
	mine := aPolicy(t, `
metricsSource: {prometheus: {address: "http://mine:9090"}, queryStep: 1m}
sloGuardrails: [{name: a, query: up, threshold: "1", comparison: "<"}]
updateStrategy: {safetyObservationPeriod: 7m}
`)
	s, err := policy.ResolveAllowed(cluster, nil, mine, policy.Operator{SourceNamespaces: []string{"shop"}})
	require.NoError(t, err)
	assert.Equal(t, "http://mine:9090", s.Source.Prometheus.Address)
	assert.Len(t, s.Resize.Guardrails, 1)

	s, err = policy.ResolveAllowed(cluster, nil, mine, policy.Operator{SourceNamespaces: []string{"bank"}})
	require.Len(t, problems(t, err), 2)
	assert.ErrorContains(t, err, "metricsSource.prometheus http://mine:9090 is not allowed in namespace shop")
	assert.ErrorContains(t, err, "sloGuardrails a is not allowed in namespace shop")
	assert.Equal(t, "http://central:9090", s.Source.Prometheus.Address)
	assert.Equal(t, policy.Cluster, s.Origin["metricsSource.prometheus.address"])
	assert.Empty(t, s.Resize.Guardrails)
	assert.Equal(t, time.Minute, s.Source.QueryStep)
	assert.Equal(t, 7*time.Minute, s.Resize.Observation)

	_, err = policy.ResolveAllowed(nil, namespaceDefaults(t, `metricsSource: {prometheus: {headers: {A: b}}}`), aPolicy(t, `{weight: 1}`), policy.Operator{})
	found := problems(t, err)
	require.Len(t, found, 1)
	assert.Equal(t, []policy.Level{policy.Namespace}, found[0].Levels)
	assert.Equal(t, "http://mine:9090", mine.Spec.MetricsSource.Prometheus.Address, "the object stays as it is")
}

func TestQueries(t *testing.T) {
	ask := func(query string) error {
		p := aPolicy(t, `{weight: 1}`)
		p.Spec.SLOGuardrails = []v1alpha1.SLOGuardrail{{Name: "q", Query: query, Threshold: "1", Comparison: "<"}}
		_, err := policy.Resolve(nil, nil, p)
		return err
	}
	for _, query := range []string{
		`up`,
		`sum(rate(http_requests_total{code=~"5.."}[5m])) / sum(rate(http_requests_total[5m]))`,
		`a{b="(["}`, `a{b='}'}`, "a{b=`\\`}", `a{b="\""}`, `a{b="\\"}`,
		"up # (comment", "up # it's\n + 1",
		`{"my metric", b="ü"}`,
		`sum(up) > bool 0.5`, `count(up == 1)`, `scalar(sum(up))`, `sum(up) or vector(0)`, `(sum(a) > 0) or vector(1)`,
	} {
		assert.NoError(t, ask(query), query)
	}
	for query, want := range map[string]string{
		` `:                          `is empty: use PromQL`,
		`sum(up`:                     `is not PromQL: 1:7: parse error: unclosed left parenthesis; an example is sum(rate(`,
		`sum(a[5m)`:                  `is not PromQL: 1:9: parse error: `,
		`up)`:                        `is not PromQL: 1:4: parse error: unexpected right parenthesis`,
		`a{b="c}`:                    `is not PromQL: 1:5: parse error: unterminated quoted string`,
		"a{b=`c}":                    `is not PromQL: 1:5: parse error: unterminated raw string`,
		`a{b='\'}`:                   `is not PromQL: 1:5: parse error: unterminated quoted string`,
		"sum(up # )":                 `is not PromQL: `,
		`rate(up)`:                   `is not PromQL: 1:6: parse error: expected type range vector in call to function "rate"`,
		`sum(rate(x[5m])) by`:        `is not PromQL: 1:20: parse error: unexpected end of input`,
		`sum(errs) > > 1`:            `is not PromQL: 1:13: parse error: unexpected <op:>>`,
		`up keep_metric_names`:       `is not PromQL: 1:4: parse error: `,
		`up[5m]`:                     `returns a range of samples and not one number: use a function over it, e.g. max_over_time(up[5m])`,
		`up[5m:1m]`:                  `returns a range of samples`,
		`"up"`:                       `is a text and not a query: `,
		`1`:                          `reads no series, so its result is the same with each size: `,
		`vector(0.5)`:                `reads no series`,
		`time() - 60`:                `reads no series`,
		`sum(up) > 0.5`:              `has no result when sum(up) > 0.5 does not hold, so a violation is never seen: write sum(up), and set comparison and threshold`,
		`(sum(a)/sum(b)) < .1`:       `has no result when `,
		`(sum(up) == 1)`:             `has no result when sum(up) == 1 does not hold, so a violation is never seen: write sum(up), and set comparison and threshold`,
		`0.5 < sum(up)`:              `has no result when 0.5 < sum(up) does not hold, so a violation is never seen: write sum(up), and set comparison and threshold`,
		`absent(up)`:                 `has no result while its series exist: use count(up)`,
		`(absent_over_time(up[5m]))`: `has no result while its series exist`,
	} {
		assert.ErrorContains(t, ask(query), want, query)
	}
}

func TestALongQueryIsCut(t *testing.T) {
	p := aPolicy(t, `{weight: 1}`)
	long := "sum(" + strings.Repeat("a", 90)
	p.Spec.SLOGuardrails = []v1alpha1.SLOGuardrail{{Name: "q", Query: long, Threshold: "1", Comparison: "<"}}
	_, err := policy.Resolve(nil, nil, p)
	require.Error(t, err)
	assert.Contains(t, err.Error(), long[:60]+"… is not PromQL: 1:95: parse error: unclosed left parenthesis")
	assert.NotContains(t, err.Error(), long[:61])

	p.Spec.SLOGuardrails[0].Query = long[:60]
	_, err = policy.Resolve(nil, nil, p)
	assert.ErrorContains(t, err, long[:60]+" is not PromQL: 1:61: parse error")
}

// Steps and rate windows above the shared limits are rejected on every level, and the message has an accepted value.
// The rejected values do not apply.
func TestWhatAPolicyMayTake(t *testing.T) {
	operator := policy.Operator{Steps: policy.DefaultSteps, RateWindow: policy.DefaultRateWindow}
	for name, c := range map[string]struct {
		defaults, spec string
		operator       policy.Operator
		want           string
		step, rate     time.Duration
	}{
		"a week of minutes":       {``, `metricsSource: {queryStep: 1m}`, operator, ``, time.Minute, time.Minute},
		"a month of five minutes": {``, `metricsSource: {historyWindow: 720h}`, operator, ``, 5 * time.Minute, 5 * time.Minute},
		"a month of ten seconds": {``, `metricsSource: {historyWindow: 720h, queryStep: 10s}`, operator,
			`metricsSource.queryStep 10s gives 259200 samples in metricsSource.historyWindow 720h, but a policy may have at most 11000 (usage.limits.steps): set metricsSource.queryStep to 5m or more`, 5 * time.Minute, 30 * time.Second},
		"a month of ten seconds, and no ceiling": {``, `metricsSource: {historyWindow: 720h, queryStep: 10s}`, policy.Operator{},
			`metricsSource.queryStep 10s gives 259200 samples in metricsSource.historyWindow 720h, but a policy may have at most 131072 (usage.limits.steps): set metricsSource.queryStep to 20s or more`, 5 * time.Minute, 30 * time.Second},
		"two levels together": {`metricsSource: {historyWindow: 720h}`, `metricsSource: {queryStep: 1m}`, operator,
			`metricsSource.queryStep 1m gives 43200 samples in metricsSource.historyWindow 720h (from the AttuneDefaults), but a policy may have at most 11000 (usage.limits.steps): set metricsSource.queryStep to 5m or more`, 5 * time.Minute, time.Minute},
		"a raised ceiling": {``, `metricsSource: {historyWindow: 720h, queryStep: 1m}`, policy.Operator{Steps: 43_200}, ``, time.Minute, time.Minute},
		"a long rate window": {``, `metricsSource: {rateWindow: 90m}`, operator,
			`metricsSource.rateWindow 1h30m is longer than the operator allows (usage.limits.rateWindow): set metricsSource.rateWindow to 1h or less`, 5 * time.Minute, 5 * time.Minute},
		"a long rate window that is allowed": {``, `metricsSource: {rateWindow: 90m}`, policy.Operator{RateWindow: 2 * time.Hour}, ``, 5 * time.Minute, 90 * time.Minute},
		"an hour of step":                    {``, `metricsSource: {queryStep: 1h}`, operator, ``, time.Hour, time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := policy.ResolveAllowed(clusterDefaults(t, c.defaults), nil, aPolicy(t, c.spec), c.operator)
			if c.want == "" {
				require.NoError(t, err)
			} else {
				require.EqualError(t, err, c.want)
			}
			assert.Equal(t, c.step, s.Source.QueryStep)
			assert.Equal(t, c.rate, s.Source.RateWindow)
		})
	}
}

// An operator that does not see all pods of a node rejects strategy Node from every level.
func TestNodesOfSomeNamespaces(t *testing.T) {
	some := policy.Operator{SomeNamespaces: true}
	s, err := policy.ResolveAllowed(nil, nil, aPolicy(t, `strategy: Node`), some)
	assert.EqualError(t, err, `strategy Node needs all pods of a node, but this operator watches only some namespaces (watchNamespaces): use Workload`)
	assert.Equal(t, v1alpha1.StrategyWorkload, s.Strategy)

	_, err = policy.ResolveAllowed(clusterDefaults(t, `strategy: Node`), nil, aPolicy(t, `{weight: 1}`), some)
	assert.ErrorContains(t, err, `strategy Node (from the AttuneDefaults) needs all pods of a node`)

	for _, strategy := range []string{`strategy: Workload`, `{weight: 1}`} {
		_, err = policy.ResolveAllowed(clusterDefaults(t, ``), nil, aPolicy(t, strategy), some)
		assert.NoError(t, err)
	}
	s, err = policy.ResolveAllowed(nil, nil, aPolicy(t, `strategy: Node`), policy.Operator{})
	assert.NoError(t, err)
	assert.Equal(t, v1alpha1.StrategyNode, s.Strategy)
}

func TestLabels(t *testing.T) {
	for name, c := range map[string]struct {
		defaults, spec string
		want           map[string]string
		problem        string
	}{
		"none":             {``, `{weight: 1}`, nil, ``},
		"a cluster":        {``, `metricsSource: {labels: {cluster: eu-1}}`, map[string]string{"cluster": "eu-1"}, ``},
		"of the defaults":  {`metricsSource: {labels: {cluster: eu-1}}`, `{weight: 1}`, map[string]string{"cluster": "eu-1"}, ``},
		"of both":          {`metricsSource: {labels: {cluster: eu-1}}`, `metricsSource: {labels: {job: kubelet}}`, map[string]string{"cluster": "eu-1", "job": "kubelet"}, ``},
		"another cluster":  {`metricsSource: {labels: {cluster: eu-1}}`, `metricsSource: {labels: {cluster: us-1}}`, map[string]string{"cluster": "eu-1"}, `metricsSource.labels.cluster us-1 differs from the AttuneDefaults: use eu-1, or leave it out`},
		"its own server":   {`metricsSource: {labels: {cluster: eu-1}}`, `metricsSource: {labels: {job: kubelet}, prometheus: {address: "http://mine:9090"}}`, map[string]string{"job": "kubelet"}, ``},
		"another pod":      {``, `metricsSource: {labels: {pod: x, cluster: a}}`, map[string]string{"cluster": "a"}, `metricsSource.labels holds "pod: x", which must be`},
		"no name":          {``, `metricsSource: {labels: {"a-b": x}}`, map[string]string{}, `metricsSource.labels holds "a-b: x", which must be`},
		"the end of it":    {``, `metricsSource: {labels: {"x\"} or up{y": x}}`, map[string]string{}, `which must be the name of a label`},
		"without a value":  {``, `metricsSource: {labels: {cluster: ""}}`, map[string]string{}, `which must be the name of a label`},
		"any text as such": {``, `metricsSource: {labels: {cluster: "\"} or up"}}`, map[string]string{"cluster": `"} or up`}, ``},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := policy.Resolve(clusterDefaults(t, c.defaults), nil, aPolicy(t, c.spec))
			if c.problem == "" {
				require.NoError(t, err)
			} else {
				require.ErrorContains(t, err, c.problem)
			}
			assert.Equal(t, c.want, s.Source.Labels)
		})
	}
}
