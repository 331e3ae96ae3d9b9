package policy

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	labelsets "k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/policy"
	"attune.io/attune/internal/workload"
)

// memory is a client whose reads cost the same as those of an informer's cache: an indexed lookup and a copy of each
// object, unless the reader promises to change nothing. It stores writes.
type memory struct {
	version int
	client.Client
	// objects of a type and namespace, by name.
	objects map[string]map[string]client.Object
	// writes by verb and type.
	writes map[string]int
	// patches of recommendations, as the API server receives them.
	patches [][]byte
}

func newMemory(objects ...client.Object) *memory {
	m := &memory{objects: map[string]map[string]client.Object{}, writes: map[string]int{}}
	for _, o := range objects {
		m.put(o)
	}
	return m
}

func shelf(o runtime.Object, namespace string) string {
	name := reflect.TypeOf(o).Elem().Name()
	if _, ok := o.(*workload.ScaledList); ok {
		name = "ScaledObjectList"
	}
	return strings.TrimSuffix(name, "List") + "/" + namespace
}

func (m *memory) put(o client.Object) {
	on := shelf(o, o.GetNamespace())
	if m.objects[on] == nil {
		m.objects[on] = map[string]client.Object{}
	}
	kept := o.DeepCopyObject().(client.Object)
	m.version++
	kept.SetResourceVersion(strconv.Itoa(m.version)) // a new version after each change
	m.objects[on][o.GetName()] = kept
}

func (m *memory) Get(_ context.Context, key client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	found := m.objects[shelf(into, key.Namespace)][key.Name]
	if found == nil {
		return apierrors.NewNotFound(schema.GroupResource{}, key.Name)
	}
	reflect.ValueOf(into).Elem().Set(reflect.ValueOf(found.DeepCopyObject()).Elem())
	return nil
}

func (m *memory) List(_ context.Context, list client.ObjectList, opts ...client.ListOption) error {
	o := (&client.ListOptions{}).ApplyOptions(opts)
	var items []runtime.Object
	for _, object := range m.on(shelf(list, o.Namespace), o.Namespace == "") {
		if o.FieldSelector != nil && !selects(o, object) || o.LabelSelector != nil && !o.LabelSelector.Matches(labelsets.Set(object.GetLabels())) {
			continue
		}
		if o.UnsafeDisableDeepCopy == nil || !*o.UnsafeDisableDeepCopy {
			items = append(items, object.DeepCopyObject())
		} else {
			items = append(items, object)
		}
	}
	return meta.SetList(list, items)
}

// on returns the objects on a shelf, or on the shelves of all namespaces.
func (m *memory) on(shelf string, all bool) map[string]client.Object {
	if !all {
		return m.objects[shelf]
	}
	found := map[string]client.Object{}
	for name, objects := range m.objects {
		if strings.HasPrefix(name, shelf) {
			for _, o := range objects {
				found[o.GetNamespace()+"/"+o.GetName()] = o
			}
		}
	}
	return found
}

// selects by the index that the loop registers.
func selects(o *client.ListOptions, object client.Object) bool {
	requirement := o.FieldSelector.Requirements()[0]
	if pod, ok := object.(*corev1.Pod); ok {
		return requirement.Field == workload.PodsByWorkload && slices.Contains(workload.IndexOf(pod), requirement.Value)
	}
	if job, ok := object.(*batchv1.Job); ok {
		return requirement.Field == workload.JobsByCronJob && slices.Contains(workload.IndexOfJob(job), requirement.Value)
	}
	rec, ok := object.(*v1alpha1.AttuneRecommendation)
	return ok && requirement.Field == policy.RecommendationsByPolicy && policy.NameOf(rec.Spec.Policy) == requirement.Value
}

func (m *memory) Create(_ context.Context, o client.Object, _ ...client.CreateOption) error {
	o.SetUID(types.UID(fmt.Sprint("uid-of-", o.GetName())))
	m.wrote("create", o)
	return nil
}

func (m *memory) Update(_ context.Context, o client.Object, _ ...client.UpdateOption) error {
	m.wrote("update", o)
	return nil
}

func (m *memory) Patch(_ context.Context, o client.Object, patch client.Patch, _ ...client.PatchOption) error {
	if _, ok := o.(*v1alpha1.AttuneRecommendation); ok {
		data, err := patch.Data(o)
		if err != nil {
			return err
		}
		m.patches = append(m.patches, data)
	}
	m.wrote("patch", o)
	return nil
}

func (m *memory) wrote(verb string, o client.Object) {
	m.writes[verb+" "+reflect.TypeOf(o).Elem().Name()]++
	m.put(o)
}

func (m *memory) Status() client.SubResourceWriter { return status{memory: m} }

// status writes the status of an object.
type status struct {
	client.SubResourceWriter
	memory *memory
}

func (s status) Patch(_ context.Context, o client.Object, _ client.Patch, _ ...client.SubResourcePatchOption) error {
	s.memory.wrote("patch status", o)
	return nil
}

// written returns the number of writes since its last call.
func (m *memory) written() (n int) {
	for _, times := range m.writes {
		n += times
	}
	clear(m.writes)
	return n
}

// recommendations returns the stored recommendations, by name.
func (m *memory) recommendations(namespace string) []*v1alpha1.AttuneRecommendation {
	var all []*v1alpha1.AttuneRecommendation
	for _, o := range m.objects[shelf(&v1alpha1.AttuneRecommendation{}, namespace)] {
		all = append(all, o.(*v1alpha1.AttuneRecommendation))
	}
	slices.SortFunc(all, func(a, b *v1alpha1.AttuneRecommendation) int { return strings.Compare(a.Name, b.Name) })
	return all
}
