// Package admission proves that what the webhook does to a pod, the API server takes. Pods, seeds and
// namespaces come from dice; each pod goes through the webhook as an AdmissionReview, and the API
// server's own code (defaults, validation, LimitRanger, ResourceQuota) judges it before and after.
package admission

import (
	"flag"
	"maps"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"attune.io/attune/webhook/pod"
)

var (
	pods = flag.Uint64("pods", 20_000, "how many pods to send through the webhook")
	from = flag.Uint64("from", 0, "the number of the first; -pods 1 -from N plays one again")
)

// tally counts results; one a worker, then added up.
type tally struct {
	pods, mutated, accepted, seededFromNothing int
	reasons                                    map[string]int
	refusedBefore                              map[string]int
	// drawn are what the policies of the scenes say.
	drawn map[string]int
}

func newTally() *tally {
	return &tally{reasons: map[string]int{}, refusedBefore: map[string]int{}, drawn: map[string]int{}}
}

func (t *tally) count(r *result) {
	t.pods++
	t.reasons[r.reason]++
	if !r.mutated {
		return
	}
	t.mutated++
	if r.before.class != r.after.class {
		t.seededFromNothing++
	}
	switch {
	case r.before.invalid != nil:
		t.refusedBefore["validation"]++
	case r.before.ranges != nil:
		t.refusedBefore["LimitRanger"]++
	case r.before.quota != nil:
		t.refusedBefore["ResourceQuota"]++
	default:
		t.accepted++
	}
}

func (t *tally) add(o *tally) {
	t.pods, t.mutated, t.accepted, t.seededFromNothing = t.pods+o.pods, t.mutated+o.mutated, t.accepted+o.accepted, t.seededFromNothing+o.seededFromNothing
	for k, n := range o.reasons {
		t.reasons[k] += n
	}
	for k, n := range o.refusedBefore {
		t.refusedBefore[k] += n
	}
	for k, n := range o.drawn {
		t.drawn[k] += n
	}
}

// enough failures to see a pattern.
const enough = 10

// TestPods: wherever the API server takes a pod it takes the pod that the webhook made of it, and a
// second pass changes nothing.
func TestPods(t *testing.T) {
	total, failed := newTally(), atomic.Int32{}
	var next atomic.Uint64
	var mu sync.Mutex
	var workers sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		workers.Go(func() {
			mine := newTally()
			for n := next.Add(1) - 1; n < *pods && failed.Load() < enough; n = next.Add(1) - 1 {
				s := newScene(*from + n)
				r, err := s.play()
				if err != nil && failed.Add(1) <= enough {
					t.Errorf("scene %d: %v\n%s", s.number, err, s.text())
				}
				mine.count(&r)
				s.drawn(mine.drawn)
			}
			mu.Lock()
			defer mu.Unlock()
			total.add(mine)
		})
	}
	workers.Wait()
	total.report(t)
	if *pods >= 10_000 {
		total.assertWorthwhile(t)
	}
}

func (t *tally) report(test *testing.T) {
	test.Helper()
	test.Logf("%d pods, %d mutated (%d of them had no requests at all), %d of these were acceptable before; CPU time so far %s",
		t.pods, t.mutated, t.seededFromNothing, t.accepted, cpuTime().Round(time.Second/10))
	for _, counts := range []map[string]int{t.reasons, t.refusedBefore, t.drawn} {
		for _, k := range slices.Sorted(maps.Keys(counts)) {
			test.Logf("%8d %s", counts[k], k)
		}
	}
}

// assertWorthwhile: the dice prove something only if they meet what there is to meet.
func (t *tally) assertWorthwhile(test *testing.T) {
	test.Helper()
	for _, reason := range []pod.Reason{
		pod.Seeded, pod.NoOwner, pod.NoRecommendation, pod.NoSeed, pod.SeedExpired, pod.Skipped, pod.Windows, pod.MirrorPod,
		pod.PodLevelResources, pod.AsSeeded, pod.LimitRange, pod.Quota, pod.TemplateChanged, pod.QoSClass, pod.FixedLimit, pod.Unreadable,
	} {
		assert.Positive(test, t.reasons[string(reason)], reason)
	}
	assert.Zero(test, t.reasons[string(pod.Failed)])
	assert.Greater(test, t.mutated*10, t.pods*3, "three of ten pods are changed")
	assert.Greater(test, t.accepted*2, t.mutated, "half of these were acceptable before")
	assert.Greater(test, t.drawn["a policy"]*5, t.pods, "a fifth have a policy")
	for _, said := range []string{"mode Off", "controlledResources [cpu]", "controlledResources [memory]", "cpu.limits Remove", "cpu.limits {...}"} {
		assert.Positive(test, t.drawn[said], said)
	}
	for _, by := range []string{"validation", "LimitRanger", "ResourceQuota"} {
		assert.Positive(test, t.refusedBefore[by], by)
	}
}

func cpuTime() time.Duration {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		return 0
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}
