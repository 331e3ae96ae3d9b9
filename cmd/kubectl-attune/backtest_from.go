package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/cmd/kubectl-attune/connect"
	"attune.io/attune/cmd/kubectl-attune/output"
	"attune.io/attune/internal/lookup"
	"attune.io/attune/internal/policy"
	"attune.io/attune/internal/workload"
	"attune.io/attune/podview"
	"attune.io/attune/recommender"
	"attune.io/attune/recommender/backtest"
	"attune.io/attune/usage"
	"attune.io/attune/usage/csvfile"
	"attune.io/attune/usage/prometheus"
)

// Values of --from.
const (
	fromEmbedded   = "embedded"
	fromPrometheus = "prometheus"
)

// liveUsage is the recent usage of the workloads of some policies in the cluster. Its recommendations belong to these
// policies.
type liveUsage struct {
	reach
	// from is the value of --from, address the value of --address.
	from, address string
	span          connect.Span
	// of has the settings of each policy.
	of map[client.ObjectKey]policy.Settings
	// sizes has the workloads whose templates can be read.
	sizes workloads
	// neighbours indexes, by namespace, all workloads with a recommendation.
	neighbours map[string]workload.PodIndex
	// servers caches clients by address and labels.
	servers map[string]*prometheus.Client
}

// usageWithin returns a liveUsage of the period last up to now, without policies.
func (r reach) usageWithin(last time.Duration, from, address string) *liveUsage {
	now := r.env.now()
	return &liveUsage{
		reach: r, from: from, address: address, span: connect.Span{From: now.Add(-last), To: now},
		of: map[client.ObjectKey]policy.Settings{}, neighbours: map[string]workload.PodIndex{}, servers: map[string]*prometheus.Client{},
	}
}

// newLiveUsage selects policies by their names, or by -n, -A and -l, and reads their recommendations and workloads.
func newLiveUsage(ctx context.Context, env *environment, flags backtestFlags, names []string) (*liveUsage, error) {
	r, err := env.reach()
	if err != nil {
		return nil, err
	}
	l := r.usageWithin(flags.last.Duration, flags.from, flags.address)
	if err := l.selectPolicies(ctx, flags.policy, names); err != nil {
		return nil, err
	}
	if err := l.selectRecommendations(ctx); err != nil {
		return nil, err
	}
	l.sizes, err = l.templates(ctx)
	return l, err
}

// selectPolicies resolves the settings of the policies. A file replaces the settings of all of them.
func (l *liveUsage) selectPolicies(ctx context.Context, file string, names []string) error {
	policies, err := l.policies(ctx, names)
	if err != nil {
		return err
	}
	for i := range policies {
		p := &policies[i]
		settings, err := l.resolve(ctx, file, p)
		switch {
		case err != nil && (len(names) > 0 || lookup.Invalid(err) == nil):
			return fmt.Errorf("policy %s in namespace %s: %w", p.Name, p.Namespace, err)
		case err != nil:
			l.env.printNote("policy %s/%s is skipped: %v", p.Namespace, p.Name, err)
		case settings.Strategy == v1alpha1.StrategyNode:
			l.env.printNote("policy %s/%s is skipped: backtest does not support strategy %s, whose recommendations depend on the node", p.Namespace, p.Name, settings.Strategy)
		default:
			l.of[client.ObjectKeyFromObject(p)] = settings
		}
	}
	if len(l.of) == 0 {
		return fmt.Errorf("no policy in %s can be replayed: specify a policy, or select others with -n, -A or -l; kubectl attune status lists them", output.Where(l.namespace))
	}
	return nil
}

func (l *liveUsage) resolve(ctx context.Context, file string, p *v1alpha1.AttunePolicy) (policy.Settings, error) {
	own, err := policies(l).Settings(ctx, p)
	if err != nil || file == "" {
		return own, err
	}
	judged, err := readSettings(l.env, file)
	judged.Source.Prometheus, judged.Source.Labels = own.Source.Prometheus, own.Source.Labels // the usage still comes from the cluster
	return judged, err
}

