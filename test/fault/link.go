package fault

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
)

// ErrCut is what a program gets to see of a connection that ended.
var ErrCut = errors.New("fault: the connection was cut")

// Point is a moment in a program's life: its N-th call of a kind, from 1, about objects whose name contains
// Name. A kind that ends with a space is a verb: calls of any kind with it count; without a kind all do.
type Point struct {
	Kind, Name string
	N          int
}

func (p Point) meets(c Call) bool {
	verb := strings.HasSuffix(p.Kind, " ") && strings.HasPrefix(c.Kind(), p.Kind)
	return (p.Kind == "" || verb || c.Kind() == p.Kind) && strings.Contains(c.Name, p.Name)
}

// Fault is what happens to a call. Send hands it on to the API server; a fault may leave that out.
type Fault func(r *http.Request, send func() (*http.Response, error)) (*http.Response, error)

// Link carries a program's calls to an API server. It is safe for concurrent use.
type Link struct {
	next http.RoundTripper

	mutex   sync.Mutex
	calls   []Call
	traps   []*trap
	severed bool
	late    []func() (*http.Response, error)
}

// trap is a fault that waits at a point.
type trap struct {
	point Point
	fault Fault
	// seen calls of the kind; left is how many more of them it strikes from the point on.
	seen, left int
	sprung     bool
}

// NewLink hands calls on to the next.
func NewLink(next http.RoundTripper) *Link { return &Link{next: next} }

// Strike has a fault happen at a point, and at the calls of its kind that follow until it has happened the
// given number of times. Calls are counted from now on.
func (l *Link) Strike(at Point, times int, fault Fault) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.traps = append(l.traps, &trap{point: at, fault: fault, left: times})
}

// Struck counts the faults that have happened, each once.
func (l *Link) Struck() (n int) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	for _, t := range l.traps {
		if t.sprung {
			n++
		}
	}
	return n
}

// Calls are all calls so far, in order.
func (l *Link) Calls() []Call {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return slices.Clone(l.calls)
}

// Sever refuses every call from now on, until Mend: nothing that the program still does reaches the API
// server, as if it had been killed.
func (l *Link) Sever() {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.severed = true
}

// Severed: the program is as good as dead.
func (l *Link) Severed() bool {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return l.severed
}

// Repair ends what Sever began.
func (l *Link) Repair() {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.severed = false
}

// RoundTrip carries one call.
func (l *Link) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := drain(r)
	if err != nil {
		return nil, err
	}
	fault, n, err := l.note(CallOf(r, body))
	if err != nil {
		return nil, err
	}
	send := func(ctx context.Context) (*http.Response, error) {
		answer, err := l.next.RoundTrip(refilled(r.WithContext(ctx), body))
		l.landed(n, answer)
		return answer, err
	}
	if fault == nil {
		return send(r.Context())
	}
	// What becomes of a call does not hang on whether the program is still there.
	return fault(r, func() (*http.Response, error) { return send(context.WithoutCancel(r.Context())) })
}

// note writes a call down and finds what is to happen to it.
func (l *Link) note(call Call) (Fault, int, error) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if l.severed {
		return nil, 0, ErrCut
	}
	l.calls = append(l.calls, call)
	n := len(l.calls) - 1
	var fault Fault
	for _, t := range l.traps {
		if !t.point.meets(call) {
			continue
		}
		t.seen++
		if t.seen >= t.point.N && t.left > 0 && fault == nil {
			t.left--
			t.sprung, fault = true, t.fault
		}
	}
	return fault, n, nil
}

func (l *Link) landed(n int, answer *http.Response) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.calls[n].Landed = true
	if answer != nil {
		l.calls[n].Code = answer.StatusCode
	}
}

// drain reads a request's body.
func drain(r *http.Request) ([]byte, error) {
	if r.Body == nil {
		return nil, nil
	}
	defer r.Body.Close()
	return io.ReadAll(r.Body)
}

// refilled is a request with its body still to be read.
func refilled(r *http.Request, body []byte) *http.Request {
	r = r.Clone(r.Context())
	if body != nil {
		r.Body = io.NopCloser(bytes.NewReader(body))
	}
	return r
}

// Late hands a call on only when Deliver is called; the program is told at once that the time is up.
func (l *Link) Late() Fault {
	return func(_ *http.Request, send func() (*http.Response, error)) (*http.Response, error) {
		l.mutex.Lock()
		defer l.mutex.Unlock()
		l.late = append(l.late, send)
		return nil, context.DeadlineExceeded
	}
}

// Holds: something is held back.
func (l *Link) Holds() bool {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return len(l.late) > 0
}

// Deliver hands on what was held back, and reports whether there was anything.
func (l *Link) Deliver() bool {
	l.mutex.Lock()
	late := l.late
	l.late = nil
	l.mutex.Unlock()
	for _, send := range late {
		discard(send())
	}
	return len(late) > 0
}
