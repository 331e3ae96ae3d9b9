package policy

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/event"
)

type eventLines struct{ lines []string }

func (e *eventLines) Eventf(about, _ runtime.Object, kind, reason, _, note string, args ...any) {
	e.lines = append(e.lines, fmt.Sprintf("%T/%s %s %s ", about, about.(client.Object).GetName(), kind, reason)+fmt.Sprintf(note, args...))
}

// Settings that contradict each other are reported on the policy, once for each cause.
func TestInvalidSettingsAreReportedOnThePolicy(t *testing.T) {
	f := newFleet(t, 1)
	sink := &eventLines{}
	f.Controller.Events = event.NewRecorder(sink, f.Controller.Clock)
	p := f.policy()
	p.Spec.CPU = &v1alpha1.CPUSettings{}
	p.Spec.CPU.MinAllowed, p.Spec.CPU.MaxAllowed = ptr.To(resource.MustParse("2")), ptr.To(resource.MustParse("1"))
	for range 3 {
		_, err := f.Reconcile(t.Context(), f.request)
		require.NoError(t, err)
	}
	assert.Equal(t, v1alpha1.ReasonInvalidConfig, f.ready().Reason)
	require.Len(t, sink.lines, 1)
	assert.Equal(t, "*v1alpha1.AttunePolicy/all Warning InvalidConfig "+f.ready().Message, sink.lines[0])
}
