package tuning_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/resize"
	"attune.io/attune/resize/lifecycle"
	"attune.io/attune/tuning"
)

// The tries do not depend on the history, which rows of other pods may fill.
func TestMemoryDoesNotRestOnTheHistory(t *testing.T) {
	from, to := sizeOf(500, 0, 512, 1024), sizeOf(250, 0, 256, 512)
	record := recordOf(running("web-00", from), to)
	w := eager(heading(seen(t, from, running("web-00", from)), to))
	w.Usage.Memory["web-00"] = nil
	w.Rec.Status.Tries = resize.NotDone(nil, record, resize.ReasonActuation, "in use", w.Policy.Settings.Resize, now.Add(-time.Minute))
	for i := range 40 {
		other := record
		other.PodName = fmt.Sprintf("web-%02d", i+1)
		w.Rec.Status.History = lifecycle.AddHistory(w.Rec.Status.History, lifecycle.HistoryRows("web", other, lifecycle.ResultSuccess, "", now.Add(-30*time.Second)))
	}
	d := tuning.Decide(w)
	require.Len(t, d.Status.Records, 1)
	last := d.Status.Records[0]
	assert.Empty(t, last.Then)
	assert.Equal(t, int64(1024*mi), last.Desired[0].Resources.MemoryLimit.Value(), "the limit stays for a day")
}

// A leak pauses its workload until a user ends the pause.
func TestALeakPausesTheWorkload(t *testing.T) {
	limit := sizeOf(500, 0, 512, 512)
	pod := endedBefore(running("web-1", limit), "OOMKilled", 1, time.Minute)
	w := eager(heading(seen(t, limit, pod), sizeOf(500, 0, 700, 700)))
	amount := resource.MustParse("520Mi")
	w.Rec.Status.Tries = []v1alpha1.Try{{
		What: v1alpha1.TryOOMChain, Container: "app", Times: 15, Amount: &amount, Since: metav1.NewTime(now.Add(-5 * time.Hour)), Until: metav1.NewTime(now.Add(time.Hour)),
	}}
	d := tuning.Decide(w)
	require.Len(t, d.Writes, 1, "the sixteenth is still given: %v", tuning.Refused(w).Of())
	require.NotNil(t, d.Status.Paused)
	assert.Contains(t, d.Status.Paused.Reason, "16 times")
	assert.Contains(t, d.Status.Paused.Reason, "kubectl attune resume deployment/web -n shop")

	w.Rec.Status = d.Status
	w.Rec.Status.Records = nil
	w.Now = now.Add(30 * time.Hour)
	d = tuning.Decide(w)
	assert.NotNil(t, d.Status.Paused, "it does not end by itself the next day")
	assert.Empty(t, d.Writes)
	w.Workload.Annotations[v1alpha1.ResumedAnnotation] = "now"
	d = tuning.Decide(w)
	assert.Nil(t, d.Status.Paused)
	assert.Nil(t, resize.Leaks(d.Status.Tries), "and it is counted anew")
}
