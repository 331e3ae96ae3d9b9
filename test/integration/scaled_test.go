package integration

import (
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	prom "github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	genericevent "sigs.k8s.io/controller-runtime/pkg/event"

	"attune.io/attune/api/v1alpha1"
	policyloop "attune.io/attune/controller/policy"
	workloadloop "attune.io/attune/controller/workload"
	"attune.io/attune/internal/board"
	"attune.io/attune/internal/event"
	"attune.io/attune/internal/lookup"
	"attune.io/attune/internal/workload"
	"attune.io/attune/test/admit"
	"attune.io/attune/test/kubelet"
	"attune.io/attune/test/othercrd"
	"attune.io/attune/webhook/pod"
)

// Kinds that the operator's owner adds.
var (
	cloneSets = schema.GroupVersionKind{Group: "apps.example.org", Version: "v1alpha1", Kind: "CloneSet"}
	databases = schema.GroupVersionKind{Group: "apps.example.org", Version: "v1", Kind: "Database"}
)

// installKinds installs the CRDs of kinds with the subresources /status and /scale, which let everything through.
func installKinds(t *testing.T, kinds ...schema.GroupVersionKind) {
	t.Helper()
	install := envtest.CRDInstallOptions{MaxTime: patience}
	for _, kind := range kinds {
		of := othercrd.Open(kind)
		of.Spec.Versions[0].Subresources = &apiextensionsv1.CustomResourceSubresources{
			Status: &apiextensionsv1.CustomResourceSubresourceStatus{},
			Scale:  &apiextensionsv1.CustomResourceSubresourceScale{SpecReplicasPath: ".spec.replicas", StatusReplicasPath: ".status.replicas"},
		}
		install.CRDs = append(install.CRDs, of)
	}
	_, err := envtest.InstallCRDs(server, install)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, envtest.UninstallCRDs(server, install)) })
}

func ofAddedKind(kind schema.GroupVersionKind, name string, spec map[string]any) *unstructured.Unstructured {
	of := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	of.SetGroupVersionKind(kind)
	of.SetName(name)
	return of
}

// sizes has the manager know kinds that are added.
func (w *waking) sizes(kinds ...schema.GroupVersionKind) workload.Sized {
	for _, kind := range kinds {
		workload.AddScaledToScheme(w.mgr.GetScheme(), kind)
	}
	return workload.Sized{Scaled: kinds}
}

// podOf is one that the controller of a kind makes.
func podOf(owner *unstructured.Unstructured, name string, container corev1.Container) *corev1.Pod {
	_, template := template(owner.GetName(), container)
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: template.Labels, OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(owner, owner.GroupVersionKind())}},
		Spec:       template.Spec,
	}
}

