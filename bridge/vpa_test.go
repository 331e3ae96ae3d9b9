package bridge_test

import (
	"flag"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/bridge"
	"attune.io/attune/internal/autoscale"
	"attune.io/attune/internal/workload"
)

var update = flag.Bool("update", false, "write the golden files instead of comparing with them")

var now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func q(text string) *resource.Quantity { return ptr.To(resource.MustParse(text)) }

// web is the recommendation for Deployment web. app has targets and a seed of both resources, with a boost; side has
// targets and no seed; none has no target.
func web() *v1alpha1.AttuneRecommendation {
	return &v1alpha1.AttuneRecommendation{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "deployment-web", CreationTimestamp: metav1.NewTime(now.Add(-time.Hour))},
		Spec: v1alpha1.AttuneRecommendationSpec{
			Workload: v1alpha1.WorkloadRef{Kind: v1alpha1.KindDeployment, Name: "web"}, Mode: v1alpha1.UpdateAuto,
			Containers: []v1alpha1.ContainerTarget{
				{Name: "app", Target: v1alpha1.Resources{CPURequest: q("300m"), MemoryRequest: q("700Mi"), MemoryLimit: q("900Mi")}},
				{Name: "side", Target: v1alpha1.Resources{CPURequest: q("20m"), MemoryRequest: q("50Mi")}},
				{Name: "none"},
			},
			Seed: &v1alpha1.Seed{Revision: "r1", ValidUntil: metav1.NewTime(now.Add(time.Hour)), Containers: []v1alpha1.ContainerSeed{{
				Name: "app", CPURequest: q("250m"), MemoryRequest: q("600Mi"), AllowMemoryDecrease: true,
				CPUBoost: &v1alpha1.CPUBoost{Multiplier: "2.5"},
			}}},
		},
	}
}

func container(name, cpu, memory string) corev1.Container {
	return corev1.Container{Name: name, Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory),
	}}}
}

func view() bridge.View {
	return bridge.View{
		Template: &corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{
			container("app", "1", "1Gi"), container("side", "100m", "100Mi"), container("none", "100m", "100Mi"),
		}}},
		Seeded: true, Now: now, Owner: metav1.OwnerReference{APIVersion: "rbac.authorization.k8s.io/v1", Kind: "ClusterRole", Name: "attune-bridge-vpa", UID: "u1"},
	}
}

func TestGolden(t *testing.T) {
	for name, change := range map[string]func(*v1alpha1.AttuneRecommendation, *bridge.View){
		"initial": func(*v1alpha1.AttuneRecommendation, *bridge.View) {},
		"off":     func(r *v1alpha1.AttuneRecommendation, _ *bridge.View) { r.Spec.Seed = nil },
	} {
		rec, v := web(), view()
		change(rec, &v)
		vpa, ok := bridge.Of(rec, v)
		require.True(t, ok)
		got, err := yaml.Marshal(vpa)
		require.NoError(t, err)
		file := "testdata/" + name + ".yaml"
		if *update {
			require.NoError(t, os.WriteFile(file, got, 0o600))
		}
		want, err := os.ReadFile(file)
		require.NoError(t, err, "run the test with -update to write it")
		assert.Equal(t, string(want), string(got), name)
	}
}

