package workload

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	clienttesting "k8s.io/client-go/testing"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/board"
	"attune.io/attune/internal/event"
	"attune.io/attune/internal/lookup"
	"attune.io/attune/internal/workload"
	"attune.io/attune/podview"
	"attune.io/attune/recommender"
)

// lab runs Controller.Reconcile over a fake API server and counts its writes. Its clock moves only with Step. Build
// it with newLab, change c, resize or objects through api, then call pass, storm or live.
type lab struct {
	// refuse is how many of the next writes of the status meet a conflict; stuck: because of a version that the cache
	// does not show.
	refuse int
	stuck  bool
	t      *testing.T
	c      *Controller
	clock  *clocktesting.FakeClock
	// api is the fake API server; writes through it are not counted.
	api client.WithWatch
	key types.NamespacedName

	// status, patches, meta and events count the writes of the status, of pods/resize, of other metadata (finalizers)
	// and of events.
	status, patches, meta, events int
	// told are the events, with the kinds and names of their objects and related objects.
	told []string
	// resize answers a patch of pods/resize. nil: every one is accepted and written to the pod's spec, as an API
	// server does; no kubelet carries it out.
	resize func(pod client.Object) error
}

// newLab has the recommendation rec of a workload in namespace shop, under a policy in mode Auto, node-1 with enough
// room, and the objects.
func newLab(t *testing.T, rec *v1alpha1.AttuneRecommendation, objects ...client.Object) *lab {
	t.Helper()
	l := &lab{t: t, clock: clocktesting.NewFakeClock(now), key: client.ObjectKeyFromObject(rec)}
	p := &v1alpha1.AttunePolicy{ObjectMeta: metav1.ObjectMeta{Name: "all", Namespace: "shop", UID: "policy"}}
	p.Spec.TargetRef = v1alpha1.TargetRef{Kind: rec.Spec.Workload.Kind}
	p.Spec.UpdateStrategy = &v1alpha1.UpdateStrategy{Type: ptr.To(v1alpha1.UpdateAuto)}
	rec = rec.DeepCopy()
	rec.Spec.Policy = v1alpha1.PolicyRef{Name: "all", UID: "policy"}
	rec.UID = "rec"
	objects = append(objects, p, rec, node("node-1", "160", "640Gi"), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}})
	l.api = fakeAPI(t, objects)
	counting := interceptor.NewClient(l.api, interceptor.Funcs{SubResourceUpdate: l.update, SubResourcePatch: l.patch, Patch: l.patchMeta})
	l.c = &Controller{
		Grants: &board.Grants{}, Confirmed: &board.Confirmed{},
		Client: counting, Live: interceptor.NewClient(counting, interceptor.Funcs{Get: l.readLive}), Clock: l.clock, Settings: lookup.Reader{Client: counting}, Access: Access{ControlPlane: ControlPlane{Version: "v1.36.3"}},
		Events: event.NewRecorder(countedEvents{l}, l.clock),
	}
	return l
}

func fakeAPI(t *testing.T, objects []client.Object) client.WithWatch {
	t.Helper()
	scheme := runtime.NewScheme()
	require.NoError(t, clientgoscheme.AddToScheme(scheme))
	require.NoError(t, v1alpha1.AddToScheme(scheme))
	// The fake client's own tracker builds managed fields, which takes most of its time. The loop does not read them.
	tracker := clienttesting.NewObjectTracker(scheme, serializer.NewCodecFactory(scheme).UniversalDecoder())
	return fake.NewClientBuilder().WithScheme(scheme).WithObjectTracker(tracker).WithObjects(objects...).
		WithStatusSubresource(&v1alpha1.AttuneRecommendation{}).
		WithIndex(&corev1.Pod{}, workload.PodsByWorkload, func(o client.Object) []string { return workload.IndexOf(o) }).
		WithIndex(&batchv1.Job{}, workload.JobsByCronJob, func(o client.Object) []string { return workload.IndexOfJob(o) }).
		WithIndex(&corev1.Pod{}, workload.PodsByNode, func(o client.Object) []string { return []string{o.(*corev1.Pod).Spec.NodeName} }).
		Build()
}

