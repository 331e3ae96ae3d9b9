package main

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"k8s.io/cli-runtime/pkg/genericiooptions"
)

// Progress is shown only on a terminal, rarely, and erased at the end. The answer is the same.
func TestProgressOfABacktest(t *testing.T) {
	f := newFiles(t, daily("web", 3, 0.4, 200)+daily("db", 3, 2, 3000)+daily("cache", 3, 2, 3000), anyPolicy)
	shows := func(terminal *bytes.Buffer, tick time.Duration) (out, errOut string) {
		now := testNow
		var o, e bytes.Buffer
		env := &environment{IOStreams: genericiooptions.IOStreams{In: &bytes.Buffer{}, Out: &o, ErrOut: &e}, cluster: &fakeCluster{}, now: func() time.Time {
			now = now.Add(tick)
			return now
		}}
		if terminal != nil {
			env.terminal = terminal
		}
		assert.Equal(t, exitOK, run(context.Background(), env, []string{"backtest", "--trace", f.usage}))
		return o.String(), e.String()
	}
	plain, said := shows(nil, time.Second)
	assert.Empty(t, said)
	var terminal bytes.Buffer
	out, said := shows(&terminal, time.Second)
	assert.Equal(t, plain, out)
	assert.Empty(t, said)
	shown := terminal.String()
	assert.Equal(t, 3, strings.Count(shown, "\r["), shown)
	for _, name := range []string{": web\x1b[K", ": db\x1b[K", ": cache\x1b[K"} {
		assert.Contains(t, shown, name)
	}
	assert.True(t, strings.HasSuffix(shown, "\r\x1b[K"), shown)

	terminal.Reset()
	_, _ = shows(&terminal, time.Millisecond)
	assert.Empty(t, terminal.String(), "a run that is over at once shows nothing")
}
