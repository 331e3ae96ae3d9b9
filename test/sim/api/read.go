package api

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

var (
	podType   = reflect.TypeFor[corev1.Pod]()
	eventType = reflect.TypeFor[corev1.Event]()
)

func nodeOf(o client.Object) string {
	if pod, ok := o.(*corev1.Pod); ok && pod != nil {
		return pod.Spec.NodeName
	}
	return ""
}

func (s *Server) find(k *kind, key types.NamespacedName) (client.Object, error) {
	if o := s.stored[k].objects[key]; o != nil {
		return o, nil
	}
	return nil, apierrors.NewNotFound(k.group(), key.Name)
}

func (s *Server) get(key types.NamespacedName, out client.Object, opts ...client.GetOption) error {
	k := s.kindOf(out)
	if k.cluster {
		key.Namespace = ""
	}
	o, err := s.find(k, key)
	if err != nil {
		return err
	}
	options := (&client.GetOptions{}).ApplyOptions(opts)
	Fill(out, o, options.UnsafeDisableDeepCopy != nil && *options.UnsafeDisableDeepCopy)
	return nil
}

func (s *Server) list(list client.ObjectList, opts ...client.ListOption) error {
	k := s.kindOf(list)
	options := (&client.ListOptions{}).ApplyOptions(opts)
	items, err := s.select_(k, options)
	if err != nil {
		return err
	}
	setItems(list, items, options.UnsafeDisableDeepCopy != nil && *options.UnsafeDisableDeepCopy)
	setVersion(list, strconv.FormatInt(s.version, 10))
	return nil
}

// select_ are the objects that a list asks for. Fields are those that the real server knows.
func (s *Server) select_(k *kind, o *client.ListOptions) ([]client.Object, error) {
	var from []client.Object
	keep := func(client.Object) bool { return true }
	if node, ok := exactly(o, "spec.nodeName"); ok && k.object == podType {
		from = s.OnNode(node)
	} else {
		from = s.stored[k].list()
	}
	if o.FieldSelector != nil {
		for _, r := range o.FieldSelector.Requirements() {
			if r.Field != "spec.nodeName" && r.Field != "metadata.name" && (r.Field != involved || k.object != eventType) {
				return nil, fmt.Errorf("the server has no field selector %q", r.Field)
			}
		}
		if name, ok := exactly(o, "metadata.name"); ok {
			keep = func(o client.Object) bool { return o.GetName() == name }
		}
		if uid, ok := exactly(o, involved); ok {
			keep = func(o client.Object) bool { return string(o.(*corev1.Event).InvolvedObject.UID) == uid }
		}
	}
	return slices.DeleteFunc(from, func(object client.Object) bool { return !keep(object) || !Selected(object, o) }), nil
}

// involved is the field of events that names the object that they are about.
const involved = "involvedObject.uid"

func exactly(o *client.ListOptions, name string) (string, bool) {
	if o.FieldSelector == nil {
		return "", false
	}
	return o.FieldSelector.RequiresExactMatch(name)
}

// Selected by namespace and labels.
func Selected(object client.Object, o *client.ListOptions) bool {
	if o.Namespace != "" && object.GetNamespace() != o.Namespace {
		return false
	}
	return o.LabelSelector == nil || o.LabelSelector.Matches(labelsOf(object))
}
