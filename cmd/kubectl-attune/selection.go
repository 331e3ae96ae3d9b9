package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/cmd/kubectl-attune/output"
	"attune.io/attune/internal/answers"
	"attune.io/attune/internal/lookup"
	"attune.io/attune/internal/policy"
	"attune.io/attune/internal/workload"
	"attune.io/attune/podview"
)

// workloads holds workloads by identity.
type workloads map[workload.Identity]workload.Workload

// recommendations reads the recommendations of the named workloads, or of every workload in scope, sorted by
// namespace, kind and name. A named workload without a recommendation is an error.
//
// -l selects by the labels of the workloads. Recommendations do not have these labels, so it lists the workloads too.
func (e *environment) recommendations(ctx context.Context, arguments []string) (r reach, err error) {
	if r, err = e.reach(); err != nil {
		return r, err
	}
	if len(arguments) > 0 {
		return r, r.readNamed(ctx, arguments)
	}
	var list v1alpha1.AttuneRecommendationList
	if err := r.List(ctx, &list, client.InNamespace(r.namespace)); err != nil {
		return r, fmt.Errorf("listing the recommendations: %w", err)
	}
	// The API server sorts by the recommendations' names, which are generated and mean nothing to a user.
	slices.SortFunc(list.Items, byWorkload)
	r.recs = list.Items
	// Without -l the workloads are not listed, so the user needs no right to list them.
	if r.selector == nil {
		return r, nil
	}
	return r, r.keepExisting(ctx)
}

// keepExisting drops the recommendations whose workloads do not exist or do not have the labels of -l.
func (r *reach) keepExisting(ctx context.Context) error {
	selected, err := r.workloads(ctx, func(v1alpha1.WorkloadKind, error) bool { return false })
	r.recs = slices.DeleteFunc(r.recs, func(rec v1alpha1.AttuneRecommendation) bool {
		_, ok := selected[workload.IdentityOf(&rec)]
		return !ok
	})
	return err
}

// readNamed reads the recommendations of the workloads on the command line, in their order.
func (r *reach) readNamed(ctx context.Context, arguments []string) error {
	named, err := r.env.parseWorkloads(arguments)
	if err != nil {
		return err
	}
	r.recs = make([]v1alpha1.AttuneRecommendation, len(named))
	for i, id := range named {
		// If the kind is not served, whyNoRecommendation reports it.
		id.Kind, _, _ = kindOf(r, id.Kind)
		err := r.Get(ctx, client.ObjectKey{Namespace: id.Namespace, Name: id.RecommendationName()}, &r.recs[i])
		if apierrors.IsNotFound(err) && id.Kind == v1alpha1.KindJob {
			err = r.readOfJob(ctx, id, &r.recs[i], err)
		}
		switch {
		case apierrors.IsNotFound(err):
			return whyNoRecommendation(ctx, r, id)
		case err != nil:
			return fmt.Errorf("reading the recommendation for %s: %w", id, err)
		}
	}
	return nil
}

// readOfJob reads the recommendation of the Jobs of an identity, where id is one of them, or a Job with the name of the
// identity. If there is none either, it returns missing.
func (r *reach) readOfJob(ctx context.Context, id workload.Identity, rec *v1alpha1.AttuneRecommendation, missing error) error {
	of := workload.Identity{Kind: id.Kind, Namespace: id.Namespace, Name: workload.SharedName(id.Name)}
	if w, _, err := getWorkload(ctx, r, id); err == nil {
		of = w.RecommendedAs()
	}
	err := r.Get(ctx, client.ObjectKey{Namespace: of.Namespace, Name: of.RecommendationName()}, rec)
	if apierrors.IsNotFound(err) {
		return missing
	}
	return err
}