// The VPA shows the resources that the webhook will set. If attune only recommends, the VPA must not say that attune
// acts.
func TestPredictedRequests(t *testing.T) {
	for _, tc := range []struct {
		name   string
		change func(*v1alpha1.AttuneRecommendation, *bridge.View)
		mode   string
		// cpu and memory are the target of app.
		cpu, memory string
		// controlled of app.
		controlled string
	}{
		{"seeded", nil, "Initial", "250m", "600Mi", "cpu memory"},
		{"no seed", func(r *v1alpha1.AttuneRecommendation, _ *bridge.View) { r.Spec.Seed = nil }, "Off", "300m", "700Mi", ""},
		{"the seed has ended", func(_ *v1alpha1.AttuneRecommendation, v *bridge.View) { v.Now = now.Add(time.Hour) }, "Off", "300m", "700Mi", ""},
		{"the seed harmed a pod", func(r *v1alpha1.AttuneRecommendation, _ *bridge.View) { r.Status.BadSeeds = []string{"r1"} }, "Off", "300m", "700Mi", ""},
		{"the namespace is not labelled", func(_ *v1alpha1.AttuneRecommendation, v *bridge.View) { v.Seeded = false }, "Off", "300m", "700Mi", ""},
		{"no workload is there", func(_ *v1alpha1.AttuneRecommendation, v *bridge.View) { v.Template = nil }, "Off", "300m", "700Mi", ""},
		{"the template opts out", func(_ *v1alpha1.AttuneRecommendation, v *bridge.View) {
			v.Template.Annotations = map[string]string{v1alpha1.SkipAnnotation: "true"}
		}, "Off", "300m", "700Mi", ""},
		{"only raised", func(r *v1alpha1.AttuneRecommendation, _ *bridge.View) { r.Spec.Seed.Containers[0].RaiseOnly = true }, "Initial", "1", "1Gi", "cpu memory"},
		{"memory is not lowered", func(r *v1alpha1.AttuneRecommendation, _ *bridge.View) {
			r.Spec.Seed.Containers[0].AllowMemoryDecrease = false
		}, "Initial", "250m", "1Gi", "cpu memory"},
		{"CPU is held", func(r *v1alpha1.AttuneRecommendation, _ *bridge.View) {
			r.Spec.Seed.Containers[0].CPURequest, r.Spec.Seed.Containers[0].CPUBoost = nil, nil
		}, "Initial", "300m", "600Mi", "memory"},
		{"a LimitRange", func(_ *v1alpha1.AttuneRecommendation, v *bridge.View) {
			v.Limits = []*corev1.LimitRange{{Spec: corev1.LimitRangeSpec{Limits: []corev1.LimitRangeItem{{
				Type: corev1.LimitTypeContainer, Min: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("800Mi")},
			}}}}}
		}, "Initial", "250m", "800Mi", "cpu memory"},
		{"pods of the newest generation crashed when they were born smaller", func(r *v1alpha1.AttuneRecommendation, _ *bridge.View) {
			r.Status.Originals = []v1alpha1.Originals{{TemplateHash: "abc", Containers: []v1alpha1.ContainerResources{{Name: "app", Resources: v1alpha1.Resources{CPURequest: q("1"), MemoryRequest: q("1Gi")}}}}}
			r.Status.FailedStarts = []v1alpha1.FailedStart{{Name: "app", TemplateHash: "abc"}}
		}, "Initial", "1", "1Gi", "cpu memory"},
		{"a CronJob, which Karpenter cannot look up", func(r *v1alpha1.AttuneRecommendation, _ *bridge.View) { r.Spec.Workload.Kind = v1alpha1.KindCronJob }, "Off", "300m", "700Mi", ""},
		{"a Rollout, which Karpenter cannot look up", func(r *v1alpha1.AttuneRecommendation, _ *bridge.View) { r.Spec.Workload.Kind = v1alpha1.KindRollout }, "Off", "300m", "700Mi", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			rec, v := web(), view()
			if tc.change != nil {
				tc.change(rec, &v)
			}
			vpa, ok := bridge.Of(rec, v)
			require.True(t, ok)
			assert.Equal(t, tc.mode, vpa.Spec.UpdatePolicy.UpdateMode)
			assert.Equal(t, tc.mode == "Off", vpa.Spec.ResourcePolicy == nil)
			said := vpa.Status.Recommendation.ContainerRecommendations
			require.Len(t, said, 2, "a container without a target is left out")
			app := said[0]
			assert.Equal(t, tc.cpu, app.Target.Cpu().String())
			assert.Equal(t, tc.memory, app.Target.Memory().String())
			assert.Equal(t, "300m", app.UncappedTarget.Cpu().String())
			assert.Equal(t, "700Mi", app.UncappedTarget.Memory().String())
			for _, c := range said {
				for name, target := range c.Target {
					low, high := c.LowerBound[name], c.UpperBound[name]
					assert.LessOrEqual(t, low.Cmp(target), 0, "%s %s", c.ContainerName, name)
					assert.GreaterOrEqual(t, high.Cmp(target), 0, "%s %s", c.ContainerName, name)
				}
			}
			if vpa.Spec.ResourcePolicy == nil {
				return
			}
			policies := vpa.Spec.ResourcePolicy.ContainerPolicies
			var controlled []string
			for _, name := range policies[0].ControlledResources {
				controlled = append(controlled, string(name))
			}
			assert.Equal(t, tc.controlled, strings.Join(controlled, " "))
			assert.Equal(t, bridge.ContainerPolicy{ContainerName: "side", Mode: "Off"}, policies[1])
		})
	}
}

// Readers must find the workload: group and version are those by which the API server serves the kind.
func TestTheTargetIsAKindThatExists(t *testing.T) {
	want := map[v1alpha1.WorkloadKind]string{
		v1alpha1.KindDeployment: "apps/v1", v1alpha1.KindStatefulSet: "apps/v1", v1alpha1.KindDaemonSet: "apps/v1", v1alpha1.KindReplicaSet: "apps/v1",
		v1alpha1.KindJob: "batch/v1", v1alpha1.KindCronJob: "batch/v1", v1alpha1.KindRollout: "argoproj.io/v1alpha1",
	}
	for _, kind := range workload.Kinds {
		rec := web()
		rec.Spec.Workload.Kind = kind
		vpa, ok := bridge.Of(rec, view())
		require.True(t, ok)
		assert.Equal(t, bridge.TargetRef{APIVersion: want[kind], Kind: string(kind), Name: "web"}, vpa.Spec.TargetRef)
	}
}

