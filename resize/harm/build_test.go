package harm

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"attune.io/attune/podview"
	"attune.io/attune/resize/resizetest"
)

// The builders of resizetest, under the names that the tests use.
const mi = resizetest.Mi

var (
	noon         = resizetest.Noon
	size         = resizetest.Size
	running      = resizetest.Running
	withSidecar  = resizetest.WithSidecar
	withInit     = resizetest.WithInit
	restarting   = resizetest.Restarting
	with         = resizetest.With
	wish         = resizetest.Wish
	able         = resizetest.Able
	quantity     = resource.MustParse
	mustPlan     = resizetest.MustPlan
	auto         = resizetest.Auto
	recorded     = resizetest.Recorded
	ofMemory     = resizetest.OfMemory
	reason       = resizetest.Reason
	watchedUntil = resizetest.WatchedUntil
	resized      = resizetest.Resized
	observed     = resizetest.Observed
	done         = resizetest.Done
	ended        = resizetest.Ended
	last         = resizetest.Last
	web          = resizetest.Web
	ago          = resizetest.Ago
	prior        = resizetest.Prior
	desired      = resizetest.Desired
)

// now sets a terminated state on the pod's first container, which does not run.
func now(t *corev1.ContainerStateTerminated) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Status.ContainerStatuses[0].State = corev1.ContainerState{Terminated: t} }
}

// restarts sets the restart count of the pod's first container.
func restarts(n int32) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Status.ContainerStatuses[0].RestartCount = n }
}

// unreadyNow: the pod is not ready.
func unreadyNow(p *corev1.Pod) { podview.Condition(p, corev1.PodReady).Status = corev1.ConditionFalse }

// edits are a list of edits of a pod.
func edits(list ...func(*corev1.Pod)) []func(*corev1.Pod) { return list }
