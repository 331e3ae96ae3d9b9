package integration

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/test/sim/api"
)

// outcome is what is compared of one call: the reason of a refusal, what it moved, and the object after it.
type outcome struct {
	Reason              metav1.StatusReason
	Version, Generation bool
	After               string
}

// teller sends the calls of a story to one API server and notes what they come to.
type teller struct {
	t         *testing.T
	c         client.Client
	namespace string
	names     []string
	lines     []outcome
}

// do makes a call about an object, which is read before and after it.
func (x *teller) do(name string, of client.Object, call func(ctx context.Context, now client.Object) error) {
	x.t.Helper()
	before, after := of.DeepCopyObject().(client.Object), of.DeepCopyObject().(client.Object)
	x.read(before)
	err := call(x.t.Context(), before.DeepCopyObject().(client.Object))
	x.read(after)
	x.names = append(x.names, name)
	x.lines = append(x.lines, outcome{
		Reason: apierrors.ReasonForError(err), Version: before.GetResourceVersion() != after.GetResourceVersion(),
		Generation: before.GetGeneration() != after.GetGeneration(), After: x.essence(after),
	})
	if err != nil && apierrors.ReasonForError(err) == metav1.StatusReasonUnknown {
		x.t.Errorf("%s: %v", name, err)
	}
}

func (x *teller) read(o client.Object) {
	if err := x.c.Get(x.t.Context(), client.ObjectKeyFromObject(o), o); err != nil {
		require.True(x.t, apierrors.IsNotFound(err), "%v", err)
		o.SetResourceVersion("")
		o.SetUID("")
	}
}

// essence is what the loops read of an object; what only the real server fills in is left out.
func (x *teller) essence(o client.Object) string {
	if o.GetUID() == "" {
		return "gone"
	}
	annotations := maps.Clone(o.GetAnnotations())
	delete(annotations, "kubernetes.io/limit-ranger")
	kept := map[string]any{
		"labels": o.GetLabels(), "annotations": len(annotations), "finalizers": o.GetFinalizers(), "going": o.GetDeletionTimestamp() != nil,
		"grace": o.GetDeletionGracePeriodSeconds(), "generation": o.GetGeneration(),
	}
	switch o := o.(type) {
	case *corev1.Pod:
		kept["node"], kept["class"] = o.Spec.NodeName, o.Status.QOSClass
		for _, c := range o.Spec.Containers {
			kept[c.Name] = c.Resources
		}
		for _, entry := range o.ManagedFields {
			if entry.Subresource == "resize" {
				var fields any // read and written again, so that the order of the fields is the same
				require.NoError(x.t, json.Unmarshal(entry.FieldsV1.GetRawBytes(), &fields))
				kept["resized by "+entry.Manager] = fields
			}
		}
	case *v1alpha1.AttuneRecommendation:
		kept["spec"], kept["status"] = o.Spec, o.Status
	case *policyv1.PodDisruptionBudget:
		kept["allowed"] = o.Status.DisruptionsAllowed
	case *corev1.ResourceQuota:
		kept["used"] = o.Status.Used
	}
	text, err := json.Marshal(kept)
	require.NoError(x.t, err)
	return strings.ReplaceAll(string(text), x.namespace, "NAMESPACE")
}

func sizes(pairs ...string) corev1.ResourceRequirements {
	out := corev1.ResourceRequirements{}
	for i, list := range []*corev1.ResourceList{&out.Requests, &out.Limits} {
		for j, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
			if text := pairs[2*i+j]; text != "" {
				if *list == nil {
					*list = corev1.ResourceList{}
				}
				(*list)[name] = resource.MustParse(text)
			}
		}
	}
	return out
}

func (x *teller) pod(name string, of corev1.ResourceRequirements) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: x.namespace, Name: name, Labels: map[string]string{"app": "web"}}}
	pod.Spec.Containers = []corev1.Container{{Name: "app", Image: "app", Resources: of}}
	return pod
}

func (x *teller) create(name string, o client.Object) {
	x.do("create "+name, o, func(ctx context.Context, _ client.Object) error {
		return x.c.Create(ctx, o.DeepCopyObject().(client.Object))
	})
}

