package tools

import (
	"bytes"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// What is done so far tells how long the rest takes.
func TestProgressTellsHowFarAndHowLong(t *testing.T) {
	begun := time.Now()
	w := &job{begun: begun}
	assert.Equal(t, "40s so far", w.far(begun.Add(40*time.Second)), "nobody knows how much there is")
	w.total.Store(400)
	for range 100 {
		_, _ = fmt.Fprintln(w, "k8s.io/a/package")
	}
	assert.Equal(t, "100 of 400 packages; 1m0s so far, some 3m0s still", w.far(begun.Add(time.Minute)))
	for range 310 {
		_, _ = fmt.Fprintln(w, "k8s.io/another")
	}
	assert.Equal(t, "400 of 400 packages, linking; 4m0s so far", w.far(begun.Add(4*time.Minute)))
}

// Something is told as long as the work goes on, and nothing after it.
func TestProgressIsToldAllTheTime(t *testing.T) {
	var out lines
	p := &progress{to: &out, every: time.Millisecond, steps: 3}
	err := p.during("building a thing", func(w *job) error {
		require.Eventually(t, func() bool { return strings.Count(out.String(), "so far") >= 3 }, 30*time.Second, time.Millisecond)
		return nil
	})
	require.NoError(t, err)
	p.stepDone()
	text := out.String()
	assert.True(t, strings.HasPrefix(text, "[0 of 3] building a thing ...\n[0 of 3] building a thing: "), text)
	assert.Contains(t, text, "building a thing: done in ")
	p.line("next")
	assert.Equal(t, text+"[1 of 3] next\n", out.String())
}

// lines is a buffer that may be read while it is written.
type lines struct {
	mutex sync.Mutex
	text  bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return l.text.Write(p)
}

func (l *lines) String() string {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return l.text.String()
}
