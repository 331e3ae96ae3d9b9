package event

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"

	"attune.io/attune/api/v1alpha1"
)

// sent counts the events that reach the API server.
type sent struct{ n int }

func (s *sent) Eventf(runtime.Object, runtime.Object, string, string, string, string, ...any) { s.n++ }

func rec(name string) *v1alpha1.AttuneRecommendation {
	return &v1alpha1.AttuneRecommendation{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, UID: types.UID(name)}}
}

// The store keeps events about a workload or its pods, newest first, and no other events.
func TestSentStoreKeepsEventsOfWorkload(t *testing.T) {
	clock := clocktesting.NewFakeClock(time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC))
	store, next := NewSentStore(1<<20, clock), &sent{}
	recorder := NewRecorder(store.Keep(next), clock)
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-1", UID: "pod"}}
	recorder.Send(rec("web"), nil, Normal("Resized", "100%% of %d pods", 3))
	recorder.Send(pod, rec("web"), Warning("Reverted", "pod web-1: oomkill"))
	recorder.Send(pod, nil, Warning("Else", "about no workload"))
	recorder.Send(rec("db"), nil, Normal("Resized", "%s", strings.Repeat("ä", 5000)))
	assert.Equal(t, 4, next.n)
	assert.Equal(t, []SentEvent{
		{clock.Now(), "Warning", "Reverted", "web-1", "pod web-1: oomkill"}, {clock.Now(), "Normal", "Resized", "", "100% of 3 pods"},
	}, store.Of(rec("web")))
	assert.LessOrEqual(t, len(store.Of(rec("db"))[0].Message), mostSentText+3)
	assert.Empty(t, store.Of(rec("none")))
	assert.Empty(t, (*SentStore)(nil).Of(rec("web")))
	assert.Equal(t, Sink(next), (*SentStore)(nil).Keep(next))
}

// With any number of events and workloads, the store stays within its limit and keeps the newest events.
func TestBoundOfSentEvents(t *testing.T) {
	const most = 64 << 10
	clock := clocktesting.NewFakeClock(time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC))
	store := NewSentStore(most, clock)
	keeps := store.Keep(&sent{})
	for i := range 2000 {
		about := rec(fmt.Sprint("web-", i%300))
		for j := range 20 {
			keeps.Eventf(about, nil, "Normal", "Resized", "RightSize", "%s %d", strings.Repeat("x", 100), j)
		}
		assert.LessOrEqual(t, store.bytes, most)
		kept := store.Of(about)
		assert.Len(t, kept, mostSentEvents)
		assert.True(t, strings.HasSuffix(kept[0].Message, " 19"))
	}
	assert.Less(t, len(store.of), 60)
	NewSentStore(100, clock).Keep(&sent{}).Eventf(rec("web"), nil, "Normal", "Resized", "RightSize", "it finds no room")
}
