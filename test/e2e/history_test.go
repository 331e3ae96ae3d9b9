package e2e

import (
	"slices"
	"time"

	"attune.io/attune/test/cluster"
)

const mebibyte = 1 << 20

// history is the past of a workload whose pods are gone: constant usage.
type history struct {
	namespace, pod, container string
	cpu                       float64 // cores
	memory                    float64 // MiB
}

// histories are put into Prometheus before it starts, so every test's is listed here. The pods' names
// are those that the workload's controller gives: usage is found by them.
var histories = []history{
	{"auto", "web-6d4f8c7b9d-x2x7k", "app", 0.100, 100},
	{"auto", "db-0", "app", 0.100, 100},
	{"auto", "agent-x2x7k", "app", 0.100, 100},
	{"adaptive", "web-6d4f8c7b9d-x2x7k", "app", 0.100, 100},
	{onePolicy, "web-6d4f8c7b9d-x2x7k", "app", 0.100, 100},
	{onePolicy, "canary-6d4f8c7b9d-x2x7k", "app", 0.100, 100},
	{"initial", "web-6d4f8c7b9d-x2x7k", "app", 0.100, 100},
	{"unlabelled", "web-6d4f8c7b9d-x2x7k", "app", 0.100, 100},
	{"untouched", "skipped-6d4f8c7b9d-x2x7k", "app", 0.100, 100},
	{"untouched", "partly-6d4f8c7b9d-x2x7k", "app", 0.100, 100},
	{"untouched", "partly-6d4f8c7b9d-x2x7k", "sidecar", 0.020, 30},
	{"untouched", "partly-6d4f8c7b9d-x2x7k", "proxy", 0.020, 30},
	{"recommend", "web-6d4f8c7b9d-x2x7k", "app", 0.100, 100},
	{"oom", "leaky-6d4f8c7b9d-x2x7k", "app", 0.020, 60},
	{"throttle", "busy-6d4f8c7b9d-x2x7k", "app", 0.020, 40},
	{"starved", "busy-6d4f8c7b9d-x2x7k", "app", 0.033, 40},
	{"zero", "web-6d4f8c7b9d-x2x7k", "app", 0.010, 0},
	{"interleaved", "web-6d4f8c7b9d-x2x7k", "app", 1600, 100},
	{"rejected", "web-6d4f8c7b9d-x2x7k", "app", 0.300, 50},
	{"quota", "web-6d4f8c7b9d-x2x7k", "app", 0.300, 50},
	{"shm", "web-6d4f8c7b9d-x2x7k", "app", 0.010, 100},
	{"unmounted", "web-6d4f8c7b9d-x2x7k", "app", 0.010, 8},
	{"daemons", "agent-x2x7k", "app", 0.010, 3000},
	{"scaled", "granted-6d4f8c7b9d-x2x7k", "app", 0.025, 50},
	{"scaled", "granted-6d4f8c7b9d-y2y7k", "app", 0.025, 50},
	{"scaled", "steady-6d4f8c7b9d-x2x7k", "app", 0.050, 50},
	{"scaled", "steady-6d4f8c7b9d-y2y7k", "app", 0.050, 50},
	{"scaled", "retargeted-6d4f8c7b9d-x2x7k", "app", 0.050, 50},
	{"scaled", "retargeted-6d4f8c7b9d-y2y7k", "app", 0.050, 50},
	{"scaled", "queue-6d4f8c7b9d-x2x7k", "app", 0.050, 50},
	{"scaled", "queue-6d4f8c7b9d-y2y7k", "app", 0.050, 50},
}

// upheavalHistories are those of the tests that have their turns.
var upheavalHistories = []history{
	{"hung", "web-6d4f8c7b9d-x2x7k", "app", 0.100, 100},
	{"release", "web-6d4f8c7b9d-x2x7k", "app", 0.100, 100},
	{"release", "tuned-6d4f8c7b9d-x2x7k", "app", 0.100, 100},
	{"release", "flying-6d4f8c7b9d-x2x7k", "app", 0.100, 100},
	{"release", "moved-6d4f8c7b9d-x2x7k", "app", 0.100, 100},
	{"failover", "web-6d4f8c7b9d-x2x7k", "app", 0.100, 100},
	{"failover", "leaky-6d4f8c7b9d-x2x7k", "app", 0.020, 60},
	{"blind", "web-6d4f8c7b9d-x2x7k", "app", 0.100, 100},
}

func backfill() []cluster.Series {
	short := slices.Concat(hardHistories(), oomHistories(), evictionHistories())
	return append(append(past(histories, 30*time.Hour), past(short, shortPast)...), glitch())
}

// glitch is the history of a container with 10 TiB for a minute.
func glitch() cluster.Series {
	end := pastEnds()
	out := history{"glitch", "web-6d4f8c7b9d-x2x7k", "app", 0.100, 100}.until(end, 30*time.Hour)
	usual := out.Memory
	out.Memory = func(at time.Time) float64 {
		if ago := end.Sub(at); ago > 3*time.Hour && ago <= 3*time.Hour+time.Minute {
			return 10 << 40
		}
		return usual(at)
	}
	return out
}

// past is that of some workloads, over so long.
func past(of []history, long time.Duration) []cluster.Series {
	end := pastEnds()
	var out []cluster.Series
	for _, h := range of {
		out = append(out, h.until(end, long))
	}
	return out
}

// pastEnds is a full step before now: what is measured live comes after it.
func pastEnds() time.Time { return time.Now().Add(-2 * time.Minute).Truncate(time.Minute) }

// until is the history over so long, up to a moment.
func (h history) until(end time.Time, long time.Duration) cluster.Series {
	return cluster.Series{
		Namespace: h.namespace, Pod: h.pod, Container: h.container,
		From: end.Add(-long), To: end, Step: 15 * time.Second,
		CPU:    func(time.Time) float64 { return h.cpu },
		Memory: func(time.Time) float64 { return h.memory * mebibyte },
	}
}

// shortPast is what the many workloads have that are sized by constant usage: 48 steps of 5 minutes are
// the least that anything is recommended from.
const shortPast = 5 * time.Hour
