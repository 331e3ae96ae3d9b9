package workload

import (
	"context"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"attune.io/attune/recommender"
	"attune.io/attune/resize/climb"
	"attune.io/attune/tuning"
	"attune.io/attune/usage"
)

// Climbs tells what the containers of some pods of a namespace have held lately.
type Climbs interface {
	// Lately returns the newest samples of memory. What was not measured is missing.
	Lately(ctx context.Context, namespace string, pods []string, at time.Time) (usage.Traces, error)
}

const (
	// climbsFor bounds how long a pass waits for these samples: what they are for is over soon.
	climbsFor = 3 * time.Second
	// climbsLast is how long an answer is used again. A source has nothing newer before its next scrape.
	climbsLast = 4 * time.Second
)

// observeClimbs adds what the containers with a memory limit have held lately, where the policy raises them before an OOM
// kill. A source that does not answer leaves it out: nothing is raised then, and the kill is answered as ever.
func (c observer) observeClimbs(ctx context.Context, w *tuning.View) {
	pods := w.Climbable()
	if c.Climbs == nil || len(pods) == 0 {
		return
	}
	key := client.ObjectKeyFromObject(w.Rec)
	traces, known := c.traced.read(key, climbsLast, w.Now)
	if !known {
		source, err := c.Climbs(w.Policy.Settings)
		if err != nil {
			return
		}
		names := make([]string, 0, len(pods))
		for _, pod := range pods {
			names = append(names, pod.Name)
		}
		bounded, cancel := context.WithTimeout(ctx, climbsFor)
		defer cancel()
		if traces, err = source.Lately(bounded, w.Rec.Namespace, names, w.Now); err != nil {
			log.FromContext(ctx).V(1).Info("The usage source does not tell what pods hold; none is raised before an OOM kill", "cause", err.Error())
		}
		c.traced.note(key, traces, climbsLast, w.Now)
	}
	for _, pod := range pods {
		for container, trace := range traces[pod.Name] {
			w.SetClimb(pod.UID, container, tuning.Climb{Samples: samplesOf(trace.Samples), Stalled: trace.Stalled})
		}
	}
}

// samplesOf are samples as package climb reads them.
func samplesOf(of []usage.Sample) []climb.Sample {
	out := make([]climb.Sample, 0, len(of))
	for _, s := range of {
		out = append(out, climb.Sample{At: s.Time(), Bytes: recommender.Amount(s.Value)})
	}
	return out
}

// Near reports whether a container that holds samples beneath a memory limit, in bytes, is on its way there, so that it is
// to be looked at often.
func Near(limit float64, of []usage.Sample, now time.Time) bool {
	return climb.Look(climb.Container{Has: recommender.Allocation{Limit: recommender.Amount(limit)}, Samples: samplesOf(of)}, now).Near
}
