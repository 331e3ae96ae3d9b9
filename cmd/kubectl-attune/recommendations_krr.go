package main

import (
	"context"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/cmd/kubectl-attune/answers"
	"attune.io/attune/cmd/kubectl-attune/selection"
	"attune.io/attune/internal/explain"
	"attune.io/attune/internal/workload"
	"attune.io/attune/podview"
	"attune.io/attune/recommender"
	"attune.io/attune/resize"
)

// printKRR prints recommendations as KRR prints its own. Workloads that do not exist any more are left out, as KRR knows none;
// where no workload of a kind was read, they may exist, and what they ask is not known.
func printKRR(ctx context.Context, env *environment, all []explained) error {
	read := map[v1alpha1.WorkloadKind]bool{}
	for _, from := range all {
		read[from.rec.Spec.Workload.Kind] = read[from.rec.Spec.Workload.Kind] || from.workload.Template != nil
	}
	pods, err := podNames(ctx, env, slices.Collect(maps.Keys(read)))
	if err != nil {
		return err
	}
	var containers []answers.KRRContainer
	for _, from := range all {
		rec, template := from.rec, explain.TemplateSizes(from.workload.Template)
		id, whole := workload.IdentityOf(rec), answers.KRRHolds(rec, from.workload, from.settings)
		if from.workload.Template == nil && read[id.Kind] {
			continue
		}
		for i, c := range from.answer.Containers {
			container := answers.KRRContainer{
				Namespace: id.Namespace, Kind: string(id.Kind), Workload: id.Name, Name: c.Name, Pods: pods[id],
				Labels: from.workload.Labels, Annotations: from.workload.Annotations,
				Target: podview.FromResources(rec.Spec.Containers[i].Target), Holds: append(whole[:len(whole):len(whole)], c.Holds...),
			}
			if from.workload.Template != nil {
				container.Current = new(recommender.Size)
				*container.Current = template[c.Name]
			}
			containers = append(containers, container)
		}
	}
	return env.print(answers.NewKRR(env.cluster.Context(), containers))
}

// podNames are the names of the pods that have not ended of each workload in the scope, sorted; of nothing where the user may not list them.
func podNames(ctx context.Context, env *environment, kinds []v1alpha1.WorkloadKind) (map[workload.Identity][]string, error) {
	r, err := env.reach()
	if err != nil {
		return nil, err
	}
	pods, _, err := selection.FindPods(ctx, r, selection.PodQuery{
		Namespace: r.namespace, Kinds: kinds, Keep: func(pod *corev1.Pod) bool { return !resize.Finished(pod) },
		Note: env.note, Unknown: "the pods are not listed",
	})
	names := map[workload.Identity][]string{}
	for id, of := range pods {
		for _, pod := range of {
			names[id] = append(names[id], pod.Name)
		}
		slices.Sort(names[id])
	}
	return names, err
}
