package sim

import (
	"context"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/resize"
	"attune.io/attune/resize/lifecycle"
)

// takeovers are worlds in which a process ends while a record is in a certain phase, and another one continues.
func takeovers() map[string]plan {
	return map[string]plan{
		"a second patch is taken over unsent":       secondPatchTakenOver(0),
		"a second patch is taken over unanswered":   secondPatchTakenOver(1),
		"a second patch is taken over from another": secondPatchOfTwo(),
		"a denied eviction is taken over":           deniedEvictionTakenOver(),
		"a pod that leaves is taken over":           leavingTakenOver(false),
		"a pod that may not leave is taken over":    leavingTakenOver(true),
	}
}

// takeover ends the leader. The next process follows after a pause, or while this one goes on for up to 10 seconds.
func (w *world) takeover(pause bool, d time.Duration) {
	w.watching.disturbed("another process leads")
	switch {
	case w.leader == nil: // between two processes
	case pause:
		w.bury(w.leader)
	default:
		w.succeed(d)
	}
}

// whenStored does something once, within the write that stores such a record.
func (w *world) whenStored(such func(v1alpha1.ResizeRecord) bool, do func(v1alpha1.ResizeRecord)) {
	w.waiters = append(w.waiters, func(rec *v1alpha1.AttuneRecommendation) bool {
		for _, record := range rec.Status.Records {
			if such(record) {
				do(record)
				return false
			}
		}
		return true
	})
}

// stored counts the phases of records, and calls those that wait for one.
func (w *world) stored(rec *v1alpha1.AttuneRecommendation) {
	for _, record := range rec.Status.Records {
		w.phases[record.Phase]++
	}
	was := w.waiters
	w.waiters = nil
	for _, waits := range was {
		if waits(rec) {
			w.waiters = append(w.waiters, waits)
		}
	}
}

func inPhase(phase v1alpha1.RecordPhase) func(v1alpha1.ResizeRecord) bool {
	return func(record v1alpha1.ResizeRecord) bool { return record.Phase == phase }
}

// tight is a workload whose memory limit falls to little above what is in use, which needs a patch of its own.
func tight(replicas int32) workloadPlan {
	w := web(replicas)
	w.Demand.memory, w.Demand.cache = 200*mib, 200*mib
	return w
}

// secondPatchTakenOver: the operator is killed so many calls after it stored that a second patch is sent. With none
// the patch never leaves, with one it arrives and its answer is lost. The next process has to complete the resize
// either way.
func secondPatchTakenOver(calls int) plan {
	p := roomy(6*time.Hour, tight(1))
	p.Down, p.Meets = 20*time.Second, v1alpha1.RecordSecondWritten
	p.Script = func(w *world) {
		w.whenStored(inPhase(v1alpha1.RecordSecondWritten), func(v1alpha1.ResizeRecord) {
			w.leader.left = calls
		})
		w.endsWell()
	}
	return p
}

// secondPatchOfTwo: calls fail while second patches are sent, and the process that sends them goes on beside its
// follower for a few seconds.
func secondPatchOfTwo() plan {
	p := roomy(6*time.Hour, tight(4))
	p.Meets = v1alpha1.RecordSecondWritten
	p.Script = func(w *world) {
		w.whenStored(inPhase(v1alpha1.RecordSecondWritten), func(v1alpha1.ResizeRecord) {
			w.faults.stormUntil, w.faults.rate = w.time.now.Add(time.Second), 1
			w.time.after(time.Second/2, func() { w.takeover(false, 7*time.Second) })
		})
		w.endsWell()
	}
	return p
}

// endsWell: nobody else resizes pods in this world, and nothing refuses their sizes. So no resize ends before it was
// watched, and some have both of their halves.
func (w *world) endsWell() {
	rec := "shop/deployment-web"
	w.time.at(beginning.Add(w.plan.Length-time.Minute), func() {
		if w.phases[w.plan.Meets] == 0 {
			return // run reports it
		}
		history := w.recommendation(rec).Status.History
		whole := false
		for _, row := range history {
			if row.Result != lifecycle.ResultSuccess {
				w.violate("resizes are brought to their end", "%+v\n%s", row, w.describe(rec))
			}
			whole = whole || strings.Contains(row.Resource, "cpu") && strings.Contains(row.Resource, "memory")
		}
		if !whole {
			w.violate("resizes are brought to their end", "no resize has both of its patches: %+v\n%s", history, w.describe(rec))
		}
	})
}

// deniedEvictionTakenOver: a node has no room for what its pod has come to need, the policy would rather have the pod
// elsewhere, and a budget lets no pod go.
func deniedEvictionTakenOver() plan {
	w := web(2)
	w.Containers = []corev1.Container{container(amounts("500m", "512Mi"), nil)}
	w.Demand.memory = 350 * mib
	p := roomy(10*time.Hour, w)
	p.NodeCPU, p.NodeMemory = "4", "8Gi"
	p.Down, p.Meets, p.Labelled = 20*time.Second, v1alpha1.RecordEvictionDenied, true
	p.Policies[0].Spec.UpdateStrategy.ResizeMethod = ptr(v1alpha1.ResizeInPlaceOrRecreate)
	p.Policies[0].Spec.Memory.MaxChangePercent = ptr(int32(1000))
	p.Objects = []client.Object{noneMayGo(w)}
	p.Script = func(w *world) {
		w.time.after(2*time.Hour, func() {
			w.fill(w.podsOf(key2("shop", "deployment-web"))[0].Spec.NodeName, "6Gi")
			w.grow("shop/web", 5)
		})
		w.deniedAndTakenOver(resize.ReasonDeferred)
	}
	return p
}

