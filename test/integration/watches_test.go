package integration

import (
	"context"
	"fmt"
	"reflect"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	genericevent "sigs.k8s.io/controller-runtime/pkg/event"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"attune.io/attune/api/v1alpha1"
	nodeloop "attune.io/attune/controller/node"
	policyloop "attune.io/attune/controller/policy"
	workloadloop "attune.io/attune/controller/workload"
	"attune.io/attune/internal/board"
	"attune.io/attune/internal/event"
	"attune.io/attune/internal/lookup"
	"attune.io/attune/internal/loop"
	"attune.io/attune/internal/workload"
	"attune.io/attune/podview"
	"attune.io/attune/recommender"
	"attune.io/attune/test/kubelet"
)

// TestEveryWatchWakesItsLoop: each loop alone, in a manager as the operator runs it. Nothing else makes it look at an
// object within minutes; an event of each of its watches does. The worlds of test/loops call the loops themselves.
// The parts run beside each other, each in a namespace of its own: they wait for loops to come to rest.
func TestEveryWatchWakesItsLoop(t *testing.T) {
	t.Parallel()
	installKinds(t, woken)
	for name, part := range map[string]func(t *testing.T){
		"workload": workloadLoopWakes, "policy": policyLoopWakes, "policy by workloads": workloadsWakePolicyLoop, "node": nodeLoopWakes,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			part(t)
		})
	}
}

// undisturbed is locked for writing while AttuneDefaults, of which there is one in a cluster, come and go: they wake the loops of
// all namespaces. Whoever waits for another event locks it for reading.
var undisturbed sync.RWMutex

// woken is a kind that the operator's owner adds.
var woken = schema.GroupVersionKind{Group: "watches.example.org", Version: "v1", Kind: "Woken"}

// waking is a loop in a manager whose looks are counted.
type waking struct {
	*stage
	mgr   ctrl.Manager
	looks *looks
	// gathers is how long the loop waits for more events of the same moment.
	gathers time.Duration
}

// looks counts how often each object was looked at: whenever it is read to be reconciled.
type looks struct {
	client.Client
	kind  reflect.Type
	mutex sync.Mutex
	at    map[string]int
}

func (l *looks) Get(ctx context.Context, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
	if reflect.TypeOf(o) == l.kind {
		l.mutex.Lock()
		l.at[key.Name]++
		l.mutex.Unlock()
	}
	return l.Client.Get(ctx, key, o, opts...)
}

func (l *looks) of(name string) int {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return l.at[name]
}

// newWaking has a manager that is not started yet; of is what its loop reconciles.
func newWaking(t *testing.T, of client.Object, node kubelet.Options) *waking {
	t.Helper()
	w := &waking{stage: newStage(t, node)}
	var err error
	w.mgr, err = ctrl.NewManager(server, ctrl.Options{
		Scheme:     newScheme(t),
		Cache:      cache.Options{DefaultNamespaces: map[string]cache.Config{w.namespace: {}}},
		Metrics:    metricsserver.Options{BindAddress: "0"},
		Controller: config.Controller{SkipNameValidation: ptr.To(true)},
	})
	require.NoError(t, err)
	w.looks = &looks{Client: w.mgr.GetClient(), kind: reflect.TypeOf(of), at: map[string]int{}}
	return w
}

func (w *waking) start() {
	w.t.Helper()
	ctx, cancel := context.WithCancel(w.t.Context())
	ended := make(chan error, 1)
	go func() { ended <- w.mgr.Start(ctx) }()
	w.t.Cleanup(func() {
		cancel()
		require.NoError(w.t, <-ended)
	})
}

// event of a watch, which makes the loop look at one object.
type watched struct {
	watch client.Object
	looks string
	event func()
	// before, where set, makes the object wait for such an event.
	before func()
	// reads is how often the watch itself reads what it names.
	reads int
	// last: the test has it come when all else is over.
	last bool
}

// namespaceGoes is the last event of all: the namespace is being deleted.
func (w *waking) namespaceGoes(looks string) watched {
	return watched{watch: lookup.Namespace(), looks: looks, last: true, event: func() {
		require.NoError(w.t, w.direct.Delete(w.t.Context(), named(&corev1.Namespace{}, w.namespace)))
	}}
}

