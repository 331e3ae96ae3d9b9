package sim

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"attune.io/attune/api/v1alpha1"
)

// brokenImage never gets ready.
const brokenImage = "example.org/app:broken"

// deeds are what people do, by name.
var deeds = map[string]func(w *world, t trouble){
	"rollout": func(w *world, t trouble) {
		w.edit(t.Which, func(p *corev1.PodTemplateSpec) {
			p.Spec.Containers[0].Image = fmt.Sprintf("example.org/app:%d", t.Which)
		})
	},
	"broken rollout": func(w *world, t trouble) {
		var was string
		key := w.edit(t.Which, func(p *corev1.PodTemplateSpec) {
			was, p.Spec.Containers[0].Image = p.Spec.Containers[0].Image, brokenImage
		})
		w.later(t.For, "a rollout was taken back", func() {
			w.editOne(key, func(p *corev1.PodTemplateSpec) { p.Spec.Containers[0].Image = was })
		})
	},
	"resources edited": func(w *world, t trouble) {
		w.edit(t.Which, func(p *corev1.PodTemplateSpec) { multiply(p, 0.7+2*t.Much) })
	},
	"scaled to nothing": func(w *world, t trouble) {
		w.scale(t.Which, 0)
		w.later(t.For, "scaled up again", func() { w.scale(t.Which, int32(1+t.Much*5)) })
	},
	"paused":  func(w *world, t trouble) { w.annotate(t, v1alpha1.PausedAnnotation, "true") },
	"skipped": func(w *world, t trouble) { w.annotate(t, v1alpha1.SkipAnnotation, "true") },
	"undone": func(w *world, t trouble) {
		w.annotate(trouble{Which: t.Which}, v1alpha1.UndoAnnotation, w.time.now.Format(time.RFC3339))
	},
	"policy edited": func(w *world, t trouble) {
		if p := some(w, &v1alpha1.AttuneClusterPolicy{}, t.Which); p != nil && p.DeletionTimestamp == nil {
			p.Spec.PolicySettings = drawnPolicy(rand.New(rand.NewPCG(uint64(t.Which), 1)), p.Spec.TargetRef.Kind).PolicySettings
			w.must(w.people.Update(context.Background(), p))
			return
		}
		if p := some(w, &v1alpha1.AttunePolicy{}, t.Which); p != nil && p.DeletionTimestamp == nil {
			p.Spec = drawnPolicy(rand.New(rand.NewPCG(uint64(t.Which), 1)), p.Spec.TargetRef.Kind)
			w.must(w.people.Update(context.Background(), p))
		}
	},
	"policy deleted": func(w *world, t trouble) {
		if p := some(w, &v1alpha1.AttuneClusterPolicy{}, t.Which); p != nil {
			w.must(client.IgnoreNotFound(w.people.Delete(context.Background(), p)))
			w.later(t.For, "a cluster policy is back", func() {
				again := &v1alpha1.AttuneClusterPolicy{ObjectMeta: metav1.ObjectMeta{Name: p.Name + "-again"}, Spec: p.Spec}
				w.must(client.IgnoreAlreadyExists(w.people.Create(context.Background(), again)))
			})
			return
		}
		if p := some(w, &v1alpha1.AttunePolicy{}, t.Which); p != nil {
			w.must(client.IgnoreNotFound(w.people.Delete(context.Background(), p)))
			w.later(t.For, "a policy is back", func() {
				again := &v1alpha1.AttunePolicy{ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name + "-again"}, Spec: p.Spec}
				w.must(client.IgnoreAlreadyExists(w.people.Create(context.Background(), again)))
			})
		}
	},
	"kill switch": func(w *world, t trouble) {
		d := &v1alpha1.AttuneDefaults{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.DefaultsName}}
		d.Spec.Paused = ptr(true)
		w.must(client.IgnoreAlreadyExists(w.people.Create(context.Background(), d)))
		w.later(t.For, "the kill switch is off", func() {
			w.must(client.IgnoreNotFound(w.people.Delete(context.Background(), d.DeepCopy())))
		})
	},
	"limit range": func(w *world, t trouble) {
		w.replace(limitRange(rand.New(rand.NewPCG(uint64(t.Which), 2))), t)
	},
	"quota": func(w *world, t trouble) {
		w.replace(quota(milli(int64(500+t.Much*20000)), bytes(int64(gib+t.Much*30*gib))), t)
	},
}

// later does something that ends a trouble.
func (w *world) later(d time.Duration, what string, do func()) {
	w.time.after(d, func() {
		w.watching.disturbed(what)
		do()
	})
}

