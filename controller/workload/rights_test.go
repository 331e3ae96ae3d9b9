package workload

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"attune.io/attune/podview"
	"attune.io/attune/recommender"
	"attune.io/attune/resize"
)

// Responses to regressions are sent within two minutes after a namespace permits resizes again, however long it
// denied them. Until then they are not tried more often than that.
func TestDeniedNamespaceBlocksUrgentResizesBriefly(t *testing.T) {
	for name, make := range map[string]func(t *testing.T) *lab{
		"a revert": func(t *testing.T) *lab {
			w := judged(t)
			harms[resize.HarmOOM](&w)
			return newLab(t, w.Rec, deploymentOf(sizeOf(500, 1000, 512, 1024), 1), w.Pods[0])
		},
		"an answer to an OOM kill": func(t *testing.T) *lab {
			limited := sizeOf(500, 0, 512, 512)
			pod := endedBefore(running("web-1", limited), "OOMKilled", 1, time.Minute)
			return newLab(t, heading(seen(t, limited), sizeOf(500, 0, 700, 700)).Rec, deploymentOf(limited, 1), pod)
		},
	} {
		t.Run(name, func(t *testing.T) {
			l := make(t)
			l.c.Rights = granted(l)
			limit := func() recommender.Amount {
				return podview.ReadSpec(l.pod("web-1").Spec.Containers[0].Resources)[recommender.Memory].Limit
			}
			before := limit()
			l.resize = func(client.Object) error {
				return apierrors.NewForbidden(pods, "web-1", errors.New(`User "attune" cannot patch resource "pods/resize"`))
			}
			l.live(2 * time.Hour)
			assert.LessOrEqual(t, l.patches, 60+4)
			assert.GreaterOrEqual(t, l.patches, 40)
			require.Equal(t, before, limit())
			wrote := l.status
			l.live(time.Hour)
			assert.LessOrEqual(t, l.status-wrote, 30*3+4, "writes in an hour: three for each time it is asked")
			accepted := 0
			l.resize = func(client.Object) error { accepted++; return nil }
			l.live(urgentDenied + rightsLost + time.Second)
			assert.Positive(t, accepted)
		})
	}
}

// New resizes wait out their backoff, which urgent attempts neither shorten nor lengthen.
func TestUrgentAsksLeaveTheBackoffOfANamespaceAlone(t *testing.T) {
	l := newLab(t, seen(t, small).Rec)
	r := granted(l)
	for range 2 { // 10 and 20 minutes
		r.recordDenied(t.Context(), "shop", "no")
		l.clock.Step(r.denied["shop"].wait)
	}
	r.recordDenied(t.Context(), "shop", "no")
	until := r.denied["shop"].until
	require.Equal(t, 30*time.Minute, until.Sub(l.clock.Now()))
	for l.clock.Now().Add(urgentDenied).Before(until) {
		assert.NotEmpty(t, r.lostUrgent(t.Context(), "shop"))
		l.clock.Step(urgentDenied)
		assert.Empty(t, r.lostUrgent(t.Context(), "shop"))
		assert.NotEmpty(t, r.lost(t.Context(), "shop"))
		r.recordDenied(t.Context(), "shop", "no")
	}
	assert.Equal(t, until, r.denied["shop"].until)
	r.recordAccepted("shop")
	assert.Empty(t, r.lost(t.Context(), "shop"), "what is taken of the one opens it for the other")
}
