package main

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/cmd/kubectl-attune/krr"
	"attune.io/attune/internal/explain"
	"attune.io/attune/internal/workload"
	"attune.io/attune/podview"
	"attune.io/attune/recommender"
	"attune.io/attune/resize"
)

// printKRR prints recommendations as KRR prints its own. Workloads that do not exist any more are left out, as KRR knows none;
// where no workload of a kind was read, they may exist, and what they ask is not known.
func printKRR(ctx context.Context, env *environment, all []explained) error {
	pods, err := podNames(ctx, env)
	if err != nil {
		return err
	}
	read := map[v1alpha1.WorkloadKind]bool{}
	for _, from := range all {
		read[from.rec.Spec.Workload.Kind] = read[from.rec.Spec.Workload.Kind] || from.workload.Template != nil
	}
	var containers []krr.Container
	for _, from := range all {
		rec, template := from.rec, explain.TemplateSizes(from.workload.Template)
		id := workload.IdentityOf(rec)
		if from.workload.Template == nil && read[id.Kind] {
			continue
		}
		for i, c := range from.answer.Containers {
			container := krr.Container{
				Namespace: id.Namespace, Kind: string(id.Kind), Workload: id.Name, Name: c.Name, Pods: pods[id],
				Labels: from.workload.Labels, Annotations: from.workload.Annotations,
				Target: podview.FromResources(rec.Spec.Containers[i].Target), Holds: c.Holds,
			}
			if from.workload.Template != nil {
				container.Current = new(recommender.Size)
				*container.Current = template[c.Name]
			}
			containers = append(containers, container)
		}
	}
	return env.print(krr.New(env.cluster.Context(), containers))
}

// podNames are the names of the pods that have not ended of each workload in the scope, sorted; of nothing where the user may not list them.
func podNames(ctx context.Context, env *environment) (map[workload.Identity][]string, error) {
	c, err := env.cluster.Client()
	if err != nil {
		return nil, err
	}
	namespace, err := env.namespace()
	if err != nil {
		return nil, err
	}
	var pods corev1.PodList
	if err := c.List(ctx, &pods, client.InNamespace(namespace)); apierrors.IsForbidden(err) {
		env.note("the pods are not listed: %v", err)
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	names := map[workload.Identity][]string{}
	for i := range pods.Items {
		if id, owned := workload.OwnerOf(&pods.Items[i], pods.Items[i].Namespace, nil); owned && !resize.Finished(&pods.Items[i]) {
			names[id] = append(names[id], pods.Items[i].Name)
		}
	}
	for _, of := range names {
		slices.Sort(of)
	}
	return names, nil
}
