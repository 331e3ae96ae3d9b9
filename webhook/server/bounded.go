package server

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"os"
	"runtime"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"attune.io/attune/internal/ports"
)

const (
	// maxBody bounds a review, in bytes: an object of the largest size that the API server stores (1.5 MiB),
	// written as JSON, or an old and a new one.
	maxBody = 4 << 20
	// firstBuffer is the first buffer of a review, in bytes; most reviews fit into it.
	firstBuffer = 32 << 10
)

// bounded reads reviews for the handlers. The memory that it reserves grows with what has arrived: a client that
// announces much and sends nothing holds one firstBuffer.
type bounded struct {
	next    http.Handler
	room    *room
	metrics *Metrics
}

var (
	errBusy  = errors.New("too many reviews are in flight")
	errLarge = errors.New("the review is too large")
	errSlow  = errors.New("the review did not arrive in time")
)

// ServeHTTP has a review answered by the next handler, or refuses it. drop sets a read deadline in the past, which
// makes a blocked read of the body fail at once.
func (b *bounded) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	controller := http.NewResponseController(w)
	stay := b.room.enter(func() { _ = controller.SetReadDeadline(time.Unix(1, 0)) })
	defer stay.leave()
	body, err := b.read(stay, r)
	switch {
	case err == nil:
		r.Body, r.ContentLength = ports.Whole{Buffer: bytes.NewBuffer(body)}, int64(len(body))
		b.next.ServeHTTP(w, r)
		if stay.held > b.room.all/8 {
			// Garbage is not free memory. The garbage of a few large reviews would make the process half as large again.
			runtime.GC()
		}
	case errors.Is(err, errLarge):
		b.refuse(w, b.metrics.large, err, http.StatusRequestEntityTooLarge)
	case errors.Is(err, errSlow):
		b.refuse(w, b.metrics.slow, err, http.StatusRequestTimeout)
	case errors.Is(err, errBusy):
		b.refuse(w, b.metrics.busy, err, http.StatusServiceUnavailable)
	default:
		b.refuse(w, b.metrics.broken, err, http.StatusBadRequest)
	}
}

// refuse answers with a status and closes the connection, since the rest of the body is not read.
func (b *bounded) refuse(w http.ResponseWriter, count counter, err error, status int) {
	count.Inc()
	w.Header().Set("Connection", "close")
	http.Error(w, err.Error(), status)
}

// read returns the whole body, with the memory for its decoding reserved. The order of the cases matters: a
// dropped review also fails to read, so wasDropped is checked before the error.
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

// receive reads a whole body into a buffer that doubles, and that has the announced size once a quarter has arrived; -1: the
// size is not known. Both buffers count while one is copied into the other.
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

// most is what the decoding of one review may take: half of the room, so that others fit beside it.
func (b *bounded) most() int64 { return b.room.all / 2 }

// decoding is an upper estimate of what the handlers allocate for a body besides the body itself, in bytes: some
// copies of it, the objects, lists and values that it becomes, and the answer. Three bytes of JSON can become an object
// of a hundred.
func decoding(body []byte) int64 {
	count := func(of string) int64 { return int64(bytes.Count(body, []byte(of))) }
	return answering + 7*int64(len(body)) + 320*count("{") + 224*count(",") + 160*count("[")
}

// answering is more than what an answer takes, in bytes: its texts are bounded, and few.
const answering = 96 << 10

type counter = prometheus.Counter

// Metrics count, by reason, the requests that no handler saw and the connections closed for others.
type Metrics struct{ busy, slow, large, broken, connections counter }

// NewMetrics registers attune_webhook_dropped_total. It panics where that is registered already.
func NewMetrics(registry prometheus.Registerer) *Metrics {
	dropped := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "attune_webhook_dropped_total",
		Help: "Requests to the webhooks that no handler saw, and connections closed for others, by reason.",
	}, []string{"reason"})
	registry.MustRegister(dropped)
	return &Metrics{
		busy:        dropped.WithLabelValues("Busy"),
		slow:        dropped.WithLabelValues("Slow"),
		large:       dropped.WithLabelValues("TooLarge"),
		broken:      dropped.WithLabelValues("Broken"),
		connections: dropped.WithLabelValues("Connections"),
	}
}
