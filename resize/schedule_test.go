package resize_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	. "attune.io/attune/resize"
)

func TestOpen(t *testing.T) {
	berlin, err := time.LoadLocation("Europe/Berlin")
	require.NoError(t, err)
	at := func(s string) time.Time {
		parsed, err := time.Parse("2006-01-02 15:04 -0700", s)
		require.NoError(t, err)
		return parsed
	}
	office := []Window{{Start: 9 * 60, End: 17 * 60}}
	night := []Window{{Start: 22 * 60, End: 4 * 60}}
	friday := map[time.Weekday]bool{time.Friday: true}
	for _, tc := range []struct {
		name     string
		schedule Schedule
		at       string
		want     bool
	}{
		{"no windows, no days", Schedule{}, "2026-03-04 12:00 +0000", true},
		{"within", Schedule{Windows: office}, "2026-03-04 09:00 +0000", true},
		{"the last minute", Schedule{Windows: office}, "2026-03-04 16:59 +0000", true},
		{"the end is outside", Schedule{Windows: office}, "2026-03-04 17:00 +0000", false},
		{"before", Schedule{Windows: office}, "2026-03-04 08:59 +0000", false},
		{"the second of two", Schedule{Windows: append(office, Window{Start: 20 * 60, End: 21 * 60})}, "2026-03-04 20:30 +0000", true},
		{"over midnight: evening", Schedule{Windows: night}, "2026-03-04 22:00 +0000", true},
		{"over midnight: morning", Schedule{Windows: night}, "2026-03-04 03:59 +0000", true},
		{"over midnight: day", Schedule{Windows: night}, "2026-03-04 04:00 +0000", false},
		{"over midnight belongs to the day it starts on: Friday evening", Schedule{Windows: night, Days: friday}, "2026-03-06 23:00 +0000", true},
		{"Saturday morning still", Schedule{Windows: night, Days: friday}, "2026-03-07 03:00 +0000", true},
		{"Friday morning is Thursday's", Schedule{Windows: night, Days: friday}, "2026-03-06 03:00 +0000", false},
		{"Saturday evening is not", Schedule{Windows: night, Days: friday}, "2026-03-07 23:00 +0000", false},
		{"days alone: all of Friday", Schedule{Days: friday}, "2026-03-06 00:00 +0000", true},
		{"days alone: not a minute of Saturday", Schedule{Days: friday}, "2026-03-07 00:00 +0000", false},
		{"start equal to end is the whole day", Schedule{Windows: []Window{{Start: 60, End: 60}}, Days: friday}, "2026-03-07 00:59 +0000", true},
		{"without a time zone it is UTC", Schedule{Windows: office}, "2026-03-04 09:30 +0100", false},
		{"in Berlin it is an hour later", Schedule{Windows: office, Location: berlin}, "2026-03-04 08:00 +0000", true},
		{"in Berlin it is over", Schedule{Windows: office, Location: berlin}, "2026-03-04 16:00 +0000", false},
		{"in Berlin it is Friday already", Schedule{Days: friday, Location: berlin}, "2026-03-05 23:30 +0000", true},
		{"summer time: 03:00 on the wall is 01:00 UTC", Schedule{Windows: []Window{{Start: 3 * 60, End: 4 * 60}}, Location: berlin}, "2026-03-29 01:00 +0000", true},
		{"summer time: 02:30 does not come that night", Schedule{Windows: []Window{{Start: 2 * 60, End: 3 * 60}}, Location: berlin}, "2026-03-29 01:30 +0000", false},
		{"winter time: 02:30 the first time", Schedule{Windows: []Window{{Start: 2 * 60, End: 3 * 60}}, Location: berlin}, "2026-10-25 00:30 +0000", true},
		{"winter time: 02:30 the second time", Schedule{Windows: []Window{{Start: 2 * 60, End: 3 * 60}}, Location: berlin}, "2026-10-25 01:30 +0000", true},
		{"winter time: 03:00", Schedule{Windows: []Window{{Start: 2 * 60, End: 3 * 60}}, Location: berlin}, "2026-10-25 02:00 +0000", false},
		{"until midnight", Schedule{Windows: []Window{{Start: 23 * 60, End: 0}}}, "2026-03-04 23:59 +0000", true},
		{"midnight itself", Schedule{Windows: []Window{{Start: 23 * 60, End: 0}}}, "2026-03-05 00:00 +0000", false},
	} {
		assert.Equal(t, tc.want, Open(tc.schedule, at(tc.at)), tc.name)
	}
}

func TestNextOpen(t *testing.T) {
	night := Schedule{Windows: []Window{{Start: 22 * 60, End: 4 * 60}}, Days: map[time.Weekday]bool{time.Friday: true}}
	assert.Equal(t, time.Date(2026, 3, 6, 22, 0, 0, 0, time.UTC), NextOpen(night, noon.Add(17*time.Second)))
	assert.Equal(t, noon, NextOpen(Schedule{}, noon), "open now")
	assert.Equal(t, time.Date(2026, 3, 13, 22, 0, 0, 0, time.UTC), NextOpen(night, time.Date(2026, 3, 7, 4, 0, 0, 0, time.UTC)))
	assert.True(t, NextOpen(Schedule{Days: map[time.Weekday]bool{time.Friday: false}}, noon).IsZero())
}
