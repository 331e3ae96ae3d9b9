package api

import (
	"reflect"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func copied(o client.Object) client.Object { return o.DeepCopyObject().(client.Object) }

// fill sets an object to the value of another one, which it shares from then on.
func fill(out, from client.Object) {
	reflect.ValueOf(out).Elem().Set(reflect.ValueOf(from).Elem())
}

// half of an object: a field such as Status, or the zero Value.
func half(o client.Object, name string) reflect.Value {
	return reflect.ValueOf(o).Elem().FieldByName(name)
}

// keepField takes a field over from another object of the kind.
func keepField(to, from client.Object, name string) {
	if f := half(to, name); f.IsValid() {
		f.Set(half(from, name))
	}
}

// sameStatus tells whether the halves that the kubelets and controllers write are equal.
func sameStatus(a, b client.Object) bool {
	f := half(a, "Status")
	return !f.IsValid() || equality.Semantic.DeepEqual(f.Interface(), half(b, "Status").Interface())
}

// sameSpec compares all that is neither metadata nor status.
func sameSpec(a, b client.Object) bool {
	va, vb := reflect.ValueOf(a).Elem(), reflect.ValueOf(b).Elem()
	for i := range va.NumField() {
		switch va.Type().Field(i).Name {
		case "TypeMeta", "ObjectMeta", "Status":
			continue
		}
		if !equality.Semantic.DeepEqual(va.Field(i).Interface(), vb.Field(i).Interface()) {
			return false
		}
	}
	return true
}

// sameMeta compares what users and controllers may write of the metadata.
func sameMeta(a, b client.Object) bool {
	return equality.Semantic.DeepEqual(a.GetLabels(), b.GetLabels()) &&
		equality.Semantic.DeepEqual(a.GetAnnotations(), b.GetAnnotations()) &&
		equality.Semantic.DeepEqual(a.GetFinalizers(), b.GetFinalizers()) &&
		equality.Semantic.DeepEqual(a.GetOwnerReferences(), b.GetOwnerReferences()) &&
		a.GetDeletionTimestamp().Equal(b.GetDeletionTimestamp())
}

// systemMeta restores what only the server writes.
func systemMeta(o, stored client.Object) {
	o.SetUID(stored.GetUID())
	o.SetCreationTimestamp(stored.GetCreationTimestamp())
	o.SetGeneration(stored.GetGeneration())
	o.SetDeletionTimestamp(stored.GetDeletionTimestamp())
	o.SetDeletionGracePeriodSeconds(stored.GetDeletionGracePeriodSeconds())
	o.SetGenerateName(stored.GetGenerateName())
	o.SetManagedFields(stored.GetManagedFields())
}

// setItems fills a list; the items are copied unless they are shared.
func setItems(list client.ObjectList, items []client.Object, share bool) {
	into := reflect.ValueOf(list).Elem().FieldByName("Items")
	slice := reflect.MakeSlice(into.Type(), len(items), len(items))
	for i, o := range items {
		if !share {
			o = copied(o)
		}
		slice.Index(i).Set(reflect.ValueOf(o).Elem())
	}
	into.Set(slice)
}

// SetItems fills a list, for caches.
func SetItems(list client.ObjectList, items []client.Object, share bool) {
	setItems(list, items, share)
}

// Fill sets an object to the value of another one, a copy of it unless it is shared.
func Fill(out, from client.Object, share bool) {
	if !share {
		from = copied(from)
	}
	fill(out, from)
}

func setVersion(list client.ObjectList, version string) {
	if l, ok := any(list).(metav1.ListInterface); ok {
		l.SetResourceVersion(version)
	}
}

var _ runtime.Object = client.Object(nil)
