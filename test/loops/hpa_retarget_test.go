package loops

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/autoscale"
	"attune.io/attune/internal/trim"
	"attune.io/attune/internal/workload"
	"attune.io/attune/recommender/replicas"
	"attune.io/attune/test/fault"
)

// retargeted are the HPAs of a namespace as the cache has them, whose targets attune may change unless denied.
type retargeted struct {
	client client.Reader
	denied *bool
}

func (h retargeted) Of(ctx context.Context, of workload.Workload) (autoscale.Holds, error) {
	list := &autoscalingv2.HorizontalPodAutoscalerList{}
	err := h.client.List(ctx, list, client.InNamespace(of.Namespace))
	for i := range list.Items {
		if _, failed := trim.Object(&list.Items[i]); failed != nil {
			return autoscale.Holds{}, failed
		}
	}
	return autoscale.Autoscalers{HPAs: list.Items, MayRetarget: !*h.denied}.Of(of), err
}

const retargetCPU = "cpu: {maxChangePercent: 90, hpa: Retarget}"

// lowestRetargeted is the request at which an HPA with a target of 70 % of 1 CPU has one of 90 %.
const lowestRetargeted = 778

// retargetWorld is scaledWorld with the setting Retarget, and the switch that denies attune to change targets.
func retargetWorld(t *testing.T, settings string) (*world, *bool) {
	w := scaledWorld(t, settings, nil)
	w.usage.spans = map[string][]replicas.Span{" cpu": w.atTheTarget()}
	denied := new(bool)
	w.autoscalers = retargeted{w.direct, denied}
	w.wire()
	w.passed = func() { scalesNoLower(w) }
	return w, denied
}

// atTheTarget is a week in which no other request is proven with a target of 70 %, and requests from lowestRetargeted with
// one that follows.
func (w *world) atTheTarget() []replicas.Span {
	five := w.upTo(700)[0]
	five.Ready, five.Least = 5, 0.93*700
	return []replicas.Span{five}
}

// scalesNoLower: the HPA scales at 700m of each pod at least, but for the rounding of a whole target.
func scalesNoLower(w *world) {
	w.t.Helper()
	if target, mean := w.target(); mean > 0 {
		assert.GreaterOrEqual(w.t, float64(target)/100*mean, 700-mean/200, "target %d %%, requests %v", target, w.requests())
	}
}

// underRetargetedHPA is a Deployment of three pods that request more CPU than they need, under an HPA.
func underRetargetedHPA(w *world) {
	w.autoscalers = retargeted{w.direct, new(bool)}
	w.usage.now, w.usage.spans = w.clock.Now, map[string][]replicas.Span{" cpu": w.atTheTarget()}
	w.wire()
	pods(3, shape{"cpu=1,memory=512Mi", ""}, shrunk)(w)
	require.NoError(w.t, w.direct.Create(w.t.Context(), cpuHPA(w.namespace, "web")))
}

// targets are those of the HPAs of the namespace, with what attune noted about them.
func (w *world) targets() (all []string) {
	w.t.Helper()
	list := &autoscalingv2.HorizontalPodAutoscalerList{}
	require.NoError(w.t, w.direct.List(w.t.Context(), list, client.InNamespace(w.namespace)))
	for i := range list.Items {
		hpa := &list.Items[i]
		all = append(all, fmt.Sprint(hpa.Name, " ", *hpa.Spec.Metrics[0].Resource.Target.AverageUtilization, " ", hpa.Annotations))
	}
	return all
}

func (w *world) hpa() *autoscalingv2.HorizontalPodAutoscaler {
	w.t.Helper()
	hpa := &autoscalingv2.HorizontalPodAutoscaler{}
	require.NoError(w.t, w.direct.Get(w.t.Context(), client.ObjectKey{Namespace: w.namespace, Name: "web"}, hpa))
	return hpa
}

// target is that of the HPA, and the mean CPU request of the pods in millicores.
func (w *world) target() (int32, float64) {
	w.t.Helper()
	sum, n := 0.0, 0.0
	for _, pod := range w.pods() {
		if pod.DeletionTimestamp == nil {
			sum, n = sum+float64(cpuRequest(&pod)), n+1
		}
	}
	return *w.hpa().Spec.Metrics[0].Resource.Target.AverageUtilization, sum / max(n, 1)
}

func (w *world) setTarget(percent int32) {
	w.t.Helper()
	hpa := w.hpa()
	hpa.Spec.Metrics[0].Resource.Target.AverageUtilization = ptr.To(percent)
	require.NoError(w.t, w.direct.Update(w.t.Context(), hpa))
}

