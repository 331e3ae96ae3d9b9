package workload

import "attune.io/attune/tuning/tuningtest"

// The builders of tuningtest, under the names that the tests use.
const mi = tuningtest.Mi

var (
	now         = tuningtest.Now
	template    = tuningtest.Template
	seedSize    = tuningtest.SeedSize
	sizeOf      = tuningtest.SizeOf
	seen        = tuningtest.Seen
	node        = tuningtest.Node
	running     = tuningtest.Running
	born        = tuningtest.Born
	endedBefore = tuningtest.EndedBefore
	resized     = tuningtest.Resized
	recordOf    = tuningtest.RecordOf
	eager       = tuningtest.Eager
	begun       = tuningtest.Begun
	blocked     = tuningtest.Blocked
	small       = tuningtest.Small
	big         = tuningtest.Big
	quotaOf     = tuningtest.QuotaOf
	jobPod      = tuningtest.JobPod
	judged      = tuningtest.Judged
	harms       = tuningtest.Harms
	heading     = tuningtest.Heading
	told        = tuningtest.Told
	condition   = tuningtest.Condition
)
