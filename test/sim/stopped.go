package sim

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"attune.io/attune/api/v1alpha1"
)

// waysToStop are the ways in which people stop attune, by name.
func waysToStop() map[string]func(*world) {
	return map[string]func(*world){
		"kill switch": func(w *world) {
			d := &v1alpha1.AttuneDefaults{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.DefaultsName}}
			d.Spec.Paused = ptr(true)
			w.must(client.IgnoreAlreadyExists(w.people.Create(context.Background(), d)))
		},
		"kubectl attune pause": func(w *world) { w.annotateWeb(v1alpha1.PausedAnnotation) },
		"mode Recommend": func(w *world) {
			policy := some(w, &v1alpha1.AttunePolicy{}, 0)
			policy.Spec.UpdateStrategy.Type = ptr(v1alpha1.UpdateRecommend)
			w.must(w.people.Update(context.Background(), policy))
		},
		"policy deleted": func(w *world) {
			w.must(w.people.Delete(context.Background(), some(w, &v1alpha1.AttunePolicy{}, 0)))
		},
		"skipped": func(w *world) { w.annotateWeb(v1alpha1.SkipAnnotation) },
	}
}

// annotateWeb sets an annotation of Deployment web to "true".
func (w *world) annotateWeb(name string) {
	d := w.deployment("shop", "web")
	metav1.SetMetaDataAnnotation(&d.ObjectMeta, name, "true")
	w.must(w.people.Update(context.Background(), d))
}

// stoppedWorld lowers three pods to a quarter of their template's memory. Then people stop attune, and an hour later the
// pods need 600Mi of the 1Gi that their template asks for.
func stoppedWorld(stop func(*world)) plan {
	p := roomy(11*time.Hour, web(3))
	p.Script = func(w *world) {
		w.time.after(4*time.Hour, func() { stop(w); w.watching.disturbed("attune is stopped") })
		w.time.after(5*time.Hour, func() { w.grow("shop/web", 6) })
		w.time.after(5*time.Hour+time.Minute, func() { w.judgeStopped("a minute after the growth") })
		w.time.after(10*time.Hour+50*time.Minute, func() { w.judgeStopped("at the end") })
	}
	return p
}

// judgeStopped reports pods of Deployment web that were killed more than once, or were killed and have less memory than
// their template.
func (w *world) judgeStopped(when string) {
	for _, pod := range w.podsOf(key2("shop", "deployment-web")) {
		status := pod.Status.ContainerStatuses[0]
		has := pod.Spec.Containers[0].Resources.Limits[corev1.ResourceMemory]
		if status.RestartCount > 1 || status.RestartCount == 1 && has.Value() != gib {
			w.violate("safety net", "%s pod %s was restarted %d times and has a memory limit of %s of its original 1Gi", when, pod.Name, status.RestartCount, has.String())
		}
	}
}

// stoppedAndDown is stoppedWorld with an API server that answers nobody for 15 minutes from the growth on: the pods crash in
// a loop when it is back. From 5 minutes later on none of them is killed, and all have their template's memory.
func stoppedAndDown(stop func(*world)) plan {
	p := stoppedWorld(stop)
	p.Script = func(w *world) {
		restarts := map[string]int32{}
		look := func(judge func(pod *corev1.Pod, n int32)) func() {
			return func() {
				for _, pod := range w.podsOf(key2("shop", "deployment-web")) {
					judge(pod, pod.Status.ContainerStatuses[0].RestartCount)
				}
			}
		}
		w.time.after(4*time.Hour, func() { stop(w); w.watching.disturbed("attune is stopped") })
		w.time.after(5*time.Hour, func() {
			w.faults.stormUntil, w.faults.rate = w.time.now.Add(15*time.Minute), 2
			w.grow("shop/web", 6)
		})
		w.time.after(5*time.Hour+20*time.Minute, look(func(pod *corev1.Pod, n int32) { restarts[pod.Name] = n }))
		w.time.after(10*time.Hour+50*time.Minute, look(func(pod *corev1.Pod, n int32) {
			has := pod.Spec.Containers[0].Resources.Limits[corev1.ResourceMemory]
			if was, known := restarts[pod.Name]; !known || n != was || n < 2 || has.Value() < gib {
				w.violate("safety net", "pod %s was restarted %d times, %d of them later than 5 minutes after the API server was back, and has a memory limit of %s", pod.Name, n, n-was, has.String())
			}
		}))
	}
	return p
}
