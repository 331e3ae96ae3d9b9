package integration

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	genericevent "sigs.k8s.io/controller-runtime/pkg/event"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"attune.io/attune/api/v1alpha1"
	policyloop "attune.io/attune/controller/policy"
	workloadloop "attune.io/attune/controller/workload"
	"attune.io/attune/internal/autoscale"
	"attune.io/attune/internal/board"
	"attune.io/attune/internal/event"
	"attune.io/attune/internal/lookup"
	"attune.io/attune/internal/workload"
	"attune.io/attune/recommender"
	"attune.io/attune/recommender/replicas"
	"attune.io/attune/test/othercrd"
	"attune.io/attune/usage"
	"attune.io/attune/usage/history"
)

// patience bounds what loops in a manager take: what comes sooner is seen sooner.
const patience = 5 * time.Minute

// autoscaled is a namespace with one Deployment, web, under a policy of mode Auto, and the loops of the
// operator as it runs them: through a cache, called by watches.
type autoscaled struct {
	t         *testing.T
	client    client.Client
	namespace string
	// rollouts is true where the loops watch Argo Rollouts.
	rollouts bool
}

func newAutoscaled(t *testing.T) *autoscaled {
	t.Helper()
	a := &autoscaled{t: t, client: newClient(t)}
	a.namespace = newNamespace(t, a.client)
	a.startLoops()
	labels := map[string]string{"app": "web"}
	a.create(&appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: corev1.PodSpec{Containers: []corev1.Container{{
					Name: "app", Image: "example.org/app:1",
					Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
						"cpu": resource.MustParse("100m"), "memory": resource.MustParse("128Mi"),
					}},
				}}},
			},
		},
	})
	policy := policyWith(t, "updateStrategy: {type: Auto}")
	policy.SetName("all")
	a.create(policy)
	return a
}

func (a *autoscaled) startLoops() {
	a.t.Helper()
	mgr, err := ctrl.NewManager(server, ctrl.Options{
		Scheme:     newScheme(a.t),
		Cache:      cache.Options{DefaultNamespaces: map[string]cache.Config{a.namespace: {}}},
		Metrics:    metricsserver.Options{BindAddress: "0"},
		Controller: config.Controller{SkipNameValidation: ptr.To(true)},
	})
	require.NoError(a.t, err)
	fresh := make(chan genericevent.TypedGenericEvent[string], 1024)
	served, err := discovery.NewDiscoveryClientForConfig(server)
	require.NoError(a.t, err)
	autoscalers, err := lookup.NewAutoscalers(a.t.Context(), lookup.AutoscalerOptions{
		Cache: mgr.GetCache(), Served: served, Clock: clock.RealClock{}, Every: 100 * time.Millisecond,
		Changed: func(namespace string) { fresh <- genericevent.TypedGenericEvent[string]{Object: namespace} },
	})
	require.NoError(a.t, err, "a cluster without VPAs is no error")
	require.NoError(a.t, mgr.Add(autoscalers))
	settings := lookup.Reader{Client: mgr.GetClient()}
	policies := &policyloop.Controller{
		Confirmed: &board.Confirmed{},
		Client:    mgr.GetClient(), History: steady{}, Autoscalers: autoscalers, Clock: clock.RealClock{}, Settings: settings,
		Sized: workload.Sized{Rollouts: a.rollouts},
	}
	require.NoError(a.t, policies.Register(mgr, fresh))
	workloads := &workloadloop.Controller{
		Grants: &board.Grants{}, Confirmed: &board.Confirmed{},
		Client: mgr.GetClient(), Autoscalers: autoscalers, Clock: clock.RealClock{}, Settings: settings, Access: workloadloop.Access{ControlPlane: workloadloop.ControlPlane{Version: "v1.37.1"}, Sized: workload.Sized{Rollouts: a.rollouts}},
		Events: event.NewRecorder(mgr.GetEventRecorder("attune"), clock.RealClock{}),
	}
	require.NoError(a.t, workloads.Register(mgr, make(chan genericevent.TypedGenericEvent[types.NamespacedName])))
	ctx, cancel := context.WithCancel(a.t.Context())
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	a.t.Cleanup(func() {
		cancel()
		require.NoError(a.t, <-ended, "the operator ran until it was told to end")
	})
}

func (a *autoscaled) create(o client.Object) {
	a.t.Helper()
	o.SetNamespace(a.namespace)
	require.NoError(a.t, a.client.Create(a.t.Context(), o))
}

// holdsOf are "resource reason" of the Deployment's container; nil while there is no recommendation.
func (a *autoscaled) holdsOf() (*v1alpha1.AttuneRecommendation, []string) {
	rec := &v1alpha1.AttuneRecommendation{}
	err := a.client.Get(a.t.Context(), client.ObjectKey{Namespace: a.namespace, Name: "deployment-web"}, rec)
	if client.IgnoreNotFound(err) != nil || len(rec.Spec.Containers) == 0 {
		return nil, nil
	}
	holds := []string{}
	for _, h := range rec.Spec.Containers[0].Holds {
		holds = append(holds, h.Resource+" "+h.Reason)
	}
	return rec, holds
}

