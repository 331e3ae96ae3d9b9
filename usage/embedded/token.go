package embedded

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/utils/clock"
)

const (
	// tokenAnswer bounds one question for a token; a scrape that waits for it has some of its own time left.
	tokenAnswer = maxAnswerTime / 2
	// tokenRetry follows a question that was not answered with a token; it doubles up to tokenRetryMost.
	tokenRetry     = time.Second
	tokenRetryMost = time.Minute
	// tokenAge is how old a token is at least that another one is asked for because a kubelet refused it: a kubelet
	// that refuses every token is no reason to ask all the time.
	tokenAge = time.Minute
)

// Token of the scraper, and when it ends.
type Token struct {
	Value string
	Ends  time.Time
}

// Tokens are what kubelets are shown: one at a time, renewed when four fifths of its life are over. One question is
// under way at a time, however many kubelets are scraped; where it fails, the next one waits. A token that is still
// valid is used meanwhile. Tokens is safe for concurrent use.
type Tokens struct {
	ask   func(context.Context) (Token, error)
	clock clock.PassiveClock

	held atomic.Pointer[heldToken]

	// renewal is held by who asks for the next token, and guards what follows.
	renewal  sync.Mutex
	earliest time.Time
	wait     time.Duration
	failed   error
}

type heldToken struct {
	Token
	since, due time.Time
}

// NewTokens asks for a token when the first one is needed.
func NewTokens(ask func(context.Context) (Token, error), now clock.PassiveClock) *Tokens {
	return &Tokens{ask: ask, clock: now}
}

// get is a token that will be valid when a kubelet sees it.
func (t *Tokens) get(ctx context.Context) (string, error) {
	if held := t.held.Load(); held.lasts(t.clock.Now()) {
		if t.clock.Now().Before(held.due) || !t.renewal.TryLock() {
			return held.Value, nil
		}
	} else {
		t.renewal.Lock()
	}
	defer t.renewal.Unlock()
	return t.renew(ctx)
}

// renew asks for the next token, unless another scrape has just done so. The caller holds renewal.
func (t *Tokens) renew(ctx context.Context) (string, error) {
	held, now := t.held.Load(), t.clock.Now()
	if held.lasts(now) && now.Before(held.due) {
		return held.Value, nil
	}
	if !now.Before(t.earliest) {
		if next, err := t.asked(ctx, now); err != nil {
			t.failed, t.wait = err, min(tokenRetryMost, max(tokenRetry, 2*t.wait))
			t.earliest = t.clock.Now().Add(t.wait)
		} else {
			held, t.failed, t.wait, t.earliest = next, nil, 0, time.Time{}
			t.held.Store(held)
		}
	}
	if held.lasts(now) {
		return held.Value, nil
	}
	return "", t.failed
}

// asked is a new token. Whoever waits for the scrape may give up; the answer serves the others.
func (t *Tokens) asked(ctx context.Context, now time.Time) (*heldToken, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), tokenAnswer)
	defer cancel()
	token, err := t.ask(ctx)
	if err != nil {
		return nil, fmt.Errorf("no token to show to kubelets, which is asked for again: %w", err)
	}
	next := &heldToken{Token: token, since: now, due: now.Add(token.Ends.Sub(now) * 4 / 5)}
	if token.Value == "" || !next.lasts(now) {
		return nil, errors.New("no token to show to kubelets, which is asked for again: the one that was issued has ended already; compare the clocks")
	}
	return next, nil
}

// refused by a kubelet: the ServiceAccount may have been made anew, or the key that signs its tokens. The next one is due,
// and this one is shown until it is there.
func (t *Tokens) refused(token string) {
	held := t.held.Load()
	if held == nil || held.Value != token || t.clock.Now().Sub(held.since) < tokenAge {
		return
	}
	t.held.CompareAndSwap(held, &heldToken{Token: held.Token, since: held.since})
}

// lasts until a kubelet that is asked now has answered.
func (h *heldToken) lasts(now time.Time) bool {
	return h != nil && now.Add(maxAnswerTime).Before(h.Ends)
}

// bearing shows the scraper's token. A request without one is not sent.
type bearing struct {
	tokens *Tokens
	next   http.RoundTripper
}

func (b bearing) RoundTrip(request *http.Request) (*http.Response, error) {
	token, err := b.tokens.get(request.Context())
	if err != nil {
		return nil, err
	}
	request = request.Clone(request.Context())
	request.Header.Set("Authorization", "Bearer "+token)
	response, err := b.next.RoundTrip(request)
	if err == nil && response.StatusCode == http.StatusUnauthorized {
		b.tokens.refused(token)
	}
	return response, err
}