// leavingTakenOver: the pods of a node do not fit on it any more, and strategy Node has one of them go. It is stored,
// and before the eviction is requested, the process ends. Where a budget lets no pod go, it ends once the eviction was
// denied.
func leavingTakenOver(denied bool) plan {
	w := web(3)
	w.Containers = []corev1.Container{container(amounts("500m", "1Gi"), nil)}
	w.Demand.memory = 700 * mib
	p := roomy(10*time.Hour, w)
	p.NodeCPU, p.NodeMemory = "4", "8Gi"
	p.Down, p.Meets, p.Labelled = 20*time.Second, v1alpha1.RecordLeaving, true
	p.Policies[0].Spec.Strategy = ptr(v1alpha1.StrategyNode)
	p.Policies[0].Spec.Node = &v1alpha1.NodeSettings{Eviction: ptr(v1alpha1.Enabled)}
	p.Script = func(w *world) {
		w.time.after(2*time.Hour, func() {
			w.joined++
			w.cluster.join("node-3")
			w.grow("shop/web", 7)
		})
		if denied {
			w.deniedAndTakenOver(resize.ReasonDoesNotFit)
			return
		}
		w.whenStored(inPhase(v1alpha1.RecordLeaving), func(record v1alpha1.ResizeRecord) {
			w.time.after(0, func() { w.takeover(true, 0) })
			w.time.after(time.Hour, func() {
				if pod := w.pod("shop", record.PodName); pod != nil {
					w.violate("a pod that leaves has left", "pod %s is there an hour later\n%s", record.PodName, w.describe("shop/deployment-web"))
				}
			})
		})
	}
	if denied {
		p.Meets, p.Objects = v1alpha1.RecordEvictionDenied, []client.Object{noneMayGo(w)}
	}
	return p
}

// deniedAndTakenOver: the process ends once an eviction was denied. The next process says why the pod is
// still there before it asks again, and asks until the time for it is over, or the budget lets the pod go.
func (w *world) deniedAndTakenOver(reason string) {
	denied := func(r v1alpha1.ResizeRecord) bool {
		return r.Phase == v1alpha1.RecordEvictionDenied && r.Reason == reason
	}
	w.whenStored(denied, func(record v1alpha1.ResizeRecord) {
		w.time.after(time.Second, func() { w.takeover(true, 0) })
		w.time.after(w.plan.Down+20*time.Second, func() {
			rec := w.recommendation("shop/deployment-web")
			blocked := meta.FindStatusCondition(rec.Status.Conditions, v1alpha1.ConditionResizeBlocked)
			if blocked == nil || !strings.Contains(blocked.Message, "deny the eviction of pod") {
				w.violate("a denial is told", "%+v\n%s", blocked, w.describe("shop/deployment-web"))
			}
		})
		w.time.after(10*time.Minute, func() {
			w.watching.disturbed("the budget is gone")
			w.must(w.people.Delete(context.Background(), &policyv1.PodDisruptionBudget{ObjectMeta: noneMayGo(w.plan.Workloads[0]).ObjectMeta}))
		})
		w.time.after(time.Hour, func() {
			if pod := w.pod("shop", record.PodName); pod != nil {
				w.violate("a pod that leaves has left", "pod %s is there an hour after its eviction was denied, and nothing is in its way\n%s", record.PodName, w.describe("shop/deployment-web"))
			}
		})
	})
}

// noneMayGo is a budget that lets no pod of a workload be evicted.
func noneMayGo(of workloadPlan) *policyv1.PodDisruptionBudget {
	b := disruptionBudget(of.Namespace, of.Name)
	b.Spec.MaxUnavailable = ptr(intstr.FromInt32(0))
	return b
}

// fill a node with a pod that nobody sizes.
func (w *world) fill(node, memory string) {
	pod := &corev1.Pod{Spec: corev1.PodSpec{NodeName: node, Containers: []corev1.Container{container(amounts("100m", memory), nil)}}}
	pod.Namespace, pod.Name = operatorNamespace, "filler"
	w.must(w.people.Create(context.Background(), pod))
	w.watching.disturbed("a node is full")
}

// recommendation as it is stored, shared.
func (w *world) recommendation(name string) *v1alpha1.AttuneRecommendation {
	rec, found := w.server.Peek(&v1alpha1.AttuneRecommendation{}, keyOf(name)).(*v1alpha1.AttuneRecommendation)
	if !found {
		return &v1alpha1.AttuneRecommendation{}
	}
	return rec
}
