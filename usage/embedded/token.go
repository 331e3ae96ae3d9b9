package embedded

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/oauth2"
	"k8s.io/utils/clock"

	"attune.io/attune/internal/backoff"
)

const (
	// tokenAnswer bounds one request for a token; a scrape that waits for it has some of its own time left.
	tokenAnswer = maxAnswerTime / 2
	// tokenRetry is the backoff after a failed request; it doubles up to tokenRetryMost.
	tokenRetry     = time.Second
	tokenRetryMost = time.Minute
	// tokenAge is the minimum age at which a rejected token is replaced. So a kubelet that rejects every token causes
	// at most one request in this time.
	tokenAge = time.Minute
)

// Tokens has the bearer token for kubelets. It renews the token after four fifths of its lifetime. Only one request
// runs at a time, for any number of scraped kubelets; after a failure the next request backs off. A token that is still
// valid is used meanwhile. Tokens is a token source for client-go's transport, and safe for concurrent use.
type Tokens struct {
	// ask requests a token from the API server.
	ask   func(context.Context) (*oauth2.Token, error)
	clock clock.PassiveClock

	// held is the current token; nil before the first one.
	held atomic.Pointer[heldToken]

	// renewal is held during a request for the next token, and guards the fields below.
	renewal sync.Mutex
	// earliest is the earliest time of the next request after a failure. failures counts consecutive failures, and
	// failed is the last error.
	earliest time.Time
	failures int
	failed   error
}

// heldToken is a token with the time since, at which it was received, and the time due, from which it is renewed. It is
// immutable; a new one replaces it.
type heldToken struct {
	*oauth2.Token
	since, due time.Time
}

// NewTokens returns an empty Tokens. The first token is requested when the first kubelet is scraped.
func NewTokens(ask func(context.Context) (*oauth2.Token, error), now clock.PassiveClock) *Tokens {
	return &Tokens{ask: ask, clock: now}
}

// Token returns a token that is valid until the end of a scrape. If a renewal is due, one scrape requests it and waits,
// and the others use the old token. Without a valid token all scrapes wait for that request.
func (t *Tokens) Token() (*oauth2.Token, error) {
	if held := t.held.Load(); held.lasts(t.clock.Now()) {
		if t.clock.Now().Before(held.due) || !t.renewal.TryLock() {
			return held.Token, nil
		}
	} else {
		t.renewal.Lock()
	}
	defer t.renewal.Unlock()
	return t.renew()
}

// renew requests the next token, unless another scrape has just done so. The caller holds renewal. After a failure the
// backoff doubles, from tokenRetry to tokenRetryMost. An old token that is still valid is returned meanwhile.
func (t *Tokens) renew() (*oauth2.Token, error) {
	held, now := t.held.Load(), t.clock.Now()
	if held.lasts(now) && now.Before(held.due) {
		return held.Token, nil
	}
	if !now.Before(t.earliest) {
		if next, err := t.asked(now); err != nil {
			t.failed, t.failures = err, t.failures+1
			t.earliest = t.clock.Now().Add(backoff.Wait(tokenRetry, tokenRetryMost, t.failures))
		} else {
			held, t.failed, t.failures, t.earliest = next, nil, 0, time.Time{}
			t.held.Store(held)
		}
	}
	if held.lasts(now) {
		return held.Token, nil
	}
	return nil, t.failed
}

// asked requests a new token. The request is not cancelled with the scrape that makes it, because its answer serves the
// other scrapes too; tokenAnswer bounds it.
func (t *Tokens) asked(now time.Time) (*heldToken, error) {
	ctx, cancel := context.WithTimeout(context.Background(), tokenAnswer)
	defer cancel()
	token, err := t.ask(ctx)
	if err != nil {
		return nil, fmt.Errorf("no token for kubelets, retrying: %w", err)
	}
	next := &heldToken{Token: token, since: now, due: now.Add(token.Expiry.Sub(now) * 4 / 5)}
	if token.AccessToken == "" || !next.lasts(now) {
		return nil, errors.New("no token for kubelets, retrying: the issued token has expired already; compare the clocks of the operator and the API server")
	}
	return next, nil
}

// ResetTokenOlderThan makes the token due after a kubelet answered 401 to a request that began at a time. The
// ServiceAccount or the key that signs its tokens may have been replaced. The rejected token is used until the new one
// is available. A token younger than tokenAge, or than the request, is kept.
func (t *Tokens) ResetTokenOlderThan(began time.Time) {
	held := t.held.Load()
	if held == nil || !held.since.Before(began) || t.clock.Now().Sub(held.since) < tokenAge {
		return
	}
	t.held.CompareAndSwap(held, &heldToken{Token: held.Token, since: held.since})
}

// lasts reports whether the token is valid until the end of a scrape that begins now. A nil token is not.
func (h *heldToken) lasts(now time.Time) bool {
	return h != nil && now.Add(maxAnswerTime).Before(h.Expiry)
}
