package main

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func newDemo(terminal bool) (*demo, *strings.Builder) {
	out := &strings.Builder{}
	return &demo{screen: &screen{out: out, terminal: terminal, began: time.Now()}}, out
}

func TestPerformContinuesAndReportsMissedSteps(t *testing.T) {
	d, out := newDemo(false)
	played := ""
	play := func(name string, err error) scene {
		return scene{name, name + " was seen", func(context.Context) error { played += name; return err }}
	}
	require.NoError(t, d.perform(t.Context(), []scene{play("a", nil), play("b", nil)}))
	assert.NotContains(t, out.String(), "✗")

	err := d.perform(t.Context(), []scene{play("c", nil), play("d", errors.New("no pods")), play("e", nil), play("f", errors.New("no node"))})
	require.EqualError(t, err, "2 of 4 things were not seen:\n- that d was seen: no pods\n- that f was seen: no node")
	assert.Equal(t, "abcdef", played)
	assert.Contains(t, out.String(), "=== 4. d\n")
	assert.Regexp(t, `✗ +0.0s  no pods`, out.String())
}

func TestPerformEndsWhenInterrupted(t *testing.T) {
	d, _ := newDemo(false)
	ctx, cancel := context.WithCancel(t.Context())
	err := d.perform(ctx, []scene{
		{"a", "a", func(context.Context) error { cancel(); return errors.New("whatever") }},
		{"b", "b", func(context.Context) error { t.Error("played on"); return nil }},
	})
	require.ErrorIs(t, err, context.Canceled)
}

func TestAwait(t *testing.T) {
	d, out := newDemo(true)
	tries := 0
	require.NoError(t, d.await(t.Context(), "the third try", time.Minute, func(context.Context) error {
		if tries++; tries < 3 {
			return errors.New("not yet")
		}
		return nil
	}))
	assert.Equal(t, 3, tries)
	assert.Contains(t, out.String(), "the third try")
	assert.True(t, strings.HasSuffix(out.String(), "\x1b[K"), "the line of waiting is taken away")

	err := d.await(t.Context(), "the impossible", time.Nanosecond, func(context.Context) error { return errors.New("it has no end") })
	require.EqualError(t, err, "the impossible: not within 0s: it has no end")

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err = d.await(ctx, "nothing", time.Minute, func(context.Context) error { return errors.New("no") })
	require.ErrorIs(t, err, context.Canceled)
}

func TestWithoutATerminalWaitingIsSilent(t *testing.T) {
	d, out := newDemo(false)
	d.screen.waiting("something", time.Now(), false)
	d.screen.waiting("something", time.Now(), true)
	assert.Empty(t, out.String())
}

func TestScreenIndents(t *testing.T) {
	d, out := newDemo(false)
	d.screen.say("a\n\nb\n")
	d.screen.typed("kubectl get pods")
	d.screen.detail("of %d", 3)
	assert.Equal(t, "    a\n\n    b\n    $ kubectl get pods\n            of 3\n", out.String())
}

func TestTable(t *testing.T) {
	text := table([]row{
		{"web", "web-1", "in place", large, little, "same UID"},
		{"mail", "mail-1", "at birth", size{cpu: 300, memory: mebibyte}, size{cpu: 300, memory: 2 * mebibyte}, "created so"},
	})
	assert.Equal(t, strings.TrimLeft(`
WORKLOAD  POD     HOW       CPU REQUEST   CPU LIMIT      MEMORY REQUEST  MEMORY LIMIT     SEEN
web       web-1   in place  500m -> 250m  1000m -> 500m  512Mi -> 64Mi   1024Mi -> 128Mi  same UID
mail      mail-1  at birth  300m          -              1Mi -> 2Mi      -                created so
`, "\n"), text)
}
