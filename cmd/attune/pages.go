package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/answers"
	"attune.io/attune/internal/event"
	"attune.io/attune/internal/lookup"
	"attune.io/attune/internal/loop"
	"attune.io/attune/internal/policy"
	"attune.io/attune/internal/workload"
	"attune.io/attune/podview"
	"attune.io/attune/recommender"
	"attune.io/attune/resize/harm"
	"attune.io/attune/ui"
	"attune.io/attune/usage/history"
)

// stepsWithin limits the time to read the steps of a recommendation from the API server. Without the steps, the page
// is still sent within questionTimeout.
const stepsWithin = 3 * time.Second

// pages implements ui.Caches. It reads from the operator's caches, and the steps of one workload from the API server.
type pages struct {
	// client reads from the caches of the manager.
	client client.Reader
	// live reads from the API server, because the caches drop the steps (package trim).
	live     client.Reader
	settings lookup.Reader
	history  *history.Store
	// kept has the records of this process.
	kept kept
	// decided returns the node loop's last decision about a node; nil if the loop does not run.
	decided func(node string) (answers.NodeAnswer, bool)
	clock   clock.PassiveClock
	// sized are the kinds of workloads in the caches.
	sized workload.Sized
}

// All implements ui.Caches. The caches own the returned objects, so callers must not change them.
func (p pages) All(ctx context.Context, namespace string) (ui.Cluster, error) {
	policies, recs := &v1alpha1.AttunePolicyList{}, &v1alpha1.AttuneRecommendationList{}
	for _, list := range []client.ObjectList{policies, recs} {
		if err := p.client.List(ctx, list, client.InNamespace(namespace), client.UnsafeDisableDeepCopy); err != nil {
			return ui.Cluster{}, fmt.Errorf("listing for a page: %w", err)
		}
	}
	wide, err := lookup.PoliciesInScope(ctx, p.settings, namespace, nil, recs.Items)
	if err != nil {
		return ui.Cluster{}, fmt.Errorf("listing for a page: %w", err)
	}
	return ui.Cluster{Policies: slices.Concat(policies.Items, wide), Recommendations: recs.Items, At: p.now()}, nil
}

func (p pages) now() time.Time { return p.clock.Now() }

// Explain implements ui.Caches. It uses the same functions as kubectl attune explain, which reads from the API
// server.
func (p pages) Explain(ctx context.Context, rec *v1alpha1.AttuneRecommendation, steps bool) ui.Explained {
	var notes []string
	settings, err := p.settingsOf(ctx, rec)
	if err != nil {
		notes = append(notes, fmt.Sprintf("The next step of policy %s is not known: %v.", policy.NameOf(rec.Spec.Policy), err))
	}
	if steps {
		if rec, err = p.whole(ctx, rec); err != nil {
			notes = append(notes, "The API server did not return the steps up to bounds: kubectl attune explain shows them.")
		}
	}
	view, err := p.view(ctx, rec, settings)
	if err != nil {
		return ui.Explained{Problem: "The pods of the workload could not be read from the cache."}
	}
	answer, err := answers.Explain(view, nil, p.now())
	if err != nil {
		return ui.Explained{Problem: err.Error()}
	}
	return ui.Explained{Explanation: answer, Note: strings.Join(notes, " ")}
}

// whole reads a recommendation with its steps. On an error it returns the cached one too.
func (p pages) whole(ctx context.Context, cached *v1alpha1.AttuneRecommendation) (*v1alpha1.AttuneRecommendation, error) {
	ctx, cancel := context.WithTimeout(ctx, stepsWithin)
	defer cancel()
	rec := &v1alpha1.AttuneRecommendation{}
	if err := p.live.Get(ctx, client.ObjectKeyFromObject(cached), rec); err != nil {
		return cached, err
	}
	return rec, nil
}

// view returns the input for explaining a workload and for its savings. It returns an error if the pods cannot be
// read; the view then has no pods. A workload that cannot be read is the zero value.
func (p pages) view(ctx context.Context, rec *v1alpha1.AttuneRecommendation, settings *policy.Settings) (answers.View, error) {
	id := workload.IdentityOf(rec)
	view := answers.View{Recommendation: rec, Settings: settings}
	if settings != nil {
		view.NotSized = p.settings.NotSized(ctx, rec.Namespace, settings)
	}
	if view.HasLimitRule() {
		view.LimitRanges, view.Quotas, _ = lookup.Constraints(ctx, p.client, rec.Namespace, client.UnsafeDisableDeepCopy)
	}
	view.Workload, _, _ = lookup.Workload(ctx, p.client, p.sized, id, client.UnsafeDisableDeepCopy)
	pods, err := lookup.Pods(ctx, p.client, id)
	view.Pods = slices.DeleteFunc(pods, func(pod *corev1.Pod) bool { return !podview.Running(pod) })
	return view, err
}

