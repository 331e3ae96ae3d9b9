// Package karpenter feeds what the operator publishes to the programs that read it: Karpenter's own controller of
// predictions, and VPA's own types and rules. It is a module of its own, since both bring many others with them.
package karpenter

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	vpav1 "k8s.io/autoscaler/vertical-pod-autoscaler/pkg/apis/autoscaling.k8s.io/v1"
	vpautil "k8s.io/autoscaler/vertical-pod-autoscaler/pkg/utils/vpa"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/karpenter/pkg/controllers/state/informer"
	"sigs.k8s.io/karpenter/pkg/state/prediction"

	jsonpatch "github.com/evanphx/json-patch/v5"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/bridge"
	"attune.io/attune/internal/constraint"
	"attune.io/attune/internal/workload"
	"attune.io/attune/webhook/pod"
)

var pods = flag.Uint64("pods", 2000, "how many pods are compared")

var now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// decode reads what is published as VPA's own type. A field that VPA does not have is an error.
func decode(t *testing.T, vpa *bridge.VPA) *vpav1.VerticalPodAutoscaler {
	t.Helper()
	text, err := json.Marshal(vpa)
	require.NoError(t, err)
	strict := json.NewDecoder(bytes.NewReader(text))
	strict.DisallowUnknownFields()
	read := &vpav1.VerticalPodAutoscaler{}
	require.NoError(t, strict.Decode(read), string(text))
	return read
}

// scene is a workload, the recommendation for it, and the LimitRanges of its namespace.
type scene struct {
	template corev1.PodTemplateSpec
	rec      *v1alpha1.AttuneRecommendation
	limits   []*corev1.LimitRange
	seeded   bool
}

func pick[T any](d *rand.Rand, of ...T) T { return of[d.IntN(len(of))] }

func cpu(d *rand.Rand) *resource.Quantity {
	return ptr.To(resource.MustParse(pick(d, "1m", "10m", "100m", "333m", "500m", "1", "1500m", "2", "7")))
}

func memory(d *rand.Rand) *resource.Quantity {
	return ptr.To(resource.MustParse(pick(d, "16Mi", "64Mi", "100M", "128Mi", "333333333", "512Mi", "1Gi", "7Gi")))
}

// throw makes a scene of up to three containers.
func throw(number uint64) scene {
	d := rand.New(rand.NewPCG(number, 1))
	s := scene{seeded: d.IntN(8) > 0, rec: &v1alpha1.AttuneRecommendation{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", CreationTimestamp: metav1.NewTime(now)},
		Spec:       v1alpha1.AttuneRecommendationSpec{Workload: v1alpha1.WorkloadRef{Kind: v1alpha1.KindDeployment, Name: fmt.Sprintf("w%d", number)}, Mode: v1alpha1.UpdateAuto},
	}}
	seed := &v1alpha1.Seed{Revision: "r1", ValidUntil: metav1.NewTime(now.Add(time.Duration(d.IntN(10)) * time.Minute))}
	for i := range 1 + d.IntN(3) {
		name := fmt.Sprintf("c%d", i)
		c := corev1.Container{Name: name, Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{}, Limits: corev1.ResourceList{}}}
		if d.IntN(5) > 0 {
			low, high := cpu(d), cpu(d)
			if low.Cmp(*high) > 0 {
				low, high = high, low
			}
			c.Resources.Requests["cpu"] = *low
			if d.IntN(2) > 0 {
				c.Resources.Limits["cpu"] = *high
			}
		}
		if d.IntN(5) > 0 {
			low, high := memory(d), memory(d)
			if low.Cmp(*high) > 0 {
				low, high = high, low
			}
			c.Resources.Requests["memory"] = *low
			if d.IntN(2) > 0 {
				c.Resources.Limits["memory"] = *high
			}
		}
		s.template.Spec.Containers = append(s.template.Spec.Containers, c)
		s.rec.Spec.Containers = append(s.rec.Spec.Containers, v1alpha1.ContainerTarget{Name: name, Target: v1alpha1.Resources{CPURequest: cpu(d), MemoryRequest: memory(d)}})
		if d.IntN(5) == 0 {
			continue
		}
		of := v1alpha1.ContainerSeed{
			Name: name, RaiseOnly: d.IntN(4) == 0, AllowMemoryDecrease: d.IntN(2) == 0, CPULimitFollows: d.IntN(2) == 0, MemoryLimitFollows: d.IntN(2) == 0,
		}
		if d.IntN(5) > 0 {
			of.CPURequest = cpu(d)
			if d.IntN(2) == 0 {
				of.CPUBoost = &v1alpha1.CPUBoost{Multiplier: pick(d, v1alpha1.Decimal("2"), "1.5", "3.333"), Most: pick(d, nil, cpu(d))}
			}
		}
		if d.IntN(5) > 0 {
			of.MemoryRequest = memory(d)
		}
		seed.Containers = append(seed.Containers, of)
	}
	if len(seed.Containers) > 0 {
		s.rec.Spec.Seed = seed
	}
	if d.IntN(4) == 0 {
		s.limits = []*corev1.LimitRange{{Spec: corev1.LimitRangeSpec{Limits: []corev1.LimitRangeItem{{Type: corev1.LimitTypeContainer,
			Min: corev1.ResourceList{"memory": *memory(d)}, Max: corev1.ResourceList{"cpu": *cpu(d)}}}}}}
	}
	return s
}