// some is a copy of one of the objects of a kind; nil: there is none.
func some[T client.Object](w *world, of T, which int) (none T) {
	all := w.server.Stored(of)
	if len(all) == 0 {
		return none
	}
	return all[which%len(all)].DeepCopyObject().(T)
}

// replace an object by another one of its name; it is gone a while later.
func (w *world) replace(o client.Object, t trouble) {
	ctx := context.Background()
	w.must(client.IgnoreNotFound(w.people.Delete(ctx, o.DeepCopyObject().(client.Object))))
	w.must(w.people.Create(ctx, o))
	w.later(t.For, "an object of the namespace is gone", func() {
		w.must(client.IgnoreNotFound(w.people.Delete(ctx, o.DeepCopyObject().(client.Object))))
	})
}

// peek at a planned workload, shared; nil: it is gone.
func (w *world) peek(which int) client.Object {
	p := w.plan.Workloads[which%len(w.plan.Workloads)]
	o := w.server.Peek(p.object(), key2(p.Namespace, p.Name))
	if o == nil || o.GetDeletionTimestamp() != nil {
		return nil
	}
	return o
}

// workload is a copy of a planned one; nil: it is gone.
func (w *world) workload(which int) client.Object {
	o := w.peek(which)
	if o == nil {
		return nil
	}
	return o.DeepCopyObject().(client.Object)
}

// templateOf a workload; that of a Job cannot be changed.
func templateOf(o client.Object) *corev1.PodTemplateSpec {
	switch o := o.(type) {
	case *appsv1.Deployment:
		return &o.Spec.Template
	case *appsv1.StatefulSet:
		return &o.Spec.Template
	case *appsv1.DaemonSet:
		return &o.Spec.Template
	case *appsv1.ReplicaSet:
		return &o.Spec.Template
	case *batchv1.CronJob:
		return &o.Spec.JobTemplate.Spec.Template
	}
	return nil
}

// edit the template of a workload, and say which it is.
func (w *world) edit(which int, change func(*corev1.PodTemplateSpec)) (index int) {
	index = which % len(w.plan.Workloads)
	w.editOne(index, change)
	return index
}

func (w *world) editOne(index int, change func(*corev1.PodTemplateSpec)) {
	o := w.workload(index)
	if o == nil {
		return
	}
	if template := templateOf(o); template != nil {
		change(template)
		w.must(w.people.Update(context.Background(), o))
	}
}

func multiply(p *corev1.PodTemplateSpec, times float64) {
	for i := range p.Spec.Containers {
		c := &p.Spec.Containers[i]
		for _, list := range []corev1.ResourceList{c.Resources.Requests, c.Resources.Limits} {
			if cpu, found := list[corev1.ResourceCPU]; found {
				list[corev1.ResourceCPU] = *resource.NewMilliQuantity(int64(float64(cpu.MilliValue())*times), resource.DecimalSI)
			}
			if memory, found := list[corev1.ResourceMemory]; found {
				list[corev1.ResourceMemory] = *resource.NewQuantity(int64(float64(memory.Value())*times)/mib*mib, resource.BinarySI)
			}
		}
	}
}

// annotate a workload, and take that away again where it lasts.
func (w *world) annotate(t trouble, key, value string) {
	set := func(value string) {
		o := w.workload(t.Which)
		if o == nil {
			return
		}
		annotations := maps.Clone(o.GetAnnotations())
		if annotations == nil {
			annotations = map[string]string{}
		}
		if annotations[key] = value; value == "" {
			delete(annotations, key)
		}
		o.SetAnnotations(annotations)
		w.must(w.people.Update(context.Background(), o))
	}
	set(value)
	if t.For > 0 {
		w.later(t.For, key+" is gone", func() { set("") })
	}
}

// recentCPU is what the metrics API says of a container, in millicores.
func (w *world) recentCPU(pod *corev1.Pod, container string, now time.Time) (int64, bool) {
	d, known := w.demandOf(pod)
	if !known || pod.Status.Phase != corev1.PodRunning {
		return 0, false
	}
	cpu, _ := d.at(now, pod.CreationTimestamp.Time, pod.Name)
	for _, c := range pod.Spec.Containers {
		if limit := c.Resources.Limits.Cpu().AsApproximateFloat64(); c.Name == container && limit > 0 {
			cpu = min(cpu, limit)
		}
	}
	return int64(cpu * 1000), true
}

// recentMemory is what the metrics API says of a container, in bytes.
func (w *world) recentMemory(pod *corev1.Pod, container string, now time.Time) (int64, bool) {
	for _, l := range w.lives.all[string(pod.UID)] {
		if l.container == container && l.ended.IsZero() {
			return int64(l.memoryAt(now)), true
		}
	}
	return 0, false
}
