package loops

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"attune.io/attune/api/v1alpha1"
	policyloop "attune.io/attune/controller/policy"
	workloadloop "attune.io/attune/controller/workload"
	"attune.io/attune/internal/board"
	"attune.io/attune/internal/event"
	"attune.io/attune/internal/lookup"
	"attune.io/attune/internal/workload"
	"attune.io/attune/test/kubelet"
)

// rival is a second operator, of another namespace and with a memory of its own, that sees other usage.
type rival struct {
	w         *world
	policies  *policyloop.Controller
	workloads *workloadloop.Controller
	// gone: it was uninstalled.
	gone bool
}

// rivalry has two operators look at a world in turns.
func (w *world) rivalry(sees *usages) *rival {
	settings := lookup.Reader{Client: w.client}
	r := &rival{w: w}
	r.policies = &policyloop.Controller{
		Confirmed: &board.Confirmed{},
		Operator:  "attune-other", Client: w.client, History: sees, Autoscalers: none{}, Clock: w.clock, Settings: settings,
	}
	r.workloads = &workloadloop.Controller{
		Confirmed: &board.Confirmed{},
		Client:    w.client, Live: w.linked, Clock: w.clock, Settings: settings, Autoscalers: none{},
		Access: workloadloop.Access{Admission: workload.Admission{Operator: "attune-other"}, ControlPlane: workloadloop.ControlPlane{Version: "v1.37.1"}},
		Events: event.NewRecorder(w.told, w.clock), Grants: &board.Grants{},
	}
	w.policies.Operator, w.workloads.Admission.Operator = "attune-system", "attune-system"
	w.passed = r.look
	return r
}

func (r *rival) look() {
	if r.gone {
		return
	}
	w, ctx := r.w, r.w.t.Context()
	policies := &v1alpha1.AttunePolicyList{}
	require.NoError(w.t, w.direct.List(ctx, policies, client.InNamespace(w.namespace)))
	for i := range policies.Items {
		_, err := r.policies.Reconcile(ctx, ctrl.Request{NamespacedName: client.ObjectKeyFromObject(&policies.Items[i])})
		require.NoError(w.t, err)
	}
	for _, rec := range w.recommendations() {
		_, err := r.workloads.Reconcile(ctx, ctrl.Request{NamespacedName: client.ObjectKeyFromObject(&rec)})
		require.NoError(w.t, err)
	}
}

// Two operators of two releases, who see different usage, have the same workload to look after: each takes it over
// from the other, and the second time it is paused and says so. From then on
// neither touches the pod, and only one of them goes on writing the recommendation. With one of them uninstalled and the workload resumed, it is sized again.
func TestLoopsOfTwoOperators(t *testing.T) {
	t.Parallel()
	for name, mode := range map[string]v1alpha1.UpdateType{"resizing": v1alpha1.UpdateAuto, "recommending": v1alpha1.UpdateRecommend} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := growing(t, kubelet.Options{}, "cpu=500m,memory=512Mi", "")
			sees := newUsages()
			sees.of["app"] = used{CPU: 0.2, Memory: 200}
			other := w.rivalry(sees)
			w.policy("all", "updateStrategy: {type: "+string(mode)+", cooldown: 1m, safetyObservationPeriod: 1m}\ncpu: {maxChangePercent: 300}")
			w.until(10*time.Minute, "paused", func() bool { return w.recommendation().Status.Paused != nil })
			w.until(10*time.Minute, "what was begun has ended", w.idle)
			rec := w.recommendation()
			assert.Equal(t, v1alpha1.PhasePaused, rec.Status.Phase)
			assert.Contains(t, rec.Status.Paused.Reason, "the operators in namespaces attune-")
			for _, part := range []string{"attune-system", "attune-other", "Uninstall one of them", "kubectl attune resume deployment/web"} {
				assert.Contains(t, rec.Status.Paused.Reason, part)
			}
			assert.Nil(t, rec.Spec.Seed)
			assert.True(t, w.told.has("Warning ResizeSkipped Paused: the operators in namespaces"), w.told.lines)
			generation := w.pod().Generation
			assert.LessOrEqual(t, generation, int64(2), "one resize, by whoever was first")
			if mode == v1alpha1.UpdateAuto {
				w.until(10*time.Minute, "the policy says so", func() bool {
					return w.condition("all", v1alpha1.ConditionResizeBlocked).Reason == "WorkloadPaused"
				})
			}

			w.writes = 0
			w.run(8*time.Hour, 10*time.Minute)
			together := w.writes
			assert.Equal(t, generation, w.pod().Generation)
			require.NotNil(t, w.recommendation().Status.Paused)
			w.run(24*time.Hour, time.Hour)
			require.NotNil(t, w.recommendation().Status.Paused, "tried again after a day, and paused again")
			assert.LessOrEqual(t, w.pod().Generation, generation+2)

			other.gone = true
			w.annotate(map[string]string{v1alpha1.ResumedAnnotation: "2026-01-01T00:00:00Z"})
			if mode == v1alpha1.UpdateAuto {
				w.until(time.Hour, "sized again", func() bool { return cpuRequest(w.pod()) == 1200 && w.idle() })
			}
			w.writes = 0
			w.run(8*time.Hour, 10*time.Minute)
			assert.LessOrEqual(t, together, w.writes+w.writes/4, "two who were paused wrote no more than one does who goes on saying how new its data are")
			rec = w.recommendation()
			assert.Nil(t, rec.Status.Paused)
			assert.Equal(t, "attune-system", rec.Status.Operator)
		})
	}
}

// A release that is installed in another namespace, and back again, is a new process each time: it goes on sizing.
func TestLoopsOfAReleaseThatMoves(t *testing.T) {
	t.Parallel()
	w := growing(t, kubelet.Options{}, "cpu=500m,memory=512Mi", "")
	w.policies.Operator, w.workloads.Admission.Operator = "attune-system", "attune-system"
	w.policy("all", "updateStrategy: {type: Auto, cooldown: 1m, safetyObservationPeriod: 1m}\ncpu: {maxChangePercent: 300}")
	w.until(time.Hour, "sized", func() bool { return cpuRequest(w.pod()) == 1200 && w.idle() })
	for i, namespace := range []string{"attune-other", "attune-system", "attune-other"} {
		w.wire()
		w.policies.Operator, w.workloads.Admission.Operator = namespace, namespace
		w.usage.of["app"] = used{CPU: 2 + float64(i), Memory: 200}
		sized := cpuRequest(w.pod())
		w.until(6*time.Hour, "sized again", func() bool { return cpuRequest(w.pod()) > sized && w.idle() })
		rec := w.recommendation()
		assert.Equal(t, namespace, rec.Status.Operator)
		assert.Nil(t, rec.Status.Paused)
		assert.Zero(t, rec.Status.Supersessions)
	}
}
