package workload

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/podview"
)

// live are the pods that have not ended and are not being deleted. Those that have stay for a while, such
// as failed attempts of a Job: they still teach what killed them, and nothing is to be done about them.
func (w world) live() []*corev1.Pod {
	return slices.DeleteFunc(slices.Clone(w.pods), ended)
}

func ended(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed || pod.DeletionTimestamp != nil
}

// due are the live pods that may be resized. Pods of Jobs and CronJobs are sized at admission, since what
// they do is lost if a trial fails; while they run, only what killed one is answered.
func (w world) due() []*corev1.Pod {
	if !w.batch() {
		return w.live()
	}
	return slices.DeleteFunc(w.live(), func(pod *corev1.Pod) bool { return !killed(pod) })
}

// killed: the kernel killed a container of the pod.
func killed(pod *corev1.Pod) bool { return len(podview.OOMKills(pod)) > 0 }

func (w world) batch() bool {
	kind := w.rec.Spec.Workload.Kind
	return kind == v1alpha1.KindJob || kind == v1alpha1.KindCronJob
}
