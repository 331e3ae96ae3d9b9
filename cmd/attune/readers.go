package main

import (
	"context"
	"crypto/sha256"
	"fmt"
	"maps"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
)

// The limits of this file, in short: verdicts are kept for a minute, 64 tokens are known, and made-up tokens cost
// the API server two questions a second, after a first burst.
const (
	// judgedFor is how long a verdict on a token holds: as long as the API server itself keeps one of its webhooks.
	judgedFor = time.Minute
	// judgedAtMost is how long one that was in favour holds where the API server cannot be asked.
	judgedAtMost = 10 * time.Minute
	// mostJudged tokens are known; scrapers are few.
	mostJudged = 64
	// askedEach second at most, and so many at once: whoever sends made-up tokens is not to load the API server. Those who
	// were let in before are asked about apart, so that the tokens of others are not in their way, and so is who comes from where one
	// of them was let in lately: a scraper's token is exchanged each hour.
	askedEach, askedAtOnce = 2, 10
	// askedWithin is what two questions to the API server may take.
	askedWithin = 5 * time.Second
)

// readers lets a client read the metrics only if the API server knows its bearer token and allows its user to
// `get` the path /metrics. It keeps verdicts, so that a scrape costs no question to the API server. mutex guards
// judged and letIn, of which each has mostJudged entries at most.
type readers struct {
	// api sends TokenReviews and SubjectAccessReviews.
	api   kubernetes.Interface
	clock clock.PassiveClock
	// Three limits on the questions to the API server: asks for unknown tokens, nearby for unknown tokens from an
	// address where a reader was let in, again for tokens that were let in before. They are separate, so that a
	// flood of made-up tokens does not lock out a scraper.
	asks, nearby, again flowcontrol.RateLimiter

	mutex sync.Mutex
	// judged holds verdicts by the hash of the token.
	judged map[[sha256.Size]byte]verdict
	// letIn are the addresses that readers were let in from, and when last.
	letIn map[string]time.Time
}

// verdict is the answer to a token, as an HTTP status, and the time of the question.
type verdict struct {
	// status is 200, 401 or 403.
	status int
	at     time.Time
}

// newReaders makes a readers that knows no token. Each of the three limits has its own bucket.
func newReaders(api kubernetes.Interface, c clock.PassiveClock) *readers {
	few := func() flowcontrol.RateLimiter { return flowcontrol.NewTokenBucketRateLimiter(askedEach, askedAtOnce) }
	return &readers{api: api, clock: c, asks: few(), nearby: few(), again: few(), judged: map[[sha256.Size]byte]verdict{}, letIn: map[string]time.Time{}}
}

// onlyReaders wraps a handler so that readers alone reach it. The check comes before a scrape takes its turn
// (fewScrapes), so that a stranger cannot take the turns.
func onlyReaders(config *rest.Config, client *http.Client, handler http.Handler) (http.Handler, error) {
	api, err := kubernetes.NewForConfigAndClient(config, client)
	if err != nil {
		return nil, err
	}
	return newReaders(api, clock.RealClock{}).only(ctrl.Log.WithName("metrics"), handler), nil
}

// only serves the requests of readers, and answers all others with 401, 403, 429 or 503.
func (x *readers) only(log logr.Logger, handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		token, found := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		if !found || token == "" {
			http.Error(w, "metrics are read with the bearer token of who may get /metrics", http.StatusUnauthorized)
			return
		}
		from, _, _ := net.SplitHostPort(r.RemoteAddr)
		switch status := x.judge(r.Context(), log, token, from); status {
		case http.StatusOK:
			x.letInFrom(from)
			handler.ServeHTTP(w, r)
		default:
			http.Error(w, http.StatusText(status), status)
		}
	})
}

