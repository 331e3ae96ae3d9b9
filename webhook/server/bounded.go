package server

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"os"
	"time"
)

const (
	// maxBody bounds a review: an object of the most that the API server stores (1.5 MiB) written out, or an old and a
	// new one.
	maxBody = 4 << 20
	// firstBuffer is what most reviews fit into.
	firstBuffer = 32 << 10
)

// bounded reads reviews for the handlers. What it reserves grows with what has been received: whoever announces much
// and sends nothing holds a first buffer.
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

// ServeHTTP has a review answered, or refuses it: the webhook of pods lets them pass then, as its failurePolicy says.
func (b *bounded) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	controller := http.NewResponseController(w)
	stay := b.room.enter(func() { _ = controller.SetReadDeadline(time.Unix(1, 0)) })
	defer stay.leave()
	body, err := b.read(stay, r)
	switch {
	case err == nil:
		r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
		b.next.ServeHTTP(w, r)
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

// refuse answers and has the connection closed: the rest of the body is not read.
func (b *bounded) refuse(w http.ResponseWriter, count counter, err error, status int) {
	count.Inc()
	w.Header().Set("Connection", "close")
	http.Error(w, err.Error(), status)
}

func (b *bounded) read(s *stay, r *http.Request) ([]byte, error) {
	if r.ContentLength > maxBody {
		return nil, errLarge
	}
	body, err := receive(s, r.Body)
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

// receive reads all of a body into a buffer that doubles; the old one counts until it is copied.
func receive(s *stay, from io.Reader) ([]byte, error) {
	var buffer []byte
	for {
		if len(buffer) == cap(buffer) {
			size := max(firstBuffer, 2*cap(buffer))
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

// most is what one review may take for its decoding: a part of the room, so that there is some for others.
func (b *bounded) most() int64 { return b.room.all / 2 }

// decoding is the most that the handlers take for a body beside the body itself: a few copies of it, and what its
// objects, lists and values become. Three bytes of JSON can be an object of a hundred.
func decoding(body []byte) int64 {
	count := func(of string) int64 { return int64(bytes.Count(body, []byte(of))) }
	return 7*int64(len(body)) + 320*count("{") + 224*count(",") + 160*count("[")
}