// until waits for the holds and returns the recommendation with them.
func (a *autoscaled) until(why string, want ...string) *v1alpha1.AttuneRecommendation {
	a.t.Helper()
	var rec *v1alpha1.AttuneRecommendation
	require.EventuallyWithT(a.t, func(t *assert.CollectT) {
		var holds []string
		rec, holds = a.holdsOf()
		require.NotNil(t, rec)
		assert.ElementsMatch(t, want, holds)
	}, patience, 100*time.Millisecond, why)
	return rec
}

func (a *autoscaled) untilBlocked(reason, part string) {
	a.t.Helper()
	require.EventuallyWithT(a.t, func(t *assert.CollectT) {
		p := &v1alpha1.AttunePolicy{}
		require.NoError(t, a.client.Get(a.t.Context(), client.ObjectKey{Namespace: a.namespace, Name: "all"}, p))
		c := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionResizeBlocked)
		require.NotNil(t, c)
		assert.Equal(t, reason, c.Reason)
		assert.Contains(t, c.Message, part)
	}, patience, 100*time.Millisecond)
}

func (a *autoscaled) seeds(t *testing.T, rec *v1alpha1.AttuneRecommendation) (cpu, memory bool) {
	t.Helper()
	require.NotNil(t, rec.Spec.Seed, rec.Spec.SeedBlocked)
	require.Len(t, rec.Spec.Seed.Containers, 1)
	c := rec.Spec.Seed.Containers[0]
	return c.CPURequest != nil, c.MemoryRequest != nil
}

func TestHPABlocksItsScalingResource(t *testing.T) {
	a := newAutoscaled(t)
	a.until("nothing is there to hold")
	hpa := &autoscalingv2.HorizontalPodAutoscaler{
		ObjectMeta: metav1.ObjectMeta{Name: "scaler"},
		Spec: autoscalingv2.HorizontalPodAutoscalerSpec{
			ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "web"},
			MinReplicas:    ptr.To[int32](2), MaxReplicas: 9,
			Metrics: []autoscalingv2.MetricSpec{{
				Type: autoscalingv2.ResourceMetricSourceType,
				Resource: &autoscalingv2.ResourceMetricSource{Name: "cpu", Target: autoscalingv2.MetricTarget{
					Type: autoscalingv2.UtilizationMetricType, AverageUtilization: ptr.To[int32](70),
				}},
			}},
		},
	}
	a.create(hpa)
	rec := a.until("the HPA scales on CPU", "cpu HPA")
	cpu, memory := a.seeds(t, rec)
	assert.False(t, cpu, "new pods keep the CPU of their template")
	assert.True(t, memory)
	a.untilBlocked("HPA", "web/app: cpu: HorizontalPodAutoscaler scaler scales on the cpu utilization")

	a.change(hpa, func() { hpa.Spec.MaxReplicas = 2 })
	a.untilBlocked("HPA", "web/app: cpu: HorizontalPodAutoscaler scaler (gone, or with equal minReplicas and maxReplicas, since")
	a.pass25Hours()
	cpu, _ = a.seeds(t, a.until("an HPA of 2 to 2 replicas asks for 2 whatever the request"))
	assert.True(t, cpu)
	a.untilBlocked("NotBlocked", "")
	a.change(hpa, func() { hpa.Spec.MaxReplicas = 9 })
	a.until("it scales again", "cpu HPA")
	a.change(hpa, func() {
		hpa.Spec.Metrics[0].Resource.Target = autoscalingv2.MetricTarget{Type: autoscalingv2.AverageValueMetricType, AverageValue: ptr.To(resource.MustParse("1"))}
	})
	a.until("an average value does not look at requests")
	a.change(hpa, func() {
		hpa.Spec.Metrics[0].Resource.Name = "memory"
		hpa.Spec.Metrics[0].Resource.Target = autoscalingv2.MetricTarget{Type: autoscalingv2.UtilizationMetricType, AverageUtilization: ptr.To[int32](70)}
	})
	a.until("it scales on memory", "memory HPA")

	require.NoError(t, a.client.Delete(t.Context(), hpa))
	a.untilBlocked("HPA", "web/app: memory: HorizontalPodAutoscaler scaler (gone, or with equal minReplicas and maxReplicas, since")
	a.pass25Hours()
	a.until("it has been gone for a day")
	a.untilBlocked("NotBlocked", "")
}

// pass25Hours makes the stored HPA older than the day for which it blocks after it is gone.
func (a *autoscaled) pass25Hours() {
	a.t.Helper()
	rec, _ := a.holdsOf()
	require.NotNil(a.t, rec)
	a.change(rec, func() {
		require.Len(a.t, rec.Spec.HPABindings, 1)
		require.NotNil(a.t, rec.Spec.HPABindings[0].Gone)
		rec.Spec.HPABindings[0].Gone = &metav1.Time{Time: time.Now().Add(-25 * time.Hour)}
	})
}

