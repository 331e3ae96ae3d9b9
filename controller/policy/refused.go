package policy

import (
	"errors"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
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

// byName are refusals by the recommendation's name.
func byName(refused []refusal) map[string]refusal {
	out := make(map[string]refusal, len(refused))
	for _, r := range refused {
		out[r.recommendation] = r
	}
	return out
}
