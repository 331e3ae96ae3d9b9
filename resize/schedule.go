package resize

import "time"

// minutesOfDay is the length of a day on a clock. On the days when the clock is put forward or back,
// windows follow the clock on the wall, not the hours that pass.
const minutesOfDay = 24 * 60

// Open says whether new resizes may start at a time. A window belongs to the day that it starts on, also
// after midnight; one that starts and ends at the same minute is the whole day. Without windows the
// whole of every listed day is open, without days every day.
func Open(s Schedule, now time.Time) bool {
	if s.Location != nil {
		now = now.In(s.Location)
	} else {
		now = now.UTC()
	}
	windows := s.Windows
	if len(windows) == 0 {
		windows = []Window{{Start: 0, End: minutesOfDay}}
	}
	minute := now.Hour()*60 + now.Minute()
	today, yesterday := s.on(now.Weekday()), s.on((now.Weekday()+6)%7)
	for _, w := range windows {
		overMidnight := w.End <= w.Start
		switch {
		case today && minute >= w.Start && (minute < w.End || overMidnight):
			return true
		case yesterday && overMidnight && minute < w.End:
			return true
		}
	}
	return false
}

// NextOpen is when the schedule is next open, at most 8 days ahead; zero if it never is. It is now, if
// it is open now.
func NextOpen(s Schedule, now time.Time) time.Time {
	if Open(s, now) {
		return now
	}
	at := now.Truncate(time.Minute)
	for end := now.AddDate(0, 0, 8); at.Before(end); {
		at = at.Add(time.Minute)
		if Open(s, at) {
			return at
		}
	}
	return time.Time{}
}

func (s Schedule) on(day time.Weekday) bool { return len(s.Days) == 0 || s.Days[day] }