// judge returns the HTTP status for a token from an address; 200 lets it in. A verdict holds for judgedFor. A
// verdict in favour holds for judgedAtMost where the API server cannot be asked, so that metrics stay readable in
// an outage.
func (x *readers) judge(ctx context.Context, log logr.Logger, token, from string) int {
	// A clock that was set back must not keep verdicts for ever, hence the absolute value of the age.
	key, now := sha256.Sum256([]byte(token)), x.clock.Now()
	last, known := x.known(key)
	age := now.Sub(last.at).Abs()
	if known && age < judgedFor {
		return last.status
	}
	inFavour := known && last.status == http.StatusOK && age < judgedAtMost
	// The limit that a token falls under depends on what is known of it and of its address.
	asks := x.asks
	switch {
	case inFavour:
		asks = x.again
	case x.wasLetIn(from):
		asks = x.nearby
	}
	if !asks.TryAccept() {
		if inFavour {
			return last.status
		}
		return http.StatusTooManyRequests
	}
	ctx, cancel := context.WithTimeout(ctx, askedWithin)
	defer cancel()
	status, err := x.ask(ctx, token)
	if err != nil {
		log.Error(err, "Cannot ask the API server who may read the metrics")
		if inFavour {
			return last.status
		}
		return http.StatusServiceUnavailable
	}
	x.keep(key, verdict{status, now})
	return status
}

// ask asks the API server whose token it is (TokenReview) and whether that user may read /metrics
// (SubjectAccessReview).
func (x *readers) ask(ctx context.Context, token string) (int, error) {
	review, err := x.api.AuthenticationV1().TokenReviews().Create(ctx, &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token}}, metav1.CreateOptions{})
	if err != nil {
		return 0, fmt.Errorf("reviewing a token: %w", err)
	}
	if !review.Status.Authenticated {
		return http.StatusUnauthorized, nil
	}
	// The access is reviewed for the user of the token with all attributes, as the API server itself would.
	user := review.Status.User
	extra := map[string]authorizationv1.ExtraValue{}
	for key, values := range user.Extra {
		extra[key] = authorizationv1.ExtraValue(values)
	}
	access, err := x.api.AuthorizationV1().SubjectAccessReviews().Create(ctx, &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: user.Username, UID: user.UID, Groups: user.Groups, Extra: extra,
		NonResourceAttributes: &authorizationv1.NonResourceAttributes{Path: "/metrics", Verb: "get"},
	}}, metav1.CreateOptions{})
	switch {
	case err != nil:
		return 0, fmt.Errorf("reviewing the access of %s: %w", user.Username, err)
	case !access.Status.Allowed:
		return http.StatusForbidden, nil
	}
	return http.StatusOK, nil
}

// known returns the last verdict on a token. Tokens are stored as hashes, so that a memory dump holds none.
func (x *readers) known(key [sha256.Size]byte) (verdict, bool) {
	x.mutex.Lock()
	defer x.mutex.Unlock()
	v, ok := x.judged[key]
	return v, ok
}

// keep stores a verdict. Where there are mostJudged already, the refused and the old ones go: made-up tokens must
// not push out those of readers.
func (x *readers) keep(key [sha256.Size]byte, v verdict) {
	x.mutex.Lock()
	defer x.mutex.Unlock()
	if len(x.judged) >= mostJudged {
		for other, of := range x.judged {
			if of.status != http.StatusOK || v.at.Sub(of.at) >= judgedAtMost {
				delete(x.judged, other)
			}
		}
	}
	// Where all places are taken by readers, the verdict is not kept: the token is reviewed again at its next
	// request.
	if len(x.judged) < mostJudged {
		x.judged[key] = v
	}
}

// wasLetIn returns whether a reader was let in from an address within judgedAtMost.
func (x *readers) wasLetIn(from string) bool {
	x.mutex.Lock()
	defer x.mutex.Unlock()
	at, ok := x.letIn[from]
	return ok && x.clock.Since(at).Abs() < judgedAtMost
}

// letInFrom records an address, and forgets those that are too old.
func (x *readers) letInFrom(address string) {
	x.mutex.Lock()
	defer x.mutex.Unlock()
	now := x.clock.Now()
	maps.DeleteFunc(x.letIn, func(_ string, at time.Time) bool { return now.Sub(at).Abs() >= judgedAtMost })
	if _, known := x.letIn[address]; known || len(x.letIn) < mostJudged {
		x.letIn[address] = now
	}
}