// wakes has every event come, each when the loop has come to rest. There is one for each watch.
func (w *waking) wakes(watches []loop.Watch, events []watched) {
	w.t.Helper()
	var wants, has []string
	for _, watch := range watches {
		wants = append(wants, fmt.Sprintf("%T", watch.Object))
	}
	for _, e := range events {
		has = append(has, fmt.Sprintf("%T", e.watch))
	}
	require.ElementsMatch(w.t, wants, has, "an event for each watch of the loop")
	for i, e := range events {
		if e.last {
			continue
		}
		if e.before != nil {
			e.before()
		}
		name := fmt.Sprintf("%d %T", i+1, e.watch)
		if _, ofCluster := e.watch.(*v1alpha1.AttuneDefaults); ofCluster {
			w.wakesByDefaults(name, e.looks)
		} else {
			w.wakesOnce(name, e.looks, e.reads, e.event)
		}
	}
}

// wakesByDefaults has AttuneDefaults come and go.
func (w *waking) wakesByDefaults(name, looks string) {
	w.t.Helper()
	undisturbed.Lock()
	defer undisturbed.Unlock()
	defaults := named(&v1alpha1.AttuneDefaults{}, v1alpha1.DefaultsName)
	w.awaitLook(name, looks, 0, func() { require.NoError(w.t, w.direct.Create(w.t.Context(), defaults)) })
	require.NoError(w.t, w.direct.Delete(w.t.Context(), defaults))
}

// ends has the last events come.
func (w *waking) ends(events []watched) {
	w.t.Helper()
	for _, e := range events {
		if e.last {
			w.wakesOnce(fmt.Sprintf("%T", e.watch), e.looks, e.reads, e.event)
		}
	}
}

func (w *waking) wakesOnce(name, looks string, reads int, event func()) {
	w.t.Helper()
	undisturbed.RLock()
	defer undisturbed.RUnlock()
	w.awaitLook(name, looks, reads, event)
}

func (w *waking) awaitLook(name, looks string, reads int, event func()) {
	w.t.Helper()
	w.rests(looks)
	before := w.looks.of(looks)
	event()
	require.Eventually(w.t, func() bool { return w.looks.of(looks) > before+reads }, patience, 50*time.Millisecond, "%s: nothing looks at %s", name, looks)
}

// rests waits until nothing has looked at an object for longer than the loop gathers events.
func (w *waking) rests(name string) {
	w.t.Helper()
	last, since := w.looks.of(name), time.Now()
	if last == 0 {
		return
	}
	require.Eventually(w.t, func() bool {
		if n := w.looks.of(name); n != last {
			last, since = n, time.Now()
		}
		return time.Since(since) > w.gathers+time.Second/2
	}, patience, 50*time.Millisecond, "%s is looked at all the time", name)
}

// play has the controllers and the node look until now, from pods that have run for a while.
func (w *waking) play() {
	w.t.Helper()
	for at := time.Now().Add(-10 * time.Minute); !at.After(time.Now()); at = at.Add(time.Minute) {
		require.NoError(w.t, w.plane.Sync(w.t.Context(), at))
		require.NoError(w.t, w.node.Sync(w.t.Context(), at))
	}
}

// untilBlocked waits until the recommendation of Deployment web says why nothing is done.
func (w *waking) untilBlocked(reason string) {
	w.t.Helper()
	w.untilBlockedIs("web", reason)
}

func (w *waking) untilBlockedIs(deployment, reason string) {
	w.t.Helper()
	require.EventuallyWithT(w.t, func(t *assert.CollectT) {
		rec := &v1alpha1.AttuneRecommendation{}
		require.NoError(t, w.direct.Get(w.t.Context(), types.NamespacedName{Namespace: w.namespace, Name: "deployment-" + deployment}, rec))
		blocked := meta.FindStatusCondition(rec.Status.Conditions, v1alpha1.ConditionResizeBlocked)
		require.NotNil(t, blocked)
		assert.Equal(t, reason, blocked.Reason)
	}, patience, 50*time.Millisecond)
}

func (w *waking) create(o client.Object) {
	w.t.Helper()
	o.SetNamespace(w.namespace)
	require.NoError(w.t, w.direct.Create(w.t.Context(), o))
}

