package sim

import (
	"context"
	"encoding/json"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"attune.io/attune/api/v1alpha1"
)

// further draws disruption budgets, schedules, and what happens beside the troubles. It has random numbers of its own:
// what is added here leaves the rest of a seed's world as it is.
func (p *plan) further(seed uint64) {
	r := rand.New(rand.NewPCG(seed, 0xf4))
	for _, w := range p.Workloads {
		if r.IntN(4) == 0 {
			p.Objects = append(p.Objects, drawnBudget(r, w))
		}
	}
	for i := range p.Policies {
		if r.IntN(8) == 0 {
			p.Policies[i].Spec.UpdateStrategy.Schedule = drawnSchedule(r)
		}
	}
	kinds, span := slices.Sorted(maps.Keys(mishaps)), p.Length-p.Calm-2*time.Hour
	for range r.IntN(int(2 + p.Length.Hours()/12)) {
		p.Troubles = append(p.Troubles, trouble{
			After: time.Duration(r.Int64N(int64(span))), Kind: pick(r, kinds...), For: time.Duration(10+r.IntN(3590)) * time.Second,
			Which: r.IntN(1 << 16), Much: r.Float64(),
		})
	}
}

// drawnBudget of a workload: the usual one, one that never lets a pod go, or one of its percentages.
func drawnBudget(r *rand.Rand, of workloadPlan) *policyv1.PodDisruptionBudget {
	b := disruptionBudget(of.Namespace, of.Name)
	switch r.IntN(3) {
	case 0:
		b.Spec.MaxUnavailable = ptr(pick(r, intstr.FromInt32(0), intstr.FromInt32(1), intstr.FromString("25%")))
	case 1:
		b.Spec.MinAvailable = ptr(pick(r, intstr.FromInt32(1), intstr.FromInt32(of.Replicas), intstr.FromString("50%")))
	default:
		b.Spec.MaxUnavailable = ptr(intstr.FromInt32(1))
	}
	return b
}

func disruptionBudget(namespace, app string) *policyv1.PodDisruptionBudget {
	b := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: app}}
	b.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{appLabel: app}}
	return b
}

// drawnSchedule is open at night, over noon, on some days, or for an hour.
func drawnSchedule(r *rand.Rand) *v1alpha1.Schedule {
	s := &v1alpha1.Schedule{Windows: []v1alpha1.ScheduleWindow{{
		Start: pick[v1alpha1.ClockTime](r, "22:00", "10:00", "00:00"), End: pick[v1alpha1.ClockTime](r, "06:00", "14:30", "01:00"),
	}}}
	if r.IntN(3) == 0 {
		s.DaysOfWeek = []v1alpha1.Weekday{"Tuesday", "Saturday"}
	}
	s.Timezone = pick(r, "", "Europe/Berlin", "America/New_York")
	return s
}

// mishaps are what happens beside the troubles, by name.
var mishaps = map[string]func(w *world, t trouble){
	"autoscalers cannot be listed": func(w *world, t trouble) { w.faults.unlistedUntil = w.time.now.Add(t.For) },
	"a budget lets no pod go": func(w *world, t trouble) {
		of := w.plan.Workloads[t.Which%len(w.plan.Workloads)]
		b := disruptionBudget(of.Namespace, of.Name+"-none")
		b.Spec.MaxUnavailable = ptr(intstr.FromInt32(0))
		w.replace(b, t)
	},
	"a person resizes a pod": func(w *world, t trouble) {
		if pod := some(w, &corev1.Pod{}, t.Which); pod != nil {
			w.rescue(pod, 1+t.Much)
		}
	},
	"a workload is deleted": func(w *world, t trouble) {
		o := w.workload(t.Which)
		if o == nil {
			return
		}
		w.must(client.IgnoreNotFound(w.people.Delete(context.Background(), o)))
		of := w.plan.Workloads[t.Which%len(w.plan.Workloads)]
		w.later(t.For, "a workload is there again", func() {
			if err := w.people.Create(context.Background(), of.object()); !apierrors.IsAlreadyExists(err) {
				w.must(err)
			}
		})
	},
}

// rescue a pod: a person gives its first container more memory by hand, as far as the API server allows it.
func (w *world) rescue(pod *corev1.Pod, times float64) {
	more := corev1.ResourceRequirements{Requests: corev1.ResourceList{}, Limits: corev1.ResourceList{}}
	c := pod.Spec.Containers[0]
	for list, into := range map[*corev1.ResourceList]corev1.ResourceList{&c.Resources.Requests: more.Requests, &c.Resources.Limits: more.Limits} {
		if memory, has := (*list)[corev1.ResourceMemory]; has {
			into[corev1.ResourceMemory] = *resource.NewQuantity(int64(float64(memory.Value())*times)/mib*mib, resource.BinarySI)
		}
	}
	patch, err := json.Marshal(map[string]any{"spec": map[string]any{"containers": []any{map[string]any{"name": c.Name, "resources": more}}}})
	w.must(err)
	err = w.server.As("kubectl-patch", nil).SubResource("resize").Patch(context.Background(), pod, client.RawPatch(types.StrategicMergePatchType, patch))
	if !apierrors.IsForbidden(err) && !apierrors.IsInvalid(err) && !apierrors.IsNotFound(err) {
		w.must(err)
	}
}
