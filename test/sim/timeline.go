// Package sim plays a cluster's life in virtual time: the real loops before an API server in memory, among played
// nodes and people, by one seed. README.md says what it plays and what must hold.
package sim

import (
	"container/heap"
	"time"
)

// timeline is what is to happen, in order. One goroutine plays it; nothing of it depends on the time of day.
type timeline struct {
	now   time.Time
	due   dues
	count uint64
}

type due struct {
	at    time.Time
	order uint64
	do    func()
}

type dues []due

func (d dues) Len() int { return len(d) }
func (d dues) Less(i, j int) bool {
	if c := d[i].at.Compare(d[j].at); c != 0 {
		return c < 0
	}
	return d[i].order < d[j].order
}
func (d dues) Swap(i, j int) { d[i], d[j] = d[j], d[i] }
func (d *dues) Push(x any)   { *d = append(*d, x.(due)) }
func (d *dues) Pop() any {
	last := (*d)[len(*d)-1]
	(*d)[len(*d)-1] = due{}
	*d = (*d)[:len(*d)-1]
	return last
}

// at does something at a time, at once where the time is over.
func (t *timeline) at(when time.Time, do func()) {
	if when.Before(t.now) {
		when = t.now
	}
	t.count++
	heap.Push(&t.due, due{when, t.count, do})
}

func (t *timeline) after(d time.Duration, do func()) { t.at(t.now.Add(d), do) }

// every does something again and again, until it says no.
func (t *timeline) every(d time.Duration, do func() bool) {
	t.after(d, func() {
		if do() {
			t.every(d, do)
		}
	})
}

// play until a time, or until nothing more is wanted.
func (t *timeline) play(until time.Time, on func() bool) {
	for len(t.due) > 0 && !t.due[0].at.After(until) && on() {
		next := heap.Pop(&t.due).(due)
		t.now = next.at
		next.do()
	}
	if on() && t.now.Before(until) {
		t.now = until
	}
}
