package loops

import (
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"attune.io/attune/test/kubelet"
)

// What a resize costs the API server from its decision to the end of its watch, by the size of its wave: statuses,
// resizes and events. Half of the pods are on a node whose kubelet is slower. What is written once for a wave,
// finalizers and the new seed, and what is written to the policy, which all of its workloads share, is bounded apart.
func TestLoopsWriteLittleForEachResize(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		wave   int
		atMost float64
	}{{1, 7}, {10, 4}, {50, 4}} {
		t.Run(fmt.Sprintf("a wave of %d", test.wave), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, kubelet.Options{CPU: "32"})
			w.secondNode(kubelet.Options{CPU: "32", ActuateAfter: 4 * time.Second})
			w.usage.of["app"] = used{CPU: 0.1, Memory: 300}
			w.memory["app"] = 300
			w.deployment("web", int32(test.wave), w.app("cpu=500m,memory=1Gi", ""))
			w.startNewPods()
			w.auto("cpu: {maxChangePercent: 90}\nmemory: {allowDecrease: true}")
			w.until(time.Hour, "the wave is over", func() bool { return len(w.resized()) == test.wave && w.idle() })
			w.run(20*time.Second, time.Minute)

			writes, events := w.loopsWrote(), len(w.told.lines)
			sum := writes["update attunerecommendations/status"] + writes["patch pods/resize"] + events
			t.Logf("%.2f for each pod, %d events of %v", float64(sum)/float64(test.wave), events, writes)
			assert.LessOrEqual(t, float64(sum)/float64(test.wave), test.atMost)
			assert.LessOrEqual(t, writes["patch attunerecommendations"], 3, "its finalizer on and off, and a new seed")
			assert.LessOrEqual(t, writes["patch attunepolicies"], 2, "its finalizer on and off")
		})
	}
}

// loopsWrote counts the writes of the loops by their kind.
func (w *world) loopsWrote() map[string]int {
	counts := map[string]int{}
	for _, call := range w.link.Calls() {
		if !slices.Contains([]string{"get", "list", "watch"}, call.Verb) {
			counts[call.Kind()]++
		}
	}
	return counts
}

// resized are the pods whose resizes the API server took.
func (w *world) resized() map[string]bool {
	pods := map[string]bool{}
	for _, call := range w.link.Calls() {
		if call.Subresource == "resize" && call.Code == http.StatusOK {
			pods[call.Name] = true
		}
	}
	return pods
}

// Ten workloads of 50 pods that may all be resized at once are asked for within half a minute.
func TestLoopsResizeManyPodsWithinHalfAMinute(t *testing.T) {
	t.Parallel()
	const workloads, pods = 10, 50
	w := newWorld(t, kubelet.Options{})
	w.usage.of["app"] = used{CPU: 0.02, Memory: 100}
	w.memory["app"] = 100
	for i := range workloads {
		w.deployment(fmt.Sprintf("web-%d", i), pods, w.app("cpu=100m,memory=256Mi", ""))
	}
	w.startNewPods()
	var sent []time.Time
	w.resize = func(patch func() error) error {
		sent = append(sent, w.clock.Now())
		return patch()
	}
	w.auto("cpu: {maxChangePercent: 90}")
	w.until(10*time.Minute, "all pods are asked for", func() bool { return len(w.resized()) == workloads*pods })
	took := sent[len(sent)-1].Sub(sent[0])
	t.Logf("%d resizes in %s: %v", len(sent), took, w.loopsWrote())
	assert.LessOrEqual(t, took, 30*time.Second)
}
