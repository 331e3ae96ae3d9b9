package event

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clocktesting "k8s.io/utils/clock/testing"
)

// counted is the number of sent events.
type counted int

func (c *counted) Eventf(runtime.Object, runtime.Object, string, string, string, string, ...any) {
	*c++
}

// The Recorder sweeps once per minute, not for each event: with tens of thousands of entries a sweep would dominate the
// cost of an event. While events are sent, no entry stays longer than 11 minutes.
func TestRecorderSweepsOncePerMinute(t *testing.T) {
	var sent counted
	start := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	clock := clocktesting.NewFakePassiveClock(start)
	r := NewRecorder(&sent, clock)
	pod := &corev1.Pod{}
	send := func(after time.Duration, reason string) (events, kept int) {
		clock.SetTime(start.Add(after))
		before := sent
		r.Send(pod, nil, Normal(reason, "text"))
		return int(sent - before), len(r.sent)
	}
	for _, tc := range []struct {
		after        time.Duration
		reason       string
		events, kept int
		why          string
	}{
		{0, "A", 1, 1, "new"},
		{30 * time.Second, "B", 1, 2, "new"},
		{10*time.Minute - time.Second, "A", 0, 2, "quiet"},
		{10*time.Minute + 10*time.Second, "C", 1, 2, "A is forgotten, and B is not yet old"},
		{10*time.Minute + 40*time.Second, "D", 1, 3, "B is old, and it is not yet time to look"},
		{10*time.Minute + 45*time.Second, "B", 1, 3, "what is old is sent again, whether it is forgotten or not"},
		{21 * time.Minute, "E", 1, 1, "all others are old"},
		{20 * time.Minute, "F", 1, 2, "a clock that went back"},
	} {
		events, kept := send(tc.after, tc.reason)
		assert.Equal(t, []int{tc.events, tc.kept}, []int{events, kept}, "%s after %s: %s", tc.reason, tc.after, tc.why)
	}
}

func TestEventsHaveNoControlCharacters(t *testing.T) {
	const foreign = "node full\x1b[2J\u202e\nevil"
	assert.Equal(t, "Resize failed: node full[2J evil", Normal("Reason", "Resize failed: %s", foreign).Message)
	assert.Equal(t, "Resize failed: node full[2J evil", Warning("Reason", "Resize failed: %s", foreign).Message)
}

// The API server rejects an event whose note has more than 1024 bytes: the user would not see it at all.
func TestLongEventsAreCut(t *testing.T) {
	for _, character := range []string{"x", "ä", "…"} {
		for _, e := range []Event{Normal("Reason", "%s", strings.Repeat(character, 2000)), Warning("Reason", "%s", strings.Repeat(character, 2000))} {
			assert.LessOrEqual(t, len(e.Message), 1024)
			assert.Greater(t, len(e.Message), 1000)
			assert.True(t, strings.HasSuffix(e.Message, character+"…"))
		}
	}
	whole := strings.Repeat("x", 1024)
	assert.Equal(t, whole, Normal("Reason", "%s", whole).Message)
}