// edit changes an object as it is now.
func (w *waking) edit(o client.Object, change func()) {
	w.t.Helper()
	require.NoError(w.t, w.direct.Get(w.t.Context(), client.ObjectKeyFromObject(o), o))
	before := o.DeepCopyObject().(client.Object)
	change()
	require.NoError(w.t, w.direct.Patch(w.t.Context(), o, client.MergeFrom(before)))
}

// tell changes an object's status.
func (w *waking) tell(o client.Object, change func()) {
	w.t.Helper()
	require.NoError(w.t, w.direct.Get(w.t.Context(), client.ObjectKeyFromObject(o), o))
	before := o.DeepCopyObject().(client.Object)
	change()
	require.NoError(w.t, w.direct.Status().Patch(w.t.Context(), o, client.MergeFrom(before)))
}

// recommends is what the policy loop would have stored of Deployment web: 1200m.
func (w *waking) recommends(name string, strategy v1alpha1.Strategy) *v1alpha1.AttuneRecommendation {
	w.t.Helper()
	policy := w.thePolicy("all")
	rec := &v1alpha1.AttuneRecommendation{ObjectMeta: metav1.ObjectMeta{Name: "deployment-" + name}}
	rec.Spec.Workload = v1alpha1.WorkloadRef{Kind: v1alpha1.KindDeployment, Name: name}
	rec.Spec.Policy = v1alpha1.PolicyRef{Name: policy.Name, UID: policy.UID, Generation: policy.Generation}
	rec.Spec.Mode, rec.Spec.Strategy = v1alpha1.UpdateAuto, strategy
	rec.Spec.DataUntil = &metav1.Time{Time: time.Now()}
	rec.Spec.Containers = []v1alpha1.ContainerTarget{{Name: "app", Target: podview.ToResources(recommender.Size{recommender.CPU: {Request: 1200}})}}
	w.create(rec)
	return rec
}

// orphan is a recommendation of a policy that is not there.
func (w *waking) orphan(policy string) {
	w.t.Helper()
	rec := &v1alpha1.AttuneRecommendation{ObjectMeta: metav1.ObjectMeta{Name: "deployment-" + policy}}
	rec.Spec.Workload = v1alpha1.WorkloadRef{Kind: v1alpha1.KindDeployment, Name: policy}
	rec.Spec.Policy, rec.Spec.Mode = v1alpha1.PolicyRef{Name: policy, UID: "gone", Generation: 1}, v1alpha1.UpdateAuto
	w.create(rec)
}

// ofKind is a workload.
func (w *waking) ofKind(kind v1alpha1.WorkloadKind, name string) client.Object {
	w.t.Helper()
	labels, pods := template(name, container(w.t, "cpu=10m,memory=16Mi"))
	job := batchv1.JobSpec{Template: pods}
	job.Template.Spec.RestartPolicy = corev1.RestartPolicyNever
	var o client.Object
	switch kind {
	case v1alpha1.KindDeployment:
		o = &appsv1.Deployment{Spec: appsv1.DeploymentSpec{Replicas: ptr.To[int32](0), Selector: labels, Template: pods}}
	case v1alpha1.KindStatefulSet:
		o = &appsv1.StatefulSet{Spec: appsv1.StatefulSetSpec{Replicas: ptr.To[int32](0), Selector: labels, Template: pods}}
	case v1alpha1.KindDaemonSet:
		o = &appsv1.DaemonSet{Spec: appsv1.DaemonSetSpec{Selector: labels, Template: pods}}
	case v1alpha1.KindReplicaSet:
		o = &appsv1.ReplicaSet{Spec: appsv1.ReplicaSetSpec{Replicas: ptr.To[int32](0), Selector: labels, Template: pods}}
	case v1alpha1.KindJob:
		o = &batchv1.Job{Spec: job}
	case v1alpha1.KindCronJob:
		o = &batchv1.CronJob{Spec: batchv1.CronJobSpec{Schedule: "0 0 1 1 *", JobTemplate: batchv1.JobTemplateSpec{Spec: job}}}
	default:
		return ofAddedKind(woken, name, map[string]any{"template": templateOf("10m", "16Mi")})
	}
	o.SetName(name)
	return o
}

