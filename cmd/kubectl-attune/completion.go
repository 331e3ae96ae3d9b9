package main

import (
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/cmd/kubectl-attune/input"
	"attune.io/attune/internal/autoscale"
)

// completesWorkloads returns a completion of KIND/NAME: first of the kind, then of the names of its workloads that have a
// recommendation. most is how many the verb takes; 0: any number. An error completes nothing, as there is nowhere to
// say it.
func (e *environment) completesWorkloads(most int) cobra.CompletionFunc {
	const nothing, kind = cobra.ShellCompDirectiveNoFileComp, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
	return func(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
		if most > 0 && len(args) >= most || e.scope.all {
			return nil, nothing
		}
		spelled, name, complete := strings.Cut(begun, "/")
		if !complete {
			return kindsBegunWith(begun), kind
		}
		id, err := input.ParseWorkload(spelled+"/any", "")
		if err != nil {
			return nil, nothing
		}
		var list v1alpha1.AttuneRecommendationList
		if !e.lists(cmd, &list, false) {
			return nil, nothing
		}
		var names []string
		for _, rec := range list.Items {
			full := spelled + "/" + rec.Spec.Workload.Name
			if strings.EqualFold(string(rec.Spec.Workload.Kind), string(id.Kind)) && strings.HasPrefix(rec.Spec.Workload.Name, name) && !slices.Contains(args, full) {
				names = append(names, full)
			}
		}
		slices.Sort(names)
		return names, nothing
	}
}

// kindsBegunWith returns the kinds with a slash: by their full names, or by any other name that was written out.
func kindsBegunWith(begun string) (kinds []string) {
	for _, kind := range slices.Sorted(maps.Keys(input.KindNames)) {
		for i, spelled := range input.KindNames[kind] {
			if i == 0 && strings.HasPrefix(spelled, strings.ToLower(begun)) || i > 0 && strings.EqualFold(spelled, begun) {
				kinds = append(kinds, spelled+"/")
			}
		}
	}
	return kinds
}

// completeNodes completes the name of a node.
func (e *environment) completeNodes(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return e.namesBegunWith(cmd, args, begun, &corev1.NodeList{}, true)
}

// completeVPAs completes the names of VerticalPodAutoscalers.
func (e *environment) completeVPAs(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
	return e.namesBegunWith(cmd, args, begun, newVPAList(), false)
}

// namesBegunWith completes the names of objects, but for those that are given already.
func (e *environment) namesBegunWith(cmd *cobra.Command, args []string, begun string, list client.ObjectList, everywhere bool) (names []string, directive cobra.ShellCompDirective) {
	if e.scope.all || !e.lists(cmd, list, everywhere) {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	// The function returns no error, so that neither does EachListItem.
	_ = meta.EachListItem(list, func(item runtime.Object) error {
		vpa, ok := item.(*unstructured.Unstructured)
		if name := item.(client.Object).GetName(); strings.HasPrefix(name, begun) && !slices.Contains(args, name) && !(ok && autoscale.Ours(vpa)) {
			names = append(names, name)
		}
		return nil
	})
	slices.Sort(names)
	return names, cobra.ShellCompDirectiveNoFileComp
}

// lists lists objects of the namespace of -n, or of the cluster; false: they cannot be listed.
func (e *environment) lists(cmd *cobra.Command, list client.ObjectList, everywhere bool) bool {
	r, err := e.reach()
	if everywhere {
		r.namespace = ""
	}
	return err == nil && r.List(cmd.Context(), list, client.InNamespace(r.namespace)) == nil
}
