package loops

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"attune.io/attune/resize/lifecycle"
	"attune.io/attune/test/fault"
	"attune.io/attune/test/kubelet"
)

// skews of a clock.
var skews = []time.Duration{-time.Hour, time.Hour}

// TestClocksOfNodes: every story ends as it does when all clocks agree, wherever the nodes' stand; a kill after our
// resize is seen.
func TestClocksOfNodes(t *testing.T) {
	for _, s := range stories {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			calm := s.tell(t, nil)
			for _, skew := range skews {
				t.Run(skew.String(), func(t *testing.T) {
					t.Parallel()
					off := s
					off.begin = both(func(w *world) { w.nodeAhead = skew }, s.begin)
					same(t, calm, off.tell(t, nil), 0)
				})
			}
		})
	}
}

// TestClocksOfNodesAndAKillBefore: a kill from before our resize is not taken for its doing, although the node says
// that it came after.
func TestClocksOfNodesAndAKillBefore(t *testing.T) {
	for _, skew := range skews {
		t.Run(skew.String(), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, kubelet.Options{})
			w.nodeAhead = skew
			w.usage.of["app"] = used{CPU: 1, Memory: 150}
			w.deployment("web", 1, w.app("cpu=500m,memory=256Mi", "memory=256Mi"))
			w.memory["app"] = 300
			w.until(time.Minute, "a kill", func() bool { return restarts(w.pod()) == 1 })
			w.memory["app"] = 150
			w.policy("all", onceAnHour)
			w.until(30*time.Minute, "the end", func() bool { return w.finished(1) })
			rec := w.recommendation()
			for _, row := range rec.Status.History {
				assert.Equal(t, lifecycle.ResultSuccess, row.Result)
			}
			assert.Equal(t, int64(1200), cpuRequest(w.pod()))
			assert.Greater(t, memoryLimit(w.pod()), int64(300), "the kill taught all the same")
		})
	}
}

// TestClocksOfReplicas: the operator is killed after each call, and the replica that takes over lives two hours
// earlier or later. Earlier, the story ends as it does without. Later, deadlines and watches are over at once, as
// after a long absence, so that the story may take another turn; but nothing stays open, and what the pods had is known.
func TestClocksOfReplicas(t *testing.T) {
	eachStory(t, func(t *testing.T, b telling) {
		for _, skew := range skews {
			// By another clock recommendations are renewed at other moments: its calls are others.
			off := b.story
			off.begin = both(func(w *world) {
				w.ahead = skew
				w.wire()
			}, b.begin)
			for i, at := range pointsOf(off.tell(t, nil).calls) {
				name := fmt.Sprintf("%02d %s %d to a clock %s", i+1, at.Kind, at.N, map[bool]string{true: "behind", false: "ahead"}[skew > 0])
				if hash(b.name+name)%oneIn() == 0 {
					b.skewed(t, name, at, skew)
				}
			}
		}
	})
}

// skewed hands over from one clock to another at a point.
func (b telling) skewed(t *testing.T, name string, at fault.Point, skew time.Duration) {
	t.Run(strings.ReplaceAll(name, "/", " "), func(t *testing.T) {
		t.Parallel()
		ahead := skew < 0
		if ahead {
			b.results = b.results[:1]
		}
		told := b.story.tell(t, func(w *world) {
			w.ahead = skew
			w.wire()
			w.link.Strike(at, 1, fault.After(func() {
				w.ahead = -skew
				w.link.Sever()
			}))
		})
		b.tally.add(b.name, "to "+(-skew).String(), told.ending.Results)
		assert.Equal(t, b.calm.ending.Originals, told.ending.Originals)
		assert.Empty(t, told.ending.Finalizers)
		if !ahead {
			same(t, b.calm, told, 1)
		}
	})
}