// resize as the workload loop sends it.
func (x *teller) resize(name string, pod *corev1.Pod, patch string) {
	x.resizeAs("attune", name, pod, patch)
}

func (x *teller) resizeAs(manager, name string, pod *corev1.Pod, patch string) {
	x.do("resize "+name, pod, func(ctx context.Context, now client.Object) error {
		patch = strings.NewReplacer("UID", string(now.GetUID()), "VERSION", now.GetResourceVersion()).Replace(patch)
		return x.c.SubResource("resize").Patch(ctx, now, client.RawPatch(types.StrategicMergePatchType, []byte(patch)), client.FieldOwner(manager))
	})
}

func app(resources string) string {
	return `{"metadata":{"uid":"UID"},"spec":{"containers":[{"name":"app","resources":` + resources + `}]}}`
}

// pods are born, bound, resized, evicted and deleted.
func (x *teller) pods() {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: x.namespace}}
	x.create("node", node)
	x.do("node status", node, func(ctx context.Context, now client.Object) error {
		now.(*corev1.Node).Status.Allocatable = corev1.ResourceList{"cpu": resource.MustParse("4"), "memory": resource.MustParse("8Gi"), "pods": resource.MustParse("110")}
		now.(*corev1.Node).Status.Capacity = now.(*corev1.Node).Status.Allocatable
		return x.c.Status().Update(ctx, now)
	})
	pod := x.pod("web-1", sizes("500m", "512Mi", "1", "1Gi"))
	x.create("pod", pod)
	x.create("the same pod again", pod)
	x.resize("before it is bound", pod, app(`{"requests":{"cpu":"400m"}}`))
	x.do("bind", pod, func(ctx context.Context, now client.Object) error {
		return x.c.SubResource("binding").Create(ctx, now, &corev1.Binding{Target: corev1.ObjectReference{Kind: "Node", Name: x.namespace}})
	})
	x.do("bind again", pod, func(ctx context.Context, now client.Object) error {
		return x.c.SubResource("binding").Create(ctx, now, &corev1.Binding{Target: corev1.ObjectReference{Kind: "Node", Name: x.namespace}})
	})
	x.do("run", pod, func(ctx context.Context, now client.Object) error {
		now.(*corev1.Pod).Status.Phase = corev1.PodRunning
		return x.c.Status().Update(ctx, now)
	})
	x.do("the same status again", pod, func(ctx context.Context, now client.Object) error { return x.c.Status().Update(ctx, now) })
	x.resize("nothing", pod, `{"metadata":{"uid":"UID"}}`)
	x.resize("to what it has", pod, app(`{"requests":{"cpu":"400m"}}`))
	x.resize("to what it has, written otherwise", pod, app(`{"requests":{"cpu":"0.4"}}`))
	x.resize("down", pod, app(`{"requests":{"cpu":"300m","memory":"256Mi"}}`))
	x.resizeAs("database-operator", "by another", pod, app(`{"requests":{"cpu":"310m"}}`))
	x.resizeAs("database-operator", "by another, to what it has", pod, app(`{"requests":{"memory":"256Mi"}}`))
	x.resize("of its version", pod, `{"metadata":{"uid":"UID","resourceVersion":"VERSION"},"spec":{"containers":[{"name":"app","resources":{"requests":{"cpu":"350m"}}}]}}`)
	x.resize("of an old version", pod, `{"metadata":{"uid":"UID","resourceVersion":"1"},"spec":{"containers":[{"name":"app","resources":{"requests":{"cpu":"360m"}}}]}}`)
	x.resize("of another uid", pod, `{"metadata":{"uid":"11111111-2222-3333-4444-555555555555"},"spec":{"containers":[{"name":"app","resources":{"requests":{"cpu":"360m"}}}]}}`)
	x.resize("limit below request", pod, app(`{"limits":{"memory":"128Mi"}}`))
	x.resize("another class", pod, app(`{"requests":{"cpu":"1","memory":"1Gi"}}`))
	x.resize("limit taken off", pod, app(`{"limits":{"cpu":null}}`))
	x.resize("request taken off", pod, app(`{"requests":{"cpu":null}}`))
	x.resize("memory limit lowered", pod, app(`{"limits":{"memory":"512Mi"}}`))
	x.resize("ephemeral storage", pod, app(`{"requests":{"ephemeral-storage":"1Gi"}}`))
	x.resize("more than its node has", pod, app(`{"requests":{"cpu":"5"},"limits":{"cpu":"6"}}`))
	x.resize("a container that it has not", pod, `{"metadata":{"uid":"UID"},"spec":{"containers":[{"name":"other","resources":{"requests":{"cpu":"1"}}}]}}`)
	x.resize("a pod that is not there", x.pod("web-9", sizes("", "", "", "")), app(`{"requests":{"cpu":"1"}}`))
	x.do("sizes by update", pod, func(ctx context.Context, now client.Object) error {
		now.(*corev1.Pod).Spec.Containers[0].Resources = sizes("100m", "100Mi", "1", "1Gi")
		return x.c.Update(ctx, now)
	})
	x.do("a label by merge patch", pod, func(ctx context.Context, now client.Object) error {
		return x.c.Patch(ctx, now, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"tier":"front"}}}`)))
	})
	x.do("the same label again", pod, func(ctx context.Context, now client.Object) error {
		return x.c.Patch(ctx, now, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"tier":"front"}}}`)))
	})
	x.do("conditions by patch", pod, func(ctx context.Context, now client.Object) error {
		return x.c.Status().Patch(ctx, now, client.RawPatch(types.StrategicMergePatchType, []byte(`{"status":{"conditions":[{"type":"Ready","status":"True"}]}}`)))
	})
	calm := x.pod("calm", sizes("", "", "", ""))
	x.create("a pod without sizes", calm)
	x.resize("a pod without sizes", calm, app(`{"requests":{"cpu":"100m"}}`))
	full := x.pod("full", sizes("", "", "1", "1Gi"))
	x.create("a pod with limits", full)
	x.resize("requests of a guaranteed pod", full, app(`{"requests":{"cpu":"500m"}}`))
	x.resize("both of a guaranteed pod", full, app(`{"requests":{"cpu":"500m"},"limits":{"cpu":"500m"}}`))
	wrong := x.pod("wrong", sizes("2", "", "1", ""))
	x.create("a pod whose request is above its limit", wrong)

	budget := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: x.namespace, Name: "web"}}
	budget.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}
	budget.Spec.MaxUnavailable = ptr.To(intstr.FromInt32(1))
	x.create("budget", budget)
	x.evict("with a budget that nobody has looked at", pod)
	allow := func(n int32) {
		x.do(fmt.Sprint("allow ", n), budget, func(ctx context.Context, now client.Object) error {
			b := now.(*policyv1.PodDisruptionBudget)
			b.Status.DisruptionsAllowed, b.Status.ObservedGeneration = n, b.Generation
			b.Status.CurrentHealthy, b.Status.DesiredHealthy, b.Status.ExpectedPods = 3, 3-n, 3
			return x.c.Status().Update(ctx, b)
		})
	}
	allow(0)
	x.evict("with a budget that allows none", pod)
	allow(1)
	x.evict("with a budget that allows one", pod)
	x.evict("again", pod)
	x.do("the budget afterwards", budget, func(context.Context, client.Object) error { return nil })
	x.resize("a pod that goes", pod, app(`{"requests":{"cpu":"310m"}}`))
	x.do("delete of another uid", calm, func(ctx context.Context, now client.Object) error {
		return x.c.Delete(ctx, now, client.Preconditions{UID: ptr.To(types.UID("11111111-2222-3333-4444-555555555555"))})
	})
	x.do("delete of its uid, at once", calm, func(ctx context.Context, now client.Object) error {
		return x.c.Delete(ctx, now, client.Preconditions{UID: ptr.To(now.GetUID())}, client.GracePeriodSeconds(0))
	})
	x.do("delete the node", node, func(ctx context.Context, now client.Object) error { return x.c.Delete(ctx, now) })
	x.do("delete what is gone", calm, func(ctx context.Context, now client.Object) error { return x.c.Delete(ctx, now) })
}

