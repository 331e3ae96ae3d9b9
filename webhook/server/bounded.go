package server

import (
	"bytes"
	"container/list"
	"errors"
	"io"
	"net/http"
	"os"
	"runtime"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"attune.io/attune/internal/ports"
)

const (
	// maxBody limits a review, in bytes: an object of the largest size that the API server stores (1.5 MiB), written
	// as JSON, or an old and a new one.
	maxBody = 4 << 20
	// firstBuffer is the first buffer of a review, in bytes; most reviews fit into it.
	firstBuffer = 32 << 10
)

// bounded reads reviews for the handlers. The memory that it reserves grows with the bytes that have arrived: a
// client that announces much and sends nothing holds one firstBuffer.
type bounded struct {
	next    http.Handler
	room    *room
	metrics *Metrics
}

// refusal is why a review is not answered, with the value of the metric's label reason and the status of the answer.
type refusal struct {
	why, reason string
	status      int
}

func (r *refusal) Error() string { return r.why }

var (
	errBusy  = &refusal{"too many reviews are in flight", "Busy", http.StatusServiceUnavailable}
	errLarge = &refusal{"the review is too large", "TooLarge", http.StatusRequestEntityTooLarge}
	errSlow  = &refusal{"the review did not arrive in time", "Slow", http.StatusRequestTimeout}
)

// ServeHTTP passes a review to the next handler, or rejects it. drop sets a read deadline in the past, which makes a
// blocked read of the body fail at once.
func (b *bounded) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	controller := http.NewResponseController(w)
	stay := b.room.enter(func() { _ = controller.SetReadDeadline(time.Unix(1, 0)) })
	defer stay.leave()
	body, err := b.read(stay, r)
	if err != nil {
		b.refuse(w, err)
		return
	}
	r.Body, r.ContentLength = ports.Whole{Buffer: bytes.NewBuffer(body)}, int64(len(body))
	b.next.ServeHTTP(w, r)
	if stay.held > b.room.all/8 {
		// Garbage is not free memory. Without a collection, a few large reviews would make the process half as large
		// again.
		runtime.GC()
	}
}

// refuse counts and answers an error. It closes the connection, because the rest of the body is not read.
func (b *bounded) refuse(w http.ResponseWriter, err error) {
	refused := &refusal{err.Error(), broken, http.StatusBadRequest}
	_ = errors.As(err, &refused)
	b.metrics.dropped.WithLabelValues(refused.reason).Inc()
	w.Header().Set("Connection", "close")
	http.Error(w, refused.why, refused.status)
}

// read returns the whole body, with the memory for its decoding reserved. The order of the cases matters: a dropped
// review also fails to read, so wasDropped is checked before the error.
func (b *bounded) read(s *stay, r *http.Request) ([]byte, error) {
	if r.ContentLength > maxBody {
		return nil, errLarge
	}
	body, err := receive(s, r.Body, r.ContentLength)
	switch {
	case s.wasDropped():
		return nil, errBusy
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil, errSlow
	case err != nil:
		return nil, err
	case decoding(body) > b.most():
		return nil, errLarge
	case !s.take(decoding(body)) || !s.arrived():
		return nil, errBusy
	}
	return body, nil
}

// receive reads a whole body into a buffer that doubles. Once a quarter of the announced size has arrived, the buffer
// gets that size; -1: the size is not known. Both buffers count while one is copied into the other.
func receive(s *stay, from io.Reader, announced int64) ([]byte, error) {
	var buffer []byte
	for {
		if len(buffer) == cap(buffer) {
			size := max(firstBuffer, 2*cap(buffer))
			if whole := int(announced) + bytes.MinRead; whole > cap(buffer) && whole <= 4*cap(buffer) {
				size = whole
			}
			if size > 2*maxBody {
				return nil, errLarge
			}
			if !s.take(int64(size)) {
				return nil, errBusy
			}
			grown := make([]byte, len(buffer), size)
			copy(grown, buffer)
			s.give(int64(cap(buffer)))
			buffer = grown
		}
		n, err := from.Read(buffer[len(buffer):cap(buffer)])
		buffer = buffer[:len(buffer)+n]
		if len(buffer) > maxBody {
			return nil, errLarge
		}
		if errors.Is(err, io.EOF) {
			return buffer, nil
		}
		if err != nil {
			return nil, err
		}
	}
}

// most is the memory for decoding one review: half of the room, so that other reviews fit too.
func (b *bounded) most() int64 { return b.room.all / 2 }

// decoding is an upper estimate of the handlers' allocations for a body in addition to the body itself, in bytes:
// some copies of it, its objects, lists and values, and the answer. Three bytes of JSON can become an object of a
// hundred.
func decoding(body []byte) int64 {
	count := func(of string) int64 { return int64(bytes.Count(body, []byte(of))) }
	return answering + 7*int64(len(body)) + 320*count("{") + 224*count(",") + 160*count("[")
}