// whyNoRecommendation returns an error with the reason why a workload has no recommendation, if the user may read
// the workload and the policies.
func whyNoRecommendation(ctx context.Context, c client.Client, id workload.Identity) error {
	w, _, err := getWorkload(ctx, c, id)
	if err != nil && !apierrors.IsForbidden(err) {
		return err
	}
	var own v1alpha1.AttunePolicyList
	if err != nil || c.List(ctx, &own, client.InNamespace(id.Namespace)) != nil {
		return fmt.Errorf("no recommendation for %s in namespace %s: "+
			"no policy selects it, or the operator has not reconciled it yet; kubectl attune status shows the policies", id, id.Namespace)
	}
	// If the user may not read cluster policies, or they are not served, they are omitted.
	instances, _ := policies(c).Instances(ctx, id.Namespace)
	return errors.New(output.WhyNoRecommendation(w, append(own.Items, instances...)))
}

// byWorkload orders recommendations by namespace, kind and name of their workloads.
func byWorkload(a, b v1alpha1.AttuneRecommendation) int {
	return cmp.Or(
		cmp.Compare(a.Namespace, b.Namespace),
		cmp.Compare(a.Spec.Workload.Kind, b.Spec.Workload.Kind),
		cmp.Compare(a.Spec.Workload.Name, b.Spec.Workload.Name),
	)
}

// workloads lists the workloads of the kinds that the recommendations have. It lists no other kinds, so the user needs
// no rights for them. It skips a kind if leftOut accepts its error.
func (r reach) workloads(ctx context.Context, leftOut func(v1alpha1.WorkloadKind, error) bool) (workloads, error) {
	found := workloads{}
	for _, kind := range kindsOf(r.recs) {
		listed, err := listWorkloads(ctx, r, kind, r.namespace, r.selector)
		if err != nil && !leftOut(kind, err) {
			return nil, err
		}
		maps.Copy(found, listed)
	}
	return found, nil
}

// kindsOf returns the kinds of the recommendations' workloads, sorted, each once.
func kindsOf(recs []v1alpha1.AttuneRecommendation) []v1alpha1.WorkloadKind {
	kinds := map[v1alpha1.WorkloadKind]bool{}
	for _, rec := range recs {
		kinds[rec.Spec.Workload.Kind] = true
	}
	return slices.Sorted(maps.Keys(kinds))
}

// templates returns the workloads of the recommendations, whose templates have the current requests. If the user may
// not read a kind, or it is not served, its workloads are missing and a note says so. Other errors end the verb,
// because half an answer without a note would mislead.
func (r reach) templates(ctx context.Context) (workloads, error) {
	r.selector = nil // the recommendations are selected already
	return r.workloads(ctx, func(kind v1alpha1.WorkloadKind, err error) bool {
		unread := apierrors.IsForbidden(err) || errors.As(err, new(notServed))
		if unread {
			r.env.printNote("current resources of workloads of kind %s are not shown: %v", kind, err)
		}
		return unread
	})
}

// views reads the input of explanations and savings for the selected workloads, without their pods. It reads the
// settings once per policy and the templates once per kind.
func (e *environment) views(ctx context.Context, arguments []string) (r reach, all []answers.View, err error) {
	if r, err = e.recommendations(ctx, arguments); err != nil {
		return r, nil, err
	}
	templates, err := r.templates(ctx)
	if err != nil {
		return r, nil, err
	}
	all = make([]answers.View, len(r.recs))
	for i := range r.recs {
		all[i] = answers.View{Recommendation: &r.recs[i], Workload: templates[workload.IdentityOf(&r.recs[i])]}
		if all[i].Settings, err = r.settings(ctx, &r.recs[i]); err != nil {
			return r, nil, err
		}
	}
	return r, all, nil
}

// explained is a workload's recommendation, compared with the pod template.
type explained struct {
	answers.View
	// answer has the same containers in the same order as the recommendation.
	answer answers.Explanation
}

// explainSelected explains the recommendations of the named workloads, or of every workload in scope, against the
// workloads' templates.
func (e *environment) explainSelected(ctx context.Context, arguments []string) (reach, []explained, error) {
	r, views, err := e.views(ctx, arguments)
	if err != nil {
		return r, nil, err
	}
	all := make([]explained, len(views))
	for i, view := range views {
		all[i].View = view
		if all[i].answer, err = answers.Explain(view, nil, e.now()); err != nil {
			return r, nil, err
		}
	}
	return r, all, nil
}

