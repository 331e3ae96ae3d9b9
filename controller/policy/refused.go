package policy

import (
	"errors"
	"net/http"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
)

// A recommendation that the API server refuses is tried again after leastWait, and after twice as long each
// time, up to mostWait: what refuses it is somebody's rule or quota, which a pass every moment does not change.
const leastWait, mostWait = time.Minute, 16 * time.Minute

// refusal is why the API server did not take a workload's recommendation.
type refusal struct {
	// recommendation is the object's name, workload what it sizes.
	recommendation, workload string
	reason                   string
	// wait is how long it was put off, until the time when it is tried again.
	wait  time.Duration
	until time.Time
}

func (r refusal) Error() string { return r.workload + ": " + r.reason }

// ofTheObject: an answer that is about this object, and not about its version or the API server's own state.
func ofTheObject(err error) bool {
	var answer apierrors.APIStatus
	if !errors.As(err, &answer) || apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) {
		return false
	}
	switch answer.Status().Code {
	case http.StatusUnauthorized, http.StatusTooManyRequests, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return false
	}
	return true
}

// nextTry is when a policy is looked at again where nothing happens.
func nextTry(refused []refusal, now time.Time) time.Duration {
	next := resync
	for _, r := range refused {
		next = min(next, max(r.until.Sub(now), time.Second))
	}
	return next
}

// refusals by policy, as its newest look left them. They may be lost: what is refused is then tried once more, and
// put off anew. Safe for concurrent use.
type refusals struct {
	mutex  sync.Mutex
	byName map[types.NamespacedName][]refusal
}

func (x *refusals) of(policy types.NamespacedName) map[string]refusal {
	x.mutex.Lock()
	defer x.mutex.Unlock()
	out := map[string]refusal{}
	for _, r := range x.byName[policy] {
		out[r.recommendation] = r
	}
	return out
}

func (x *refusals) keep(policy types.NamespacedName, refused []refusal) {
	x.mutex.Lock()
	defer x.mutex.Unlock()
	if len(refused) == 0 {
		delete(x.byName, policy)
		return
	}
	if x.byName == nil {
		x.byName = map[types.NamespacedName][]refusal{}
	}
	x.byName[policy] = slices.Clone(refused)
}
