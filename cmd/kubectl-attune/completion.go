package main

import (
	"maps"
	"regexp"
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

// completesWorkloads returns a completion of KIND/NAME: first the kind, then the names of its workloads with a
// recommendation. most limits the arguments of the verb; 0 means any number. On an error it completes nothing, because
// a completion cannot report it.
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
			if isPlainName(rec.Spec.Workload.Name) && strings.EqualFold(string(rec.Spec.Workload.Kind), string(id.Kind)) && strings.HasPrefix(rec.Spec.Workload.Name, name) && !slices.Contains(args, full) {
				names = append(names, full)
			}
		}
		slices.Sort(names)
		return names, nothing
	}
}

// plainName matches names without characters that have a meaning in a shell: it inserts completions as they are.
var plainName = regexp.MustCompile(`^[A-Za-z0-9._:-]+$`)

func isPlainName(name string) bool { return plainName.MatchString(name) }

// kindsBegunWith returns the kinds with a slash: by a prefix of the full name, or by any complete alias.
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

// namesBegunWith completes the names of objects, except the ones that are given already.
func (e *environment) namesBegunWith(cmd *cobra.Command, args []string, begun string, list client.ObjectList, everywhere bool) (names []string, directive cobra.ShellCompDirective) {
	if e.scope.all || !e.lists(cmd, list, everywhere) {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	// The callback returns no error, so EachListItem does not return one either.
	_ = meta.EachListItem(list, func(item runtime.Object) error {
		vpa, ok := item.(*unstructured.Unstructured)
		if name := item.(client.Object).GetName(); isPlainName(name) && strings.HasPrefix(name, begun) && !slices.Contains(args, name) && !(ok && autoscale.Ours(vpa)) {
			names = append(names, name)
		}
		return nil
	})
	slices.Sort(names)
	return names, cobra.ShellCompDirectiveNoFileComp
}

// lists lists the objects in the namespace of -n, or in all namespaces if everywhere is true. It returns false if it
// cannot list them.
func (e *environment) lists(cmd *cobra.Command, list client.ObjectList, everywhere bool) bool {
	r, err := e.reach()
	if everywhere {
		r.namespace = ""
	}
	return err == nil && r.List(cmd.Context(), list, client.InNamespace(r.namespace)) == nil
}
