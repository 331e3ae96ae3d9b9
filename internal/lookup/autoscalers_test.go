package lookup

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	toolscache "k8s.io/client-go/tools/cache"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/autoscale"
	"attune.io/attune/internal/workload"
)

var (
	missing = apierrors.NewNotFound(schema.GroupResource{}, "")
	down    = errors.New("the server is down")
)

// answers is the discovery of an API server.
type answers struct {
	kinds []string
	err   error
}

func (a *answers) ServerResourcesForGroupVersion(string) (*metav1.APIResourceList, error) {
	list := &metav1.APIResourceList{}
	for _, kind := range a.kinds {
		list.APIResources = append(list.APIResources, metav1.APIResource{Name: strings.ToLower(kind) + "s", Kind: kind})
	}
	return list, a.err
}

var web = workload.Workload{Identity: workload.Identity{Kind: v1alpha1.KindDeployment, Namespace: "shop", Name: "web"}}

// shelf is a cache that records its calls.
type shelf struct {
	cache.Cache
	did []string
	err map[string]error
}

func (s *shelf) note(what string) error {
	s.did = append(s.did, what)
	return s.err[what]
}

func (s *shelf) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	if list.GetObjectKind().GroupVersionKind() == autoscale.ScaledObjectKind {
		return s.note("list ScaledObjects")
	}
	if _, ok := list.(*autoscalingv2.HorizontalPodAutoscalerList); ok {
		return s.note("list HPAs")
	}
	return s.note("list VPAs")
}

func (s *shelf) GetInformer(context.Context, client.Object, ...cache.InformerGetOption) (cache.Informer, error) {
	return deaf{}, s.note("watch")
}

func (s *shelf) IndexField(_ context.Context, o client.Object, _ string, _ client.IndexerFunc) error {
	if _, ok := o.(*autoscalingv2.HorizontalPodAutoscaler); ok {
		return nil
	}
	return s.note("index VPAs")
}

func (s *shelf) RemoveInformer(context.Context, client.Object) error { return s.note("end the watch") }

// deaf is an informer that never sends an event.
type deaf struct{ cache.Informer }

func (deaf) AddEventHandler(toolscache.ResourceEventHandler) (toolscache.ResourceEventHandlerRegistration, error) {
	return nil, nil
}

func started(t *testing.T, a *answers, s *shelf) (*Autoscalers, *int) {
	t.Helper()
	changes := new(int)
	l, err := NewAutoscalers(t.Context(), AutoscalerOptions{Cache: s, Served: a, Clock: clocktesting.NewFakeClock(time.Now()), Changed: func(string) { *changes++ }})
	require.NoError(t, err)
	return l, changes
}

func TestAClusterWithoutVPAsIsNoError(t *testing.T) {
	for name, a := range map[string]*answers{"no such group": {err: missing}, "another kind of the group": {kinds: []string{"Checkpoint"}}} {
		s := &shelf{}
		l, _ := started(t, a, s)
		_, err := l.Of(t.Context(), web)
		require.NoError(t, err, name)
		assert.Equal(t, []string{"list HPAs"}, s.did, name)
	}
	_, err := NewAutoscalers(t.Context(), AutoscalerOptions{Served: &answers{err: down}})
	assert.ErrorIs(t, err, down, "whether there are VPAs has to be known before anything is changed")
}

func TestFailedListIsAnError(t *testing.T) {
	for _, what := range []string{"list HPAs", "list VPAs", "list ScaledObjects"} {
		l, _ := started(t, &answers{kinds: []string{"VerticalPodAutoscaler", "ScaledObject"}}, &shelf{err: map[string]error{what: down}})
		_, err := l.Of(t.Context(), web)
		assert.ErrorIs(t, err, down, what)
	}
}

func TestFollowingTheKind(t *testing.T) {
	ctx, a, s := t.Context(), &answers{err: missing}, &shelf{err: map[string]error{}}
	l, changes := started(t, a, s)
	watching := false
	look := func(why string, want bool, changed int, did ...string) {
		t.Helper()
		s.did = nil
		watching, _ = l.follow(ctx, &l.vpas, watching)
		assert.Equal(t, want, watching, why)
		assert.Equal(t, changed, *changes, why)
		assert.Equal(t, did, s.did, why)
	}
	look("there is none, and no watch of a late reader", false, 0, "end the watch")
	*a = answers{kinds: []string{"VerticalPodAutoscaler"}}
	s.err["watch"] = down
	look("it came, and cannot be watched yet", false, 1, "index VPAs", "watch")
	delete(s.err, "watch")
	look("the watch is tried again", true, 2, "watch")
	look("nothing new", true, 2)
	*a = answers{err: down}
	look("no answer changes nothing", true, 2)
	assert.True(t, l.vpas.serves.Load())
	*a = answers{err: missing}
	look("it went", false, 3, "end the watch")
	assert.False(t, l.vpas.serves.Load())
	look("what a late reader has begun ends", false, 3, "end the watch")
	*a = answers{kinds: []string{"VerticalPodAutoscaler"}}
	look("it came back, to a new informer", true, 4, "index VPAs", "watch")
}