type countedEvents struct{ l *lab }

func (e countedEvents) Eventf(about, related runtime.Object, kind, reason, _, note string, args ...any) {
	e.l.events++
	line := kindAndName(about)
	if related != nil {
		line += " of " + kindAndName(related)
	}
	e.l.told = append(e.l.told, line+": "+kind+" "+reason+" "+fmt.Sprintf(note, args...))
}

func kindAndName(o runtime.Object) string {
	return reflect.TypeOf(o).Elem().Name() + "/" + o.(client.Object).GetName()
}

// readLive reads past the cache while the cache is stuck.
func (l *lab) readLive(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
	err := c.Get(ctx, key, o, opts...)
	if _, is := o.(*v1alpha1.AttuneRecommendation); is && l.stuck && err == nil {
		o.SetResourceVersion("999999")
	}
	return err
}

func (l *lab) update(ctx context.Context, c client.Client, sub string, o client.Object, opts ...client.SubResourceUpdateOption) error {
	if sub == "status" {
		l.status++
		if l.refuse > 0 {
			l.refuse--
			return apierrors.NewConflict(v1alpha1.GroupVersion.WithResource("attunerecommendations").GroupResource(), o.GetName(), errors.New("modified"))
		}
	}
	return c.SubResource(sub).Update(ctx, o, opts...)
}

func (l *lab) patchMeta(ctx context.Context, c client.WithWatch, o client.Object, patch client.Patch, opts ...client.PatchOption) error {
	l.meta++
	return c.Patch(ctx, o, patch, opts...)
}

// patch answers a patch of pods/resize.
func (l *lab) patch(ctx context.Context, c client.Client, sub string, o client.Object, patch client.Patch, opts ...client.SubResourcePatchOption) error {
	if sub != "resize" {
		return c.SubResource(sub).Patch(ctx, o, patch, opts...)
	}
	l.patches++
	if l.resize != nil {
		if err := l.resize(o); err != nil {
			return err
		}
	}
	return l.accept(ctx, o.(*corev1.Pod), patch)
}

// accept writes the resources of a patch of pods/resize to the pod's spec, under a new generation.
func (l *lab) accept(ctx context.Context, pod *corev1.Pod, patch client.Patch) error {
	body, err := patch.Data(pod)
	require.NoError(l.t, err)
	stored := l.pod(pod.Name)
	var named corev1.Pod
	require.NoError(l.t, json.Unmarshal(body, &named))
	if named.ResourceVersion != "" && named.ResourceVersion != stored.ResourceVersion {
		return apierrors.NewConflict(corev1.Resource("pods"), pod.Name, errors.New("the object has been modified"))
	}
	before, err := runtime.Encode(clientgoscheme.Codecs.LegacyCodec(corev1.SchemeGroupVersion), stored)
	require.NoError(l.t, err)
	after, err := strategicpatch.StrategicMergePatch(before, body, &corev1.Pod{})
	require.NoError(l.t, err)
	asked := &corev1.Pod{}
	require.NoError(l.t, runtime.DecodeInto(clientgoscheme.Codecs.UniversalDeserializer(), after, asked))
	stored.Spec = asked.Spec
	stored.Generation++
	if err := l.api.Update(ctx, stored); err != nil {
		return err
	}
	stored.DeepCopyInto(pod)
	return nil
}

// pass reconciles once.
func (l *lab) pass() ctrl.Result {
	l.t.Helper()
	result, err := l.c.Reconcile(l.t.Context(), ctrl.Request{NamespacedName: l.key})
	require.NoError(l.t, err)
	return result
}

