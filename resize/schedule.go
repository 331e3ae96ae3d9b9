package resize

import (
	"cmp"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"attune.io/attune/api/v1alpha1"
)

// minutesOfDay is the length of a day by the clock. If the clock is changed on a day, windows follow the clock and not
// the elapsed hours.
const minutesOfDay = 24 * 60

// Open reports whether new resizes may begin at a time. A window belongs to the day on which it begins, also after
// midnight. A window whose start and end are the same minute is the whole day. Without windows every listed day is open
// as a whole, without days every day.
func Open(s Schedule, now time.Time) bool {
	now = now.In(cmp.Or(s.Location, time.UTC))
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

// NextOpen returns the next minute at which the schedule is open, at most 8 days ahead; zero if there is no such
// minute. If the schedule is open now, it returns now. It tries at most 11,520 minutes one by one, so that time zones
// and changes of the clock need no rules of their own.
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

// on reports whether windows may begin on a day.
func (s Schedule) on(day time.Weekday) bool { return len(s.Days) == 0 || s.Days[day] }

// mostBackoff is the maximum factor by which reverts extend the cooldown, and refusals the wait before the same resize
// or restore is tried again. Without it a workload with many reverts would never be resized again.
const mostBackoff = 16

// CooldownLeft returns the rest of a workload's cooldown; 0: the cooldown is over. It starts at the end of the last
// wave's observation (from; nil: no wave yet) and doubles for each consecutive revert, up to 16 times its length. A
// base of zero has no cooldown.
func CooldownLeft(from *metav1.Time, backoff *v1alpha1.Backoff, rules Rules, now time.Time) time.Duration {
	if from == nil {
		return 0
	}
	var reverts int32
	if backoff != nil {
		reverts = backoff.ConsecutiveReverts
	}
	return max(0, from.Add(Doubled(rules.Cooldown, reverts)).Sub(now))
}

// Doubled returns the wait, doubled the given number of times, and at most mostBackoff times as long.
func Doubled(wait time.Duration, times int32) time.Duration {
	factor := time.Duration(1)
	for i := int32(0); i < times && factor < mostBackoff; i++ {
		factor *= 2
	}
	return wait * factor
}