// followed reports that the target belongs to the requests of the pods.
func (w *world) followed() bool {
	target, mean := w.target()
	return int32(70000/mean+0.5) == target
}

// order are the changes of HPAs and the resizes since a call: "hpa 85" and "pod".
func (w *world) order(since int) (out []string) {
	for _, call := range w.link.Calls()[since:] {
		switch {
		case call.Verb != "patch" || call.DryRun || call.Code >= http.StatusBadRequest:
		case call.Resource == "horizontalpodautoscalers":
			var patch []struct {
				Op, Path string
				Value    json.RawMessage
			}
			if json.Unmarshal(call.Body, &patch) == nil {
				for _, p := range patch {
					if p.Op == "replace" && strings.HasSuffix(p.Path, "averageUtilization") {
						out = append(out, "hpa "+string(p.Value))
					}
				}
			}
		case call.Subresource == "resize":
			out = append(out, "pod")
		}
	}
	return out
}

// The requests of a workload are lowered in waves, and the target of its HPA is raised before each. kubectl attune undo
// raises the requests, and then the target is lowered: at the end nothing is left of the change.
func TestRetargetFollowsTheRequests(t *testing.T) {
	t.Parallel()
	w, _ := retargetWorld(t, retargetCPU)
	w.run(12*time.Hour, 5*time.Minute)
	assert.Equal(t, []int64{lowestRetargeted}, w.requests(), w.describe())
	target, _ := w.target()
	assert.Equal(t, int32(90), target)
	assert.JSONEq(t, `{"metric":"cpu","original":70,"written":90,"request":1000}`, w.hpa().Annotations[autoscale.OriginalTargetAnnotation])
	order := w.order(0)
	for i, what := range order {
		if what == "pod" {
			assert.Contains(t, slices.Concat(order[:i]), "hpa 74", "the target is raised before the first resize")
		} else {
			assert.Equal(t, "pod", append(order, "")[i+1], "a target is raised only for a resize that follows: %v", order)
		}
	}
	assert.Equal(t, "pod", order[len(order)-1], "%v", order)

	begun, writes := len(w.link.Calls()), w.writes
	w.run(24*time.Hour, time.Hour)
	assert.Empty(t, w.order(begun), "at rest nothing is written")
	assert.LessOrEqual(t, float64(w.writes-writes), writesAMinute*24*60)

	w.annotate(map[string]string{v1alpha1.UndoAnnotation: "2026-01-01T00:00:00Z"})
	w.run(time.Hour, time.Minute)
	assert.Equal(t, []int64{1000}, w.requests())
	target, _ = w.target()
	assert.Equal(t, int32(70), target)
	assert.NotContains(t, w.hpa().Annotations, autoscale.OriginalTargetAnnotation)
}

// The HPA cannot be changed, for different reasons: no request on which it scales changes, and the reason is said.
func TestRetargetOfAnHPAThatCannotBeChanged(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		befall func(w *world, denied *bool)
		says   string
	}{
		"no right":       {func(_ *world, denied *bool) { *denied = true }, "hpa.retarget: true"},
		"rejected":       {func(w *world, _ *bool) { w.strikeHPA(http.StatusForbidden) }, "is not changed"},
		"always changed": {func(w *world, _ *bool) { w.strikeHPA(http.StatusConflict) }, "is not changed"},
		"written by Argo CD": {func(w *world, _ *bool) {
			hpa := w.hpa()
			hpa.Labels = map[string]string{"argocd.argoproj.io/tracking-id": "web"}
			require.NoError(w.t, w.direct.Update(w.t.Context(), hpa))
		}, "belongs to Argo CD"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, denied := retargetWorld(t, retargetCPU)
			w.stumble = func(error) {}
			c.befall(w, denied)
			w.run(3*time.Hour, 5*time.Minute)
			assert.Equal(t, []int64{1000}, w.requests())
			target, _ := w.target()
			assert.Equal(t, int32(70), target)
			rec := w.recommendation()
			said, err := json.Marshal([]any{rec.Spec.Containers, rec.Status})
			require.NoError(t, err)
			assert.Contains(t, string(said), c.says)
			assert.LessOrEqual(t, len(w.link.Calls())/180, 40, "calls a minute")
		})
	}
}

// strikeHPA answers all changes of HPAs with a code.
func (w *world) strikeHPA(code int) {
	w.link.Strike(fault.Point{Kind: "patch horizontalpodautoscalers", N: 1}, 1<<20, fault.Instead(code, -1))
}

