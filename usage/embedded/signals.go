package embedded

import (
	"context"
	"fmt"
	"time"

	"attune.io/attune/usage/prometheus"
)

// Throttled is the fraction of its CFS periods in which a container was throttled over the window. As with
// everything that only cAdvisor has, a pod that nobody has asked about before is not known yet.
func (s *Source) Throttled(ctx context.Context, namespace, pod, container string, window time.Duration, at time.Time) (float64, error) {
	return s.about(ctx, Pod{namespace, pod}, prometheus.Throttled(namespace, pod, container, window), at)
}

// Waiting is the fraction of time in which a container waited for CPU (PSI).
func (s *Source) Waiting(ctx context.Context, namespace, pod, container string, window time.Duration, at time.Time) (float64, error) {
	return s.about(ctx, Pod{namespace, pod}, prometheus.Waiting(namespace, pod, container, window), at)
}

// Memory is the most that a container's cgroup held over the window, page cache included, in bytes.
func (s *Source) Memory(ctx context.Context, namespace, pod, container string, window time.Duration, at time.Time) (float64, error) {
	return s.about(ctx, Pod{namespace, pod}, prometheus.Held(namespace, pod, container, window), at)
}

// OOMKills is how many processes of a container the kernel has been seen to kill within the window: those
// before the first scrape in it are not counted, since nobody may have looked at the pod until then.
func (s *Source) OOMKills(ctx context.Context, namespace, pod, container string, window time.Duration, at time.Time) (float64, error) {
	events := fmt.Sprintf("container_oom_events_total{namespace=%q,pod=%q,container=%q}[%dms]", namespace, pod, container, window.Milliseconds())
	return s.about(ctx, Pod{namespace, pod}, fmt.Sprintf("max(max_over_time(%s) - min_over_time(%s))", events, events), at)
}

func (s *Source) about(ctx context.Context, pod Pod, expression string, at time.Time) (float64, error) {
	s.scraper.asked.about(pod, s.options.Clock.Now())
	return s.Value(ctx, expression, at)
}