// TestKindsThatAreAdded: workloads of kinds that the operator's owner adds are sized as Deployments are, at admission and
// while they run. One that cannot be read, which its CRD lets through, or that has no template, is left alone and does
// not stop the others, and a policy for a kind that is not added says so.
func TestKindsThatAreAdded(t *testing.T) {
	installKinds(t, cloneSets, databases)
	w := newWaking(t, &v1alpha1.AttuneRecommendation{}, kubelet.Options{CPU: "16"})
	fresh := make(chan genericevent.TypedGenericEvent[string], 1024)
	served, err := discovery.NewDiscoveryClientForConfig(server)
	require.NoError(t, err)
	autoscalers, err := lookup.NewAutoscalers(t.Context(), lookup.AutoscalerOptions{
		Cache: w.mgr.GetCache(), Served: served, Clock: clock.RealClock{}, Every: time.Minute,
		Changed: func(namespace string) { fresh <- genericevent.TypedGenericEvent[string]{Object: namespace} },
	})
	require.NoError(t, err)
	require.NoError(t, w.mgr.Add(autoscalers))
	sized, settings := w.sizes(cloneSets, databases), lookup.Reader{Client: w.mgr.GetClient()}
	policies := &policyloop.Controller{Confirmed: &board.Confirmed{}, Client: w.mgr.GetClient(), History: steady{}, Autoscalers: autoscalers, Clock: clock.RealClock{}, Settings: settings, Sized: sized}
	require.NoError(t, policies.Register(w.mgr, fresh))
	workloads := &workloadloop.Controller{
		Grants: &board.Grants{}, Confirmed: &board.Confirmed{},
		Client: w.mgr.GetClient(), Live: w.mgr.GetAPIReader(), Autoscalers: autoscalers, Clock: clock.RealClock{}, Settings: settings,
		Access: workloadloop.Access{ControlPlane: workloadloop.ControlPlane{Version: "v1.37.1"}, Sized: sized}, Events: event.NewRecorder(&events.FakeRecorder{}, clock.RealClock{}),
	}
	require.NoError(t, workloads.Register(w.mgr, make(chan genericevent.TypedGenericEvent[types.NamespacedName])))

	web := ofAddedKind(cloneSets, "web", map[string]any{"replicas": int64(2), "template": templateOf("100m", "128Mi")})
	w.create(web)
	w.create(ofAddedKind(cloneSets, "broken", map[string]any{"template": templateOf("100m", "a lot")}))
	w.create(ofAddedKind(cloneSets, "bare", map[string]any{"replicas": int64(3)}))
	w.create(ofAddedKind(databases, "db", map[string]any{"instances": int64(3), "template": templateOf("100m", "128Mi")}))
	for _, name := range []string{"web-aaaaa", "web-bbbbb"} {
		w.create(podOf(web, name, container(t, "cpu=100m,memory=128Mi")))
	}
	w.play()
	const settled = "\nupdateStrategy: {type: Auto, cooldown: 1m, safetyObservationPeriod: 1h}\ncpu: {maxChangePercent: 1000}"
	w.policy("all", "targetRef: {kind: CloneSet.apps.example.org}"+settled)
	w.policy("others", "targetRef: {kind: Database.apps.example.org, name: db}"+settled)
	w.policy("unknown", "targetRef: {kind: Queue.example.com}"+settled)
	w.start()

	ready := func(t *assert.CollectT, policy string) metav1.Condition {
		p := &v1alpha1.AttunePolicy{}
		require.NoError(t, w.direct.Get(w.t.Context(), types.NamespacedName{Namespace: w.namespace, Name: policy}, p))
		c := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionReady)
		require.NotNil(t, c, policy)
		return *c
	}
	recommendation := func(t *assert.CollectT, name string) *v1alpha1.AttuneRecommendation {
		rec := &v1alpha1.AttuneRecommendation{}
		require.NoError(t, w.direct.Get(w.t.Context(), types.NamespacedName{Namespace: w.namespace, Name: name}, rec))
		return rec
	}
	require.EventuallyWithT(t, func(t *assert.CollectT) {
		for _, name := range []string{"cloneset.apps.example.org-web", "database.apps.example.org-db"} {
			rec := recommendation(t, name)
			require.Len(t, rec.Spec.Containers, 1, name)
			assert.NotNil(t, rec.Spec.Containers[0].Target.CPURequest, name)
		}
		assert.Equal(t, metav1.ConditionTrue, ready(t, "all").Status)
		assert.Equal(t, metav1.ConditionTrue, ready(t, "others").Status)
		none := ready(t, "unknown")
		assert.Equal(t, metav1.ConditionFalse, none.Status)
		assert.Equal(t, "no Queue.example.com matches targetRef; the operator does not size this kind. Add it to the chart's value scaledKinds as RESOURCE.VERSION.GROUP;"+
			" scaledKinds has CloneSet.apps.example.org, Database.apps.example.org", none.Message)
	}, patience, 50*time.Millisecond)
	for _, name := range []string{"broken", "bare"} {
		rec := &v1alpha1.AttuneRecommendation{}
		err := w.direct.Get(t.Context(), types.NamespacedName{Namespace: w.namespace, Name: "cloneset.apps.example.org-" + name}, rec)
		require.NoError(t, client.IgnoreNotFound(err))
		assert.Empty(t, rec.Spec.Containers, "what cannot be read has no size")
	}

	// Running pods wait until it is known that no rollout is in progress; new ones do not.
	require.EventuallyWithT(t, func(t *assert.CollectT) {
		blocked := meta.FindStatusCondition(recommendation(t, "cloneset.apps.example.org-web").Status.Conditions, v1alpha1.ConditionResizeBlocked)
		require.NotNil(t, blocked)
		assert.Equal(t, "RolloutInProgress", blocked.Reason)
		assert.Contains(t, blocked.Message, "its status has no observedGeneration, so a rollout may be in progress")
	}, patience, 50*time.Millisecond)
	born := podOf(web, "web-ccccc", container(t, "cpu=100m,memory=128Mi"))
	born.Namespace = w.namespace
	index := pod.NewIndex()
	index.Set(recommendation(&assert.CollectT{}, "cloneset.apps.example.org-web"))
	require.NoError(t, admit.Pod(&pod.Handler{Known: index, Metrics: pod.NewMetrics(prom.NewRegistry()), Clock: clock.RealClock{}, Log: logr.Discard()}, born))
	assert.Greater(t, cpuRequest(born), int64(1000), "a new pod is sized at admission")
	w.tell(web, func() {
		require.NoError(t, unstructured.SetNestedMap(web.Object, map[string]any{"observedGeneration": web.GetGeneration(), "replicas": int64(2), "updatedReplicas": int64(2)}, "status"))
	})
	require.Eventually(t, func() bool {
		of := w.cpuOf()
		return of["web-aaaaa"] > 1000 || of["web-bbbbb"] > 1000
	}, patience, 50*time.Millisecond, "a running pod is resized")

	w.create(&autoscalingv2.HorizontalPodAutoscaler{ObjectMeta: metav1.ObjectMeta{Name: "scaler"}, Spec: autoscalingv2.HorizontalPodAutoscalerSpec{
		ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{APIVersion: cloneSets.GroupVersion().String(), Kind: cloneSets.Kind, Name: "web"},
		MinReplicas:    ptr.To[int32](2), MaxReplicas: 9,
		Metrics: []autoscalingv2.MetricSpec{{Type: autoscalingv2.ResourceMetricSourceType, Resource: &autoscalingv2.ResourceMetricSource{
			Name: "cpu", Target: autoscalingv2.MetricTarget{Type: autoscalingv2.UtilizationMetricType, AverageUtilization: ptr.To[int32](70)},
		}}},
	}})
	require.EventuallyWithT(t, func(t *assert.CollectT) {
		var holds []string
		for _, h := range recommendation(t, "cloneset.apps.example.org-web").Spec.Containers[0].Holds {
			holds = append(holds, h.Resource+" "+h.Message)
		}
		assert.Contains(t, strings.Join(holds, "\n"), "cpu HorizontalPodAutoscaler scaler scales on the cpu utilization")
	}, patience, 50*time.Millisecond)

	p := newPlugin(t, w.namespace)
	for _, spelled := range []string{"cloneset.apps.example.org/web", "clonesets.apps.example.org/web", "CloneSet.apps.example.org/web"} {
		out, errOut, code := p.run("explain", spelled)
		require.Zero(t, code, errOut)
		assert.Contains(t, out, "web-aaaaa", spelled)
	}
	out, errOut, code := p.run("recommendations", "-o", "json")
	require.Zero(t, code, errOut)
	assert.Contains(t, out, `"CloneSet.apps.example.org"`)
	assert.Contains(t, out, `"Database.apps.example.org"`, "two kinds in one answer")
	out, errOut, code = p.run("savings")
	require.Zero(t, code, errOut)
	assert.Contains(t, out, "CloneSet.apps.example.org/web")
	out, errOut, code = p.run("explain", "cloneset.apps.example.org/bare")
	require.Zero(t, code, errOut)
	assert.Contains(t, out, "CloneSet.apps.example.org/bare in namespace "+w.namespace+", selected by policy all, is not managed: its pod template cannot be read: it has no spec.template\n")
	_, errOut, code = p.run("explain", "queue.example.com/web")
	assert.Equal(t, 1, code)
	assert.Contains(t, errOut, "the API server does not have the kind queue.example.com: write KIND.GROUP of an existing kind, e.g. cloneset.apps.kruise.io")
	_, errOut, code = p.run("pause", "cloneset.apps.example.org/web")
	require.Zero(t, code, errOut)
	require.NoError(t, w.direct.Get(t.Context(), client.ObjectKeyFromObject(web), web))
	assert.Equal(t, "true", web.GetAnnotations()[v1alpha1.PausedAnnotation])
}