func scalerOf(deployment string) *autoscalingv2.HorizontalPodAutoscaler {
	hpa := &autoscalingv2.HorizontalPodAutoscaler{ObjectMeta: metav1.ObjectMeta{Name: deployment}}
	hpa.Spec.ScaleTargetRef = autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: deployment}
	hpa.Spec.MaxReplicas = 9
	return hpa
}

// named is an object with a name.
func named[T client.Object](o T, name string) T {
	o.SetName(name)
	return o
}

func cpuLimit(amount string) corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(amount)}
}

func workloadLoopWakes(t *testing.T) {
	w := newWaking(t, &v1alpha1.AttuneRecommendation{}, kubelet.Options{CPU: "1"})
	told := make(chan genericevent.TypedGenericEvent[types.NamespacedName])
	sized := w.sizes(woken)
	workloads := &workloadloop.Controller{
		Confirmed: &board.Confirmed{},
		Client:    w.looks, Live: w.mgr.GetAPIReader(), Autoscalers: none{}, Clock: clock.RealClock{}, Settings: lookup.Reader{Client: w.mgr.GetClient()},
		Access: workloadloop.Access{ControlPlane: workloadloop.ControlPlane{Version: "v1.37.1"}, Sized: sized}, Events: event.NewRecorder(&events.FakeRecorder{}, clock.RealClock{}), Grants: &board.Grants{},
	}
	require.NoError(t, workloads.Register(w.mgr, told))
	w.deployment("web", 1, container(t, "cpu=500m,memory=512Mi"))
	w.deployment("other", 1, container(t, "cpu=100m,memory=512Mi"))
	restarts := container(t, "cpu=10m,memory=16Mi")
	restarts.ResizePolicy = []corev1.ContainerResizePolicy{{ResourceName: corev1.ResourceCPU, RestartPolicy: corev1.RestartContainer}}
	w.deployment("guarded", 2, restarts)
	w.play()
	w.policy("all", "updateStrategy: {type: Auto, cooldown: 1m, safetyObservationPeriod: 1h}\ncpu: {maxChangePercent: 1000}")
	w.recommends("web", v1alpha1.StrategyWorkload)
	w.start()
	w.untilBlocked("NodeCapacity")

	pod := named(&corev1.Pod{}, "")
	for _, p := range w.pods() {
		if p.Labels["app"] == "web" {
			pod = &p
		}
	}
	limits := named(&corev1.LimitRange{}, "limits")
	limits.Spec.Limits = []corev1.LimitRangeItem{{Type: corev1.LimitTypeContainer, Max: cpuLimit("600m")}}
	quota := named(&corev1.ResourceQuota{}, "quota")
	quota.Spec.Hard = corev1.ResourceList{corev1.ResourceRequestsCPU: resource.MustParse("600m")}
	budget := named(&policyv1.PodDisruptionBudget{}, "budget")
	budget.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "guarded"}}
	all := []watched{
		{watch: &corev1.Pod{}, looks: "deployment-web", event: func() { w.edit(pod, func() { metav1.SetMetaDataAnnotation(&pod.ObjectMeta, "a", "b") }) }},
		{watch: &corev1.Pod{}, looks: "deployment-web", event: func() { // Its neighbour leaves room.
			w.scale("other", 0)
			w.play()
		}},
		{watch: &corev1.Node{}, looks: "deployment-web", event: func() { require.NoError(t, w.node.SetAllocatable(t.Context(), "1100m", "256Gi")) }},
		{watch: &v1alpha1.AttunePolicy{}, looks: "deployment-web", event: func() {
			policy := w.thePolicy("all")
			w.edit(policy, func() { policy.Spec.Weight = ptr.To[int32](7) })
		}},
		{watch: &v1alpha1.AttuneDefaults{}, looks: "deployment-web"},
		{watch: &v1alpha1.AttuneNamespaceDefaults{}, looks: "deployment-web", event: func() { w.create(named(&v1alpha1.AttuneNamespaceDefaults{}, v1alpha1.DefaultsName)) }},
		{watch: &autoscalingv2.HorizontalPodAutoscaler{}, looks: "deployment-scaled", event: func() { w.create(scalerOf("scaled")) }},
		{watch: &v1alpha1.AttuneRecommendation{}, looks: "deployment-new", event: func() { w.recommends("new", v1alpha1.StrategyWorkload) }},
	}
	for _, kind := range sized.Kinds() {
		id := workload.Identity{Kind: kind, Namespace: w.namespace, Name: "woken"}
		all = append(all, watched{watch: sized.NewObject(kind).(client.Object), looks: id.RecommendationName(), event: func() { w.create(w.ofKind(kind, "woken")) }})
	}
	all = append(all,
		watched{watch: &corev1.Event{}, looks: "deployment-web", reads: 1, event: func() {
			w.create(&corev1.Event{
				ObjectMeta: metav1.ObjectMeta{Name: "rejected"}, Reason: workload.FailedCreate, Message: "is forbidden", LastTimestamp: metav1.Now(),
				InvolvedObject: corev1.ObjectReference{APIVersion: "apps/v1", Kind: "ReplicaSet", Namespace: w.namespace, Name: "web-abc"},
			})
		}},
		watched{watch: &corev1.LimitRange{}, looks: "deployment-web", before: func() {
			w.create(limits)
			require.NoError(t, w.node.SetAllocatable(t.Context(), "64", "256Gi"))
			w.untilBlocked("LimitRange")
		}, event: func() { w.edit(limits, func() { limits.Spec.Limits[0].Max = cpuLimit("700m") }) }},
		watched{watch: &corev1.ResourceQuota{}, looks: "deployment-web", before: func() {
			w.create(quota)
			w.tell(quota, func() { quota.Status.Hard, quota.Status.Used = quota.Spec.Hard, quota.Spec.Hard.DeepCopy() })
			require.NoError(t, w.direct.Delete(t.Context(), limits))
			w.untilBlocked("Quota")
		}, event: func() {
			w.tell(quota, func() { quota.Status.Used[corev1.ResourceRequestsCPU] = resource.MustParse("590m") })
		}},
		watched{watch: &policyv1.PodDisruptionBudget{}, looks: "deployment-guarded", before: func() {
			w.create(budget)
			w.tell(budget, func() { budget.Status.ObservedGeneration = budget.Generation })
			w.recommends("guarded", v1alpha1.StrategyWorkload)
			w.untilBlockedIs("guarded", "DisruptionBudget")
		}, event: func() { w.tell(budget, func() { budget.Status.DisruptionsAllowed = 1 }) }},
		w.namespaceGoes("deployment-web"))
	w.wakes(workloads.Watches(), all)
	name := types.NamespacedName{Namespace: w.namespace, Name: "deployment-web"}
	w.wakesOnce("told by another loop", name.Name, 0, func() { told <- genericevent.TypedGenericEvent[types.NamespacedName]{Object: name} })

	require.NoError(t, w.direct.Delete(t.Context(), quota))
	require.Eventually(t, func() bool { return w.cpuOf()[pod.Name] == 1200 }, patience, 50*time.Millisecond, "nothing stands in the way any more")
	w.ends(all)
}