// storm reconciles every 20 ms as long as a pass writes the status, as with a watch on the own object; at most n
// times. It returns how many passes wrote.
func (l *lab) storm(n int) int {
	l.t.Helper()
	for passes := range n {
		before := l.status
		l.pass()
		l.clock.Step(20 * time.Millisecond)
		if l.status == before {
			return passes
		}
	}
	return n
}

// wakeUps reconciles n times, every 20 ms, whatever is written.
func (l *lab) wakeUps(n int) {
	l.t.Helper()
	for range n {
		l.pass()
		l.clock.Step(20 * time.Millisecond)
	}
}

// live reconciles for a while, as a manager would: when a pass requeues itself, 20 ms after a pass that changed a
// pod, and at the latest after every 10 minutes, for another event. The status writes of the pass itself wake
// nothing.
func (l *lab) live(period time.Duration) {
	l.t.Helper()
	end := l.clock.Now().Add(period)
	for passes := 0; l.clock.Now().Before(end); passes++ {
		require.Less(l.t, passes, 2000, "a storm")
		before := l.patches
		wait := l.pass().RequeueAfter
		switch {
		case l.patches != before:
			wait = 20 * time.Millisecond
		case wait == 0 || wait > 10*time.Minute:
			wait = 10 * time.Minute
		}
		l.clock.Step(wait)
	}
}

func (l *lab) rec() *v1alpha1.AttuneRecommendation {
	l.t.Helper()
	rec := &v1alpha1.AttuneRecommendation{}
	require.NoError(l.t, l.api.Get(l.t.Context(), l.key, rec))
	return rec
}

// known is the recommendation with the progress that the loop has not stored.
func (l *lab) known() *v1alpha1.AttuneRecommendation {
	rec := l.rec()
	l.c.memory.steps.recall(rec)
	return rec
}

func (l *lab) pod(name string) *corev1.Pod {
	l.t.Helper()
	pod := &corev1.Pod{}
	require.NoError(l.t, l.api.Get(l.t.Context(), types.NamespacedName{Namespace: "shop", Name: name}, pod))
	return pod
}

// change edits an object of namespace shop as a user or another controller would.
func change[T client.Object](l *lab, name string, object T, edit func(T)) {
	l.t.Helper()
	require.NoError(l.t, l.api.Get(l.t.Context(), types.NamespacedName{Namespace: "shop", Name: name}, object))
	edit(object)
	require.NoError(l.t, l.api.Update(l.t.Context(), object))
}

// deploymentOf is Deployment web, which has rolled out all its replicas.
func deploymentOf(template recommender.Size, replicas int) *appsv1.Deployment {
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "shop"}}
	d.Spec.Replicas = ptr.To(int32(replicas))
	d.Spec.Template.Spec.Containers = []corev1.Container{{Name: "app", Resources: podview.ToRequirements(template)}}
	d.Status.Replicas, d.Status.UpdatedReplicas = int32(replicas), int32(replicas)
	return d
}

func TestLabCountsWhatIsWritten(t *testing.T) {
	from, to := sizeOf(500, 0, 512, 0), sizeOf(250, 0, 512, 0)
	l := newLab(t, heading(seen(t, from), to).Rec, deploymentOf(from, 1), running("web-1", from))
	l.pass()
	assert.Equal(t, 1, l.patches, "one resize")
	assert.Equal(t, 1, l.status, "its record before it; the pod tells the answer again")
	assert.Equal(t, 2, l.meta, "the finalizers of the recommendation and of its policy")
	assert.EqualValues(t, 2, l.known().Status.Records[0].Generation)
	pod := l.pod("web-1")
	assert.Equal(t, to[recommender.CPU], podview.ReadSpec(pod.Spec.Containers[0].Resources)[recommender.CPU], "the API server has it")
	assert.EqualValues(t, 2, pod.Generation)

	change(l, "web-1", &corev1.Pod{}, func(p *corev1.Pod) { p.Labels["x"] = "y" })
	assert.LessOrEqual(t, l.storm(10), 1, "an edit of others wakes a pass and changes nothing")
	assert.Equal(t, 1, l.patches)
}