// pods returns the pods of the recommendations' workloads that keep accepts, by workload, and all pods of the
// namespace. If the user may not list pods it returns nil, with a note that begins with unknown.
func (r reach) pods(ctx context.Context, keep func(*corev1.Pod) bool, unknown string) (of map[workload.Identity][]*corev1.Pod, all []*corev1.Pod, err error) {
	var list corev1.PodList
	err = r.List(ctx, &list, client.InNamespace(r.namespace))
	if apierrors.IsForbidden(err) {
		r.env.printNote(unknown+": %v", err)
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, fmt.Errorf("listing the pods: %w", err)
	}
	jobs, err := r.jobs(ctx)
	if err != nil {
		return nil, nil, err
	}
	of, all = map[workload.Identity][]*corev1.Pod{}, podview.Pointers(list.Items)
	for _, pod := range all {
		if id, owned := workload.OwnerOf(pod, pod.Namespace, jobs); owned && keep(pod) {
			of[id] = append(of[id], pod)
		}
	}
	return of, all, nil
}

// jobs returns the owners of the Jobs if Jobs or CronJobs have recommendations. Without the right to list Jobs,
// callers derive the owners from the Jobs' names, and a note says so.
func (r reach) jobs(ctx context.Context) (lookup.Listed, error) {
	if !slices.ContainsFunc(kindsOf(r.recs), workload.Batch) {
		return nil, nil
	}
	jobs, err := lookup.ListJobs(ctx, r, r.namespace)
	if apierrors.IsForbidden(err) {
		r.env.printNote("Jobs are assigned to CronJobs by their names, so pods of Jobs that a user created from a CronJob are not counted for it: %v", err)
		return nil, nil
	}
	return jobs, err
}

// settings returns the settings of the recommendation's policy, which it reads once. If the policy does not exist, may
// not be read or is invalid, it returns nil without an error and notes the reason.
func (r reach) settings(ctx context.Context, rec *v1alpha1.AttuneRecommendation) (*policy.Settings, error) {
	key := policyOf(rec)
	if settings, ok := r.known[key]; ok {
		return settings, nil
	}
	settings, err := r.resolve(ctx, key)
	// Three causes are normal for a user: the policy was deleted, may not be read, or is invalid. The answer then has
	// no next resize.
	switch {
	case apierrors.IsNotFound(err), apierrors.IsForbidden(err), lookup.Invalid(err) != nil:
		r.env.printNote("next resizes of policy %s are not shown: %v", key.Name, err)
		settings, err = nil, nil
	case err != nil:
		return nil, fmt.Errorf("reading the settings of policy %s: %w", key.Name, err)
	}
	// Store nil too, so that the note about a policy appears once.
	r.known[key] = settings
	return settings, err
}

// allowed is an operator that allows everything, because the plugin cannot know the operator's flags. If the operator
// does not allow it, the policy's status says so (refused).
var allowed = policy.Operator{SourceNamespaces: []string{"*"}}

// policies returns the same reader as in the operator's loops, so that both find and resolve policies alike.
func policies(c client.Client) lookup.Reader {
	return lookup.Reader{Client: c, Operator: allowed, Clusterwide: true}
}

// resolve resolves the settings as the loops do. It returns an error too if the operator rejects the settings.
func (r reach) resolve(ctx context.Context, key client.ObjectKey) (*policy.Settings, error) {
	reader := policies(r)
	own, err := reader.Policy(ctx, key)
	if err != nil {
		return nil, err
	}
	settings, err := reader.Settings(ctx, own)
	if err == nil {
		err = refused(own)
	}
	return &settings, err
}

// refused returns the reason why the operator rejects the present generation of the policy, from its status. It
// returns nil if the operator accepts it, or has not reconciled it.
func refused(p *v1alpha1.AttunePolicy) error {
	ready := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionReady)
	if ready == nil || ready.Reason != v1alpha1.ReasonInvalidConfig || ready.ObservedGeneration != p.Generation {
		return nil
	}
	return &policy.InvalidConfig{Problems: []policy.Problem{{Sentence: ready.Message}}}
}
