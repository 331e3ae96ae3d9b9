package policy

import (
	"regexp"
	"strconv"
	"time"
	_ "time/tzdata" // the same time zones everywhere: images and plugins on other systems may carry none

	"k8s.io/apimachinery/pkg/util/intstr"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/resize"
)

// scheduleFields reads when new resizes may begin.
type scheduleFields struct{ *overlay }

// read reads the schedule; the zero value, without windows and days, is always open.
func (o scheduleFields) read() resize.Schedule {
	return resize.Schedule{Windows: o.windows(), Days: o.days(), Location: o.location()}
}

// windows reads the windows of the day. A window may end after midnight. One that is wrong is left out and
// reported, so that the others still apply while watches end.
func (o scheduleFields) windows() []resize.Window {
	const path = "updateStrategy.schedule.windows"
	var windows []resize.Window
	for _, w := range pick(o.overlay, path, nil, func(l layer) *[]v1alpha1.ScheduleWindow { return list(l.UpdateStrategy.Schedule.Windows) }) {
		start, startOK := minuteOfDay(w.Start)
		end, endOK := minuteOfDay(w.End)
		switch {
		case !startOK || !endOK:
			o.invalid(path, "%s holds %s: start and end must be times of day as HH:MM, e.g. 22:00 and 06:00", path, o.quote(path, string(w.Start)+"-"+string(w.End)))
		case start == end:
			o.invalid(path, "%s holds %s, which is empty: start and end must differ, e.g. 22:00 and 06:00; leave windows out for the whole day", path, o.quote(path, string(w.Start)+"-"+string(w.End)))
		default:
			windows = append(windows, resize.Window{Start: start, End: end})
		}
	}
	return windows
}

// clockTime is HH:MM from 00:00 to 23:59.
var clockTime = regexp.MustCompile(`^([01][0-9]|2[0-3]):([0-5][0-9])$`)

// minuteOfDay reads HH:MM as minutes after midnight; false for any other text.
func minuteOfDay(t v1alpha1.ClockTime) (int, bool) {
	match := clockTime.FindStringSubmatch(string(t))
	if match == nil {
		return 0, false
	}
	hour, _ := strconv.Atoi(match[1])
	minute, _ := strconv.Atoi(match[2])
	return hour*60 + minute, true
}

// weekdays are the English names that the API uses.
var weekdays = map[v1alpha1.Weekday]time.Weekday{
	"Sunday": time.Sunday, "Monday": time.Monday, "Tuesday": time.Tuesday, "Wednesday": time.Wednesday,
	"Thursday": time.Thursday, "Friday": time.Friday, "Saturday": time.Saturday,
}

// days reads the days on which windows begin; empty: every day.
func (o scheduleFields) days() map[time.Weekday]bool {
	const path = "updateStrategy.schedule.daysOfWeek"
	days := map[time.Weekday]bool{}
	for _, name := range pick(o.overlay, path, nil, func(l layer) *[]v1alpha1.Weekday { return list(l.UpdateStrategy.Schedule.DaysOfWeek) }) {
		day, known := weekdays[name]
		if !known {
			o.invalid(path, "%s holds %s, which is no day of the week: use Monday, Tuesday, Wednesday, Thursday, Friday, Saturday or Sunday", path, o.quote(path, name))
			continue
		}
		days[day] = true
	}
	return days
}

// location refuses an unknown time zone: without it the windows would open at the wrong hours. It also refuses
// Local, which is the zone of the operator's process and unknown to users.
func (o scheduleFields) location() *time.Location {
	const path = "updateStrategy.schedule.timezone"
	name := pick(o.overlay, path, "UTC", func(l layer) *string { return nonEmpty(l.UpdateStrategy.Schedule.Timezone) })
	location, err := time.LoadLocation(name)
	if err != nil || name == "Local" {
		o.invalid(path, "%s %s is not a known time zone: use an IANA name, e.g. Europe/Berlin or UTC", path, o.quote(path, name))
		return time.UTC
	}
	return location
}

// percentage is 1% to 100% without a leading zero.
var percentage = regexp.MustCompile(`^([1-9][0-9]?|100)%$`)

// maxConcurrent is a number of pods or a percentage of a workload's pods; the other result is 0.
func (o resizeFields) maxConcurrent() (pods, percent int) {
	const path = "updateStrategy.maxConcurrentResizes"
	value := pick(o.overlay, path, maxConcurrentResizes, func(l layer) *intstr.IntOrString { return l.UpdateStrategy.MaxConcurrentResizes })
	if value.Type == intstr.Int && value.IntVal >= 1 {
		return int(value.IntVal), 0
	}
	if match := percentage.FindStringSubmatch(value.StrVal); value.Type == intstr.String && match != nil {
		percent, _ = strconv.Atoi(match[1])
		return 0, percent
	}
	o.invalid(path, "%s %s must be a number of at least 1 or a percentage from 1%% to 100%%, e.g. %s", path, o.quote(path, value.String()), maxConcurrentResizes.String())
	return 0, 10
}
