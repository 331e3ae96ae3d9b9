package lifecycle_test

import (
	"attune.io/attune/podview"
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
	quantity       = resizetest.Quantity
	mustPlan       = resizetest.MustPlan
	auto           = resizetest.Auto
	setCondition   = resizetest.SetCondition
	clearCondition = resizetest.ClearCondition
	recorded       = resizetest.Recorded
	ofMemory       = resizetest.OfMemory
	hadMore        = resizetest.HadMore
	phase          = resizetest.Phase
	reason         = resizetest.Reason
	watchedUntil   = resizetest.WatchedUntil
	resized        = resizetest.Resized
	observed       = resizetest.Observed
	allocatedTo    = resizetest.AllocatedTo
	pending        = resizetest.Pending
	inProgress     = resizetest.InProgress
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
	ranges         = resizetest.Ranges
	ofContainer    = resizetest.OfContainer
	quotaOf        = resizetest.QuotaOf
	refused        = resizetest.Refused
)