func (x *teller) evict(name string, pod *corev1.Pod) {
	x.do("evict "+name, pod, func(ctx context.Context, now client.Object) error {
		uid := now.GetUID()
		return x.c.SubResource("eviction").Create(ctx, now, &policyv1.Eviction{
			ObjectMeta: metav1.ObjectMeta{Namespace: now.GetNamespace(), Name: now.GetName()}, DeleteOptions: &metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}},
		})
	})
}

// bounds are what a namespace allows: a LimitRange and a quota.
func (x *teller) bounds() {
	limits := &corev1.LimitRange{ObjectMeta: metav1.ObjectMeta{Namespace: x.namespace, Name: "limits"}}
	limits.Spec.Limits = []corev1.LimitRangeItem{{
		Type: corev1.LimitTypeContainer, Max: corev1.ResourceList{"cpu": resource.MustParse("2")}, Min: corev1.ResourceList{"memory": resource.MustParse("64Mi")},
		Default: corev1.ResourceList{"memory": resource.MustParse("256Mi")}, DefaultRequest: corev1.ResourceList{"cpu": resource.MustParse("100m")},
	}}
	x.create("limit range", limits)
	pod := x.pod("ranged", sizes("500m", "", "1", ""))
	x.create("a pod with defaults", pod)
	x.resize("above the most", pod, app(`{"limits":{"cpu":"3"}}`))
	x.resize("below the least", pod, app(`{"requests":{"memory":"32Mi"}}`))
	x.resize("within", pod, app(`{"limits":{"cpu":"2"}}`))
	x.create("a pod above the most", x.pod("above", sizes("3", "", "3", "")))
	x.do("delete the limit range", limits, func(ctx context.Context, now client.Object) error { return x.c.Delete(ctx, now) })

	quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: x.namespace, Name: "team"}}
	quota.Spec.Hard = corev1.ResourceList{"requests.cpu": resource.MustParse("1")}
	x.create("quota", quota)
	x.do("quota status", quota, func(ctx context.Context, now client.Object) error {
		now.(*corev1.ResourceQuota).Status = corev1.ResourceQuotaStatus{
			Hard: quota.Spec.Hard, Used: corev1.ResourceList{"requests.cpu": resource.MustParse("500m")},
		}
		return x.c.Status().Update(ctx, now)
	})
	x.resize("beyond the quota", pod, app(`{"requests":{"cpu":"1200m"}}`))
	x.resize("within the quota", pod, app(`{"requests":{"cpu":"900m"}}`))
	x.create("a pod beyond the quota", x.pod("more", sizes("200m", "", "", "")))
	x.create("a pod that does not say", x.pod("silent", sizes("", "64Mi", "", "")))
	x.do("the quota afterwards", quota, func(context.Context, client.Object) error { return nil })
}

