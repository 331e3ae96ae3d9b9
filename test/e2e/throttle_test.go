package e2e

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"attune.io/attune/api/v1alpha1"
)

// TestThrottlingIsReverted: a container that wants more CPU than its lowered limit is throttled most of the
// time; when the watch ends it has its old size back, and a floor above the limit that throttled.
func TestThrottlingIsReverted(t *testing.T) {
	ctx := need(t)
	namespace(ctx, t, "throttle", true)
	d := deployment(ctx, t, "throttle", "busy", 1, app("app", size{cpu: "100m", cpuLimit: "400m", memory: "64Mi"}))
	pod := pods(ctx, t, d)[0]
	policyFor(ctx, t, d, v1alpha1.UpdateAuto, func(s *v1alpha1.AttunePolicySpec) {
		// A limit so low that it is used up in each period, however busy the machine is.
		s.CPU.MaxAllowed = ptr.To(resource.MustParse("10m"))
		// What is judged at the end are the last 60 s, which are all after the load came.
		s.UpdateStrategy.SafetyObservationPeriod = duration(2 * time.Minute)
	})
	eventually(t, "lowered", func() error {
		if err := env.client.Get(ctx, client.ObjectKeyFromObject(&pod), &pod); err != nil {
			return err
		}
		if got := sizeOf(pod.Spec.Containers[0].Resources); got.cpu != "10m" || got.cpuLimit != "40m" {
			return fmt.Errorf("it has %v", got)
		}
		return nil
	})
	// Only now: what it uses before would be history.
	use(ctx, t, &pod, "cpu=300")
	within(t, 6*time.Minute, "reverted", func() error {
		rec, err := recommendation(ctx, d)
		if err != nil {
			return err
		}
		if len(rec.Status.History) == 0 {
			return fmt.Errorf("phase %s, records %v", rec.Status.Phase, rec.Status.Records)
		}
		return nil
	})
	rec, err := recommendation(ctx, d)
	require.NoError(t, err)
	assert.Equal(t, "Reverted", rec.Status.History[0].Result)
	assert.Equal(t, "throttle", rec.Status.History[0].Reason)
	require.NoError(t, env.client.Get(ctx, client.ObjectKeyFromObject(&pod), &pod))
	got := sizeOf(pod.Spec.Containers[0].Resources)
	assert.Equal(t, "100m", got.cpu)
	assert.Equal(t, "400m", got.cpuLimit)
	assert.Zero(t, pod.Status.ContainerStatuses[0].RestartCount)
	require.Len(t, rec.Status.Floors, 1)
	assert.Equal(t, "cpu", rec.Status.Floors[0].Resource)
	assert.Equal(t, "52m", rec.Status.Floors[0].Amount.String(), "1.3 times the limit of 40m")
}
