package workload

import (
	"context"
	"maps"
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
)

// latelyOf identifies an answer about the recent usage of a namespace.
type latelyOf struct {
	namespace string
	source    usage.Digest
	startup   time.Duration
}

// recentUsage is the recent usage of the containers of a namespace, by pod and container.
type recentUsage map[string]map[string]resize.Lately

// queryLately adds the recent usage of the given pods, so that a raise that is due need not wait. The usage is queried
// once for all pods of the namespace. If the source does not answer, no raise is due; one that needs more than askFor is
// not asked again for silentFor.
func (c looker) queryLately(ctx context.Context, w *tuning.View, pods []types.UID) {
	if len(pods) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, askFor)
	defer cancel()
	settings := w.Policy.Settings
	key := latelyOf{w.Rec.Namespace, settings.Source.Digest(), startupOf(settings)}
	var of recentUsage
	var throttled usage.ByContainer
	if _, silent := c.answers.lately.silent.read(key, silentFor, w.Now); !silent {
		if of = c.readLately(ctx, w, key); of != nil { // without samples, no raise is due
			throttled = c.throttledLately(ctx, w, pods)
		}
		if ctx.Err() != nil { // else the waiting workloads of the namespace would occupy the workers
			c.answers.lately.silent.record(key, struct{}{}, silentFor, w.Now)
		}
	}
	for _, uid := range pods {
		found := map[string]resize.Lately{}
		if pod := w.Pod(uid); pod != nil {
			maps.Copy(found, of[pod.Name])
			for container, fraction := range throttled[pod.Name] {
				lately := found[container]
				lately.Throttled = fraction
				found[container] = lately
			}
		}
		podview.SetIn(&w.Usage.Lately, uid, found)
	}
}

// readLately returns the recent usage of the workload's namespace; nil: the source did not answer.
func (c looker) readLately(ctx context.Context, w *tuning.View, key latelyOf) recentUsage {
	if c.recently == nil {
		return nil
	}
	if known, fresh := c.answers.lately.answered.read(key, latelyLasts, w.Now); fresh {
		return known
	}
	found, err := c.askLately(ctx, w.Policy.Settings, key, w.Now)
	if err != nil {
		log.FromContext(ctx).V(1).Info("Cannot read the recent usage of pods; raises wait for the cooldown", "cause", err.Error())
	}
	c.answers.lately.answered.record(key, found, latelyLasts, w.Now) // failures too, or each pass would query again
	return found
}

// askLately queries the source. An incomplete answer counts as none.
func (c looker) askLately(ctx context.Context, settings policy.Settings, of latelyOf, now time.Time) (recentUsage, error) {
	source, err := c.recently(settings)
	if err != nil {
		return nil, err
	}
	last := usage.StepEnd(usage.StepOf(now, latelyStep), latelyStep)
	query := usage.Query{
		Namespaces: []string{of.namespace}, Start: last.Add(-resize.LatelyWindow), End: last, Step: latelyStep,
		RateWindow: min(settings.Source.RateWindow, latelyRate),
	}
	samples := map[string]map[string]*[2]map[int64]recommender.Usage{}
	_, err = source.Read(ctx, query, func(s usage.Series) {
		before, after, _ := s.AroundStart(s.CPU, of.startup, query.RateWindow)
		pod := samples[s.Pod]
		if pod[s.Container] == nil {
			podview.SetIn(&pod, s.Container, &[2]map[int64]recommender.Usage{{}, {}})
			samples[s.Pod] = pod
		}
		kept := pod[s.Container]
		keep(kept[recommender.CPU], query, 1000, before, after)
		keep(kept[recommender.Memory], query, 1, s.Memory)
	})
	if err != nil {
		return nil, err
	}
	out := recentUsage{}
	for pod, containers := range samples {
		of := map[string]resize.Lately{}
		for container, kept := range containers {
			var lately resize.Lately
			for _, r := range recommender.Resources {
				values := slices.Sorted(maps.Values(kept[r]))
				lately.P95[r], lately.Samples[r] = recommender.Quantile(values, 0.95), len(values)
			}
			of[container] = lately
		}
		out[pod] = of
	}
	return out, nil
}

// keep adds the samples within the query, times a factor. A step counts once, with its highest value, however often a
// source repeats it.
func keep(kept map[int64]recommender.Usage, query usage.Query, factor recommender.Usage, parts ...[]usage.Sample) {
	for _, sample := range slices.Concat(parts...) {
		if at := sample.Time(); !at.Before(query.Start) && !at.After(query.End) {
			step := usage.StepHolding(at, query.Step)
			kept[step] = max(kept[step], recommender.Usage(sample.Value)*factor)
		}
	}
}

// startupOf returns how long the CPU usage of a container that starts does not count.
func startupOf(settings policy.Settings) time.Duration {
	if settings.StartupBoost == nil {
		return usage.Startup(0)
	}
	return usage.Startup(settings.StartupBoost.Duration)
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
