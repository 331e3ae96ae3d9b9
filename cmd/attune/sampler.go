package main

import (
	"context"
	"time"

	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/event/told"
	"attune.io/attune/internal/loop"
	"attune.io/attune/internal/owners"
	"attune.io/attune/internal/trail"
	"attune.io/attune/internal/workload"
	"attune.io/attune/podview"
	"attune.io/attune/recommender"
)

const (
	// trailBytes bounds the trails: those of some 8,000 containers that changed ten times, or of 2,500 that change all the time.
	// They take a sixteenth of the memory limit at most.
	trailBytes = 16 << 20
	// toldBytes bounds the events: the last 10 of some 1,000 workloads. They take a sixty-fourth of the memory limit at most.
	toldBytes = 4 << 20
	// sampledEach is how long a change may last until its trail has it. A part of a chart of a week is 42 minutes.
	sampledEach = 5 * time.Minute
)

// kept is what the leader keeps in memory for the pages: nothing else reads it. Its zero value keeps nothing.
type kept struct {
	trails *trail.Store
	told   *told.Store
}

// newKept makes what is kept; the zero value where the program shows no pages.
func newKept(o *Options) kept {
	if !o.program.controls || o.loops.decisionsAddress == "" {
		return kept{}
	}
	return kept{trails: trail.New(partOfLimit(16, trailBytes)), told: told.New(partOfLimit(64, toldBytes), clock.RealClock{})}
}

// sampler notes what containers have and are to have, from the caches.
type sampler struct {
	pages pages
	clock clock.WithTicker
}

// Start implements manager.Runnable.
func (s *sampler) Start(ctx context.Context) error {
	for now := range loop.Every(ctx, s.clock, sampledEach) {
		if err := s.round(ctx, now); err != nil && ctx.Err() == nil {
			log.FromContext(ctx).Error(err, "What containers have is not noted for the web page; trying again at the next tick")
		}
	}
	return nil
}

// NeedLeaderElection is true: the leader shows the pages.
func (*sampler) NeedLeaderElection() bool { return true }

// round looks at every workload once. What it does not see is forgotten.
func (s *sampler) round(ctx context.Context, now time.Time) error {
	all, err := s.pages.All(ctx, "")
	if err != nil {
		return err
	}
	for i := range all.Recommendations {
		if err := s.note(ctx, &all.Recommendations[i], now); err != nil {
			return err
		}
	}
	s.pages.kept.trails.ForgetBefore(now)
	return nil
}

// note notes the containers of one workload: of its running pods the highest request and limit, and every OOM kill that a pod shows.
func (s *sampler) note(ctx context.Context, rec *v1alpha1.AttuneRecommendation, now time.Time) error {
	pods, err := owners.Pods(ctx, s.pages.client, workload.IdentityOf(rec))
	if err != nil {
		return err
	}
	has, kills := map[string]recommender.Size{}, map[string][]time.Time{}
	for _, pod := range pods {
		for _, c := range podview.Read(pod) {
			has[c.Name] = higher(has[c.Name], c.Size)
		}
		for _, kill := range podview.OOMKills(pod) {
			kills[kill.Container] = append(kills[kill.Container], kill.At)
		}
	}
	for _, c := range rec.Spec.Containers {
		var values [2]trail.Values
		target := podview.FromResources(c.Target)
		for _, r := range recommender.Resources {
			values[r] = trail.Values{Request: has[c.Name][r].Request, Limit: has[c.Name][r].Limit, Target: target[r].Request}
		}
		s.pages.kept.trails.Note(trailOf(rec, c.Name), now, values, kills[c.Name])
	}
	return nil
}

// higher has the higher one of each amount.
func higher(a, b recommender.Size) recommender.Size {
	for _, r := range recommender.Resources {
		a[r].Request, a[r].Limit = max(a[r].Request, b[r].Request), max(a[r].Limit, b[r].Limit)
	}
	return a
}