// ours are objects of the operator: conflicts, halves, finalizers.
func (x *teller) ours() {
	rec := &v1alpha1.AttuneRecommendation{ObjectMeta: metav1.ObjectMeta{Namespace: x.namespace, Name: "deployment-web"}}
	rec.Spec.Workload = v1alpha1.WorkloadRef{Kind: v1alpha1.KindDeployment, Name: "web", UID: "1"}
	rec.Spec.Policy, rec.Spec.Mode, rec.Spec.SettingsDigest = v1alpha1.PolicyRef{Name: "all", UID: "2", Generation: 1}, v1alpha1.UpdateAuto, "digest"
	rec.Status.Phase = v1alpha1.PhaseIdle
	x.create("recommendation with a status", rec)
	x.do("spec", rec, func(ctx context.Context, now client.Object) error {
		now.(*v1alpha1.AttuneRecommendation).Spec.Mode = v1alpha1.UpdateCanary
		now.(*v1alpha1.AttuneRecommendation).Status.Phase = v1alpha1.PhaseWatching
		return x.c.Update(ctx, now)
	})
	x.do("the same again", rec, func(ctx context.Context, now client.Object) error { return x.c.Update(ctx, now) })
	x.do("status", rec, func(ctx context.Context, now client.Object) error {
		now.(*v1alpha1.AttuneRecommendation).Spec.Mode = v1alpha1.UpdateOneShot
		now.(*v1alpha1.AttuneRecommendation).Status.Phase = v1alpha1.PhaseWatching
		return x.c.Status().Update(ctx, now)
	})
	x.do("the same status again", rec, func(ctx context.Context, now client.Object) error { return x.c.Status().Update(ctx, now) })
	x.do("status of an old version", rec, func(ctx context.Context, now client.Object) error {
		now.SetResourceVersion("1")
		return x.c.Status().Update(ctx, now)
	})
	finalizer := func(name string, edit func(o client.Object)) {
		x.do(name, rec, func(ctx context.Context, now client.Object) error {
			before := now.DeepCopyObject().(client.Object)
			edit(now)
			return x.c.Patch(ctx, now, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
		})
	}
	finalizer("finalizer", func(o client.Object) { o.SetFinalizers([]string{v1alpha1.RecordsFinalizer}) })
	finalizer("no change", func(client.Object) {})
	x.do("annotation by JSON patch", rec, func(ctx context.Context, now client.Object) error {
		return x.c.Patch(ctx, now, client.RawPatch(types.JSONPatchType, []byte(`[{"op":"add","path":"/metadata/annotations","value":{"a":"b"}}]`)))
	})
	x.do("JSON patch whose test fails", rec, func(ctx context.Context, now client.Object) error {
		return x.c.Patch(ctx, now, client.RawPatch(types.JSONPatchType, []byte(`[{"op":"test","path":"/metadata/annotations/a","value":"c"}]`)))
	})
	x.do("delete", rec, func(ctx context.Context, now client.Object) error { return x.c.Delete(ctx, now) })
	x.do("delete again", rec, func(ctx context.Context, now client.Object) error { return x.c.Delete(ctx, now) })
	x.do("a finalizer more while it goes", rec, func(ctx context.Context, now client.Object) error {
		now.SetFinalizers(append(now.GetFinalizers(), "attune.io/more"))
		return x.c.Update(ctx, now)
	})
	x.do("status while it goes", rec, func(ctx context.Context, now client.Object) error {
		now.(*v1alpha1.AttuneRecommendation).Status.Phase = v1alpha1.PhaseIdle
		return x.c.Status().Update(ctx, now)
	})
	finalizer("the last finalizer", func(o client.Object) { o.SetFinalizers(nil) })
	x.do("status of what is gone", rec, func(ctx context.Context, now client.Object) error { return x.c.Status().Update(ctx, rec.DeepCopy()) })
}

// impatient is a client that does not wait for a server which asks for that.
func impatient(t *testing.T) client.Client {
	t.Helper()
	config := rest.CopyConfig(server)
	config.QPS = -1
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return atOnce{next} })
	c, err := client.New(config, client.Options{Scheme: newScheme(t)})
	require.NoError(t, err)
	return c
}

