package sim

import (
	"context"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/lookup"
	"attune.io/attune/usage"
	"attune.io/attune/usage/history"
)

const (
	// usageLate is how long the operator may take to ask once a step is over: one tick of the usage loop.
	usageLate = usageInterval + time.Minute
	// missedWithin is how long what an outage left out may be missing after it.
	missedWithin = time.Hour
	// missedReach is how far back that is looked at.
	missedReach = 20 * time.Hour
	// checkedEach is how often.
	checkedEach = 10
)

// measured is one container whose usage is wanted: which steps its source knows, and which the operator knows.
type measured struct {
	of        types.NamespacedName
	container string
	step      time.Duration
	// since it is wanted with these settings.
	since time.Time
	// told says whether the source has a value of a step by now; known are the ends of the steps that the operator has.
	told  func(time.Time) bool
	known map[int64]bool
}

// freshUsage: once the source is well again, every container has fresh data within two steps, and what was missed within
// an hour.
type freshUsage struct {
	deaf
	*scene
	wanted func() []measured
	// well: the source answers, and the operator asks. reaches: it answers as many steps as are asked of the past at least.
	well, reaches func() bool
	// since and reachesSince are how long that has been so.
	since, reachesSince time.Time
	minutes             int
	// checked counts the containers that were looked at.
	checked int
}

func newFreshUsage(s *scene, wanted func() []measured, well, reaches func() bool) *freshUsage {
	return &freshUsage{scene: s, wanted: wanted, well: well, reaches: reaches, since: s.now(), reachesSince: s.now()}
}

func (f *freshUsage) tick() {
	if !f.well() {
		f.since = f.now()
	}
	if !f.reaches() {
		f.reachesSince = f.now()
	}
	if f.minutes++; f.minutes%checkedEach != 0 {
		return
	}
	for _, m := range f.wanted() {
		f.check(m)
	}
}

func (f *freshUsage) check(m measured) {
	since, now := latest(f.since, m.since), f.now()
	due := usage.StepEnd(usage.StepOf(now.Add(-m.step-usageLate), m.step), m.step)
	if now.Sub(since) < 2*m.step+usageLate || !m.told(due) {
		return
	}
	f.checked++
	if !m.known[due.UnixMilli()] && !m.known[due.Add(m.step).UnixMilli()] {
		f.violate("fresh usage", m.of.String(), "container %s of %s: the source is well since %s, and the step that ended %s is not known", m.container, m.of, since, due)
		return
	}
	if since = latest(since, f.reachesSince); now.Sub(since) < missedWithin {
		return
	}
	for at := due; now.Sub(at) < missedReach; at = at.Add(-m.step) {
		if m.told(at) && !m.known[at.UnixMilli()] {
			f.violate("fresh usage", m.of.String(), "container %s of %s: the source is well since %s, and the step that ended %s is missing", m.container, m.of, since, at)
			return
		}
	}
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// sourceIsWell: it answers in full, if only about little at a time, and an operator whose clock is right asks it.
func (w *world) sourceIsWell() bool {
	return w.leader != nil && w.leader.ahead == 0 && !w.faults.any()
}

// leastPast is how many steps of the past are asked for at least; a source that finds so few too much is left alone for up to
// 40 minutes (package history: minChunk, mostRest).
const leastPast = 12

// sourceReaches: it answers questions about the past.
func (w *world) sourceReaches() bool {
	return !w.time.now.Before(w.faults.meagreUntil) || w.faults.mostSteps >= leastPast
}

// wantedUsage are the containers that policies have recommended for, as far as an operator is there to ask for them.
func (w *world) wantedUsage() (all []measured) {
	if w.leader == nil {
		return nil
	}
	for _, o := range w.server.Stored(&v1alpha1.AttuneRecommendation{}) {
		rec := o.(*v1alpha1.AttuneRecommendation)
		p := w.policyOf(rec)
		of := w.workloadOf(rec)
		if p == nil || p.UID != rec.Spec.Policy.UID || p.DeletionTimestamp != nil || of == nil {
			continue
		}
		settings, err := lookup.Reader{Client: w.people}.Settings(context.Background(), p)
		if err != nil {
			continue // the policy says so
		}
		for i := range rec.Spec.Containers {
			all = append(all, w.measuredOf(rec, of, rec.Spec.Containers[i].Name, settings.Source))
		}
	}
	return all
}

// workloadOf a recommendation; nil: it is gone.
func (w *world) workloadOf(rec *v1alpha1.AttuneRecommendation) client.Object {
	i := slices.IndexFunc(w.plan.Workloads, func(of workloadPlan) bool {
		return of.Namespace == rec.Namespace && of.Kind == rec.Spec.Workload.Kind && of.Name == rec.Spec.Workload.Name
	})
	if i < 0 {
		return nil
	}
	return w.peek(i)
}

func (w *world) measuredOf(rec *v1alpha1.AttuneRecommendation, workload client.Object, container string, source usage.SourceSettings) measured {
	m := measured{
		of: key2(rec.Namespace, rec.Name), container: container, step: source.QueryStep, known: map[int64]bool{},
		since: w.wantedSince(rec, workload, source),
	}
	key := history.Key{Source: source.Digest(), Namespace: rec.Namespace, Kind: rec.Spec.Workload.Kind, Workload: rec.Spec.Workload.Name, Container: container}
	for _, step := range w.leader.histories.Steps(key) {
		m.known[step.At.UnixMilli()] = true
	}
	of := w.lives.of(rec.Namespace+"/"+rec.Spec.Workload.Name, container)
	m.told = func(at time.Time) bool {
		return slices.ContainsFunc(of, func(l *life) bool { return l.measured(at) })
	}
	return m
}

// wantedSince is when the workload, or the settings of its policy, were seen first as they are now. One that was deleted
// and comes back is wanted anew: its history was let go.
func (w *world) wantedSince(rec *v1alpha1.AttuneRecommendation, workload client.Object, source usage.SourceSettings) time.Time {
	key := strings.Join([]string{w.leader.name, string(rec.UID), string(workload.GetUID()), string(rec.Spec.Policy.UID), string(source.Digest())}, " ")
	if w.wantedFrom == nil {
		w.wantedFrom = map[string]time.Time{}
	}
	if w.wantedFrom[key].IsZero() {
		w.wantedFrom[key] = w.time.now
	}
	return w.wantedFrom[key]
}