func (s *scene) vpa() (*bridge.VPA, bool) {
	return bridge.Of(s.rec, bridge.View{
		Template: &s.template, Seeded: s.seeded, Limits: s.limits, Now: now,
		Owner: metav1.OwnerReference{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: "ClusterRole", Name: "attune-bridge-vpa", UID: "u"},
	})
}

// admitted are the requests of the containers of a new pod, as the webhook's patch makes them.
func (s *scene) admitted(t *testing.T) map[string]corev1.ResourceList {
	t.Helper()
	text, err := json.Marshal(&s.template)
	require.NoError(t, err)
	if s.seeded {
		p := &pod.Pod{}
		require.NoError(t, json.Unmarshal(text, p))
		if d := pod.SeedPod(p, pod.Read(s.rec), &pod.Namespace{Bounds: constraint.BoundsOf(s.limits)}, now); d.Patch != nil {
			patch, err := jsonpatch.DecodePatch(d.Patch)
			require.NoError(t, err)
			text, err = patch.ApplyWithOptions(text, &jsonpatch.ApplyOptions{EnsurePathExistsOnAdd: true, SupportNegativeIndices: true})
			require.NoError(t, err)
		}
	}
	made := &corev1.PodTemplateSpec{}
	require.NoError(t, json.Unmarshal(text, made))
	requests := map[string]corev1.ResourceList{}
	for _, c := range made.Spec.Containers {
		requests[c.Name] = c.Resources.Requests
	}
	return requests
}

// karpenter is Karpenter's controller with what it has found out.
type karpenter struct {
	store      *prediction.Store
	controller *informer.VPAController
}

func newKarpenter(live client.Reader, c client.Client) karpenter {
	store := prediction.NewStore()
	return karpenter{store, informer.NewVPAController(c, live, store)}
}

// hydrated reports whether Karpenter would use its predictions: it has looked up every workload.
func (k karpenter) hydrated(t *testing.T) bool {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	return k.store.Hydrated(ctx)
}

func world(t *testing.T, objects ...client.Object) client.Client {
	t.Helper()
	require.NoError(t, vpav1.AddToScheme(scheme.Scheme))
	return fake.NewClientBuilder().WithScheme(scheme.Scheme).WithObjects(objects...).Build()
}

// TestKarpenterPredictsWhatIsAdmitted: for each container and resource that Karpenter predicts, a new pod is given just that
// request, boost included; for all others it has that of its template, by which Karpenter goes where it predicts nothing.
func TestKarpenterPredictsWhatIsAdmitted(t *testing.T) {
	const batch = 500
	scenes := int(*pods)
	predicted, boosted, left := 0, 0, 0
	for first := uint64(0); first < *pods; first += batch {
		var objects []client.Object
		all := map[types.UID]scene{}
		for number := first; number < first+batch; number++ {
			s := throw(number)
			vpa, ok := s.vpa()
			require.True(t, ok)
			read := decode(t, vpa)
			uid := types.UID(fmt.Sprint("uid-", number))
			all[uid] = s
			objects = append(objects, read, &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: s.rec.Spec.Workload.Name, UID: uid}})
		}
		c := world(t, objects...)
		k := newKarpenter(c, c)
		_, err := k.controller.Reconcile(t.Context())
		require.NoError(t, err)
		require.True(t, k.hydrated(t))
		for uid, s := range all {
			found, ok := k.store.Get(uid)
			requests := s.admitted(t)
			for _, container := range s.template.Spec.Containers {
				var says corev1.ResourceList
				if ok {
					says = found.Containers[container.Name]
				}
				for _, name := range []corev1.ResourceName{"cpu", "memory"} {
					want, got := requests[container.Name][name], container.Resources.Requests[name]
					if q, there := says[name]; there {
						got = q
						predicted++
					} else {
						left++
					}
					require.Zero(t, want.Cmp(got), "%s %s %s: admitted with %s, Karpenter expects %s", s.rec.Spec.Workload.Name, container.Name, name, want.String(), got.String())
				}
			}
			vpa, _ := s.vpa()
			if vpa.Spec.ResourcePolicy != nil {
				for _, p := range vpa.Spec.ResourcePolicy.ContainerPolicies {
					if p.StartupBoost != nil {
						boosted++
					}
				}
			}
		}
	}
	assert.Greater(t, predicted, scenes/2, "the scenes are about something")
	assert.Greater(t, left, scenes/2)
	assert.Greater(t, boosted, scenes/20)
}

