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
		if err := eachItem(of, mostNested, func(item *unstructured.Unstructured) {
			if note := wrongGroup(item); note != "" {
				notes = append(notes, note)
			} else if item.GetKind() == vpaKind {
				vpas = append(vpas, *item)
			}
		}); err != nil {
			return inDocument(number, err)
		}
		return nil
	})
	return vpas, notes, err
}

// mostNested is how deep lists may be in lists, as in the output of templates.
const mostNested = 8

// eachItem calls f for an object, or for all items of a list and of the lists in it.
func eachItem(of unstructured.Unstructured, depth int, f func(*unstructured.Unstructured)) error {
	if !of.IsList() {
		f(&of)
		return nil
	}
	if depth == 0 {
		return fmt.Errorf("it has lists in more than %d lists: write one list", mostNested)
	}
	list, err := of.ToList()
	if err != nil {
		return err
	}
	for _, item := range list.Items {
		if item.GetKind() == "" && strings.HasPrefix(of.GetKind(), vpaKind) { // as the API server stores its lists
			item.SetKind(vpaKind)
			item.SetAPIVersion(of.GetAPIVersion())
		}
		if err := eachItem(item, depth-1, f); err != nil {
			return err
		}
	}
	return nil
}

// wrongGroup returns a sentence about a VPA of another API group; empty for other objects.
func wrongGroup(o *unstructured.Unstructured) string {
	if o.GetKind() != vpaKind || schema.FromAPIVersionAndKind(o.GetAPIVersion(), "").Group == vpaGroup {
		return ""
	}
	return fmt.Sprintf("VerticalPodAutoscaler %s is skipped: its apiVersion is %q. Write autoscaling.k8s.io/v1", clip.Marked(o.GetName(), 100), clip.Marked(o.GetAPIVersion(), 100))
}
