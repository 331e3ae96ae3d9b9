package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/decision"
	"attune.io/attune/internal/explain"
	"attune.io/attune/internal/inscope"
	"attune.io/attune/internal/owners"
	"attune.io/attune/internal/policy"
	settingslookup "attune.io/attune/internal/policy/lookup"
	"attune.io/attune/internal/traces"
	"attune.io/attune/internal/workload"
	"attune.io/attune/recommender"
	"attune.io/attune/ui"
	"attune.io/attune/usage/history"
)

// tracesBytes bounds what the steps of explanations take in memory, for the pages: those of some 16,000 workloads.
const tracesBytes = 8 << 20

// newTraces makes the store of the steps; nil where the program shows no pages.
func newTraces(o *Options) *traces.Store {
	if !o.program.controls || o.loops.decisionsAddress == "" {
		return nil
	}
	return traces.New(tracesBytes)
}

// pages reads what the web page shows from the operator's caches alone. It implements ui.Caches.
type pages struct {
	// client reads from the caches of the manager.
	client   client.Reader
	settings settingslookup.Reader
	history  *history.Store
	// traces holds the steps, which the caches do not.
	traces *traces.Store
	// kept is what this process has seen.
	kept kept
	// decided returns the node loop's last decision about a node; nil: the loop does not run.
	decided func(node string) (decision.Node, bool)
	clock   clock.PassiveClock
	// sized are the kinds of workloads in the caches.
	sized workload.Sized
}

// newPages makes the pages of the leader.
func newPages(mgr ctrl.Manager, c Config, of shared, histories *history.Store) pages {
	return pages{client: mgr.GetClient(), settings: of.settings, history: histories, traces: c.traces, kept: of.kept, clock: clock.RealClock{}, sized: c.kinds.Sized}
}

// All implements ui.Caches. The objects are the caches' own.
func (p pages) All(ctx context.Context, namespace string) (ui.Cluster, error) {
	policies, recs := &v1alpha1.AttunePolicyList{}, &v1alpha1.AttuneRecommendationList{}
	for _, list := range []client.ObjectList{policies, recs} {
		if err := p.client.List(ctx, list, client.InNamespace(namespace), client.UnsafeDisableDeepCopy); err != nil {
			return ui.Cluster{}, fmt.Errorf("listing for a page: %w", err)
		}
	}
	wide, err := inscope.Policies(ctx, p.settings, inscope.Scope{Namespace: namespace}, recs.Items)
	if err != nil {
		return ui.Cluster{}, fmt.Errorf("listing for a page: %w", err)
	}
	return ui.Cluster{Policies: slices.Concat(policies.Items, wide), Recommendations: recs.Items, At: p.now()}, nil
}

func (p pages) now() time.Time { return p.clock.Now() }

// Explain implements ui.Caches. It is what kubectl attune explain computes from the API server, by the same functions.
func (p pages) Explain(ctx context.Context, rec *v1alpha1.AttuneRecommendation) ui.Explained {
	whole, traced := p.traces.Of(rec)
	live, id := explain.Live{Recommendation: whole, Now: p.now()}, workload.IdentityOf(rec)
	var notes []string
	settings, err := p.settingsOf(ctx, rec)
	switch {
	case err != nil:
		notes = append(notes, fmt.Sprintf("What policy %s would do next is not known: %v.", policy.NameOf(rec.Spec.Policy), err))
	case settings.Strategy != v1alpha1.StrategyNode:
		live.Settings = &settings.Recommender
	}
	if !traced {
		notes = append(notes, "The steps up to bounds are not kept here: kubectl attune explain shows them.")
	}
	of := p.workload(ctx, id)
	if live.Template = explain.TemplateSizes(of.Template); of.Unreadable != "" {
		notes = append(notes, fmt.Sprintf("The workload is left alone: its pod template cannot be read: %s.", of.Unreadable))
	}
	pods, err := owners.Pods(ctx, p.client, id)
	if err != nil {
		return ui.Explained{Problem: "The pods of the workload could not be read from the cache."}
	}
	live.Pods = explain.LivePods(pods)
	answer, err := live.Explain()
	if err != nil {
		return ui.Explained{Problem: err.Error()}
	}
	return ui.Explained{Explanation: answer, Note: strings.Join(notes, " ")}
}

// settingsOf returns the settings of the policy that a recommendation names.
func (p pages) settingsOf(ctx context.Context, rec *v1alpha1.AttuneRecommendation) (policy.Settings, error) {
	of, err := p.settings.Of(ctx, rec)
	if apierrors.IsNotFound(err) {
		return policy.Settings{}, errors.New("it does not exist")
	}
	if err != nil {
		return policy.Settings{}, err
	}
	return p.settings.Settings(ctx, of)
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
