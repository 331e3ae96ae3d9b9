package sim

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"attune.io/attune/internal/loop"
	"attune.io/attune/test/sim/api"
)

// cache is what one process knows of the API server: its informers, each behind by as much as its watch lags. The
// order of the changes of a kind is kept.
type cache struct {
	time    *timeline
	server  *api.Server
	trim    func(any) (any, error)
	lag     func(kind string) time.Duration
	shelves map[reflect.Type]*shelf
	dead    bool
}

// shelf is one informer.
type shelf struct {
	objects map[types.NamespacedName]client.Object
	sorted  []types.NamespacedName
	indexes map[string]*index
	// last is when the newest change arrives.
	last time.Time
	// heard are those who are told of changes.
	heard []func(api.Event)
	// cut: the watch is broken, and nothing arrives until it is listed anew.
	cut bool
}

type index struct {
	of   client.IndexerFunc
	keys map[string]map[types.NamespacedName]bool
}

func newCache(t *timeline, server *api.Server, trim func(any) (any, error), lag func(string) time.Duration) *cache {
	return &cache{time: t, server: server, trim: trim, lag: lag, shelves: map[reflect.Type]*shelf{}}
}

// of is the informer of a kind; the first call makes it.
func (c *cache) of(o client.Object) *shelf {
	if _, metadata := o.(*metav1.PartialObjectMetadata); metadata {
		o = &corev1.Namespace{} // of no other kind is it read by itself
	}
	t := reflect.TypeOf(o).Elem()
	s := c.shelves[t]
	if s == nil {
		s = &shelf{objects: map[types.NamespacedName]client.Object{}, indexes: map[string]*index{}}
		c.shelves[t] = s
	}
	return s
}

// indexed by the indexes of a loop.
func (c *cache) indexed(all []loop.Index) {
	for _, i := range all {
		c.of(i.Object).indexes[i.Field] = &index{i.Of, map[string]map[types.NamespacedName]bool{}}
	}
}

// watched wakes a loop's queue for what its table says.
func (c *cache) watched(ctx context.Context, watches []loop.Watch, q loop.Queue) {
	for _, w := range watches {
		when, handler := w.Predicate(), w.Handler()
		s := c.of(w.Object)
		s.heard = append(s.heard, func(e api.Event) {
			switch e.Type {
			case watch.Added:
				if made := (event.CreateEvent{Object: e.Object}); when.Create(made) {
					handler.Create(ctx, made, q)
				}
			case watch.Modified:
				if changed := (event.UpdateEvent{ObjectOld: e.Old, ObjectNew: e.Object}); when.Update(changed) {
					handler.Update(ctx, changed, q)
				}
			case watch.Deleted:
				if gone := (event.DeleteEvent{Object: e.Object}); when.Delete(gone) {
					handler.Delete(ctx, gone, q)
				}
			}
		})
	}
}

// start lists every kind and follows it from then on.
func (c *cache) start() {
	c.server.Watch(c.hear)
	for _, t := range c.sorted() {
		for _, o := range c.server.Stored(reflect.New(t).Interface().(client.Object)) {
			c.arrive(t, api.Event{Type: watch.Added, Object: o})
		}
	}
}

func (c *cache) sorted() []reflect.Type {
	all := make([]reflect.Type, 0, len(c.shelves))
	for t := range c.shelves {
		all = append(all, t)
	}
	slices.SortFunc(all, func(a, b reflect.Type) int { return strings.Compare(a.Name(), b.Name()) })
	return all
}

// hear of a change as soon as it is made; it arrives later.
func (c *cache) hear(e api.Event) {
	t := reflect.TypeOf(e.Object).Elem()
	s := c.shelves[t]
	if s == nil || c.dead || s.cut {
		return
	}
	at := c.time.now.Add(c.lag(t.Name()))
	if at.Before(s.last) {
		at = s.last
	}
	s.last = at
	c.time.at(at, func() {
		if !c.dead && !s.cut {
			c.arrive(t, e)
		}
	})
}

// arrive puts a change into the cache and tells the loops.
func (c *cache) arrive(t reflect.Type, e api.Event) {
	s := c.shelves[t]
	key := client.ObjectKeyFromObject(e.Object)
	before := s.objects[key]
	if e.Type == watch.Deleted {
		if before == nil {
			return
		}
		s.remove(key, before)
		s.tell(api.Event{Type: watch.Deleted, Object: before})
		return
	}
	trimmed, err := c.trim(e.Object.DeepCopyObject())
	if err != nil {
		panic(err)
	}
	after := trimmed.(client.Object)
	s.put(key, before, after)
	if before == nil {
		s.tell(api.Event{Type: watch.Added, Object: after})
	} else {
		s.tell(api.Event{Type: watch.Modified, Object: after, Old: before})
	}
}

func (s *shelf) tell(e api.Event) {
	for _, f := range s.heard {
		f(e)
	}
}

func (s *shelf) put(key types.NamespacedName, before, after client.Object) {
	if before == nil {
		s.sorted = nil
	}
	s.objects[key] = after
	for _, i := range s.indexes {
		i.move(key, before, after)
	}
}

