package loops

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"

	policyloop "attune.io/attune/controller/policy"
	"attune.io/attune/internal/board"
	"attune.io/attune/test/kubelet"
)

// wroteTo counts the accepted writes of the loops to each object since a call, by kind and name.
func (w *world) wroteTo(since int) map[string]int {
	counts := map[string]int{}
	for _, call := range w.link.Calls()[since:] {
		if call.Verb != "get" && call.Verb != "list" && call.Verb != "watch" && call.Code < http.StatusBadRequest {
			counts[call.Kind()+" "+call.Name]++
		}
	}
	return counts
}

// A week at rest: the HPA of one workload is gone, the sizes of another are withdrawn, Jobs share an identity, and a
// DaemonSet takes a part of the largest node. None of them is written more often than a workload without all that.
func TestLoopsWriteNothingMoreAtRest(t *testing.T) {
	t.Parallel()
	w := newWorld(t, kubelet.Options{CPU: "64", Memory: "256Gi"})
	w.autoscalers = realHPAs{w.direct}
	w.wire()
	w.policies.Nodes = policyloop.Nodes{Reader: w.client, Largest: &board.Largest{}}
	w.seeded = true
	w.usage.of["app"] = used{CPU: 0.3, Memory: 60}
	w.memory["app"] = 60
	hpa := cpuHPA(w.namespace, "web")
	require.NoError(t, w.direct.Create(t.Context(), hpa))
	w.policy("all", "updateStrategy: {type: Auto, cooldown: 2m, safetyObservationPeriod: 2m}\ncpu: {maxChangePercent: 1000}")
	w.policy("jobs", onceSized)
	for _, name := range []string{"plain", "web"} {
		w.deployment(name, 2, w.app("cpu=100m,memory=64Mi", "cpu=400m,memory=128Mi"))
	}
	agent := &appsv1.DaemonSet{}
	agent.Namespace, agent.Name = w.namespace, "agent"
	agent.Spec.Selector, agent.Spec.Template = template("agent", w.app("cpu=100m,memory=64Mi", "cpu=400m,memory=128Mi"))
	require.NoError(t, w.direct.Create(t.Context(), agent))
	w.deployment("refused", 0, w.app("cpu=100m,memory=64Mi", "cpu=200m,memory=128Mi"))
	job, pod := w.startRun("attune.io/identity", "etl", "api")
	w.run(6*time.Hour, 10*time.Minute)
	w.endRun(job, pod)
	require.NoError(t, w.direct.Delete(t.Context(), hpa))
	w.smallContainers()
	w.scale("refused", 1)
	w.run(2*time.Hour, 10*time.Minute)
	require.NotNil(t, w.rec("refused").Status.AdmissionWithdrawn, "%s", w.describe())

	from, events := len(w.link.Calls()), len(w.told.lines)
	w.run(7*24*time.Hour, 10*time.Minute)
	wrote := w.wroteTo(from)
	t.Log(wrote)
	for _, rec := range w.recommendations() {
		for _, kind := range []string{"patch attunerecommendations ", "update attunerecommendations/status "} {
			assert.LessOrEqual(t, wrote[kind+rec.Name], wrote[kind+"deployment-plain"]+8, rec.Name)
		}
	}
	assert.LessOrEqual(t, len(w.told.lines)-events, 2, "both pods of web are resized once, a day after the HPA is gone")
	assert.Empty(t, w.rec("web").Spec.HPABindings)
}