// policies returns the named policies, or without names all policies of the scope.
func (l *liveUsage) policies(ctx context.Context, names []string) ([]v1alpha1.AttunePolicy, error) {
	if len(names) == 0 {
		var list v1alpha1.AttunePolicyList
		if err := l.List(ctx, &list, within(l.namespace, l.selector)...); err != nil {
			return nil, fmt.Errorf("listing the policies: %w", err)
		}
		if l.selector != nil {
			return list.Items, nil
		}
		instances, err := lookup.InstancesInScope(ctx, policies(l), l.namespace)
		return append(list.Items, instances...), err
	}
	if l.env.scope.all || l.selector != nil {
		return nil, errors.New("policy names cannot be combined with -A or -l: specify the namespace with -n")
	}
	named := make([]v1alpha1.AttunePolicy, len(names))
	for i, name := range names {
		found, err := policies(l).Policy(ctx, client.ObjectKey{Namespace: l.namespace, Name: name})
		if apierrors.IsNotFound(err) {
			return nil, fmt.Errorf("policy %s does not exist in namespace %s: kubectl attune status lists the policies", name, l.namespace)
		}
		if err != nil {
			return nil, fmt.Errorf("reading policy %s: %w", name, err)
		}
		named[i] = *found
	}
	return named, nil
}

// selectRecommendations keeps the recommendations of the policies, and indexes the workloads of their namespaces.
func (l *liveUsage) selectRecommendations(ctx context.Context) error {
	namespaces := map[string]bool{}
	for key := range l.of {
		namespaces[key.Namespace] = true
	}
	for _, namespace := range slices.Sorted(maps.Keys(namespaces)) {
		all, err := l.indexed(ctx, namespace, nil)
		if err != nil {
			return fmt.Errorf("listing the recommendations: %w", err)
		}
		for i := range all {
			if _, selected := l.of[policyOf(&all[i])]; selected {
				l.recs = append(l.recs, all[i])
			}
		}
	}
	if len(l.recs) == 0 {
		return errors.New("no workload of these policies has a recommendation yet: kubectl attune status shows why")
	}
	slices.SortFunc(l.recs, byWorkload)
	return nil
}

// indexed lists the recommendations of a namespace. It indexes their workloads, and others, as neighbours.
func (l *liveUsage) indexed(ctx context.Context, namespace string, others workloads) ([]v1alpha1.AttuneRecommendation, error) {
	var list v1alpha1.AttuneRecommendationList
	if err := l.List(ctx, &list, client.InNamespace(namespace)); err != nil {
		return nil, err
	}
	names := map[workload.KindName]bool{}
	for i := range list.Items {
		ref := list.Items[i].Spec.Workload
		names[workload.KindName{Kind: ref.Kind, Name: ref.Name}] = true
	}
	for id := range others {
		names[workload.KindName{Kind: id.Kind, Name: id.Name}] = true
	}
	l.neighbours[namespace] = workload.NewPodIndex(slices.Collect(maps.Keys(names)))
	return list.Items, nil
}

func policyOf(rec *v1alpha1.AttuneRecommendation) client.ObjectKey {
	return client.ObjectKey{Namespace: rec.Namespace, Name: policy.NameOf(rec.Spec.Policy)}
}

func (l *liveUsage) name() string { return "usage of the cluster (" + l.from + ")" }

// each implements recorded.
func (l *liveUsage) each(ctx context.Context, want func(string) bool, yield func(container) error) error {
	for i := range l.recs {
		rec := &l.recs[i]
		id, settings := workload.IdentityOf(rec), l.of[policyOf(rec)]
		var names []string
		for _, of := range rec.Spec.Containers {
			if !settings.Resize.Excludes(of.Name) && want(connect.SeriesID(id, of.Name)) {
				names = append(names, of.Name)
			}
		}
		if len(names) == 0 {
			continue
		}
		series, err := l.read(ctx, rec, settings)
		if err != nil {
			return err
		}
		sizes := podview.TemplateSizes(l.sizes[id].Template)
		for _, name := range names {
			of, known := series[name]
			if !known || len(of.Samples) == 0 {
				l.env.printNote("%s: no usage data in the requested period (--last)", connect.SeriesID(id, name))
				continue
			}
			l.env.printDropped(of.ID, csvfile.DropAbove(of, mostOn(rec)))
			if err := yield(container{of, *settings.For(name), sizeOf(sizes[name]), float64(i+1) / float64(len(l.recs))}); err != nil {
				return err
			}
		}
	}
	return nil
}

