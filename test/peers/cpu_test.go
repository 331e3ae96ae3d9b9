package peers

import (
	"syscall"
	"testing"
	"time"
)

// processor starts to count what this process uses of all cores, garbage collection included; the function
// it returns reports it. Other than time, it is nearly the same on a busy machine.
func processor(b *testing.B) func() {
	before := used(b)
	return func() { b.ReportMetric(float64(used(b)-before)/float64(b.N), "cpu-ns/op") }
}

func used(b *testing.B) time.Duration {
	b.Helper()
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		b.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
