package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/cmd/kubectl-attune/input"
	"attune.io/attune/cmd/kubectl-attune/terminal"
	"attune.io/attune/cmd/kubectl-attune/wizard"
	"attune.io/attune/internal/lookup"
	"attune.io/attune/internal/policy"
	"attune.io/attune/internal/workload"
	"attune.io/attune/podview"
)

// newWizard returns the command wizard. It needs no rights. With the rights to list workloads, policies and
// recommendations it shows more.
func newWizard(env *environment) *cobra.Command {
	terminal := func() wizard.Terminal {
		return wizard.Terminal{In: env.In, Out: env.Out, Err: env.ErrOut, Asks: env.asks, Format: func(p *input.Written) (string, error) { return env.render(p) }}
	}
	return wizard.New(terminal, wizardCluster{env})
}

// wizardCluster implements wizard.Cluster with the user's rights.
type wizardCluster struct{ env *environment }

// Namespace implements wizard.Cluster.
func (w wizardCluster) Namespace() (string, error) {
	if w.env.scope.all || w.env.scope.selector != "" {
		return "", errors.New("an AttunePolicy belongs to one namespace: instead of -A and -l, specify the namespace with -n and labels with --workloads deployment,tier=api")
	}
	return w.env.namespace()
}

// selected returns the workloads that a policy selects, ignoring other policies.
func selected(ctx context.Context, c client.Client, p *v1alpha1.AttunePolicy) (workloads, error) {
	found, err := listWorkloads(ctx, c, p.Spec.TargetRef.Kind, p.Namespace, nil)
	perContainer := policy.NewMatcher([]v1alpha1.AttunePolicy{*p})
	maps.DeleteFunc(found, func(_ workload.Identity, w workload.Workload) bool {
		winner, _ := perContainer.Match(w)
		return winner == nil
	})
	return found, plain(err)
}

// Selection implements wizard.Cluster.
func (w wizardCluster) Selection(ctx context.Context, p *v1alpha1.AttunePolicy) (of wizard.Selection, err error) {
	c, err := w.env.cluster.Client()
	if err != nil {
		return of, err
	}
	var policies v1alpha1.AttunePolicyList
	if err := c.List(ctx, &policies, client.InNamespace(p.Namespace)); err != nil {
		return of, fmt.Errorf("listing the policies: %w", plain(err))
	}
	created := metav1.NewTime(w.env.now())
	rivals := slices.DeleteFunc(policies.Items, func(other v1alpha1.AttunePolicy) bool {
		if other.Name == p.Name { // its spec will change, but not its creation time
			of.Exists, created = &other.Spec.TargetRef, other.CreationTimestamp
		}
		return other.Name == p.Name
	})
	found, err := selected(ctx, c, p)
	if err != nil {
		return of, err
	}
	own := *p.DeepCopy()
	own.CreationTimestamp = created
	matcher := policy.NewMatcher(append(rivals, own))
	for id, one := range found {
		of.Workloads = append(of.Workloads, id.String())
		_, losers := matcher.Match(one)
		for _, conflict := range losers {
			if conflict.Policy.Name == p.Name {
				of.Lost = append(of.Lost, fmt.Sprintf("%s (policy %s: %s)", id, conflict.Winner.Name, conflict.Reason()))
			}
		}
	}
	slices.Sort(of.Workloads)
	slices.Sort(of.Lost)
	return of, nil
}

// Backtest implements wizard.Cluster, by the code behind backtest --from.
func (w wizardCluster) Backtest(ctx context.Context, p *v1alpha1.AttunePolicy, address string) (string, error) {
	usage, err := w.usage(ctx, p, address)
	if err != nil {
		return "", err
	}
	flags := usualBacktest()
	flags.from = usage.from
	shown := terminal.NewProgress(w.env.terminal, w.env.now)
	defer shown.Done()
	played, err := flags.play(ctx, usage, shown)
	var short tooShort
	switch {
	case errors.As(err, &short) && len(played.series) == 0:
		return "", fmt.Errorf("no usage data of these workloads (%s): the operator stores usage once a policy selects them", usage.from)
	case errors.As(err, &short):
		return "", fmt.Errorf("the longest history is %s, and the first %s of each container are not scored", short.longest.Round(time.Minute), short.warmup)
	case err != nil:
		return "", plain(err)
	}
	return newBacktestAnswer(played.tallies).Human(false)
}

// usage returns the usage of the workloads that a policy would select, with the settings that it would have in the
// cluster.
func (w wizardCluster) usage(ctx context.Context, p *v1alpha1.AttunePolicy, address string) (*liveUsage, error) {
	// Discard the notes about single containers; backtest shows them.
	quiet := *w.env
	quiet.ErrOut = io.Discard
	r, err := quiet.reach()
	if err != nil {
		return nil, err
	}
	settings, err := lookup.Reader{Client: r, Operator: allowed}.Settings(ctx, p)
	if err != nil {
		return nil, plain(err)
	}
	if settings.Strategy == v1alpha1.StrategyNode {
		return nil, fmt.Errorf("backtest does not support strategy %s, whose recommendations depend on the node", settings.Strategy)
	}
	l := r.usageWithin(defaultLast, fromEmbedded, address)
	l.of[client.ObjectKeyFromObject(p)] = settings
	if address != "" || settings.Source.Prometheus != nil {
		l.from = fromPrometheus
	}
	l.sizes, err = selected(ctx, r, p)
	if err != nil {
		return nil, err
	}
	if len(l.sizes) == 0 {
		return nil, errors.New("the policy selects no workload")
	}
	return l, l.recommendationsFor(ctx, p)
}

// recommendationsFor sets the recommendations of the policy's workloads: the stored ones, with their histories, or new
// ones with the containers of the template.
func (l *liveUsage) recommendationsFor(ctx context.Context, p *v1alpha1.AttunePolicy) error {
	all, err := l.indexed(ctx, p.Namespace, l.sizes)
	if err != nil {
		return fmt.Errorf("listing the recommendations: %w", plain(err))
	}
	kept := map[workload.Identity]v1alpha1.AttuneRecommendation{}
	for i := range all {
		kept[workload.IdentityOf(&all[i])] = all[i]
	}
	for id, of := range l.sizes {
		rec, known := kept[id]
		if !known {
			rec.Namespace, rec.Spec.Workload = id.Namespace, v1alpha1.WorkloadRef{Kind: id.Kind, Name: id.Name}
			for _, container := range podview.ResizableIn(&of.Template.Spec) {
				rec.Spec.Containers = append(rec.Spec.Containers, v1alpha1.ContainerTarget{Name: container.Name})
			}
		}
		rec.Spec.Policy.Name = p.Name
		l.recs = append(l.recs, rec)
	}
	slices.SortFunc(l.recs, byWorkload)
	return nil
}