type atOnce struct{ http.RoundTripper }

func (a atOnce) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := a.RoundTripper.RoundTrip(r)
	if err == nil {
		answer.Header.Del("Retry-After")
	}
	return answer, err
}

// TestThePlayedServerAnswersAsTheRealOne: the long run's API server in memory comes to the same as a real one, call by
// call: the reason of a refusal, whether the version and the generation moved, and what is stored. So does it behind the
// transport that test/loops sends requests through.
func TestThePlayedServerAnswersAsTheRealOne(t *testing.T) {
	for name, story := range map[string]func(*teller){"pods": (*teller).pods, "bounds": (*teller).bounds, "ours": (*teller).ours} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "played-" + name}}
			tell := func(c client.Client) *teller {
				require.NoError(t, c.Create(t.Context(), namespace.DeepCopy()))
				x := &teller{t: t, c: c, namespace: namespace.Name}
				story(x)
				return x
			}
			played := tell(api.New(api.Options{Scheme: newScheme(t), Now: time.Now, Minor: 36}).As("test", nil))
			config, mapper := api.New(api.Options{Scheme: newScheme(t), Now: time.Now, Minor: 36}).REST("test")
			c, err := client.New(config, client.Options{Scheme: newScheme(t), Mapper: mapper})
			require.NoError(t, err)
			requested := tell(c)
			really := tell(impatient(t))
			require.Equal(t, really.names, played.names)
			for i, call := range really.names {
				assert.Equal(t, really.lines[i], played.lines[i], call)
				assert.Equal(t, really.lines[i], requested.lines[i], "%s, as a request", call)
			}
		})
	}
}
