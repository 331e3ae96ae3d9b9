package lifecycle_test

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/podview"
	"attune.io/attune/resize"
	"attune.io/attune/resize/resizetest"
)

// The builders of resizetest, under the names that the tests use.
const (
	mi = resizetest.Mi
	gi = resizetest.Gi
)

var (
	noon           = resizetest.Noon
	size           = resizetest.Size
	running        = resizetest.Running
	statusOf       = resizetest.StatusOf
	withSidecar    = resizetest.WithSidecar
	withInit       = resizetest.WithInit
	restarting     = resizetest.Restarting
	with           = resizetest.With
	wish           = resizetest.Wish
	able           = resizetest.Able
	quantity       = resource.MustParse
	mustPlan       = resizetest.MustPlan
	auto           = resizetest.Auto
	setCondition   = resizetest.SetCondition
	clearCondition = resizetest.ClearCondition
	recorded       = resizetest.Recorded
	ofMemory       = resizetest.OfMemory
	hadMore        = resizetest.HadMore
	reason         = resizetest.Reason
	watchedUntil   = resizetest.WatchedUntil
	resized        = resizetest.Resized
	observed       = resizetest.Observed
	allocatedTo    = resizetest.AllocatedTo
	done           = resizetest.Done
	web            = resizetest.Web
	ago            = resizetest.Ago
	prior          = resizetest.Prior
	desired        = resizetest.Desired
	specOf         = podview.Specs
	open           = resizetest.Open
	taken          = resizetest.Taken
	world          = resizetest.Input
	check          = resizetest.Check
	list           = resizetest.List
	quotaOf        = resizetest.QuotaOf
	refused        = resizetest.Refused
)

// phase sets the phase of a record.
func phase(p v1alpha1.RecordPhase) func(*v1alpha1.ResizeRecord) {
	return func(r *v1alpha1.ResizeRecord) { r.Phase = p }
}

// inProgress: the kubelet carries the resize out, or fails to do so.
func inProgress(reason string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { setCondition(p, corev1.PodResizeInProgress, reason, "the kubelet's word", 2) }
}

// boostPlan returns the end of a boost on a node that is Able.
func boostPlan(pod *corev1.Pod, boosted []podview.Container) (resize.Plan, *resize.Refusal) {
	return resize.PlanBack(pod, boosted, able(), noon, resize.WaveBoost, resize.ReasonBoost)
}

// pending: the kubelet defers a resize, or refuses it.
func pending(reason string, generation int64) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		setCondition(p, corev1.PodResizePending, reason, "the kubelet's word", generation)
	}
}
