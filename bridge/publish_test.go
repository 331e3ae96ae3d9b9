package bridge_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/bridge"
	"attune.io/attune/internal/autoscale"
	"attune.io/attune/internal/trim"
	"attune.io/attune/internal/workload"
)

const role = "attune-bridge-vpa"

// room is a cluster's objects in memory, and the loop over them. It lists VPAs as attune's cache stores them.
type room struct {
	t       *testing.T
	objects client.WithWatch
	loop    *bridge.Loop
	// meanwhile runs after a pass has listed the VPAs, as another writer.
	meanwhile func()
	// refuses reports whether the API server rejects writes of an object of this name; nil: it rejects none. asked
	// counts the writes by name.
	refuses func(name string) bool
	asked   map[string]int
	clock   *clocktesting.FakeClock
}

func newRoom(t *testing.T, most int) *room {
	t.Helper()
	scheme := runtime.NewScheme()
	require.NoError(t, clientgoscheme.AddToScheme(scheme))
	require.NoError(t, v1alpha1.AddToScheme(scheme))
	kind := &unstructured.Unstructured{}
	kind.SetGroupVersionKind(autoscale.VPAKind)
	r := &room{t: t, asked: map[string]int{}, clock: clocktesting.NewFakeClock(time.Unix(2e9, 0)), objects: fake.NewClientBuilder().WithScheme(scheme).WithStatusSubresource(kind).
		WithObjects(&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: role, UID: "role-uid"}}).Build()}
	cached := interceptor.NewClient(r.objects, interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, options ...client.CreateOption) error {
			if err := r.ask(o); err != nil {
				return err
			}
			return c.Create(ctx, o, options...)
		},
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, options ...client.DeleteOption) error {
			if err := r.ask(o); err != nil {
				return err
			}
			return c.Delete(ctx, o, options...)
		},
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch, options ...client.SubResourcePatchOption) error {
			if err := r.ask(o); err != nil {
				return err
			}
			return c.SubResource(sub).Patch(ctx, o, p, options...)
		},
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
			if err := c.List(ctx, list, options...); err != nil {
				return err
			}
			if vpas, ok := list.(*unstructured.UnstructuredList); ok {
				for i := range vpas.Items {
					if _, err := trim.Object(&vpas.Items[i]); err != nil {
						return err
					}
				}
				if r.meanwhile != nil {
					r.meanwhile()
				}
			}
			return nil
		},
	})
	r.loop = bridge.New(bridge.Options{
		Client: cached, VPAs: cached, Live: r.objects, HasVPAs: func() bool { return true }, Role: role, Admission: workload.Admission{Operator: "attune-system"},
		Clock: r.clock, MostWrites: most,
	})
	return r
}

func (r *room) ask(o client.Object) error {
	r.asked[o.GetName()]++
	if r.refuses != nil && r.refuses(o.GetName()) {
		return apierrors.NewForbidden(schema.GroupResource{Group: autoscale.VPAKind.Group, Resource: "verticalpodautoscalers"}, o.GetName(), errors.New("not here"))
	}
	return nil
}

func (r *room) pass() {
	r.t.Helper()
	require.NoError(r.t, r.loop.Pass(r.t.Context()))
}

func (r *room) recommend(names ...string) {
	r.t.Helper()
	for _, name := range names {
		id := workload.Identity{Kind: v1alpha1.KindDeployment, Namespace: "shop", Name: name}
		cpu := resource.MustParse("300m")
		require.NoError(r.t, r.objects.Create(r.t.Context(), &v1alpha1.AttuneRecommendation{
			ObjectMeta: metav1.ObjectMeta{Namespace: id.Namespace, Name: id.RecommendationName(), CreationTimestamp: metav1.NewTime(time.Unix(1e9, 0))},
			Spec: v1alpha1.AttuneRecommendationSpec{
				Workload:   v1alpha1.WorkloadRef{Kind: id.Kind, Name: id.Name},
				Containers: []v1alpha1.ContainerTarget{{Name: "app", Target: v1alpha1.Resources{CPURequest: &cpu}}},
			},
		}))
	}
}

