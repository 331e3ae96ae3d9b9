package connect

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/recommender"
	"attune.io/attune/recommender/replicas"
	"attune.io/attune/usage"
	"attune.io/attune/usage/codec"
)

// perPart is how much of the history of single pods is in memory at a time.
const perPart = 6 * time.Hour

// units of moments: millicores and bytes.
var units = [2]float64{recommender.CPU: 1000, recommender.Memory: 1}

// Moments queries a source for the pods of a workload as an HPA sees them: at each step, the number of pods and their
// mean usage of a resource, in one container or, with an empty name, in all. A pod counts at a step if each of its
// containers has a plausible value (most).
func Moments(ctx context.Context, q Question, container string, r recommender.Resource, most usage.Most) ([]replicas.Moment, usage.Report, error) {
	var all []replicas.Moment
	var report usage.Report
	for _, part := range q.query().Split(max(1, int64(perPart/q.Step))) {
		pods := podSteps{first: usage.StepOf(part.Start, q.Step), steps: part.Steps(), step: q.Step, of: map[string]map[string][]float64{}}
		found, err := q.read(ctx, part, func(s usage.Series) {
			if (container == "" || s.Container == container) && q.owns(s.Pod) {
				pods.add(s.Pod, s.Container, [2][]usage.Sample{recommender.CPU: s.CPU, recommender.Memory: s.Memory}[r])
			}
		})
		if err != nil {
			return nil, report, err
		}
		report.Add(found)
		all = append(all, pods.moments(units[r], most.Of(r == recommender.Memory))...)
	}
	return all, report, nil
}

// podSteps has the values of pods in some steps, by pod and container.
type podSteps struct {
	first, steps int64
	step         time.Duration
	of           map[string]map[string][]float64
}

func (p *podSteps) add(pod, container string, samples []usage.Sample) {
	for _, s := range samples {
		n := usage.StepOf(s.Time(), p.step) - p.first
		if n < 0 || n >= p.steps {
			continue
		}
		if p.of[pod] == nil {
			p.of[pod] = map[string][]float64{}
		}
		if p.of[pod][container] == nil {
			p.of[pod][container] = gaps(p.steps)
		}
		values := p.of[pod][container]
		values[n] = recommender.Highest(values[n], s.Value)
	}
}

// moments returns the steps with pods. Pods and containers are added up in a fixed order, so that equal data has equal sums.
func (p *podSteps) moments(unit, most float64) (all []replicas.Moment) {
	sums, ready := make([]float64, p.steps), make([]int32, p.steps)
	for _, pod := range slices.Sorted(maps.Keys(p.of)) {
		containers := p.of[pod]
		names := slices.Sorted(maps.Keys(containers))
		for i := range p.steps {
			sum := 0.0
			for _, name := range names {
				if sum += containers[name][i]; containers[name][i] > most {
					sum = math.NaN()
				}
			}
			if !math.IsNaN(sum) {
				ready[i]++
				sums[i] += sum * unit
			}
		}
	}
	for i, n := range ready {
		if n > 0 {
			f := replicas.Fleet{Current: n, Ready: n, Usage: sums[i] / float64(n)}
			all = append(all, replicas.Moment{At: usage.StepEnd(p.first+int64(i), p.step), Fleet: f})
		}
	}
	return all
}

// StoredMoments returns the moments that a recommendation has for the proofs of attune: of each number of pods, those of
// the least and of the greatest mean usage.
func StoredMoments(rec *v1alpha1.AttuneRecommendation, container string, r recommender.Resource, span Span) ([]replicas.Moment, error) {
	i := slices.IndexFunc(rec.Spec.Checkpoints, func(c v1alpha1.Checkpoint) bool { return len(c.Replicas) > 0 })
	if i < 0 {
		return nil, nil
	}
	past, err := codec.UnpackFleet(rec.Spec.Checkpoints[i].Replicas)
	if err != nil {
		return nil, fmt.Errorf("the history of the replicas cannot be used: %w", err)
	}
	means := past.Of(container)
	if means == nil {
		return nil, nil
	}
	var spans []replicas.Span
	means.Each(r == recommender.Memory, time.Unix(60*past.At, 0), func(m codec.Mean) {
		spans = append(spans, replicas.Span{Ready: int32(m.Ready), Unready: int32(m.Unready),
			Least: m.Least * units[r], Greatest: m.Greatest * units[r], LeastAt: 60 * m.LeastAt, GreatestAt: 60 * m.GreatestAt})
	})
	var within []replicas.Moment
	for _, m := range replicas.Moments(spans) {
		if m.At.After(span.From) && !m.At.After(span.To) {
			within = append(within, m)
		}
	}
	return within, nil
}
