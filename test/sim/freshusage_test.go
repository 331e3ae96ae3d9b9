package sim

import (
	"testing"
	"time"
)

// usageOf one container: its source tells every step until an outage ends, and the operator knows those that it is said
// to miss not.
func usageOf(l *lab, misses func(time.Time) bool) (f *freshUsage, well, reaches *bool) {
	const step = 5 * time.Minute
	well, reaches = new(bool), new(bool)
	*reaches = true
	return newFreshUsage(l.scene, func() []measured {
		m := measured{of: webRec, container: "app", step: step, since: beginning, told: func(time.Time) bool { return true }, known: map[int64]bool{}}
		for at := beginning.Add(-24 * time.Hour); !at.After(l.time); at = at.Add(step) {
			if !misses(at) {
				m.known[at.UnixMilli()] = true
			}
		}
		return []measured{m}
	}, func() bool { return *well }, func() bool { return *reaches }), well, reaches
}

func (l *lab) minutes(f *freshUsage, n int) {
	for range n {
		l.go_(time.Minute)
		f.tick()
	}
}

func TestFreshUsageSeesAFlowThatStopped(t *testing.T) {
	l := newLab()
	stopped := beginning.Add(time.Hour)
	f, well, _ := usageOf(l, func(at time.Time) bool { return at.After(stopped) })
	*well = true
	l.minutes(f, 60)
	if len(l.wrong) > 0 {
		t.Fatal(l.wrong)
	}
	*well = false
	l.minutes(f, 120)
	if len(l.wrong) > 0 {
		t.Fatal("it was away:", l.wrong)
	}
	*well = true
	l.minutes(f, 30)
	l.found(t, "fresh usage: container app of shop/deployment-web: the source is well since")
}

func TestFreshUsageSeesAGap(t *testing.T) {
	l := newLab()
	gap := beginning.Add(30 * time.Minute)
	f, well, reaches := usageOf(l, func(at time.Time) bool { return at.Equal(gap) })
	*well = false
	l.minutes(f, 45)
	*well = true
	l.minutes(f, 55)
	if len(l.wrong) > 0 {
		t.Fatal("an hour is not over:", l.wrong)
	}
	*reaches = false
	l.minutes(f, 20)
	if len(l.wrong) > 0 {
		t.Fatal("the source did not answer about the past:", l.wrong)
	}
	*reaches = true
	l.minutes(f, 75)
	l.found(t, "and the step that ended 2026-03-02 00:30:00 +0000 UTC is missing")
}
