package resize_test

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

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
	noon         = resizetest.Noon
	size         = resizetest.Size
	running      = resizetest.Running
	statusOf     = resizetest.StatusOf
	withSidecar  = resizetest.WithSidecar
	withInit     = resizetest.WithInit
	restarting   = resizetest.Restarting
	with         = resizetest.With
	wish         = resizetest.Wish
	able         = resizetest.Able
	quantity     = resource.MustParse
	mustPlan     = resizetest.MustPlan
	auto         = resizetest.Auto
	setCondition = resizetest.SetCondition
	recorded     = resizetest.Recorded
	resized      = resizetest.Resized
	done         = resizetest.Done
	ended        = resizetest.Ended
	last         = resizetest.Last
	web          = resizetest.Web
	ago          = resizetest.Ago
	prior        = resizetest.Prior
	desired      = resizetest.Desired
	specOf       = podview.Specs
	open         = resizetest.Open
	taken        = resizetest.Taken
	world        = resizetest.Input
	check        = resizetest.Check
	list         = resizetest.List
	quotaOf      = resizetest.QuotaOf
	refused      = resizetest.Refused
)

// capable is Able with edits.
func capable(edit func(*resize.Capabilities)) resize.Capabilities {
	caps := able()
	edit(&caps)
	return caps
}

// ranges returns one LimitRange with the items.
func ranges(items ...corev1.LimitRangeItem) []corev1.LimitRange {
	return []corev1.LimitRange{{Spec: corev1.LimitRangeSpec{Limits: items}}}
}

// ofContainer returns an item for containers.
func ofContainer(edit func(*corev1.LimitRangeItem)) corev1.LimitRangeItem {
	item := corev1.LimitRangeItem{Type: corev1.LimitTypeContainer}
	edit(&item)
	return item
}