// publish creates a VPA of ours that has no recommendation.
func (r *room) publish(name, mode string) *unstructured.Unstructured {
	r.t.Helper()
	u := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{
		"targetRef":    map[string]any{"apiVersion": "apps/v1", "kind": "Deployment", "name": name},
		"updatePolicy": map[string]any{"updateMode": mode}, "recommenders": []any{map[string]any{"name": "attune"}},
	}}}
	u.SetGroupVersionKind(autoscale.VPAKind)
	u.SetNamespace("shop")
	u.SetName("attune-deployment-" + name)
	u.SetUID(types.UID("uid-" + name))
	u.SetLabels(map[string]string{autoscale.ManagedByLabel: autoscale.ManagedBy, "team": "shop"})
	u.SetAnnotations(map[string]string{v1alpha1.PublishedAnnotation: "old"})
	u.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "rbac.authorization.k8s.io/v1", Kind: "ClusterRole", Name: role, UID: "role-uid"}})
	require.NoError(r.t, r.objects.Create(r.t.Context(), u))
	return u
}

func (r *room) vpas() map[string]*unstructured.Unstructured {
	r.t.Helper()
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(autoscale.VPAKind)
	require.NoError(r.t, r.objects.List(r.t.Context(), list))
	all := map[string]*unstructured.Unstructured{}
	for i := range list.Items {
		all[list.Items[i].GetName()] = &list.Items[i]
	}
	return all
}

func (r *room) update(name string, change func(*unstructured.Unstructured)) {
	r.t.Helper()
	u := r.vpas()["attune-deployment-"+name]
	change(u)
	require.NoError(r.t, r.objects.Update(r.t.Context(), u))
}

func modeOf(u *unstructured.Unstructured) string {
	mode, _, _ := unstructured.NestedString(u.Object, "spec", "updatePolicy", "updateMode")
	return mode
}

// counted returns the values of attune_bridge_vpa_objects by state.
func counted(t *testing.T) map[string]int {
	t.Helper()
	families, err := metrics.Registry.Gather()
	require.NoError(t, err)
	values := map[string]int{}
	for _, f := range families {
		if f.GetName() == "attune_bridge_vpa_objects" {
			for _, m := range f.GetMetric() {
				values[m.GetLabel()[0].GetValue()] = int(m.GetGauge().GetValue())
			}
		}
	}
	return values
}

// If VPA's admission controller is installed, the loop deletes the published objects at once, first those that it
// would act on.
func TestObjectsAreDeletedIfVPAIsInstalled(t *testing.T) {
	r := newRoom(t, 2)
	for i := range 30 {
		r.publish(fmt.Sprintf("off%d", i), "Off")
	}
	for i := range 15 {
		r.publish(fmt.Sprintf("initial%d", i), "Initial")
	}
	r.recommend("off1")
	require.NoError(t, r.objects.Create(t.Context(), &admissionv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: autoscale.VPAWebhook}}))
	r.pass()
	left := r.vpas()
	assert.Len(t, left, 25, "ten times as many as else")
	for name, vpa := range left {
		assert.Equal(t, "Off", modeOf(vpa), name)
	}
	assert.Equal(t, map[string]int{"published": 0, "behind": 45, "foreign": 0}, counted(t))
	r.pass()
	r.pass()
	assert.Empty(t, r.vpas())
	r.pass()
	assert.Equal(t, map[string]int{"published": 0, "behind": 0, "foreign": 0}, counted(t))
}

// Deletions get the part of the budget that writes do not need, but at least half.
func TestDeletionsUseTheUnusedWriteBudget(t *testing.T) {
	r := newRoom(t, 4)
	for i := range 6 {
		r.publish(fmt.Sprintf("gone%d", i), "Off")
	}
	r.recommend("a")
	r.pass()
	left := r.vpas()
	assert.Contains(t, left, "attune-deployment-a")
	assert.Len(t, left, 1+3, "one write, three deletions")
	r.recommend("b", "c", "d")
	r.pass()
	left = r.vpas()
	assert.Len(t, left, 3+1, "two writes, two deletions")
}