// change changes an object as it is now.
func (a *autoscaled) change(o client.Object, change func()) {
	a.t.Helper()
	require.NoError(a.t, a.client.Get(a.t.Context(), client.ObjectKeyFromObject(o), o))
	change()
	require.NoError(a.t, a.client.Update(a.t.Context(), o))
}

func (a *autoscaled) vpa(mode string) *unstructured.Unstructured {
	a.t.Helper()
	u := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{
		"targetRef":    map[string]any{"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
		"updatePolicy": map[string]any{"updateMode": mode},
	}}}
	u.SetGroupVersionKind(autoscale.VPAKind)
	u.SetName("sizer")
	a.create(u)
	return u
}

func (a *autoscaled) setMode(vpa *unstructured.Unstructured, mode string) {
	a.t.Helper()
	a.change(vpa, func() {
		require.NoError(a.t, unstructured.SetNestedField(vpa.Object, mode, "spec", "updatePolicy", "updateMode"))
	})
}

// The CRD appears while the operator runs, goes away, and appears again.
func TestAVPAHoldsEverythingWheneverItsKindAppears(t *testing.T) {
	a := newAutoscaled(t)
	a.until("there is no such kind")
	uninstall := func() {
		require.NoError(t, envtest.UninstallCRDs(server, envtest.CRDInstallOptions{CRDs: []*apiextensionsv1.CustomResourceDefinition{othercrd.Open(autoscale.VPAKind)}, MaxTime: patience}))
	}
	t.Cleanup(uninstall)
	for round := range 2 {
		_, err := envtest.InstallCRDs(server, envtest.CRDInstallOptions{CRDs: []*apiextensionsv1.CustomResourceDefinition{othercrd.Open(autoscale.VPAKind)}, MaxTime: patience})
		require.NoError(t, err)
		vpa := a.vpa("Auto")
		about := fmt.Sprintf("round %d", round+1)
		rec := a.until(about, "cpu VPA", "memory VPA")
		assert.Nil(t, rec.Spec.Seed)
		assert.Equal(t, "VPA", rec.Spec.SeedBlocked)
		a.untilBlocked("VPA", "VerticalPodAutoscaler sizer sizes the workload too")
		a.setMode(vpa, "Off")
		a.until(about + ": a VPA that is Off only advises")
		a.setMode(vpa, "Initial")
		a.until(about, "cpu VPA", "memory VPA")
		uninstall()
		a.until(about + ": its kind is gone")
		a.untilBlocked("NotBlocked", "")
	}
	events := &eventsv1.EventList{}
	require.NoError(t, a.client.List(t.Context(), events, client.InNamespace(a.namespace)))
	var notes []string
	for _, e := range events.Items {
		notes = append(notes, e.Reason+" "+e.Regarding.Kind+"/"+e.Regarding.Name+": "+e.Note)
	}
	assert.Contains(t, notes, "ResizeSkipped AttuneRecommendation/deployment-web: VerticalPodAutoscaler sizer sizes the workload too. "+
		"Set its updateMode to Off and remove its startupBoost, or delete it")
}

// steady is a history of a week in which every container used 1 CPU and 1 GiB.
type steady struct{}

func (steady) Want(history.Interest) error { return nil }
func (steady) Forget(string, string)       {}
func (steady) State(usage.SourceSettings) (history.State, bool) {
	return history.State{}, true
}

func (steady) Read(history.Key) bool { return true }

// news that never ends.
var news atomic.Uint64

func (steady) News(history.Key) uint64 { return news.Add(1) }

func (steady) Unanswered(usage.SourceSettings, string) error { return nil }

func (steady) Await(history.Key, bool) {}

func (steady) Lost(usage.SourceSettings, string) int { return 0 }

func (steady) Spans(history.Key, recommender.Resource) []replicas.Span { return nil }

func (steady) Covered(history.Key, recommender.Resource) history.Coverage { return history.Coverage{} }

func (steady) Forgets(usage.SourceSettings) bool { return false }

func (steady) Checkpoint(_ history.Key, _ int, stored []byte) []byte { return stored }

func (steady) Restore(history.Key, []byte, time.Time) error { return nil }

func (steady) Implausible(history.Key, time.Time) [2]recommender.Implausible {
	return [2]recommender.Implausible{}
}

const step = 5 * time.Minute

func (steady) Profile(_ history.Key, now time.Time) (recommender.Profile, bool) {
	return recommender.NewProfile(steadySteps(now), step), true
}

func (steady) Steps(history.Key) []recommender.StepUsage { return steadySteps(time.Now()) }

func steadySteps(now time.Time) (steps []recommender.StepUsage) {
	for at := now.Truncate(step).Add(-7 * 24 * time.Hour); !at.After(now); at = at.Add(step) {
		steps = append(steps, recommender.StepUsage{At: at, CPUCores: 1, MemoryBytes: 1 << 30})
	}
	return steps
}

func (s steady) Highest(history.Key, recommender.Resource, time.Time, time.Time) (recommender.Usage, bool) {
	return 0, false
}

// Base of a single container is never known.
func (steady) Base(_, _, _ string, _ recommender.Resource, _ time.Time) (recommender.Usage, bool) {
	return 0, false
}