// settingsOf returns the settings of a recommendation's policy; nil with an error.
func (p pages) settingsOf(ctx context.Context, rec *v1alpha1.AttuneRecommendation) (*policy.Settings, error) {
	of, err := p.settings.Of(ctx, rec)
	if apierrors.IsNotFound(err) {
		return nil, errors.New("it does not exist")
	}
	if err != nil {
		return nil, err
	}
	settings, err := p.settings.Settings(ctx, of)
	if err != nil {
		return nil, err
	}
	return &settings, nil
}

// Usage implements ui.Caches. The history is locked for one container at a time, while its values are copied.
func (p pages) Usage(ctx context.Context, rec *v1alpha1.AttuneRecommendation) map[string][]recommender.StepUsage {
	settings, err := p.settingsOf(ctx, rec)
	if err != nil {
		return nil
	}
	out := map[string][]recommender.StepUsage{}
	key := history.Key{Source: settings.Source.Digest(), Namespace: rec.Namespace, Kind: rec.Spec.Workload.Kind, Workload: rec.Spec.Workload.Name}
	for _, c := range rec.Spec.Containers {
		key.Container = c.Name
		out[c.Name] = p.history.Steps(key)
	}
	return out
}

// Beside implements ui.Caches.
func (p pages) Beside(ctx context.Context, rec *v1alpha1.AttuneRecommendation) ui.Beside {
	saved := p.Savings(ctx)(rec)
	out := ui.Beside{Trails: map[string]event.Trail{}, Saved: &saved, Events: p.kept.told.Of(rec)}
	for _, c := range rec.Spec.Containers {
		out.Trails[c.Name] = p.kept.trails.Of(trailOf(rec, c.Name))
	}
	if of, err := p.settings.Of(ctx, rec); err == nil {
		out.Settings, _ = p.settings.Fields(ctx, of) // on an error the page omits the table of settings
	}
	return out
}

// trailOf is the key of a container's trail.
func trailOf(rec *v1alpha1.AttuneRecommendation, container string) event.TrailKey {
	return event.TrailKey{Namespace: rec.Namespace, Kind: rec.Spec.Workload.Kind, Workload: rec.Spec.Workload.Name, Container: container}
}

// Savings implements ui.Caches. It uses the same functions as kubectl attune savings, which reads from the API
// server. The workloads arrive sorted by namespace, so it caches the settings of one namespace's policies.
func (p pages) Savings(ctx context.Context) func(*v1alpha1.AttuneRecommendation) answers.SavingsEntry {
	known, namespace := map[string]*policy.Settings{}, ""
	settings := func(rec *v1alpha1.AttuneRecommendation) *policy.Settings {
		if namespace != rec.Namespace {
			// The settings of thousands of namespaces would take most of the leader's memory.
			clear(known)
			namespace = rec.Namespace
		}
		key := policy.NameOf(rec.Spec.Policy)
		if of, ok := known[key]; ok {
			return of
		}
		of, _ := p.settingsOf(ctx, rec) // on an error the savings are not counted
		known[key] = of
		return of
	}
	return func(rec *v1alpha1.AttuneRecommendation) answers.SavingsEntry {
		view, _ := p.view(ctx, rec, settings(rec)) // without pods the savings come from the template
		return answers.SavingsEntry{View: view, Figures: view.Compute()}
	}
}

// Nodes implements ui.Caches.
func (p pages) Nodes(ctx context.Context) (ui.Nodes, error) {
	out := ui.Nodes{At: p.now()}
	if p.decided == nil {
		out.Problem = "The operator watches only some namespaces: it does not see all pods of a node."
		return out, nil
	}
	all := &corev1.NodeList{}
	if err := p.client.List(ctx, all, client.UnsafeDisableDeepCopy); err != nil {
		return out, fmt.Errorf("listing the nodes for a page: %w", err)
	}
	for i := range all.Items {
		out.Names = append(out.Names, all.Items[i].Name)
	}
	slices.Sort(out.Names)
	return out, nil
}

