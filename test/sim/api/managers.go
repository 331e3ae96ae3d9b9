package api

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// amount is one that a resize may set: the names of its fields, from the pod's spec down.
type amount [5]string

// amountsOf are those of a pod, with their values.
func amountsOf(pod *corev1.Pod) map[amount]string {
	all := map[amount]string{}
	for section, list := range map[string][]corev1.Container{"f:initContainers": pod.Spec.InitContainers, "f:containers": pod.Spec.Containers} {
		for i := range list {
			for kind, of := range map[string]corev1.ResourceList{"f:requests": list[i].Resources.Requests, "f:limits": list[i].Resources.Limits} {
				for name, value := range of {
					all[amount{section, fmt.Sprintf(`k:{"name":%q}`, list[i].Name), "f:resources", kind, "f:" + string(name)}] = value.String()
				}
			}
		}
	}
	return all
}

// managed notes who set the amounts that a resize changes (metadata.managedFields), as the real server does for writes
// of the subresource: a manager has the amounts that nobody has changed since.
func (s *Server) managed(before, after *corev1.Pod, manager string) []metav1.ManagedFieldsEntry {
	was, is := amountsOf(before), amountsOf(after)
	changed := slices.DeleteFunc(slices.Collect(maps.Keys(is)), func(a amount) bool { return was[a] == is[a] })
	if len(changed) == 0 {
		return before.ManagedFields
	}
	var out []metav1.ManagedFieldsEntry
	own := changed
	for _, entry := range before.ManagedFields {
		kept := slices.DeleteFunc(amountsIn(entry.FieldsV1), func(a amount) bool { return slices.Contains(changed, a) })
		switch {
		case entry.Manager == manager:
			own = append(own, kept...)
		case len(kept) > 0:
			entry.FieldsV1 = fieldsV1Of(kept)
			out = append(out, entry)
		}
	}
	now := s.stamp()
	return append(out, metav1.ManagedFieldsEntry{
		Manager: manager, Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: "v1", Time: &now,
		FieldsType: "FieldsV1", FieldsV1: fieldsV1Of(own), Subresource: "resize",
	})
}

// fieldsV1Of writes amounts as the real server does.
func fieldsV1Of(amounts []amount) *metav1.FieldsV1 {
	root := map[string]any{}
	for _, a := range amounts {
		at := root
		for _, name := range append([]string{"f:spec"}, a[:]...) {
			next, there := at[name].(map[string]any)
			if !there {
				next = map[string]any{}
				at[name] = next
			}
			at = next
		}
	}
	raw, err := json.Marshal(root)
	if err != nil {
		panic(err) // maps of names can be written
	}
	return metav1.NewFieldsV1(string(raw))
}

// amountsIn reads what fieldsV1Of has written.
func amountsIn(fields *metav1.FieldsV1) (all []amount) {
	var root map[string]any
	if err := json.Unmarshal(fields.GetRawBytes(), &root); err != nil {
		panic(err) // fieldsV1Of has written it
	}
	var walk func(at any, depth int, to amount)
	walk = func(at any, depth int, to amount) {
		if depth == len(to) {
			all = append(all, to)
			return
		}
		for name, below := range at.(map[string]any) {
			to[depth] = name
			walk(below, depth+1, to)
		}
	}
	walk(root["f:spec"], 0, amount{})
	return all
}
