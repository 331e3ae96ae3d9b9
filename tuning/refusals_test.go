package tuning_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"

	"attune.io/attune/resize"
	"attune.io/attune/tuning"
)

func TestRefusalsAreToldTogether(t *testing.T) {
	pod := running("web-1", sizeOf(500, 0, 512, 0))
	no := func(reason string, transient bool, until time.Duration) *resize.Refusal {
		r := &resize.Refusal{Reason: reason, Message: reason + " says no", Transient: transient}
		if until != 0 {
			r.Until = now.Add(until)
		}
		return r
	}
	for _, tc := range []struct {
		name    string
		given   []*resize.Refusal
		reason  string
		message string
		after   time.Duration
	}{
		{name: "none"},
		{"one", []*resize.Refusal{no("NoRoom", true, 0)}, "NoRoom", "NoRoom says no", tuning.LookAgain},
		{"one that nothing lifts by itself", []*resize.Refusal{no("SingleReplica", false, 0)}, "SingleReplica", "SingleReplica says no", 0},
		{"one that time lifts", []*resize.Refusal{no("NodeBlocked", true, time.Minute)}, "NodeBlocked", "NodeBlocked says no", time.Minute},
		{"one that should have lifted", []*resize.Refusal{no("NodeBlocked", true, -time.Minute)}, "NodeBlocked", "NodeBlocked says no", time.Second},
		{"several alike", []*resize.Refusal{no("NodeBlocked", true, time.Hour), no("NodeBlocked", true, time.Minute)}, "NodeBlocked", "NodeBlocked says no", time.Minute},
		{"the most frequent leads", []*resize.Refusal{no("StaticCPUManager", false, 0), no("NoRoom", true, 0), no("NoRoom", true, 0)},
			"NoRoom", "2 pods: NoRoom: NoRoom says no; 1 pods: StaticCPUManager: StaticCPUManager says no", tuning.LookAgain},
		{"of equals, one for a person", []*resize.Refusal{no("NoRoom", true, 0), no("StaticCPUManager", false, 0)},
			"StaticCPUManager", "1 pods: StaticCPUManager: StaticCPUManager says no; 1 pods: NoRoom: NoRoom says no", tuning.LookAgain},
		{"no more than three", []*resize.Refusal{no("E", false, 0), no("D", false, 0), no("C", false, 0), no("B", false, 0), no("A", false, 0)},
			"A", "1 pods: A: A says no; 1 pods: B: B says no; 1 pods: C: C says no; and 2 more reasons", 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var r tuning.Refusals
			for _, refusal := range tc.given {
				r.Add(pod, refusal)
			}
			assert.Equal(t, tc.after, r.After(now))
			told := r.Summary()
			if tc.reason == "" {
				assert.Nil(t, told)
				return
			}
			assert.Equal(t, tc.reason, told.Reason)
			assert.Equal(t, tc.message, told.Message)
		})
	}
}

func TestWhatARefusalWaitsFor(t *testing.T) {
	pod := running("web-1", sizeOf(500, 0, 512, 0))
	var r tuning.Refusals
	for _, reason := range []string{resize.ReasonNoRoom, resize.ReasonNodeBlocked, resize.ReasonStaticCPU, resize.ReasonQuota, resize.ReasonCooldown, resize.ReasonPaused} {
		r.Add(pod, &resize.Refusal{Reason: reason})
	}
	r.Add(&corev1.Pod{Spec: corev1.PodSpec{NodeName: "node-2"}}, &resize.Refusal{Reason: resize.ReasonNoRoom})
	assert.Equal(t, []tuning.Topic{tuning.AboutNode("node-1"), tuning.AboutQuotas("shop"), tuning.AboutNode("node-2")}, r.Topics())
	assert.Equal(t, []tuning.Topic{tuning.AboutLimits("shop")}, tuning.TopicsOf(&resize.Refusal{Reason: resize.ReasonLimitRange}, pod))
	assert.Equal(t, []tuning.Topic{tuning.AboutQuotas("shop"), tuning.AboutLimits("shop")}, tuning.TopicsOf(&resize.Refusal{Reason: resize.ReasonRefused}, pod))
}