// Node implements ui.Caches. Like kubectl attune node, it returns the last decision of the node loop. If no pods
// share the node, it derives the answer from the cached objects.
func (p pages) Node(ctx context.Context, name string) (answers.NodeAnswer, bool, error) {
	if p.decided == nil {
		return answers.NodeAnswer{}, false, nil
	}
	node := &corev1.Node{}
	if err := p.client.Get(ctx, client.ObjectKey{Name: name}, node, client.UnsafeDisableDeepCopy); err != nil {
		return answers.NodeAnswer{}, false, client.IgnoreNotFound(err)
	}
	if last, known := p.decided(name); known && len(last.Pods) > 0 {
		return last, true, nil
	}
	pods, err := lookup.PodsOnNode(ctx, p.client, name)
	if err != nil {
		return answers.NodeAnswer{}, false, fmt.Errorf("listing the pods of node %s for a page: %w", name, err)
	}
	var failed error
	answer := answers.StoredNode(node, pods, func(pod *corev1.Pod) *v1alpha1.AttuneRecommendation {
		rec, err := lookup.Recommendation(ctx, p.client, pod)
		if err != nil {
			failed = err
		}
		return rec
	})
	return answer, failed == nil, failed
}

const (
	// trailBytes limits the memory of trails, and a sixteenth of the memory limit does too. It is enough for some
	// 8,000 containers that changed ten times, or 2,500 that change all the time.
	trailBytes = 16 << 20
	// toldBytes limits the memory of events, and a sixty-fourth of the memory limit does too. It is enough for the
	// last 10 events of some 1,000 workloads.
	toldBytes = 4 << 20
	// sampledEach is the interval of the sampler. In the chart of a week, one point covers 42 minutes.
	sampledEach = 5 * time.Minute
)

// kept has the leader's in-memory records for the pages; nothing uses them otherwise. The zero value records nothing.
type kept struct {
	trails *event.TrailStore
	told   *event.SentStore
}

// newKept returns the stores; the zero value if the program serves no pages.
func newKept(o *Options) kept {
	if !o.program.controls || o.loops.decisionsAddress == "" {
		return kept{}
	}
	return kept{trails: event.NewTrailStore(partOfLimit(16, trailBytes)), told: event.NewSentStore(partOfLimit(64, toldBytes), clock.RealClock{})}
}

// sampler records the requests, limits and targets of containers from the caches. It runs on the leader, which
// serves the pages.
type sampler struct {
	pages pages
	clock clock.WithTicker
}

// Start implements manager.Runnable.
func (s *sampler) Start(ctx context.Context) error {
	for now := range loop.Every(ctx, s.clock, sampledEach) {
		if err := s.round(ctx, now); err != nil && ctx.Err() == nil {
			log.FromContext(ctx).Error(err, "Cannot record the resources of containers for the web page; retrying at the next interval")
		}
	}
	return nil
}

// round processes every workload once, and forgets workloads that no longer exist.
func (s *sampler) round(ctx context.Context, now time.Time) error {
	all, err := s.pages.All(ctx, "")
	if err != nil {
		return err
	}
	for i := range all.Recommendations {
		if err := s.recordResources(ctx, &all.Recommendations[i], now); err != nil {
			return err
		}
	}
	s.pages.kept.trails.ForgetBefore(now)
	return nil
}

// recordResources records the containers of one workload: the highest request and limit of its pods, and every OOM kill
// in their status, without those that status.floors has as kills of the node.
func (s *sampler) recordResources(ctx context.Context, rec *v1alpha1.AttuneRecommendation, now time.Time) error {
	pods, err := lookup.Pods(ctx, s.pages.client, workload.IdentityOf(rec))
	if err != nil {
		return err
	}
	has, kills := map[string]recommender.Size{}, map[string][]time.Time{}
	for _, pod := range pods {
		for _, c := range podview.Read(pod) {
			has[c.Name] = podview.Combine(has[c.Name], c.Size, func(a, b recommender.Amount) recommender.Amount { return max(a, b) })
		}
		read, _, _, _ := harm.ReadEnds(pod, rec.Status.Floors, harm.Ends{}, now)
		for _, kill := range podview.OOMKills(read) {
			kills[kill.Container] = append(kills[kill.Container], kill.At)
		}
	}
	for _, c := range rec.Spec.Containers {
		var values [2]event.TrailValues
		target := podview.FromResources(c.Target)
		for _, r := range recommender.Resources {
			values[r] = event.TrailValues{Request: has[c.Name][r].Request, Limit: has[c.Name][r].Limit, Target: target[r].Request}
		}
		s.pages.kept.trails.Note(trailOf(rec, c.Name), now, values, kills[c.Name])
	}
	return nil
}
