package e2e

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"attune.io/attune/api/v1alpha1"
)

// TestAStarvedContainerIsRaisedAtOnce: a container that uses 33m and requests 10m takes one resize step of 50 %, after which
// the cooldown is an hour. It reaches its target within two minutes after the condition of a raise that is due is first true.
func TestAStarvedContainerIsRaisedAtOnce(t *testing.T) {
	ctx := need(t)
	namespace(ctx, t, "starved", true)
	d := deployment(ctx, t, "starved", "busy", 1, app("app", size{cpu: "10m", memory: "64Mi"}))
	pod := pods(ctx, t, d)[0]
	use(ctx, t, &pod, "cpu=33")
	require.NotNil(t, pod.Status.ContainerStatuses[0].State.Running)
	policyFor(ctx, t, d, v1alpha1.UpdateAuto, func(s *v1alpha1.AttunePolicySpec) {
		s.CPU.MaxAllowed, s.CPU.MaxChangePercent = nil, ptr.To(int32(50))
		s.UpdateStrategy.Cooldown = duration(time.Hour)
	})
	requested := func() (has int64, err error) {
		err = env.client.Get(ctx, client.ObjectKeyFromObject(&pod), &pod)
		return pod.Spec.Containers[0].Resources.Requests.Cpu().MilliValue(), err
	}
	eventually(t, "the first step is accepted", func() error {
		has, err := requested()
		if err != nil {
			return err
		}
		if has != 15 {
			return fmt.Errorf("it has %dm", has)
		}
		return succeeded(ctx, d, 1)
	})
	// The CPU of the start (2 minutes and the window of a rate, 1 minute) does not count; then come 10 samples of 30 s.
	const startup, step, samples = 3 * time.Minute, 30 * time.Second, 10
	first := pod.Status.ContainerStatuses[0].State.Running.StartedAt.Add(startup + step - 1).Truncate(step).Add((samples - 1) * step)
	within(t, time.Until(first)+2*time.Minute, "raised to the target", func() error {
		rec, err := recommendation(ctx, d)
		if err != nil {
			return err
		}
		has, err := requested()
		if err != nil {
			return err
		}
		if len(rec.Spec.Containers) == 0 || rec.Spec.Containers[0].Target.CPURequest == nil {
			return fmt.Errorf("no target; it has %dm", has)
		}
		// Less than the dead band below the target is at the target.
		if target := rec.Spec.Containers[0].Target.CPURequest.MilliValue(); has < 33 || has*11 < target*10 {
			return fmt.Errorf("it has %dm of %dm", has, target)
		}
		return nil
	})
	t.Logf("raised %s after it was first due", time.Since(first).Round(time.Second))
	assert.Zero(t, pod.Status.ContainerStatuses[0].RestartCount)
}
