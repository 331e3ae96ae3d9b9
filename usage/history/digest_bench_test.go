package history

import (
	"math"
	"testing"
	"time"
)

// BenchmarkDigest makes the profile of 8 days of one of many containers.
func BenchmarkDigest(b *testing.B) {
	const steps = 8 * pageSteps
	var all []*history
	for c := range 1000 {
		h := newHistory(roomOf(1 << 30))
		h.slide(0, steps-1)
		for _, m := range []*series{&h.cpu, &h.memory} {
			m.open(0)
			for i := range int64(steps) {
				swing := 1 + 0.5*math.Sin(float64(i)/288*2*math.Pi) + float64((int64(c)*7919+i*104729)%100)/500
				m.put(i, 0.1*swing)
				m.close()
			}
		}
		all = append(all, h)
	}
	b.ReportAllocs()
	for n := 0; b.Loop(); n++ {
		newDigest(all[n%len(all)], 5*time.Minute)
	}
}
