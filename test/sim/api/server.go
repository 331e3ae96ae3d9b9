// Package api is an API server in memory: what loops, kubelets and controllers need of the real one, fast enough to
// play weeks in seconds and the same in every run. One goroutine uses it.
//
// What is stored is never changed, only replaced: watchers and lists may share it.
package api

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Options of a Server.
type Options struct {
	Scheme *runtime.Scheme
	// Now is the time of the server.
	Now func() time.Time
	// Minor version of Kubernetes, 33 to 37.
	Minor int
	// NoResize: pods/resize is not served.
	NoResize bool
	// Admit is the mutating webhook of new pods; nil: there is none.
	Admit func(*corev1.Pod)
	// Validate is what validates new pods as they are after Admit; nil: nothing does.
	Validate func(*corev1.Pod) error
	// Refuse is what validates and admits calls beside the server's own rules; nil: nothing does.
	Refuse func(actor, verb string, o client.Object) error
}

// Event is one change of an object.
type Event struct {
	Type watch.EventType
	// Object as it is now, or was last; Old as it was before, nil where it is new.
	Object, Old client.Object
}

// Server stores objects. It is for one goroutine.
type Server struct {
	Options
	// Journal of what was asked for.
	Journal *Journal

	kinds    map[reflect.Type]*kind
	stored   map[*kind]*shelf
	version  int64
	uids     int64
	watchers []func(Event)
}

// shelf holds the objects of a kind.
type shelf struct {
	objects map[types.NamespacedName]client.Object
	// sorted are the keys by namespace and name; nil: to be sorted anew.
	sorted []types.NamespacedName
	// byNode are pods by the node that they are bound to.
	byNode map[string]map[types.NamespacedName]client.Object
}

// New is an empty server.
func New(o Options) *Server {
	s := &Server{Options: o, kinds: kinds(), stored: map[*kind]*shelf{}, Journal: newJournal()}
	for _, k := range s.kinds {
		s.stored[k] = &shelf{objects: map[types.NamespacedName]client.Object{}, byNode: map[string]map[types.NamespacedName]client.Object{}}
	}
	return s
}

// Watch tells f of every change from now on, in order. What it is told is shared.
func (s *Server) Watch(f func(Event)) { s.watchers = append(s.watchers, f) }

// Unwatch forgets every watcher; those that stay watch anew.
func (s *Server) Unwatch() { s.watchers = nil }

// Stored are the objects of a kind, by namespace and name. They are shared.
func (s *Server) Stored(of client.Object) []client.Object { return s.stored[s.kindOf(of)].list() }

// Version of the newest write.
func (s *Server) Version() int64 { return s.version }

// Peek at an object; nil: there is none. It is shared.
func (s *Server) Peek(of client.Object, key types.NamespacedName) client.Object {
	return s.stored[s.kindOf(of)].objects[key]
}

// OnNode are the pods that are bound to a node, by namespace and name. They are shared.
func (s *Server) OnNode(name string) []client.Object {
	var all []client.Object
	for _, o := range s.stored[s.kinds[podType]].byNode[name] {
		all = append(all, o)
	}
	slices.SortFunc(all, func(a, b client.Object) int {
		return cmp.Or(cmp.Compare(a.GetNamespace(), b.GetNamespace()), cmp.Compare(a.GetName(), b.GetName()))
	})
	return all
}

func (h *shelf) list() []client.Object {
	if h.sorted == nil {
		h.sorted = make([]types.NamespacedName, 0, len(h.objects))
		for key := range h.objects {
			h.sorted = append(h.sorted, key)
		}
		slices.SortFunc(h.sorted, func(a, b types.NamespacedName) int {
			return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
		})
	}
	all := make([]client.Object, len(h.sorted))
	for i, key := range h.sorted {
		all[i] = h.objects[key]
	}
	return all
}

func (h *shelf) put(key types.NamespacedName, o client.Object) {
	before, known := h.objects[key]
	if !known {
		h.sorted = nil
	}
	h.index(key, before, o)
	h.objects[key] = o
}

func (h *shelf) drop(key types.NamespacedName) {
	h.index(key, h.objects[key], nil)
	delete(h.objects, key)
	h.sorted = nil
}

func (h *shelf) index(key types.NamespacedName, before, after client.Object) {
	if node := nodeOf(before); node != "" {
		delete(h.byNode[node], key)
	}
	if node := nodeOf(after); node != "" {
		if h.byNode[node] == nil {
			h.byNode[node] = map[types.NamespacedName]client.Object{}
		}
		h.byNode[node][key] = after
	}
}

// commit stores an object under the next version and tells the watchers.
func (s *Server) commit(k *kind, o client.Object) {
	s.version++
	o.SetResourceVersion(strconv.FormatInt(s.version, 10))
	o.GetObjectKind().SetGroupVersionKind(k.GroupVersionKind)
	key := client.ObjectKeyFromObject(o)
	before := s.stored[k].objects[key]
	s.stored[k].put(key, o)
	event := Event{Type: watch.Added, Object: o}
	if before != nil {
		event = Event{Type: watch.Modified, Object: o, Old: before}
	}
	s.tell(event)
}

// remove an object and tell the watchers.
func (s *Server) remove(k *kind, o client.Object) {
	s.version++
	before := s.stored[k].objects[client.ObjectKeyFromObject(o)]
	s.stored[k].drop(client.ObjectKeyFromObject(o))
	last := copied(o)
	last.SetResourceVersion(strconv.FormatInt(s.version, 10))
	s.tell(Event{Type: watch.Deleted, Object: last, Old: before})
}

func (s *Server) tell(e Event) {
	for _, f := range s.watchers {
		f(e)
	}
}

func (s *Server) newUID() types.UID {
	s.uids++
	return types.UID(fmt.Sprintf("00000000-0000-4000-8000-%012d", s.uids))
}

// stamp is the server's time as it is stored: in whole seconds.
func (s *Server) stamp() metav1.Time { return metav1.NewTime(s.Now().Truncate(time.Second)) }
