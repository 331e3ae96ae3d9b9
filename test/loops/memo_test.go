package loops

import (
	"context"
	"fmt"
	"reflect"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"attune.io/attune/test/sim/api"
)

// memo remembers what was read until somebody writes an object of that type. All writers of a world
// write through it, so it is a cache that is never behind.
type memo map[string]answer

type answer struct {
	object runtime.Object
	err    error
}

// read answers from memory, or reads and remembers.
func (m memo) read(key string, into runtime.Object, read func() error) error {
	key = fmt.Sprintf("%T %s", into, key)
	if known, ok := m[key]; ok {
		if known.err == nil {
			reflect.ValueOf(into).Elem().Set(reflect.ValueOf(known.object.DeepCopyObject()).Elem())
		}
		return known.err
	}
	err := read()
	m[key] = answer{into.DeepCopyObject(), err}
	return err
}

// forget what is known of an object's type, one by one and in lists; all where the type is not known.
func (m memo) forget(o runtime.Object) {
	if _, untyped := o.(*unstructured.Unstructured); untyped {
		clear(m)
	}
	kind := fmt.Sprintf("%T", o)
	for key := range m {
		if strings.HasPrefix(key, kind+" ") || strings.HasPrefix(key, kind+"List ") {
			delete(m, key)
		}
	}
}

func (m memo) get(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
	return m.read(key.String(), o, func() error { return c.Get(ctx, key, o, opts...) })
}

func (m memo) list(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
	options := (&client.ListOptions{}).ApplyOptions(opts)
	return m.read(fmt.Sprint(options.Namespace, options.FieldSelector), list, func() error { return c.List(ctx, list, opts...) })
}

// memoryReader reads typed objects from the API server in memory itself, which stores them as a round trip through JSON
// leaves them. Everything else, and all that the loops read past their cache, takes the way of a request.
type memoryReader struct{ server *api.Client }

func (r memoryReader) get(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
	switch o.(type) {
	case *unstructured.Unstructured, *metav1.PartialObjectMetadata:
		return c.Get(ctx, key, o, opts...)
	}
	return r.server.Get(ctx, key, o)
}

func (r memoryReader) list(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
	switch list.(type) {
	case *unstructured.UnstructuredList, *metav1.PartialObjectMetadataList:
		return c.List(ctx, list, opts...)
	}
	return r.server.List(ctx, list, opts...)
}
