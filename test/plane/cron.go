package plane

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// schedule is a cron expression of five fields, or one of @hourly, @daily and @weekly: the minutes at which it fires.
// Fields are *, numbers, ranges, lists and steps; as with cron, a day has to fit either of the two day fields where both
// are restricted.
type schedule struct {
	minute, hour, day, month, weekday uint64
	anyDay, anyWeekday                bool
}

var macros = map[string]string{"@hourly": "0 * * * *", "@daily": "0 0 * * *", "@midnight": "0 0 * * *", "@weekly": "0 0 * * 0", "@monthly": "0 0 1 * *"}

func parseSchedule(text string) (schedule, error) {
	if macro, is := macros[text]; is {
		text = macro
	}
	fields := strings.Fields(text)
	if len(fields) != 5 {
		return schedule{}, fmt.Errorf("cron expression %q: five fields expected", text)
	}
	s := schedule{anyDay: fields[2] == "*", anyWeekday: fields[4] == "*"}
	for i, f := range []struct {
		into        *uint64
		least, most int
	}{{&s.minute, 0, 59}, {&s.hour, 0, 23}, {&s.day, 1, 31}, {&s.month, 1, 12}, {&s.weekday, 0, 6}} {
		bits, err := parseField(fields[i], f.least, f.most)
		if err != nil {
			return schedule{}, fmt.Errorf("cron expression %q: %w", text, err)
		}
		*f.into = bits
	}
	return s, nil
}

// parseField is the set of numbers that a field names, as bits.
func parseField(field string, least, most int) (bits uint64, err error) {
	for _, part := range strings.Split(field, ",") {
		span, stepText, stepped := strings.Cut(part, "/")
		step := 1
		if stepped {
			if step, err = strconv.Atoi(stepText); err != nil || step < 1 {
				return 0, fmt.Errorf("step %q", stepText)
			}
		}
		from, to := least, most
		if span != "*" {
			first, last, ranged := strings.Cut(span, "-")
			if from, err = strconv.Atoi(first); err != nil {
				return 0, err
			}
			switch {
			case ranged:
				if to, err = strconv.Atoi(last); err != nil {
					return 0, err
				}
			case !stepped:
				to = from
			}
		}
		if from < least || to > most || from > to {
			return 0, fmt.Errorf("%q is not within %d and %d", part, least, most)
		}
		for n := from; n <= to; n += step {
			bits |= 1 << n
		}
	}
	return bits, nil
}

// fires: the schedule names this minute.
func (s schedule) fires(t time.Time) bool {
	day, weekday := s.day>>t.Day()&1 == 1, s.weekday>>int(t.Weekday())&1 == 1
	onDay := day && weekday
	if !s.anyDay && !s.anyWeekday {
		onDay = day || weekday
	}
	return onDay && s.minute>>t.Minute()&1 == 1 && s.hour>>t.Hour()&1 == 1 && s.month>>int(t.Month())&1 == 1
}

// next is the first time after t at which the schedule fires; zero: not within five years.
func (s schedule) next(t time.Time) time.Time {
	at, end := t.Truncate(time.Minute).Add(time.Minute), t.AddDate(5, 0, 0)
	for at.Before(end) {
		switch {
		case s.month>>int(at.Month())&1 == 0:
			at = time.Date(at.Year(), at.Month()+1, 1, 0, 0, 0, 0, at.Location())
		case s.hour>>at.Hour()&1 == 0:
			at = at.Truncate(time.Hour).Add(time.Hour)
		case s.fires(at):
			return at
		default:
			at = at.Add(time.Minute)
		}
	}
	return time.Time{}
}
