package loops

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/test/kubelet"
	"attune.io/attune/usage"
	"attune.io/attune/usage/history"
	promclient "attune.io/attune/usage/prometheus"
)

// minutes is how messages write times.
const minutes = "2006-01-02 15:04 UTC"

// promServer answers range queries for the containers of one pod.
type promServer struct {
	namespace, pod string
	// status, where set, is the answer to everything.
	status int
	// from and until bound the steps that have a value.
	from, until time.Time
	// value of every step; empty: 0.2 cores and 100 MiB.
	value string
}

func (p *promServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if p.status != 0 {
		w.WriteHeader(p.status)
		return
	}
	value := p.value
	switch {
	case value != "":
	case strings.Contains(r.FormValue("query"), "memory"):
		value = "104857600"
	default:
		value = "0.2"
	}
	var points []string
	start, end, step := number(r, "start"), number(r, "end"), number(r, "step")
	for at := start; at <= end; at += step {
		if when := time.Unix(at, 0); !when.Before(p.from) && !when.After(p.until) {
			points = append(points, fmt.Sprintf("[%d,%q]", at, value))
		}
	}
	series := ""
	if len(points) > 0 {
		series = fmt.Sprintf(`{"metric":{"namespace":%q,"pod":%q,"container":"app"},"values":[%s]}`, p.namespace, p.pod, strings.Join(points, ","))
	}
	fmt.Fprintf(w, `{"status":"success","data":{"resultType":"matrix","result":[%s]}}`, series)
}

func number(r *http.Request, name string) int64 {
	f, _ := strconv.ParseFloat(r.FormValue(name), 64)
	return int64(f)
}

// The policy itself says, in one sentence, why nothing is recommended: with the real store and the real
// client of a server that misbehaves.
func TestPolicyReportsWhyNothingIsRecommended(t *testing.T) {
	t.Parallel()
	at := func(w *world, ago time.Duration) time.Time { return w.clock.Now().Truncate(5 * time.Minute).Add(-ago) }
	for name, c := range map[string]struct {
		serve           func(w *world, p *promServer)
		gone            bool
		reason, message func(w *world, address string) string
	}{
		"no more than ten steps": {
			serve:  func(w *world, p *promServer) { p.from = at(w, 45*time.Minute) },
			reason: says(v1alpha1.ReasonInsufficientData),
			message: func(w *world, _ string) string {
				return "app: 10/48 samples measured; enough after " + at(w, -190*time.Minute).Format(minutes) + " if none is missing"
			},
		},
		"data that ended hours ago": {
			serve:  func(w *world, p *promServer) { p.until = at(w, 3*time.Hour) },
			reason: says(v1alpha1.ReasonStaleData),
			message: func(w *world, _ string) string {
				return "app: last sample at " + at(w, 3*time.Hour).Format(minutes) + ", 3h"
			},
		},
		"values that are no numbers": {
			serve:  func(_ *world, p *promServer) { p.value = "NaN" },
			reason: says(v1alpha1.ReasonInsufficientData),
			message: func(*world, string) string {
				return "app: no cpu usage was measured in the history window; the newest answer of the usage source had unusable values: "
			},
		},
		"a series that stands still at zero": {
			serve:   func(_ *world, p *promServer) { p.value = "0" },
			reason:  says(v1alpha1.ReasonMonitoring),
			message: func(*world, string) string { return "watching 1 workload" },
		},
		"credentials that are refused": {
			serve:  func(_ *world, p *promServer) { p.status = http.StatusUnauthorized },
			reason: says(v1alpha1.ReasonPrometheusUnavailable),
			message: func(_ *world, address string) string {
				return address + " rejects the credentials (HTTP 401): check the secret of the source and its tenant header; attune applies no targets until the usage source answers"
			},
		},
		"a server that is not there": {
			gone:    true,
			serve:   func(*world, *promServer) {},
			reason:  says(v1alpha1.ReasonPrometheusUnavailable),
			message: func(_ *world, address string) string { return address + " cannot be reached (" },
		},
		"all is well": {
			serve:   func(*world, *promServer) {},
			reason:  says(v1alpha1.ReasonMonitoring),
			message: func(*world, string) string { return "watching 1 workload" },
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, kubelet.Options{})
			w.deployment("web", 1, w.app("cpu=500m,memory=512Mi", "memory=1Gi"))
			w.settle()
			w.run(time.Hour, 20*time.Minute) // what has only just started has no usage yet, and its source is not silent
			answers := &promServer{namespace: w.namespace, pod: w.pod().Name, until: w.clock.Now()}
			c.serve(w, answers)
			server := httptest.NewServer(answers)
			t.Cleanup(server.Close)
			if c.gone {
				server.Close()
			}
			histories := w.historyFrom(server.URL)
			w.policy("all", "updateStrategy: {type: Auto}")
			w.settle()
			for histories.Refresh(t.Context(), w.clock.Now()) {
			}
			w.settle()

			ready := w.condition("all", v1alpha1.ConditionReady)
			assert.Equal(t, c.reason(w, server.URL), ready.Reason)
			assert.True(t, strings.HasPrefix(ready.Message, c.message(w, server.URL)), "%q\nshould begin\n%q", ready.Message, c.message(w, server.URL))
			assert.NotContains(t, ready.Message, "\n")
			assert.Equal(t, ready.Reason == v1alpha1.ReasonMonitoring, ready.Status == metav1.ConditionTrue)
			if ready.Reason != v1alpha1.ReasonMonitoring {
				assert.Equal(t, int64(1), w.pod().Generation, "nothing is applied on that")
			}
		})
	}
}