// mostOn returns the bounds of plausible samples on the nodes of a workload, as the operator has them. The largest node of
// a DaemonSet is its smallest node, so it bounds nothing.
func mostOn(rec *v1alpha1.AttuneRecommendation) usage.Most {
	if rec.Spec.Workload.Kind == v1alpha1.KindDaemonSet {
		return usage.Most{}
	}
	largest := podview.LargestNode(rec.Spec.LargestNode)
	return usage.MostOn(float64(largest[recommender.CPU])/1000, float64(largest[recommender.Memory]))
}

// sizeOf returns the requests of a template in cores and bytes.
func sizeOf(size recommender.Size) backtest.Size {
	return backtest.Size{float64(size[recommender.CPU].Request) / 1000, float64(size[recommender.Memory].Request)}
}

// read returns the usage of one workload by container.
func (l *liveUsage) read(ctx context.Context, rec *v1alpha1.AttuneRecommendation, settings policy.Settings) (map[string]backtest.Series, error) {
	id := workload.IdentityOf(rec)
	if l.from == fromEmbedded {
		series, err := connect.Stored(rec, l.span)
		if err != nil {
			l.env.printNote("%s in namespace %s: %v", id, id.Namespace, err)
		}
		return series, nil
	}
	question, err := l.question(ctx, id, settings)
	if err != nil {
		return nil, err
	}
	series, report, err := connect.Asked(ctx, question)
	return series, l.answered(id, report, err)
}

// question asks a server for the usage of a workload.
func (l *liveUsage) question(ctx context.Context, id workload.Identity, settings policy.Settings) (connect.Question, error) {
	server, err := l.server(ctx, settings)
	return connect.Question{Source: server, Of: id, Neighbours: l.neighbours[id.Namespace], Span: l.span, Step: settings.Source.QueryStep}, err
}

// answered names the workload in an error, and prints a note about an incomplete answer.
func (l *liveUsage) answered(id workload.Identity, report usage.Report, err error) error {
	if err != nil {
		return fmt.Errorf("usage of %s in namespace %s: %w", id, id.Namespace, err)
	}
	if report.Partial {
		l.env.printNote("usage of %s in namespace %s is incomplete: the usage source could not read all of its data", id, id.Namespace)
	}
	return nil
}

// server returns the server of --address, or the policy's own.
func (l *liveUsage) server(ctx context.Context, settings policy.Settings) (*prometheus.Client, error) {
	var source v1alpha1.PrometheusSource
	switch {
	case l.address != "":
		source.Address = l.address
	case settings.Source.Prometheus != nil:
		source = *settings.Source.Prometheus
	default:
		return nil, errors.New("the policy does not name a Prometheus server: specify the operator's server with --address, e.g. http://prometheus.monitoring:9090")
	}
	key := fmt.Sprintf("%s %v", source.Address, settings.Source.Labels)
	if known := l.servers[key]; known != nil {
		return known, nil
	}
	server, err := connect.Server(ctx, l, l.env.cluster.FetchPod, source, settings.Source.Labels)
	if err == nil {
		l.servers[key] = server
	}
	return server, err
}

// checkFrom returns an error with one sentence about flags of --from that cannot work.
func (f *backtestFlags) checkFrom(policies []string) error {
	switch {
	case f.from == "" && f.trace == "":
		return errors.New("no usage specified: use --trace trace.csv.gz for a file, or --from embedded or --from prometheus for the cluster")
	case f.from != "" && f.trace != "":
		return errors.New("--trace and --from cannot be combined: specify one of them")
	case f.from == "" && len(policies) > 0:
		return fmt.Errorf("policy %s cannot be read from the cluster with --trace: specify a file with --policy policy.yaml", policies[0])
	case f.from == "" && (f.last.Given || f.address != ""):
		return errors.New("--last and --address need the usage of the cluster: add --from embedded or --from prometheus")
	case f.from != "" && f.from != fromEmbedded && f.from != fromPrometheus:
		return fmt.Errorf("--from %q is not a usage source: use %s or %s, as in the chart's value usage.source", f.from, fromEmbedded, fromPrometheus)
	case f.address != "" && f.from != fromPrometheus:
		return errors.New("--address needs a Prometheus server as usage source: add --from prometheus")
	}
	return nil
}

// defaultLast is the default period of the cluster's usage.
const defaultLast = 14 * 24 * time.Hour