// answering is more than what writing an answer allocates, in bytes: its texts are few and limited, and the buffer
// that they are written to grows by doubling.
const answering = 192 << 10

// Values of the label reason without a refusal: the body could not be read, and the connection was closed for others.
const broken, connections = "Broken", "Connections"

// Metrics count, by reason, the requests that reached no handler and the connections closed for others.
type Metrics struct{ dropped *prometheus.CounterVec }

// NewMetrics registers attune_webhook_dropped_total. It panics if that is already registered.
func NewMetrics(registry prometheus.Registerer) *Metrics {
	dropped := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "attune_webhook_dropped_total",
		Help: "Number of rejected requests to the webhooks, by reason: Busy, Slow, TooLarge, Broken, or Connections (closed to make room for other connections).",
	}, []string{"reason"})
	registry.MustRegister(dropped)
	for _, reason := range []string{errBusy.reason, errSlow.reason, errLarge.reason, broken, connections} {
		dropped.WithLabelValues(reason) // shown as 0 until the first one
	}
	return &Metrics{dropped}
}

// room is the memory that reviews in flight share. If it is used up, the review that has been arriving for the
// longest time is dropped. An API server sends a review at once, so its reviews are the oldest only for a moment. A
// client that sends slowly cannot block others.
//
// mutex guards all fields except all, and the fields of every stay. At any time, free plus the memory held by all
// stays equals all.
type room struct {
	// all is the whole memory in bytes, free the part that is not reserved.
	all   int64
	mutex sync.Mutex
	free  int64
	// going is the memory that dropped reviews still hold. It becomes free soon, because their reads fail.
	going int64
	// arriving lists the stays whose review is not complete, the oldest first.
	arriving list.List
	// left is signalled when memory is returned or a review is dropped; its lock is mutex.
	left *sync.Cond
}

func newRoom(bytes int64) *room {
	r := &room{all: bytes, free: bytes}
	r.left = sync.NewCond(&r.mutex)
	return r
}

// stay is the share of one review in the room, from enter to leave.
type stay struct {
	room *room
	held int64
	// drop makes the reading of the review fail at once. It is called with the room locked, and never after leave.
	drop func()
	// at is the position in arriving; nil: the review is complete, or was dropped.
	at      *list.Element
	dropped bool
}

// enter adds a review at the end of arriving. It reserves nothing.
func (r *room) enter(drop func()) *stay {
	s := &stay{room: r, drop: drop}
	r.mutex.Lock()
	defer r.mutex.Unlock()
	s.at = r.arriving.PushBack(s)
	return s
}

// take reserves memory and returns true. It drops older reviews while too little is free, and waits only for dropped
// ones, whose reads have already failed. It returns false if the room is still too small, or if this review was
// dropped itself.
func (s *stay) take(bytes int64) bool {
	r := s.room
	r.mutex.Lock()
	defer r.mutex.Unlock()
	for !s.dropped && r.free < bytes {
		if r.free+r.going >= bytes {
			r.left.Wait()
			continue
		}
		oldest := r.arriving.Front()
		if oldest == nil {
			return false
		}
		oldest.Value.(*stay).dropIt()
	}
	if s.dropped {
		return false
	}
	r.free -= bytes
	s.held += bytes
	return true
}

// dropIt drops the review. The room is locked by the caller.
func (s *stay) dropIt() {
	s.room.arriving.Remove(s.at)
	s.at, s.dropped = nil, true
	s.room.going += s.held
	s.drop()
	s.room.left.Broadcast() // the review may be waiting itself
}

// give returns a part of the reserved memory.
func (s *stay) give(bytes int64) {
	s.room.mutex.Lock()
	defer s.room.mutex.Unlock()
	s.gives(bytes)
}

// gives returns memory; the room is locked by the caller.
func (s *stay) gives(bytes int64) {
	s.held -= bytes
	s.room.free += bytes
	if s.dropped {
		s.room.going -= bytes
	}
	s.room.left.Broadcast()
}

// arrived marks the review as complete: from then on it is not dropped. It returns false if it was dropped before.
func (s *stay) arrived() bool {
	s.room.mutex.Lock()
	defer s.room.mutex.Unlock()
	s.stays()
	return !s.dropped
}

// leave returns all memory of the review.
func (s *stay) leave() {
	s.room.mutex.Lock()
	defer s.room.mutex.Unlock()
	s.stays()
	s.gives(s.held)
}

// stays removes the review from the list of those that can be dropped. The caller has locked the room.
func (s *stay) stays() {
	if s.at != nil {
		s.room.arriving.Remove(s.at)
		s.at = nil
	}
}

// wasDropped reports whether the review was dropped because other reviews needed the room.
func (s *stay) wasDropped() bool {
	s.room.mutex.Lock()
	defer s.room.mutex.Unlock()
	return s.dropped
}
