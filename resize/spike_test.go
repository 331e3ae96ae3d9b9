package resize_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/resize"
	"attune.io/attune/resize/resizetest"
)

// TestTheGatesOfARaise: a raise passes the same gates as an answer to an OOM kill. Reverting it waits for no pace, only
// for users' settings.
func TestTheGatesOfARaise(t *testing.T) {
	raise := func() resize.Plan {
		plan := resizetest.MustPlan(t, resizetest.Web(), resizetest.Wish(resizetest.Size(500, 1000, 512, 1536)))
		plan.Urgent, plan.Reason = true, resize.ReasonClimb
		return plan
	}
	back := func() resize.Plan {
		plan := resizetest.MustPlan(t, resizetest.Web(), resizetest.Wish(resizetest.Size(500, 1000, 512, 768)))
		plan.Wave, plan.Reason = resize.WaveSpike, resize.ReasonSpike
		return plan
	}
	for name, c := range map[string]struct {
		edit         func(*resize.GateInput)
		raises, back string
	}{
		"an open world": {edit: func(*resize.GateInput) {}},
		"a cooldown":    {edit: func(in *resize.GateInput) { in.Status.CooldownFrom = &metav1.Time{Time: resizetest.Noon} }},
		"a schedule":    {edit: func(in *resize.GateInput) { in.Rules.Schedule.Windows = []resize.Window{{Start: 1, End: 2}} }},
		"a rollout":     {edit: func(in *resize.GateInput) { in.Workload.Rollout = "1 of 2 replicas are updated" }},
		"old data": {edit: func(in *resize.GateInput) {
			in.Workload.DataUntil, in.Workload.StaleAfter = resizetest.Noon.Add(-time.Hour), time.Minute
		}},
		"a pause":                      {edit: func(in *resize.GateInput) { in.Rules.Paused = []string{"policy"} }, raises: resize.ReasonPaused, back: resize.ReasonPaused},
		"a mode":                       {edit: func(in *resize.GateInput) { in.Rules.Mode = v1alpha1.UpdateRecommend }, raises: resize.ReasonMode, back: resize.ReasonMode},
		"a VPA":                        {edit: func(in *resize.GateInput) { in.Workload.VPA = "web" }, raises: resize.ReasonVPA, back: resize.ReasonVPA},
		"a container that is excluded": {edit: func(in *resize.GateInput) { in.Rules.Excluded = map[string]bool{"app": true} }, raises: resize.ReasonExcluded, back: resize.ReasonExcluded},
		"a namespace that goes":        {edit: func(in *resize.GateInput) { in.Namespace.Terminating = true }, raises: resize.ReasonNamespaceTerminating, back: resize.ReasonNamespaceTerminating},
		"a pod that is being put back": {back: resize.ReasonReverting, edit: func(in *resize.GateInput) {
			in.Status.Records = []v1alpha1.ResizeRecord{{PodUID: "other", PodName: "web-2", Phase: v1alpha1.RecordReverting}}
		}},
		"a node under pressure": {back: resize.ReasonNodePressure, edit: func(in *resize.GateInput) { in.Node.Capabilities.Pressure = []string{"DiskPressure"} }},
	} {
		t.Run(name, func(t *testing.T) {
			_, refusal := resize.Admit(resizetest.Web(), raise(), resizetest.Input(c.edit))
			resizetest.Check(t, c.raises, refusal)
			_, refusal = resize.Admit(resizetest.Web(), back(), resizetest.Input(c.edit))
			resizetest.Check(t, c.back, refusal)
		})
	}
	assert.Empty(t, resize.Begun(nil, raise(), resizetest.Noon), "it is no answer to an OOM kill, and counts as none")
}
