package tuning_test

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"attune.io/attune/tuning"
	"attune.io/attune/tuning/tuningtest"
)

// Short names of the builders in tuningtest.
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

// crowd returns a view with a number of pods to lower.
func crowd(tb testing.TB, pods int) tuning.View {
	tb.Helper()
	has := sizeOf(500, 1000, 512, 1024)
	w := seen(tb, has)
	for i := range pods {
		w.Pods = append(w.Pods, running(fmt.Sprintf("web-abc-%05d", i), has))
	}
	w.Workload.Replicas = int32(pods)
	return heading(w, sizeOf(300, 600, 512, 1024))
}

// down sets the Ready condition of a node to Unknown, as if its kubelet had stopped long ago.
func down(n *corev1.Node) *corev1.Node {
	n.Status.Conditions[0].Status = corev1.ConditionUnknown
	return n
}