// policyWaking is the policy loop, at work on policy all.
type policyWaking struct {
	*waking
	fresh chan genericevent.TypedGenericEvent[string]
	sized workload.Sized
	rec   *v1alpha1.AttuneRecommendation
	// ofObjects and ofWorkloads are its watches.
	ofObjects, ofWorkloads []loop.Watch
}

func newPolicyWaking(t *testing.T) *policyWaking {
	t.Helper()
	w := &policyWaking{waking: newWaking(t, &v1alpha1.AttunePolicy{}, kubelet.Options{}), fresh: make(chan genericevent.TypedGenericEvent[string])}
	w.gathers, w.sized = 2*time.Second, w.sizes(woken)
	policies := &policyloop.Controller{
		Confirmed: &board.Confirmed{},
		Client:    w.looks, History: steady{}, Autoscalers: none{}, Clock: clock.RealClock{}, Settings: lookup.Reader{Client: w.looks}, Sized: w.sized,
	}
	require.NoError(t, loop.Register(t.Context(), w.mgr.GetFieldIndexer(), workloadloop.Indexes()))
	require.NoError(t, policies.Register(w.mgr, w.fresh))
	watches := policies.Watches()
	ofObjects := len(watches) - len(w.sized.Kinds())
	w.ofObjects, w.ofWorkloads = watches[:ofObjects], watches[ofObjects:]
	w.policy("all", "updateStrategy: {type: Recommend}")
	w.deployment("web", 0, container(t, "cpu=500m,memory=512Mi"))
	w.start()
	w.rec = named(&v1alpha1.AttuneRecommendation{}, "deployment-web")
	w.rec.Namespace = w.namespace
	require.Eventually(t, func() bool { return w.direct.Get(t.Context(), client.ObjectKeyFromObject(w.rec), w.rec) == nil }, patience, 50*time.Millisecond, "it is at work")
	return w
}

