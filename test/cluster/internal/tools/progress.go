package tools

import (
	"bytes"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"
)

// progress says what is at work, how far it is and how long it takes, a whole line at a time: several things are at
// once. It says something about each of them every so often.
type progress struct {
	mu          sync.Mutex
	to          io.Writer
	every       time.Duration
	steps, done int
}

// job is one thing that is being done. What is written to it counts: a line for a part that was begun.
type job struct {
	begun time.Time
	// total is how many parts there are; 0: nobody knows. parts is how many have begun.
	total, parts atomic.Int64
}

// Write counts lines.
func (w *job) Write(p []byte) (int, error) {
	w.parts.Add(int64(bytes.Count(p, []byte("\n"))))
	return len(p), nil
}

// far is how far it is, and how long it takes still if the rest goes as what is done.
func (w *job) far(now time.Time) string {
	passed := now.Sub(w.begun)
	total, parts := w.total.Load(), min(w.parts.Load(), w.total.Load())
	switch {
	case parts == 0:
		return fmt.Sprintf("%s so far", seconds(passed))
	case parts == total:
		return fmt.Sprintf("%d of %d packages, linking; %s so far", parts, total, seconds(passed))
	}
	rest := time.Duration(float64(passed) * float64(total-parts) / float64(parts))
	return fmt.Sprintf("%d of %d packages; %s so far, some %s still", parts, total, seconds(passed), seconds(rest))
}

func seconds(d time.Duration) string { return d.Round(time.Second).String() }

func (p *progress) during(what string, do func(*job) error) error {
	w := &job{begun: time.Now()}
	p.line("%s ...", what)
	over, told := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(told)
		p.keepTelling(what, w, over)
	}()
	err := do(w)
	close(over)
	<-told
	if err == nil {
		p.line("%s: done in %s", what, seconds(time.Since(w.begun)))
	}
	return err
}

func (p *progress) keepTelling(what string, w *job, over <-chan struct{}) {
	tick := time.NewTicker(p.every)
	defer tick.Stop()
	for {
		select {
		case now := <-tick.C:
			p.line("%s: %s", what, w.far(now))
		case <-over:
			return
		}
	}
}

// stepDone counts a step that was done.
func (p *progress) stepDone() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.done++
}

// line says something, and how many steps are done.
func (p *progress) line(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	fmt.Fprintf(p.to, "[%d of %d] %s\n", p.done, p.steps, fmt.Sprintf(format, args...))
}