// A user changes the target after attune did. It stays, and no request changes any more until the pods have their original
// requests, or the annotation is removed.
func TestRetargetKeepsTheTargetOfAUser(t *testing.T) {
	t.Parallel()
	w, _ := retargetWorld(t, retargetCPU)
	w.until(12*time.Hour, "the first pod is resized", func() bool { return len(w.requests()) == 2 })
	w.passed = nil
	w.setTarget(60)
	begun := len(w.link.Calls())
	w.run(6*time.Hour, 5*time.Minute)
	target, _ := w.target()
	assert.Equal(t, int32(60), target)
	for _, what := range w.order(begun) {
		assert.NotContains(t, what, "hpa")
	}
	said, err := json.Marshal(w.recommendation().Spec.Containers)
	require.NoError(t, err)
	assert.Contains(t, string(said), "was changed after attune had rewritten it")

	w.setTarget(70) // helm upgrade applies the chart's target again
	w.until(12*time.Hour, "it goes on", func() bool { return w.followed() && w.requests()[0] == lowestRetargeted })
}

// A target that another writer sets back again and again: attune does not fight over it.
func TestRetargetDoesNotFight(t *testing.T) {
	t.Parallel()
	w, _ := retargetWorld(t, retargetCPU)
	w.passed = nil
	sets := 0
	w.run(3*time.Hour, time.Minute, func() bool {
		if target, _ := w.target(); target != 70 {
			w.setTarget(70)
			sets++
		}
		return true
	})
	assert.LessOrEqual(t, sets, 3*6+1)
	assert.NotZero(t, sets)
}

// Another writer sets the target back for hours, or the API server rejects changes. Then the HPA is deleted and created again:
// the target of the new HPA was neither set back nor rejected, so it follows the requests at once.
func TestRetargetOfAnHPACreatedAgainDoesNotWait(t *testing.T) {
	t.Parallel()
	for name, rejects := range map[string]bool{"set back": false, "rejected": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, _ := retargetWorld(t, retargetCPU)
			w.stumble = func(error) {}
			w.until(12*time.Hour, "the requests are lowered", func() bool { return w.requests()[0] == lowestRetargeted && w.idle() && w.followed() })
			w.passed = nil
			w.setTarget(70)
			if rejects {
				accepts := w.rejectHPA()
				w.run(30*time.Minute, time.Minute)
				accepts.Store(true)
			} else {
				w.run(2*time.Hour, time.Minute, func() bool { w.setTarget(70); return true })
			}
			require.NoError(t, w.direct.Delete(t.Context(), w.hpa()))
			require.NoError(t, w.direct.Create(t.Context(), cpuHPA(w.namespace, "web")))
			w.run(10*time.Second, time.Second)
			assert.True(t, w.followed(), "%v of %v", w.targets(), w.requests())
		})
	}
}

// The policy is deleted, the setting changed, or the workload skipped, with pods below their original requests: the target
// follows their requests until all pods are replaced.
func TestRetargetIsRestored(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(w *world){
		"policy deleted": func(w *world) {
			policy := &v1alpha1.AttunePolicy{}
			policy.Namespace, policy.Name = w.namespace, "all"
			require.NoError(w.t, w.direct.Delete(w.t.Context(), policy))
			_, err := w.policies.Reconcile(w.t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(policy)})
			require.NoError(w.t, err)
		},
		"setting changed": func(w *world) {
			policy := &v1alpha1.AttunePolicy{}
			require.NoError(w.t, w.direct.Get(w.t.Context(), client.ObjectKey{Namespace: w.namespace, Name: "all"}, policy))
			policy.Spec.CPU.HPA = ptr.To(v1alpha1.HPABlock)
			require.NoError(w.t, w.direct.Update(w.t.Context(), policy))
		},
		"skipped": func(w *world) { w.annotate(map[string]string{v1alpha1.SkipAnnotation: "true"}) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, _ := retargetWorld(t, retargetCPU)
			w.until(12*time.Hour, "the requests are lowered", func() bool { return slices.Equal(w.requests(), []int64{lowestRetargeted}) && w.idle() })
			end(w)
			keeps := w.passed
			w.passed = func() {
				keeps()
				clear(w.known) // the loops list some ReplicaSets, and the control plane lists all
			}
			w.run(time.Hour, time.Minute)
			pods := w.pods()
			for i := range pods {
				require.NoError(t, w.direct.Delete(t.Context(), &pods[i]))
				w.run(5*time.Minute, time.Minute)
				assert.True(t, w.followed(), "%v", w.requests())
			}
			assert.Equal(t, []int64{1000}, w.requests())
			target, _ := w.target()
			assert.Equal(t, int32(70), target)
			assert.NotContains(t, w.hpa().Annotations, autoscale.OriginalTargetAnnotation)
		})
	}
}
