package harm

import "attune.io/attune/resize/resizetest"

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
	quantity     = resizetest.Quantity
	mustPlan     = resizetest.MustPlan
	auto         = resizetest.Auto
	recorded     = resizetest.Recorded
	ofMemory     = resizetest.OfMemory
	reason       = resizetest.Reason
	watchedUntil = resizetest.WatchedUntil
	resized      = resizetest.Resized
	observed     = resizetest.Observed
	pending      = resizetest.Pending
	done         = resizetest.Done
	ended        = resizetest.Ended
	last         = resizetest.Last
	now          = resizetest.EndedNow
	restarts     = resizetest.Restarts
	unreadyNow   = resizetest.UnreadyNow
	edits        = resizetest.Edits
	web          = resizetest.Web
	ago          = resizetest.Ago
	prior        = resizetest.Prior
	desired      = resizetest.Desired
)