func policyLoopWakes(t *testing.T) {
	w := newPolicyWaking(t)
	all := []watched{
		{watch: &v1alpha1.AttunePolicy{}, looks: "all", event: func() {
			policy := w.thePolicy("all")
			w.edit(policy, func() { policy.Spec.Weight = ptr.To[int32](7) })
		}},
		{watch: &v1alpha1.AttunePolicy{}, looks: "all", event: func() { w.policy("another", "targetRef: {kind: CronJob}") }},
		{watch: &v1alpha1.AttuneDefaults{}, looks: "all"},
		{watch: &v1alpha1.AttuneNamespaceDefaults{}, looks: "all", event: func() { w.create(named(&v1alpha1.AttuneNamespaceDefaults{}, v1alpha1.DefaultsName)) }},
		{watch: &v1alpha1.AttuneRecommendation{}, looks: "all", event: func() { w.tell(w.rec, func() { w.rec.Status.UndoneAt = "2026-01-01T00:00:00Z" }) }},
		{watch: &v1alpha1.AttuneRecommendation{}, looks: "vanished", reads: 1, event: func() { w.orphan("vanished") }},
		{watch: &autoscalingv2.HorizontalPodAutoscaler{}, looks: "all", event: func() { w.create(scalerOf("scaled")) }},
	}
	all = append(all, w.namespaceGoes("all"))
	w.wakes(w.ofObjects, all)
	w.wakesOnce("fresh usage", "all", 0, func() { w.fresh <- genericevent.TypedGenericEvent[string]{Object: w.namespace} })
	w.ends(all)
}

func workloadsWakePolicyLoop(t *testing.T) {
	w := newPolicyWaking(t)
	var all []watched
	for _, kind := range w.sized.Kinds() {
		all = append(all, watched{watch: w.sized.NewObject(kind).(client.Object), looks: "all", event: func() { w.create(w.ofKind(kind, "woken")) }})
	}
	w.wakes(w.ofWorkloads, all)
}

func nodeLoopWakes(t *testing.T) {
	w := newWaking(t, &corev1.Node{}, kubelet.Options{})
	w.gathers = 2 * time.Second
	held := make(chan genericevent.TypedGenericEvent[types.NamespacedName])
	require.NoError(t, loop.Register(t.Context(), w.mgr.GetFieldIndexer(), workloadloop.Indexes()))
	nodes := &nodeloop.Controller{
		Client: w.looks, Recent: steady{}, Grants: &board.Grants{}, Events: event.NewRecorder(&events.FakeRecorder{}, clock.RealClock{}), Clock: clock.RealClock{},
		Interval: time.Hour, Wake: func([]types.NamespacedName) {},
	}
	require.NoError(t, nodes.Register(w.mgr, held))
	w.policy("all", "strategy: Node\nupdateStrategy: {type: Auto}")
	w.deployment("web", 1, container(t, "cpu=500m,memory=512Mi"))
	w.play()
	rec := w.recommends("web", v1alpha1.StrategyNode)
	w.start()
	all := []watched{
		{watch: &corev1.Node{}, looks: w.node.Name, event: func() { require.NoError(t, w.node.SetAllocatable(t.Context(), "32", "256Gi")) }},
		{watch: &corev1.Pod{}, looks: w.node.Name, event: func() {
			w.scale("web", 2)
			w.play()
		}},
		{watch: &v1alpha1.AttuneRecommendation{}, looks: w.node.Name, event: func() {
			w.edit(rec, func() {
				rec.Spec.Containers[0].Target = podview.ToResources(recommender.Size{recommender.CPU: {Request: 1300}})
			})
		}},
	}
	w.wakes(nodes.Watches(), all)
	w.wakesOnce("pods are held otherwise", w.node.Name, 0, func() {
		held <- genericevent.TypedGenericEvent[types.NamespacedName]{Object: client.ObjectKeyFromObject(rec)}
	})
}
