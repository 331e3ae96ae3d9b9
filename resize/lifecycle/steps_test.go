package lifecycle_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/recommender"
	. "attune.io/attune/resize/lifecycle"
)

// Facts that a read of the pod does not show again are always stored: the prior size, the desired size, when the resize
// was sent, that it is observed, and that it is being restored.
func TestEqualApartFromProgress(t *testing.T) {
	desired := recommender.Size{recommender.CPU: {Request: 250}}
	for name, tc := range map[string]struct {
		edit func(*v1alpha1.ResizeRecord)
		want bool
	}{
		"nothing":          {func(*v1alpha1.ResizeRecord) {}, true},
		"accepted":         {func(r *v1alpha1.ResizeRecord) { r.Phase, r.Generation = v1alpha1.RecordApplied, 3 }, true},
		"applied since":    {func(r *v1alpha1.ResizeRecord) { r.VerifiedOnce = &metav1.Time{Time: noon} }, true},
		"watched":          {func(r *v1alpha1.ResizeRecord) { r.Phase = v1alpha1.RecordWatching }, false},
		"put back":         {func(r *v1alpha1.ResizeRecord) { r.Phase = v1alpha1.RecordReverting }, false},
		"taken back":       {func(r *v1alpha1.ResizeRecord) { r.Phase = v1alpha1.RecordWithdrawing }, false},
		"filled in":        {func(r *v1alpha1.ResizeRecord) { r.Desired[0].MemoryLimit = ptr.To(apiresource.MustParse("1Gi")) }, false},
		"sent again":       {func(r *v1alpha1.ResizeRecord) { r.WrittenAt = metav1.NewTime(noon.Add(time.Minute)) }, false},
		"second patch":     {func(r *v1alpha1.ResizeRecord) { *r = SecondPatch(*r, r.WrittenAt.Time) }, false},
		"another deadline": {func(r *v1alpha1.ResizeRecord) { r.Deadline = &metav1.Time{Time: noon.Add(time.Hour)} }, false},
	} {
		t.Run(name, func(t *testing.T) {
			record := recorded(desired)
			record.Phase, record.Generation = v1alpha1.RecordWritten, 0
			edited := *record.DeepCopy()
			tc.edit(&edited)
			assert.Equal(t, tc.want, EqualApartFromProgress(record, edited))
			assert.Equal(t, tc.want, EqualApartFromProgress(edited, record))
		})
	}
}

// The kubelets of a wave's pods take different times. Their observation starts at the same time, and never too early.
func TestAWaveIsVerifiedTogether(t *testing.T) {
	desired := recommender.Size{recommender.CPU: {Request: 250}}
	starts := map[time.Time]int{}
	for i := range 10 {
		first := noon.Add(time.Duration(i)*400*time.Millisecond + time.Millisecond)
		record := recorded(desired)
		record.VerifiedOnce = &metav1.Time{Time: first}
		for now := first; ; now = now.Add(time.Millisecond) {
			action := Next(State{Kind: Applied}, record, auto(), Circumstances{}, now)
			if action.Kind == StartWatch {
				assert.GreaterOrEqual(t, now.Sub(first), SyncPeriod)
				assert.Less(t, now.Sub(first), SyncPeriod+StepsEvery)
				starts[now]++
				break
			}
			assert.Equal(t, Wait, action.Kind)
			now = now.Add(action.RequeueAfter - time.Millisecond)
		}
	}
	assert.Len(t, starts, 1)
}
