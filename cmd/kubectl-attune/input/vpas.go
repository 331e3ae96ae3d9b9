package input

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"attune.io/attune/internal/clip"
)

const vpaGroup, vpaKind = "autoscaling.k8s.io", "VerticalPodAutoscaler"

// ParseVPAs returns the VerticalPodAutoscalers in a file of manifests, in their order, and a sentence for each that no
// API server would accept. It skips other kinds, and reads the items of lists.
func ParseVPAs(text []byte) (vpas []unstructured.Unstructured, notes []string, err error) {
	err = eachDocument(text, func(number int, object []byte) error {
		var of unstructured.Unstructured
		if err := of.UnmarshalJSON(object); err != nil {
			return inDocument(number, fmt.Errorf("not a Kubernetes object: %s", clip.Marked(err.Error(), 200)))
		}
		add := func(item unstructured.Unstructured) {
			if note := wrongGroup(&item); note != "" {
				notes = append(notes, note)
			} else if item.GetKind() == vpaKind {
				vpas = append(vpas, item)
			}
		}
		if !of.IsList() {
			add(of)
			return nil
		}
		list, err := of.ToList()
		if err != nil {
			return inDocument(number, err)
		}
		for i := range list.Items {
			item := list.Items[i]
			if item.GetKind() == "" && strings.HasPrefix(of.GetKind(), vpaKind) { // as the API server stores its lists
				item.SetKind(vpaKind)
				item.SetAPIVersion(of.GetAPIVersion())
			}
			add(item)
		}
		return nil
	})
	return vpas, notes, err
}

// wrongGroup returns a sentence about a VPA of another API group; empty for other objects.
func wrongGroup(o *unstructured.Unstructured) string {
	if o.GetKind() != vpaKind || schema.FromAPIVersionAndKind(o.GetAPIVersion(), "").Group == vpaGroup {
		return ""
	}
	return fmt.Sprintf("VerticalPodAutoscaler %s is skipped: its apiVersion is %q. Write autoscaling.k8s.io/v1", clip.Marked(o.GetName(), 100), clip.Marked(o.GetAPIVersion(), 100))
}
