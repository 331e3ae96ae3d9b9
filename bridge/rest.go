package bridge

import (
	"maps"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"attune.io/attune/internal/backoff"
)

// mostPasses is how many passes an object rests at most that the API server refused: half an hour.
const mostPasses = 30

// refusal is how often in a row an object could not be written or deleted, and until when it rests.
type refusal struct {
	times int
	until time.Time
}

// request is what is asked for an object. That one is refused says nothing of the other.
type request struct {
	client.ObjectKey
	leaves bool
}

// refusals are those of the objects that are behind. What is refused for long, such as by a quota, is asked ever less often.
type refusals map[request]refusal

// note what became of an object; nil: it was written.
func (r refusals) note(of request, err error, now time.Time, every time.Duration) {
	if err == nil {
		delete(r, of)
		return
	}
	times := r[of].times + 1
	rest := backoff.Wait(2*every, mostPasses*every, times)
	r[of] = refusal{times, now.Add(rest - every/2)} // the pass that is due then may be a little early
}

// rests reports whether an object is left for a later pass.
func (r refusals) rests(of request, now time.Time) bool { return now.Before(r[of].until) }

// forget all but those that are still behind.
func (r refusals) forget(behind map[request]bool) {
	maps.DeleteFunc(r, func(of request, _ refusal) bool { return !behind[of] })
}