func (s *shelf) remove(key types.NamespacedName, before client.Object) {
	delete(s.objects, key)
	s.sorted = nil
	for _, i := range s.indexes {
		i.move(key, before, nil)
	}
}

func (i *index) move(key types.NamespacedName, before, after client.Object) {
	if before != nil {
		for _, value := range i.of(before) {
			delete(i.keys[value], key)
			if len(i.keys[value]) == 0 {
				delete(i.keys, value)
			}
		}
	}
	if after != nil {
		for _, value := range i.of(after) {
			if i.keys[value] == nil {
				i.keys[value] = map[types.NamespacedName]bool{}
			}
			i.keys[value][key] = true
		}
	}
}

// cut breaks the watch of a kind, and lists it anew after a while: what happened meanwhile is seen as one change.
func (c *cache) cut(of client.Object, d time.Duration) {
	s := c.of(of)
	if s.cut {
		return
	}
	s.cut = true
	c.time.after(d, func() {
		s.cut, s.last = false, c.time.now
		if !c.dead {
			c.relist(of)
		}
	})
}

func (c *cache) relist(of client.Object) {
	t := reflect.TypeOf(of).Elem()
	s := c.shelves[t]
	there := map[types.NamespacedName]bool{}
	for _, o := range c.server.Stored(of) {
		key := client.ObjectKeyFromObject(o)
		there[key] = true
		if before := s.objects[key]; before == nil || before.GetResourceVersion() != o.GetResourceVersion() {
			c.arrive(t, api.Event{Type: watch.Modified, Object: o})
		}
	}
	for _, key := range s.keys() {
		if !there[key] {
			c.arrive(t, api.Event{Type: watch.Deleted, Object: s.objects[key]})
		}
	}
}

func (s *shelf) keys() []types.NamespacedName {
	if s.sorted == nil {
		s.sorted = make([]types.NamespacedName, 0, len(s.objects))
		for key := range s.objects {
			s.sorted = append(s.sorted, key)
		}
		slices.SortFunc(s.sorted, byName)
	}
	return s.sorted
}

func byName(a, b types.NamespacedName) int {
	if c := strings.Compare(a.Namespace, b.Namespace); c != 0 {
		return c
	}
	return strings.Compare(a.Name, b.Name)
}

// Get reads the cache.
func (c *cache) Get(_ context.Context, key client.ObjectKey, out client.Object, opts ...client.GetOption) error {
	if meta, ok := out.(*metav1.PartialObjectMetadata); ok {
		return c.metadata(key, meta)
	}
	t := reflect.TypeOf(out).Elem()
	s := c.shelves[t]
	if s == nil {
		panic(fmt.Sprintf("no informer of %T", out))
	}
	o := s.objects[key]
	if o == nil {
		return apierrors.NewNotFound(schema.GroupResource{Resource: strings.ToLower(t.Name()) + "s"}, key.Name)
	}
	options := (&client.GetOptions{}).ApplyOptions(opts)
	api.Fill(out, o, options.UnsafeDisableDeepCopy != nil && *options.UnsafeDisableDeepCopy)
	return nil
}

// metadata of a namespace: of no other kind is it read by itself.
func (c *cache) metadata(key client.ObjectKey, out *metav1.PartialObjectMetadata) error {
	namespace := &corev1.Namespace{}
	if err := c.Get(context.Background(), key, namespace); err != nil {
		return err
	}
	out.ObjectMeta = namespace.ObjectMeta
	return nil
}

// namespaces are the only metadata that is listed by itself.
func (c *cache) namespaces(out *metav1.PartialObjectMetadataList) error {
	list := &corev1.NamespaceList{}
	if err := c.List(context.Background(), list); err != nil {
		return err
	}
	for i := range list.Items {
		out.Items = append(out.Items, metav1.PartialObjectMetadata{ObjectMeta: list.Items[i].ObjectMeta})
	}
	return nil
}

// List reads the cache, by an index where one is asked for.
func (c *cache) List(_ context.Context, list client.ObjectList, opts ...client.ListOption) error {
	if metadata, ok := list.(*metav1.PartialObjectMetadataList); ok {
		return c.namespaces(metadata)
	}
	items, _ := reflect.TypeOf(list).Elem().FieldByName("Items")
	s := c.shelves[items.Type.Elem()]
	if s == nil {
		panic(fmt.Sprintf("no informer for %T", list))
	}
	options := (&client.ListOptions{}).ApplyOptions(opts)
	var found []client.Object
	for _, key := range s.candidates(options) {
		if o := s.objects[key]; api.Selected(o, options) {
			found = append(found, o)
		}
	}
	api.SetItems(list, found, options.UnsafeDisableDeepCopy != nil && *options.UnsafeDisableDeepCopy)
	return nil
}

func (s *shelf) candidates(o *client.ListOptions) []types.NamespacedName {
	if o.FieldSelector == nil {
		return s.keys()
	}
	r := o.FieldSelector.Requirements()[0]
	i := s.indexes[r.Field]
	if i == nil {
		panic("no index " + r.Field)
	}
	keys := make([]types.NamespacedName, 0, len(i.keys[r.Value]))
	for key := range i.keys[r.Value] {
		keys = append(keys, key)
	}
	slices.SortFunc(keys, byName)
	return keys
}
