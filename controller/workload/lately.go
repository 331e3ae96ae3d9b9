package workload

import (
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"attune.io/attune/internal/policy"
	"attune.io/attune/podview"
	"attune.io/attune/recommender"
	"attune.io/attune/resize"
	"attune.io/attune/tuning"
	"attune.io/attune/usage"
)

const (
	// latelyStep is the step of the query of recent usage, latelyLasts how long its answer is reused: one query per
	// namespace and refresh.
	latelyStep, latelyLasts = 30 * time.Second, 25 * time.Second
	// latelyRate is the longest window of a CPU rate in these samples. Longer rates would show the time before the
	// window.
	latelyRate = 2 * time.Minute
	// latelySteps is the number of steps in an answer, with that which ends at the start of the window.
	latelySteps = int64(resize.LatelyWindow/latelyStep) + 1
)

// latelyOf identifies an answer about the recent usage of a namespace.
type latelyOf struct {
	namespace string
	source    usage.Digest
}

// recentUsage is the recent usage of the containers of a namespace, by pod and container.
type recentUsage map[string]map[string]*recentSamples

// recentSamples are the recent samples of the containers of one name, in pods of one name.
type recentSamples struct {
	// started and restarts are those of usage.Series.
	started  int64
	restarts int
	// first is the number of the first step, of the highest value of each step, in millicores or bytes; -1: not known.
	first int64
	of    [2][latelySteps]float32
}

// queryLately adds the recent usage of the given pods, so that a raise that is due need not wait. The usage is queried
// once for all pods of the namespace. If the source does not answer, no raise is due; one that needs more than askFor is
// not asked again for silentFor.
func (c looker) queryLately(ctx context.Context, w *tuning.View, pods []types.UID) {
	if len(pods) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, askFor)
	defer cancel()
	settings := &w.Policy.Settings
	key := latelyOf{w.Rec.Namespace, settings.Source.Digest()}
	var of recentUsage
	var throttled usage.ByContainer
	if _, silent := c.answers.lately.silent.read(key, silentFor, w.Now); !silent {
		if of = c.readLately(ctx, w, key); of != nil { // without samples, no raise is due
			throttled = c.throttledLately(ctx, w, pods)
		}
		if ctx.Err() != nil { // otherwise each waiting workload of the namespace occupies a worker for askFor
			c.answers.lately.silent.record(key, struct{}{}, silentFor, w.Now)
		}
	}
	for _, uid := range pods {
		found := map[string]resize.Lately{}
		if pod := w.Pod(uid); pod != nil && len(of[pod.Name]) > 0 {
			statuses := podview.Statuses(pod)
			for container, samples := range of[pod.Name] {
				lately := samples.since(pod, statuses[container], startupOf(settings, container), latelyRateOf(settings))
				if started := samples.startOf(pod, statuses[container]); !started.After(w.Now.Add(-resize.LatelyWindow)) {
					lately.Throttled = throttled[pod.Name][container] // otherwise a part of the window belongs to another container
				}
				found[container] = lately
			}
		}
		podview.SetIn(&w.Usage.Lately, uid, found)
	}
}

// startOf returns since when the samples are those of the container: its start by the pod (status may be nil) and by
// the source, or the creation of the pod if it restarts often. A source knows pods by their names, and a pod of a
// StatefulSet has the name of its predecessor.
func (s *recentSamples) startOf(pod *corev1.Pod, status *corev1.ContainerStatus) time.Time {
	started := pod.CreationTimestamp.Time
	if usage.RestartsOften(s.restarts) {
		return started
	}
	if s.started > 0 && time.UnixMilli(s.started).After(started) {
		started = time.UnixMilli(s.started)
	}
	if status != nil && status.State.Running != nil && status.State.Running.StartedAt.After(started) {
		started = status.State.Running.StartedAt.Time
	}
	return started
}

// since returns the usage of the running container. Samples of its predecessors do not count, nor CPU of its start.
func (s *recentSamples) since(pod *corev1.Pod, status *corev1.ContainerStatus, startup, rateWindow time.Duration) (lately resize.Lately) {
	run := usage.Series{Started: s.startOf(pod, status).UnixMilli()}
	if usage.RestartsOften(s.restarts) {
		startup = 0
	}
	for r, starts := range [...]time.Duration{recommender.CPU: startup + rateWindow, recommender.Memory: latelyStep} {
		_, own, _ := run.AroundStart(s.samples(recommender.Resource(r)), starts, 0)
		values := podview.Map(own, func(s usage.Sample) recommender.Usage { return recommender.Usage(s.Value) })
		slices.Sort(values)
		lately.P95[r], lately.Samples[r] = recommender.Quantile(values, 0.95), len(values)
	}
	return lately
}

