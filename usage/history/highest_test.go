package history_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"attune.io/attune/recommender"
	"attune.io/attune/recommender/node"
)

func TestHighest(t *testing.T) {
	at := func(d time.Duration, value float64) func(time.Time) (float64, bool) {
		return between(now.Add(d), now.Add(d), value)
	}
	source := &fake{pods: []fakePod{
		{namespace: "shop", pod: "web-7d4f8c9b6-aaaaa", container: "app", cpu: always(0.2), peak: at(-3*time.Hour, 0.9), memory: always(1 << 20)},
		{namespace: "shop", pod: "web-7d4f8c9b6-bbbbb", container: "app", cpu: at(-time.Hour, 0.7), memory: at(-30*time.Minute, 3<<20)},
	}}
	s := newStore(source)
	s.Want(deployment("web"))
	fill(t, s, now)

	for _, tc := range []struct {
		name     string
		from, to time.Duration
		cpu      recommender.Usage
	}{
		{"the last hour: the step that ended when it began is not of it", -time.Hour, 0, 200},
		{"a little more", -time.Hour - time.Second, 0, 700},
		{"a step that ends later overlaps it", -3*time.Hour - 20*time.Minute, -3*time.Hour - step + time.Second, 900},
		{"one that begins then does not", -3*time.Hour - 20*time.Minute, -3*time.Hour - step, 200},
		{"all", -24 * time.Hour, 0, 900},
		{"the future is not known, but the window may reach into it", -time.Minute, time.Hour, 200},
	} {
		highest, known := s.Highest(key("web"), recommender.CPU, now.Add(tc.from), now.Add(tc.to))
		assert.True(t, known, tc.name)
		assert.Equal(t, tc.cpu, highest, tc.name)
	}
	highest, known := s.Highest(key("web"), recommender.Memory, now.Add(-time.Hour), now)
	assert.True(t, known)
	assert.Equal(t, recommender.Usage(3<<20), highest)

	for name, ask := range map[string]func() (recommender.Usage, bool){
		"a workload that is not known": func() (recommender.Usage, bool) {
			return s.Highest(key("none"), recommender.CPU, now.Add(-time.Hour), now)
		},
		"a time before the window": func() (recommender.Usage, bool) {
			return s.Highest(key("web"), recommender.CPU, now.Add(-48*time.Hour), now.Add(-47*time.Hour))
		},
		"the future": func() (recommender.Usage, bool) {
			return s.Highest(key("web"), recommender.CPU, now.Add(time.Minute), now.Add(time.Hour))
		},
	} {
		_, known := ask()
		assert.False(t, known, name)
	}

	peak, known := node.Peak(func(from, to time.Time) (recommender.Usage, bool) {
		return s.Highest(key("web"), recommender.CPU, from, to)
	}, now.Add(21*time.Hour-time.Minute))
	assert.True(t, known)
	assert.Equal(t, recommender.Usage(900), peak, "the burst of the coming hour, a day ago")
}
