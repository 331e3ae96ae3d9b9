package main

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/controller/workload"
	"attune.io/attune/internal/policy"
	promsource "attune.io/attune/usage/prometheus"
)

// guarded is a policy in a namespace with one guardrail.
func guarded(query string) *v1alpha1.AttunePolicy {
	p := &v1alpha1.AttunePolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "a"}}
	p.Spec.TargetRef.Kind = v1alpha1.KindDeployment
	p.Spec.SLOGuardrails = []v1alpha1.SLOGuardrail{{Name: "x", Query: query, Threshold: "0", Comparison: "<"}}
	return p
}

// A guardrail of a namespace reads only that namespace on the operator's server, which answers the operator's token.
func TestGuardrailsReadTheirOwnNamespace(t *testing.T) {
	var asked, as string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked, as = r.FormValue("query"), r.Header.Get("Authorization")
		fmt.Fprint(w, `{"status":"success","data":{"resultType":"vector","result":[{"metric":{},"value":[1700000000,"1234.5"]}]}}`)
	}))
	defer server.Close()
	token := filepath.Join(t.TempDir(), "token")
	require.NoError(t, os.WriteFile(token, []byte("the-operators-token"), 0o600))
	s := &sources{
		server:    prometheusOptions{Config: promsource.Config{Address: server.URL, BearerTokenFile: token, Labels: map[string]string{"cluster": "eu-1"}}},
		namespace: "attune-system", meter: promsource.NewMeter(prometheus.NewRegistry()),
		clients: promsource.NewClients(clock.RealClock{}),
	}
	s.own = serverSource{servers: s}
	permitted := policy.Operator{SourceNamespaces: []string{"shop"}}

	settings, err := policy.ResolveAllowed(nil, nil, guarded(`sum(bank_balance_euros)`), permitted)
	require.NoError(t, err)
	gauge, err := s.gauge(settings)
	require.NoError(t, err)
	_, err = gauge.Value(t.Context(), settings.Resize.Guardrails[0].Query, time.Now())
	require.NoError(t, err)
	assert.Equal(t, `sum(bank_balance_euros{cluster="eu-1",namespace="shop"})`, asked)
	assert.Equal(t, "Bearer the-operators-token", as)

	asked = ""
	for _, query := range []string{`sum(bank_balance_euros{namespace="victim"})`, `sum(up{cluster="us-1"})`, `count(label_replace(up, "a", "b", "", ""))`} {
		_, err = gauge.Value(t.Context(), query, time.Now())
		require.ErrorContains(t, err, "the query ")
	}
	assert.Empty(t, asked, "a refused query is not sent, even if the settings have it")

	cluster := &v1alpha1.AttuneDefaults{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.DefaultsName}}
	cluster.Spec.SLOGuardrails = guarded(`sum(up{namespace="victim"})`).Spec.SLOGuardrails
	other := guarded("")
	other.Spec.SLOGuardrails = nil
	settings, err = policy.ResolveAllowed(cluster, nil, other, permitted)
	require.NoError(t, err)
	gauge, err = s.gauge(settings)
	require.NoError(t, err)
	_, err = gauge.Value(t.Context(), settings.Resize.Guardrails[0].Query, time.Now())
	require.NoError(t, err)
	assert.Equal(t, `sum(up{namespace="victim"})`, asked, "an administrator's guardrail is not changed")
}

// waitingGauge answers a query when told to.
type waitingGauge struct {
	workload.Gauge
	asked, answer chan string
}

func (g waitingGauge) Value(_ context.Context, query string, _ time.Time) (float64, error) {
	g.asked <- query
	<-g.answer
	return 0, nil
}

// One namespace has one query at a time. Queries of others do not wait for it.
func TestOneGuardrailOfANamespaceAtATime(t *testing.T) {
	source, known := waitingGauge{asked: make(chan string, 3), answer: make(chan string)}, turns{}
	ask := func(ctx context.Context, namespace string) error {
		g := confinedGauge{Gauge: source, scope: policy.QueryScope{Namespace: namespace, Back: time.Hour}, value: source.Value, turn: known.of(namespace)}
		_, err := g.Value(ctx, "up", time.Time{})
		return err
	}
	done := make(chan error, 2)
	go func() { done <- ask(t.Context(), "shop") }()
	assert.Equal(t, `up{namespace="shop"}`, <-source.asked)

	ended, cancel := context.WithCancel(t.Context())
	cancel()
	assert.EqualError(t, ask(ended, "shop"), "another guardrail of namespace shop is still evaluated: context canceled")
	assert.Empty(t, source.asked)

	go func() { done <- ask(t.Context(), "bank") }()
	assert.Equal(t, `up{namespace="bank"}`, <-source.asked)
	for range 2 {
		source.answer <- ""
		require.NoError(t, <-done)
	}
	go func() { done <- ask(t.Context(), "shop") }()
	assert.Equal(t, `up{namespace="shop"}`, <-source.asked, "the next one has its turn")
	source.answer <- ""
	require.NoError(t, <-done)
}