// samples returns the known samples of a resource, oldest first.
func (s *recentSamples) samples(r recommender.Resource) (known []usage.Sample) {
	for i, value := range s.of[r] {
		if value >= 0 {
			known = append(known, usage.Sample{At: usage.StepEnd(s.first+int64(i), latelyStep).UnixMilli(), Value: float64(value)})
		}
	}
	return known
}

// readLately returns the recent usage of the workload's namespace; nil: the source did not answer.
func (c looker) readLately(ctx context.Context, w *tuning.View, key latelyOf) recentUsage {
	if c.recently == nil {
		return nil
	}
	if known, fresh := c.answers.lately.answered.read(key, latelyLasts, w.Now); fresh {
		return known
	}
	found, err := c.askLately(ctx, &w.Policy.Settings, key, w.Now)
	if err != nil {
		log.FromContext(ctx).V(1).Info("Cannot read the recent usage of pods; raises wait for the cooldown", "cause", err.Error())
	}
	c.answers.lately.answered.record(key, found, latelyLasts, w.Now) // failures too, or each pass would query again
	return found
}

// askLately queries the source. An incomplete answer counts as none.
func (c looker) askLately(ctx context.Context, settings *policy.Settings, of latelyOf, now time.Time) (recentUsage, error) {
	source, err := c.recently(*settings)
	if err != nil {
		return nil, err
	}
	last := usage.StepEnd(usage.StepOf(now, latelyStep), latelyStep)
	query := usage.Query{
		Namespaces: []string{of.namespace}, Start: last.Add(-resize.LatelyWindow), End: last, Step: latelyStep,
		RateWindow: latelyRateOf(settings),
	}
	first, found := usage.StepOf(query.Start, latelyStep), recentUsage{}
	_, err = source.Read(ctx, query, func(s usage.Series) {
		pod := found[s.Pod]
		samples := pod[s.Container]
		if samples == nil {
			samples = newRecentSamples(first)
			podview.SetIn(&pod, s.Container, samples)
			found[s.Pod] = pod
		}
		samples.started, samples.restarts = max(samples.started, s.Started), max(samples.restarts, s.Restarts)
		samples.keep(recommender.CPU, 1000, s.CPU)
		samples.keep(recommender.Memory, 1, s.Memory)
	})
	if err != nil {
		return nil, err
	}
	return found, nil
}

func newRecentSamples(first int64) *recentSamples {
	s := &recentSamples{first: first}
	for r := range s.of {
		for i := range s.of[r] {
			s.of[r][i] = -1
		}
	}
	return s
}

// keep adds the samples of the window, times a factor. A step counts once, with its highest value, however often a
// source repeats it.
func (s *recentSamples) keep(r recommender.Resource, factor float64, samples []usage.Sample) {
	for _, sample := range samples {
		if i := usage.StepHolding(sample.Time(), latelyStep) - s.first; i >= 0 && i < latelySteps {
			s.of[r][i] = max(s.of[r][i], float32(sample.Value*factor))
		}
	}
}

// latelyRateOf returns the window of a CPU rate in these samples.
func latelyRateOf(settings *policy.Settings) time.Duration {
	return min(settings.Source.RateWindow, latelyRate)
}

// startupOf returns how long the CPU usage of a container that starts does not count.
func startupOf(settings *policy.Settings, container string) time.Duration {
	if boost := settings.BoostOf(container); boost != nil {
		return usage.Startup(boost.Duration)
	}
	return usage.Startup(0)
}

// throttledLately returns the fraction of throttled periods of the pods' containers with a CPU limit.
func (c looker) throttledLately(ctx context.Context, w *tuning.View, pods []types.UID) usage.ByContainer {
	if c.gauges == nil {
		return nil
	}
	limited := func(c *corev1.Container) bool { return !c.Resources.Limits.Cpu().IsZero() }
	var names []string
	for _, uid := range pods {
		if pod := w.Pod(uid); pod != nil && slices.ContainsFunc(podview.Resizable(pod), limited) {
			names = append(names, pod.Name)
		}
	}
	if len(names) == 0 {
		return nil
	}
	gauge, err := c.gauges(w.Policy.Settings)
	if err != nil {
		return nil
	}
	throttled, err := gauge.Throttled(ctx, w.Rec.Namespace, names, resize.LatelyWindow, w.Now)
	if err != nil {
		return nil
	}
	return throttled
}
