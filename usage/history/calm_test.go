package history_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"attune.io/attune/usage"
	"attune.io/attune/usage/history"
)

// TestTextsThatDifferEachTime: a source fails or warns with another text every minute. The reported text changes once
// in five minutes, and recovery is reported at once.
func TestTextsThatDifferEachTime(t *testing.T) {
	for name, test := range map[string]struct {
		trouble func(f *fake, minute int)
		said    func(history.State) string
		most    int
	}{
		"failures": {
			func(f *fake, minute int) {
				f.fail = func(usage.Query) error { return fmt.Errorf("read tcp 10.0.0.1:%d: connection reset", 40000+minute) }
			},
			func(s history.State) string {
				if s.Err == nil {
					return ""
				}
				return s.Err.Error()
			},
			7,
		},
		"warnings": {
			func(f *fake, minute int) {
				f.report.Warnings = []string{fmt.Sprintf("node-%d does not answer", minute)}
			},
			func(s history.State) string { return fmt.Sprint(s.Last.Warnings) },
			7,
		},
		"warnings that come and go": {
			func(f *fake, minute int) {
				f.report.Warnings = nil
				if minute%2 == 0 {
					f.report.Warnings = []string{"a node does not answer"}
				}
			},
			func(s history.State) string { return fmt.Sprint(s.Last.Warnings) },
			14, // each failure and each recovery is reported
		},
	} {
		t.Run(name, func(t *testing.T) {
			source := &fake{pods: []fakePod{web("aaaaa", always(0.2))}}
			s := newStore(source)
			interest := deployment("web")
			interest.Source.QueryStep = time.Minute
			require.NoError(t, s.Want(interest))
			fill(t, s, now)
			before, changes := "", 0
			for minute := 1; minute <= 30; minute++ {
				source.set(func(f *fake) { test.trouble(f, minute) })
				s.Refresh(context.Background(), now.Add(time.Duration(minute)*time.Minute))
				state, _ := s.State(interest.Source)
				if said := test.said(state); said != before {
					before = said
					changes++
				}
			}
			assert.Positive(t, changes)
			assert.LessOrEqual(t, changes, test.most, "half an hour")

			source.set(func(f *fake) { f.fail, f.report = nil, usage.Report{} })
			s.Refresh(context.Background(), now.Add(31*time.Minute))
			state, _ := s.State(interest.Source)
			assert.Empty(t, state.Last.Warnings)
			s.Refresh(context.Background(), now.Add(40*time.Minute)) // the backoff of a failing source grows
			state, _ = s.State(interest.Source)
			require.NoError(t, state.Err)
		})
	}
}