// mayReadApps is what Karpenter's chart grants of workloads, of a server that has no other kinds in the group apps.
type mayReadApps struct{ client.Client }

func (c mayReadApps) Get(ctx context.Context, key client.ObjectKey, o client.Object, options ...client.GetOption) error {
	if gvk := o.GetObjectKind().GroupVersionKind(); gvk.Group != appsv1.GroupName {
		return apierrors.NewForbidden(schema.GroupResource{Group: gvk.Group, Resource: gvk.Kind}, key.Name, nil)
	} else if _, served := scheme.Scheme.KnownTypes(gvk.GroupVersion())[gvk.Kind]; !served {
		return &meta.NoKindMatchError{GroupKind: gvk.GroupKind(), SearchedVersions: []string{gvk.Version}}
	}
	return c.Client.Get(ctx, key, o, options...)
}

// TestKarpenterIsNotKeptWaiting: an object whose workload Karpenter may not read would keep all its predictions from being
// used. So those of Jobs, CronJobs and Argo Rollouts only recommend.
func TestKarpenterIsNotKeptWaiting(t *testing.T) {
	require.NoError(t, workload.AddArgoToScheme(scheme.Scheme))
	for kind, object := range map[v1alpha1.WorkloadKind]client.Object{
		v1alpha1.KindJob: &batchv1.Job{}, v1alpha1.KindCronJob: &batchv1.CronJob{}, v1alpha1.KindRollout: &workload.ArgoRollout{},
		v1alpha1.KindDeployment: &appsv1.Deployment{}, v1alpha1.KindStatefulSet: &appsv1.StatefulSet{}, v1alpha1.KindDaemonSet: &appsv1.DaemonSet{}, v1alpha1.KindReplicaSet: &appsv1.ReplicaSet{},
	} {
		s := scene{seeded: true, rec: &v1alpha1.AttuneRecommendation{ObjectMeta: metav1.ObjectMeta{Namespace: "shop"}}}
		s.rec.Spec.Workload = v1alpha1.WorkloadRef{Kind: kind, Name: "web"}
		s.rec.Spec.Containers = []v1alpha1.ContainerTarget{{Name: "app", Target: v1alpha1.Resources{CPURequest: ptr.To(resource.MustParse("300m"))}}}
		s.rec.Spec.Seed = &v1alpha1.Seed{Revision: "r1", ValidUntil: metav1.NewTime(now.Add(time.Hour)),
			Containers: []v1alpha1.ContainerSeed{{Name: "app", CPURequest: ptr.To(resource.MustParse("300m"))}}}
		s.template.Spec.Containers = []corev1.Container{{Name: "app"}}
		vpa, ok := s.vpa()
		require.True(t, ok)
		object.SetNamespace("shop")
		object.SetName("web")
		object.SetUID("uid")
		c := mayReadApps{world(t, decode(t, vpa), object)}
		k := newKarpenter(c, c)
		_, err := k.controller.Reconcile(t.Context())
		require.NoError(t, err)
		assert.True(t, k.hydrated(t), kind)
		_, ok = k.store.Get("uid")
		assert.Equal(t, workload.GroupKindOf(kind).Group == appsv1.GroupName, ok, kind)
	}
}

// TestVPAReadsThem: VPA's own code sees a mode on which its updater does not act, no mistake, and no work for its recommender.
func TestVPAReadsThem(t *testing.T) {
	for number := range uint64(1000) {
		s := throw(number)
		vpa, ok := s.vpa()
		require.True(t, ok)
		read := decode(t, vpa)
		assert.Contains(t, []vpav1.UpdateMode{vpav1.UpdateModeOff, vpav1.UpdateModeInitial}, vpautil.GetUpdateMode(read))
		require.Len(t, read.Spec.Recommenders, 1)
		assert.NotEqual(t, "default", read.Spec.Recommenders[0].Name)
		assert.Equal(t, vpav1.RecommendationProvided, read.Status.Conditions[0].Type)
		for _, c := range read.Status.Recommendation.ContainerRecommendations {
			for name, target := range c.Target {
				low, high := c.LowerBound[name], c.UpperBound[name]
				assert.LessOrEqual(t, low.Cmp(target), 0)
				assert.GreaterOrEqual(t, high.Cmp(target), 0)
			}
		}
		if read.Spec.UpdatePolicy.UpdateMode != nil && *read.Spec.UpdatePolicy.UpdateMode == vpav1.UpdateModeOff {
			assert.False(t, vpautil.HasStartupBoost(read), "VPA acts on a boost even in the mode Off")
		}
	}
}
