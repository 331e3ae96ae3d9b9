package tools

import (
	"fmt"
	"io"
	"sync"
	"time"
)

// progress says what is at work and how long it took, a whole line at a time: several things are at once.
type progress struct {
	mu sync.Mutex
	to io.Writer
}

func (p *progress) during(what string, do func() error) error {
	began := time.Now()
	p.line("%s ...", what)
	err := do()
	if err == nil {
		p.line("%s: done in %.0f s", what, time.Since(began).Seconds())
	}
	return err
}

func (p *progress) line(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	fmt.Fprintf(p.to, format+"\n", args...)
}