func TestWithoutATargetThereIsNone(t *testing.T) {
	rec := web()
	rec.Spec.Containers = rec.Spec.Containers[2:]
	_, ok := bridge.Of(rec, view())
	assert.False(t, ok)
}

func TestNoObjectForDeletedWorkload(t *testing.T) {
	for name, goes := range map[string]func(*v1alpha1.AttuneRecommendation){
		"the workload":       func(r *v1alpha1.AttuneRecommendation) { r.Status.GoneSince = ptr.To(metav1.NewTime(now)) },
		"the recommendation": func(r *v1alpha1.AttuneRecommendation) { r.DeletionTimestamp = ptr.To(metav1.NewTime(now)) },
	} {
		rec := web()
		goes(rec)
		_, ok := bridge.Of(rec, view())
		assert.False(t, ok, name)
	}
}

func TestDigestChangesWithEveryField(t *testing.T) {
	digest := func(change func(*v1alpha1.AttuneRecommendation, *bridge.View)) string {
		rec, v := web(), view()
		change(rec, &v)
		vpa, ok := bridge.Of(rec, v)
		require.True(t, ok)
		return vpa.Annotations[v1alpha1.PublishedAnnotation]
	}
	same := digest(func(*v1alpha1.AttuneRecommendation, *bridge.View) {})
	assert.NotEmpty(t, same)
	for name, change := range map[string]func(*v1alpha1.AttuneRecommendation, *bridge.View){
		"the owner": func(_ *v1alpha1.AttuneRecommendation, v *bridge.View) { v.Owner.UID = "u2" },
		"the spec":  func(_ *v1alpha1.AttuneRecommendation, v *bridge.View) { v.Seeded = false },
		"the status": func(r *v1alpha1.AttuneRecommendation, _ *bridge.View) {
			r.Spec.Containers[1].Target.CPURequest = q("21m")
		},
	} {
		assert.NotEqual(t, same, digest(change), name)
	}
	assert.Equal(t, same, digest(func(r *v1alpha1.AttuneRecommendation, v *bridge.View) {
		v.Now = v.Now.Add(time.Minute)
		r.Spec.Seed.ValidUntil = metav1.NewTime(now.Add(2 * time.Hour))
		r.ResourceVersion, r.Spec.DataUntil = "8", ptr.To(metav1.NewTime(now))
	}), "time and new data alone change nothing")
}

// autoscale.Ours recognises every VPA that the bridge writes, whatever the name of the workload, and no object that
// lacks one of the marks.
func TestOwnObjectsAreRecognised(t *testing.T) {
	for _, kind := range workload.Kinds {
		for _, name := range []string{"web", "a.b-c", strings.Repeat("x", 253)} {
			rec := web()
			rec.Spec.Workload.Kind, rec.Spec.Workload.Name = kind, name
			vpa, ok := bridge.Of(rec, view())
			require.True(t, ok)
			assert.LessOrEqual(t, len(vpa.Name), 253)
			assert.True(t, autoscale.Ours(read(t, vpa)), "%s %s", kind, name)
		}
	}
	for sign, spoil := range map[string]func(*unstructured.Unstructured){
		"the label":       func(u *unstructured.Unstructured) { u.SetLabels(nil) },
		"the name":        func(u *unstructured.Unstructured) { u.SetName("attune-deployment-api") },
		"the recommender": func(u *unstructured.Unstructured) { unstructured.RemoveNestedField(u.Object, "spec", "recommenders") },
		"one recommender": func(u *unstructured.Unstructured) {
			require.NoError(t, unstructured.SetNestedSlice(u.Object, []any{map[string]any{"name": "attune"}, map[string]any{"name": "default"}}, "spec", "recommenders"))
		},
		"the mode": func(u *unstructured.Unstructured) {
			require.NoError(t, unstructured.SetNestedField(u.Object, "Recreate", "spec", "updatePolicy", "updateMode"))
		},
		"a mode":     func(u *unstructured.Unstructured) { unstructured.RemoveNestedField(u.Object, "spec", "updatePolicy") },
		"the target": func(u *unstructured.Unstructured) { unstructured.RemoveNestedField(u.Object, "spec", "targetRef") },
		"a readable recommender": func(u *unstructured.Unstructured) {
			require.NoError(t, unstructured.SetNestedField(u.Object, "attune", "spec", "recommenders"))
		},
	} {
		vpa, ok := bridge.Of(web(), view())
		require.True(t, ok)
		u := read(t, vpa)
		spoil(u)
		assert.False(t, autoscale.Ours(u), sign)
	}
}

func read(t *testing.T, vpa *bridge.VPA) *unstructured.Unstructured {
	t.Helper()
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(vpa)
	require.NoError(t, err)
	return &unstructured.Unstructured{Object: fields}
}