// A rejected write backs off and does not delay others. It is tried soon after it may succeed.
func TestRejectedWritesBackOff(t *testing.T) {
	for name, refused := range map[string]func(r *room){
		"made":    func(r *room) { r.recommend("refused") },
		"deleted": func(r *room) { r.publish("refused", "Off") },
	} {
		t.Run(name, func(t *testing.T) {
			r := newRoom(t, 0)
			refused(r)
			const object = "attune-deployment-refused"
			r.refuses = func(name string) bool { return name == object }
			pass := func() error {
				r.clock.Step(time.Minute)
				return r.loop.Pass(t.Context())
			}
			require.ErrorContains(t, pass(), "not here")
			require.NoError(t, pass(), "it is not asked again yet")
			r.recommend("late")
			require.ErrorContains(t, pass(), "not here", "it is asked again")
			assert.Contains(t, r.vpas(), "attune-deployment-late", "what is new does not wait")
			for range 24 * 60 {
				_ = pass() // an error at each attempt
			}
			assert.Less(t, r.asked[object], 60)
			assert.Greater(t, r.asked[object], 40)
			assert.Equal(t, 1, counted(t)["behind"])

			r.refuses = nil
			for range 31 {
				require.NoError(t, pass())
			}
			_, there := r.vpas()[object]
			assert.Equal(t, name == "made", there)
			assert.Zero(t, counted(t)["behind"])
		})
	}
}

// A VPA that could not be written is deleted at once when it is obsolete: writes and deletions back off separately.
func TestObsoleteObjectIsDeletedDespiteWriteBackoff(t *testing.T) {
	r := newRoom(t, 0)
	r.publish("web", "Off")
	r.recommend("web")
	r.refuses = func(string) bool { return true }
	for range 45 {
		_ = r.loop.Pass(t.Context()) // an error at each attempt
		r.clock.Step(time.Minute)
	}
	require.Contains(t, r.vpas(), "attune-deployment-web")
	r.refuses = nil
	require.NoError(t, r.objects.DeleteAllOf(t.Context(), &v1alpha1.AttuneRecommendation{}, client.InNamespace("shop")))
	r.pass()
	assert.Empty(t, r.vpas())
}

// While VPA's admission controller is installed, it sizes pods by the objects that it acts on: their deletion is
// tried in every pass.
func TestNoBackoffForObjectsThatVPAActsOn(t *testing.T) {
	r := newRoom(t, 0)
	r.publish("initial", "Initial")
	r.publish("off", "Off")
	require.NoError(t, r.objects.Create(t.Context(), &admissionv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: autoscale.VPAWebhook}}))
	r.refuses = func(string) bool { return true }
	for range 60 {
		require.Error(t, r.loop.Pass(t.Context()))
		r.clock.Step(time.Minute)
	}
	assert.Equal(t, 60, r.asked["attune-deployment-initial"])
	assert.Less(t, r.asked["attune-deployment-off"], 10)
	r.refuses = nil
	r.pass()
	assert.NotContains(t, r.vpas(), "attune-deployment-initial")
}

// The metric counts as published only objects in the cluster with the wanted content.
func TestMetricCountsExistingObjects(t *testing.T) {
	r := newRoom(t, 2)
	r.recommend("a", "b", "c")
	r.pass()
	assert.Equal(t, map[string]int{"published": 0, "behind": 3, "foreign": 0}, counted(t))
	r.pass()
	assert.Equal(t, map[string]int{"published": 2, "behind": 1, "foreign": 0}, counted(t))
	r.pass()
	assert.Equal(t, map[string]int{"published": 3, "behind": 0, "foreign": 0}, counted(t))
	r.update("a", func(u *unstructured.Unstructured) { u.SetLabels(nil) })
	r.pass()
	assert.Equal(t, map[string]int{"published": 2, "behind": 0, "foreign": 1}, counted(t))
}

// An object whose content was changed is written again, and no other object.
func TestChangedContentIsRestored(t *testing.T) {
	for name, spoil := range map[string]func(*unstructured.Unstructured) []string{
		"the status":         func(*unstructured.Unstructured) []string { return []string{"status"} },
		"the recommendation": func(*unstructured.Unstructured) []string { return []string{"status", "recommendation"} },
		"the recommended amounts": func(*unstructured.Unstructured) []string {
			return []string{"status", "recommendation", "containerRecommendations"}
		},
		"the mode": func(u *unstructured.Unstructured) []string {
			_ = unstructured.SetNestedField(u.Object, "Initial", "spec", "updatePolicy", "updateMode")
			return nil
		},
		"the version of the target": func(u *unstructured.Unstructured) []string {
			_ = unstructured.SetNestedField(u.Object, "apps/v1beta1", "spec", "targetRef", "apiVersion")
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRoom(t, 0)
			r.recommend("web")
			r.pass()
			whole := r.vpas()["attune-deployment-web"]
			r.pass()
			require.Equal(t, whole.GetResourceVersion(), r.vpas()["attune-deployment-web"].GetResourceVersion())
			spoilt := whole.DeepCopy()
			if path := spoil(spoilt); path != nil {
				unstructured.RemoveNestedField(spoilt.Object, path...)
				require.NoError(t, r.objects.Status().Update(t.Context(), spoilt))
			} else {
				require.NoError(t, r.objects.Update(t.Context(), spoilt))
			}
			r.pass()
			mended := r.vpas()["attune-deployment-web"]
			assert.Equal(t, whole.Object["spec"], mended.Object["spec"])
			assert.Equal(t, whole.Object["status"], mended.Object["status"])
		})
	}
}

