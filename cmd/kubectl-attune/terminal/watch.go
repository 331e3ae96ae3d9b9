package terminal

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"time"
)

// Watch is one run of a verb with -w. It belongs to one goroutine.
type Watch struct {
	// every is the time between the end of a round and the next.
	every time.Duration
	// last is the JSON of the last answer; nil: there was none.
	last []byte
}

// NewWatch makes a watch.
func NewWatch(every time.Duration) *Watch { return &Watch{every: every} }

// Changed reports whether the answer differs from the last one, by its JSON: what only tells how old something is does not
// count. first is true for the first answer.
func (w *Watch) Changed(answer any) (changed, first bool, err error) {
	text, err := json.Marshal(answer)
	if err != nil {
		return false, false, err
	}
	first = w.last == nil
	changed = first || !bytes.Equal(text, w.last)
	w.last = text
	return changed, first, nil
}

// Run repeats the verb until the context ends, which is no error. An error of the verb ends it, but for a finding.
func (w *Watch) Run(ctx context.Context, finding error, verb func() error) error {
	for {
		// After an interrupt an error is most likely one about the interrupt.
		if err := verb(); err != nil && ctx.Err() == nil && !errors.Is(err, finding) {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(w.every):
		}
	}
}