func says(text string) func(*world, string) string {
	return func(*world, string) string { return text }
}

// A server that comes back is heard at its next answer, and the condition goes.
func TestPolicyRecoversWithItsUsageSource(t *testing.T) {
	t.Parallel()
	w := newWorld(t, kubelet.Options{})
	w.deployment("web", 1, w.app("cpu=500m,memory=512Mi", "memory=1Gi"))
	w.settle()
	answers := &promServer{namespace: w.namespace, pod: w.pod().Name, until: w.clock.Now(), status: http.StatusBadGateway}
	server := httptest.NewServer(answers)
	t.Cleanup(server.Close)
	histories := w.historyFrom(server.URL)
	w.policy("all", "{}")
	w.settle()
	histories.Refresh(t.Context(), w.clock.Now())
	w.settle()
	require.Equal(t, v1alpha1.ReasonPrometheusUnavailable, w.condition("all", v1alpha1.ConditionReady).Reason)
	answers.status = 0
	for histories.Refresh(t.Context(), w.clock.Now()) {
	}
	w.settle()
	assert.Equal(t, v1alpha1.ReasonMonitoring, w.condition("all", v1alpha1.ConditionReady).Reason)
	assert.Equal(t, int32(1), w.thePolicy("all").Status.Workloads.WithRecommendations)
}

// Two layers that contradict each other: the policy names both, and nothing is applied.
func TestLoopsNameLayersThatContradict(t *testing.T) {
	t.Parallel()
	w := growing(t, kubelet.Options{}, "cpu=500m,memory=512Mi", "")
	defaults := &v1alpha1.AttuneNamespaceDefaults{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: v1alpha1.DefaultsName}}
	require.NoError(t, yaml.Unmarshal([]byte("cpu: {maxAllowed: 100m}"), &defaults.Spec))
	require.NoError(t, w.direct.Create(t.Context(), defaults))
	w.auto("cpu: {minAllowed: 200m}")
	w.run(10*time.Minute, 5*time.Minute)
	ready := w.condition("all", v1alpha1.ConditionReady)
	assert.Equal(t, v1alpha1.ReasonInvalidConfig, ready.Reason)
	assert.Equal(t, metav1.ConditionFalse, ready.Status)
	assert.Contains(t, ready.Message, "cpu.minAllowed 200m")
	assert.Contains(t, ready.Message, "cpu.maxAllowed 100m (from the AttuneNamespaceDefaults)")
	assert.Equal(t, int64(1), w.pod().Generation)
	assert.True(t, w.told.has("Warning InvalidConfig "), w.told.lines)

	require.NoError(t, w.direct.Delete(t.Context(), defaults))
	w.settle()
	assert.Equal(t, v1alpha1.ReasonMonitoring, w.condition("all", v1alpha1.ConditionReady).Reason)
}

// Two policies for one workload: the weaker one names the stronger, which alone acts.
func TestLoopsNameTheWinnerOfAConflict(t *testing.T) {
	t.Parallel()
	w := growing(t, kubelet.Options{}, "cpu=500m,memory=512Mi", "")
	w.policy("strong", "weight: 200\nupdateStrategy: {type: Recommend}")
	w.policy("weak", "weight: 100\nupdateStrategy: {type: Auto}\ncpu: {maxChangePercent: 300}")
	w.run(10*time.Minute, 5*time.Minute)
	ready := w.condition("weak", v1alpha1.ConditionReady)
	assert.Equal(t, v1alpha1.ReasonConflict, ready.Reason)
	assert.Contains(t, ready.Message, "policy strong sizes Deployment/web")
	assert.Contains(t, ready.Message, "weight 200 over 100")
	assert.Equal(t, []v1alpha1.PolicyConflict{{Workload: "Deployment/web", Winner: "strong", Reason: "weight 200 over 100"}}, w.thePolicy("weak").Status.Conflicts)
	assert.Equal(t, v1alpha1.ReasonMonitoring, w.condition("strong", v1alpha1.ConditionReady).Reason)
	assert.Equal(t, "strong", w.recommendation().Spec.Policy.Name)
	assert.Equal(t, int64(1), w.pod().Generation, "the winner only recommends")

	require.NoError(t, w.direct.Delete(t.Context(), w.thePolicy("strong")))
	w.until(10*time.Minute, "the weaker one takes over", func() bool { return cpuRequest(w.pod()) == 1200 })
	assert.Equal(t, "weak", w.recommendation().Spec.Policy.Name)
}

// historyFrom replaces the fake history by the real store before a server.
func (w *world) historyFrom(address string) *history.Store {
	histories := history.New(history.Options{Dial: func(usage.SourceSettings) (usage.Source, error) {
		return promclient.New(promclient.Config{Address: address})
	}})
	w.history = histories
	w.wire()
	return histories
}

func (w *world) condition(policy, kind string) metav1.Condition {
	w.t.Helper()
	c := meta.FindStatusCondition(w.thePolicy(policy).Status.Conditions, kind)
	require.NotNil(w.t, c, kind)
	return *c
}