// A user who takes over one of our VPAs keeps it: neither the garbage collector nor the doctor's command deletes it
// with the bridge. The bridge writes it once, to remove its marks, and only if it was ours.
func TestTakenOverObjectsAreReleased(t *testing.T) {
	r := newRoom(t, 0)
	for _, name := range []string{"taken", "another", "shared", "none"} {
		r.publish(name, "Recreate")
	}
	r.update("another", func(u *unstructured.Unstructured) {
		u.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "rbac.authorization.k8s.io/v1", Kind: "ClusterRole", Name: "theirs", UID: "their-uid"}})
	})
	r.update("shared", func(u *unstructured.Unstructured) {
		u.SetOwnerReferences(append(u.GetOwnerReferences(), metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: "theirs", UID: "their-uid"}))
	})
	r.update("none", func(u *unstructured.Unstructured) { u.SetOwnerReferences(nil) })
	before := r.vpas()
	r.pass()
	after := r.vpas()
	for _, name := range []string{"another", "shared", "none"} {
		assert.Equal(t, before["attune-deployment-"+name], after["attune-deployment-"+name], name)
	}
	taken := after["attune-deployment-taken"]
	assert.Equal(t, map[string]string{"team": "shop"}, taken.GetLabels())
	assert.Empty(t, taken.GetOwnerReferences())
	assert.Empty(t, taken.GetAnnotations())
	assert.Equal(t, before["attune-deployment-taken"].Object["spec"], taken.Object["spec"])
	r.pass()
	assert.Equal(t, taken, r.vpas()["attune-deployment-taken"])
}

// An object that another writer changes at the same moment is not written.
func TestConcurrentlyChangedObjectIsNotReleased(t *testing.T) {
	r := newRoom(t, 0)
	r.publish("taken", "Recreate")
	r.meanwhile = func() {
		r.update("taken", func(u *unstructured.Unstructured) { u.SetAnnotations(map[string]string{"theirs": "yes"}) })
	}
	r.pass()
	assert.Len(t, r.vpas()["attune-deployment-taken"].GetOwnerReferences(), 1)
	r.meanwhile = nil
	r.pass()
	taken := r.vpas()["attune-deployment-taken"]
	assert.Empty(t, taken.GetOwnerReferences())
	assert.Equal(t, map[string]string{"theirs": "yes"}, taken.GetAnnotations())
}

// The bridge publishes Initial only where the webhook sizes new pods.
func TestTheModeIsInitialWhereTheWebhookSizes(t *testing.T) {
	labelled := map[string]string{v1alpha1.InjectLabel: v1alpha1.InjectEnabled}
	for name, c := range map[string]struct {
		labels map[string]string
		of     workload.Admission
		mode   string
	}{
		"labelled":     {labelled, workload.Admission{}, "Initial"},
		"no label":     {nil, workload.Admission{}, "Off"},
		"excluded":     {labelled, workload.Admission{Excluded: []string{"shop"}}, "Off"},
		"not watched":  {labelled, workload.Admission{Watched: []string{"bank"}}, "Off"},
		"attune's own": {labelled, workload.Admission{Operator: "shop"}, "Off"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRoom(t, 0)
			r.loop.Admission = c.of
			require.NoError(t, r.objects.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop", Labels: c.labels}}))
			require.NoError(t, r.objects.Create(t.Context(), &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}, Spec: appsv1.DeploymentSpec{Template: *view().Template}}))
			rec := web()
			rec.Spec.Seed.ValidUntil = metav1.NewTime(r.clock.Now().Add(time.Hour))
			require.NoError(t, r.objects.Create(t.Context(), rec))
			r.pass()
			require.Contains(t, r.vpas(), "attune-deployment-web")
			assert.Equal(t, c.mode, modeOf(r.vpas()["attune-deployment-web"]))
		})
	}
}
