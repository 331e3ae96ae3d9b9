package answers_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/answers"
	"attune.io/attune/podview"
	"attune.io/attune/recommender"
	"attune.io/attune/resize"
	"attune.io/attune/tuning"
	"attune.io/attune/tuning/tuningtest"
)

// The explained next size is the size that the workload loop asks for, including floors learned after the target was
// stored and memory that an HPA holds after an OOM kill.
func TestNextIsWhatTheLoopDoes(t *testing.T) {
	const mi = tuningtest.Mi
	has := tuningtest.SizeOf(1000, 0, 256, 0)
	floor := func(r recommender.Resource, amount recommender.Amount, reason string) v1alpha1.Floor {
		return v1alpha1.Floor{Container: "app", Resource: r.String(), Amount: podview.Quantity(r, amount), Reason: reason, LearnedAt: metav1.NewTime(tuningtest.Now)}
	}
	for name, tc := range map[string]struct {
		target recommender.Size
		holds  []v1alpha1.Hold
		floors []v1alpha1.Floor
	}{
		"a step down":                             {target: tuningtest.SizeOf(700, 0, 256, 0)},
		"a step up":                               {target: tuningtest.SizeOf(1200, 0, 300, 0)},
		"CPU that an HPA holds":                   {target: tuningtest.SizeOf(700, 0, 300, 0), holds: []v1alpha1.Hold{{Resource: "cpu", Reason: "HPA"}}},
		"a floor above the target":                {target: tuningtest.SizeOf(300, 0, 300, 0), floors: []v1alpha1.Floor{floor(recommender.CPU, 900, "throttle")}},
		"memory that an HPA holds after OOM kill": {target: tuningtest.SizeOf(700, 0, 256, 0), holds: []v1alpha1.Hold{{Resource: "memory", Reason: "HPA"}}, floors: []v1alpha1.Floor{floor(recommender.Memory, 333*mi, "oomkill")}},
	} {
		t.Run(name, func(t *testing.T) {
			view := tuningtest.Eager(tuningtest.Heading(tuningtest.Seen(t, has, tuningtest.Running("web-1", has)), tc.target))
			container := &view.Rec.Spec.Containers[0]
			container.Holds, container.Confidence = tc.holds, "1"
			view.Rec.Status.Floors = tc.floors
			view.Looked.Rooms = map[string]*resize.Room{"node-1": resize.RoomOf(view.Pods, nil, view.Now)}
			decided := tuning.Decide(view)
			require.Len(t, decided.Writes, 1, "%+v", decided.Status.Conditions)
			require.Len(t, decided.Writes[0].Plan.Moves, 1)

			answer, err := answers.Explain(answers.View{Recommendation: view.Rec, Settings: &view.Policy.Settings, Pods: view.Pods}, nil, view.Now)
			require.NoError(t, err)
			assert.Equal(t, answers.AmountsOf(decided.Writes[0].Plan.Moves[0].To), answer.Containers[0].Next)
		})
	}
}
