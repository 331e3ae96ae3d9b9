package trim_test

import (
	"fmt"
	"maps"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/autoscale"
	"attune.io/attune/internal/clip"
	"attune.io/attune/internal/trim"
	"attune.io/attune/internal/workload"
	"attune.io/attune/podview"
	"attune.io/attune/resize"
	"attune.io/attune/resize/lifecycle"
)

// fill sets every string, list and map of a value to something large. Deeply nested ones have fewer entries.
func fill(v reflect.Value, depth int, next *int) {
	entries := 60
	if depth > 4 {
		entries = 2
	}
	switch v.Kind() {
	case reflect.String:
		*next++
		v.SetString(fmt.Sprintf("%07d", *next) + strings.Repeat("x", 300))
	case reflect.Int32, reflect.Int64, reflect.Int, reflect.Uint8:
		if v.Kind() != reflect.Uint8 {
			v.SetInt(7)
		}
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), depth, next)
	case reflect.Struct:
		switch v.Type() {
		case reflect.TypeFor[resource.Quantity]():
			v.Set(reflect.ValueOf(resource.MustParse("1")))
		case reflect.TypeFor[intstr.IntOrString]():
			v.Set(reflect.ValueOf(intstr.FromString(strings.Repeat("0", 300) + "1%")))
		case reflect.TypeFor[metav1.Time](), reflect.TypeFor[metav1.FieldsV1]():
		default:
			for i := range v.NumField() {
				if v.Field(i).CanSet() {
					fill(v.Field(i), depth+1, next)
				}
			}
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), entries, entries))
		for i := range entries {
			fill(v.Index(i), depth+1, next)
		}
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		for range entries {
			key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
			fill(key, depth+1, next)
			fill(value, depth+1, next)
			v.SetMapIndex(key, value)
		}
	}
}

func filled[T client.Object](o T) T {
	next := 0
	fill(reflect.ValueOf(o).Elem(), 0, &next)
	o.SetNamespace("shop")
	o.SetName("web")
	owners := o.GetOwnerReferences()
	for i := range owners {
		owners[i].Controller = nil
	}
	o.SetOwnerReferences(append(owners, metav1.OwnerReference{
		Controller: ptr.To(true), Kind: strings.Repeat("k", 1<<16), Name: strings.Repeat("n", 1<<16), APIVersion: "a/" + strings.Repeat("v", 1<<16), UID: "u",
	}))
	return o
}

// manyInMemory makes a pod's volumes memory-backed, so that the cache keeps them.
func manyInMemory(spec *corev1.PodSpec) {
	for i := range spec.Volumes {
		spec.Volumes[i].EmptyDir.Medium = corev1.StorageMediumMemory
	}
}

// The kept part of any object is bounded for all field values. For kinds that only an administrator writes, this covers
// the metadata.
func TestKeptPartOfEveryKindIsBounded(t *testing.T) {
	pod := filled(&corev1.Pod{})
	manyInMemory(&pod.Spec)
	text := runningPod(1)
	whole := filled(&corev1.Pod{})
	text.ObjectMeta = *whole.ObjectMeta.DeepCopy()
	text.Spec.Tolerations, text.Spec.Affinity, text.Spec.NodeSelector, text.Spec.ResourceClaims = whole.Spec.Tolerations, whole.Spec.Affinity, whole.Spec.NodeSelector, whole.Spec.ResourceClaims
	text.Spec.TopologySpreadConstraints, text.Spec.Volumes = whole.Spec.TopologySpreadConstraints, pod.DeepCopy().Spec.Volumes

	inMemory := filled(&appsv1.Deployment{})
	manyInMemory(&inMemory.Spec.Template.Spec)
	inMemory.Spec.Template.Spec.Containers, inMemory.Spec.Template.Spec.InitContainers = runningPod(1).Spec.Containers, nil

	hpa := filled(&autoscalingv2.HorizontalPodAutoscaler{})
	for i := range hpa.Spec.Metrics {
		m := &hpa.Spec.Metrics[i]
		m.Type, m.ContainerResource.Name, m.ContainerResource.Target.AverageValue = autoscalingv2.ContainerResourceMetricSourceType, corev1.ResourceCPU, nil
	}
	hpa.Spec.Metrics = append(hpa.Spec.Metrics, hpa.DeepCopy().Spec.Metrics...)
	vpa := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "autoscaling.k8s.io/v1", "kind": "VerticalPodAutoscaler"}}
	vpa.SetName("web")
	vpa.SetAnnotations(map[string]string{"x": strings.Repeat("x", 1<<20)})
	long := strings.Repeat("y", 1<<18)
	vpa.Object["spec"] = map[string]any{
		"targetRef":      map[string]any{"kind": long, "name": long, "apiVersion": long, "other": long},
		"updatePolicy":   map[string]any{"updateMode": long, "evictionRequirements": long},
		"resourcePolicy": map[string]any{"containerPolicies": []any{long}},
	}
	vpa.Object["status"] = map[string]any{"recommendation": long}
	policy := &v1alpha1.AttunePolicy{ObjectMeta: filled(&v1alpha1.AttunePolicy{}).ObjectMeta}
	policy.Spec.TargetRef = filled(&v1alpha1.AttunePolicy{}).Spec.TargetRef
	policy.Spec.MetricsSource = filled(&v1alpha1.AttunePolicy{}).Spec.MetricsSource
	policy.Spec.MetricsSource.Labels = nil // the schema limits them and the rest of the spec
	for i := range 16 {
		policy.Spec.MetricsSource.Prometheus.Headers[fmt.Sprint("X-", i)] = strings.Repeat("h", 1<<16)
	}
	policy.Finalizers = nil // the operator writes the list
	defaults := &v1alpha1.AttuneNamespaceDefaults{ObjectMeta: filled(&v1alpha1.AttuneNamespaceDefaults{}).ObjectMeta}
	defaults.Spec.MetricsSource = policy.DeepCopy().Spec.MetricsSource
	meta := pod.ObjectMeta
	recommendation := &v1alpha1.AttuneRecommendation{ObjectMeta: *meta.DeepCopy()}
	recommendation.Finalizers = nil
	namespace := &metav1.PartialObjectMetadata{ObjectMeta: *meta.DeepCopy()}
	node := filled(&corev1.Node{})
	node.Spec.Taints = nil // kubelets may not write them
	job := filled(&batchv1.Job{})
	job.OwnerReferences[60].Kind, job.OwnerReferences[60].APIVersion = "CronJob", "batch/v1"
	added := filled(&workload.ScaledObject{})
	added.APIVersion, added.Kind, added.Spec.Unreadable = "apps.kruise.io/v1alpha1", "CloneSet", ""
	without := added.DeepCopy()
	without.Spec.Template, without.Spec.Unreadable = nil, "it has no spec.template"
	for name, c := range map[string]struct {
		object any
		most   int
	}{
		"one without a template":     {without, 4 << 10},
		"a kind that is added":       {added, 4 << 10},
		"Pod":                        {pod, 8 << 10},
		"Pod of few containers":      {text, 8 << 10},
		"Deployment":                 {filled(&appsv1.Deployment{}), 4 << 10},
		"Deployment with volumes":    {inMemory, 4 << 10},
		"StatefulSet":                {filled(&appsv1.StatefulSet{}), 4 << 10},
		"DaemonSet":                  {filled(&appsv1.DaemonSet{}), 4 << 10},
		"ReplicaSet":                 {filled(&appsv1.ReplicaSet{}), 4 << 10},
		"Job":                        {filled(&batchv1.Job{}), 4 << 10},
		"CronJob's Job":              {job, 4 << 10},
		"CronJob":                    {filled(&batchv1.CronJob{}), 32<<10 + clip.MostText}, // with the constraints of its template
		"HorizontalPodAutoscaler":    {hpa, 4 << 10},
		"VerticalPodAutoscaler":      {vpa, 4 << 10},
		"PodDisruptionBudget":        {filled(&policyv1.PodDisruptionBudget{}), 4 << 10},
		"AttunePolicy":               {policy, 4 << 10},
		"AttuneNamespaceDefaults":    {defaults, 4 << 10},
		"AttuneDefaults":             {&v1alpha1.AttuneDefaults{ObjectMeta: *meta.DeepCopy()}, 4 << 10},
		"metadata of Recommendation": {recommendation, 4 << 10},
		"metadata of Namespace":      {namespace, 4 << 10},
		"metadata of LimitRange":     {&corev1.LimitRange{ObjectMeta: *meta.DeepCopy()}, 4 << 10},
		"metadata of ResourceQuota":  {&corev1.ResourceQuota{ObjectMeta: *meta.DeepCopy()}, 4 << 10},
		"Node":                       {node, 8 << 10},
	} {
		t.Run(name, func(t *testing.T) {
			before := jsonBytes(t, c.object)
			left := trimmed(t, trim.Object, c.object)
			t.Logf("%d bytes of JSON before, %d after", before, jsonBytes(t, left))
			assert.Greater(t, before, 20<<10)
			assert.Less(t, jsonBytes(t, left), c.most)
			again := left.(client.Object).DeepCopyObject()
			assert.Equal(t, left, trimmed[any](t, trim.Object, again), "trimming twice is trimming once")
		})
	}
}

// tenantsPod is a running pod with many labels and tolerations.
func tenantsPod() *corev1.Pod {
	pod := runningPod(1)
	delete(pod.Annotations, workload.AutoscalerSafe)
	for i := range 500 {
		pod.Labels[fmt.Sprint("label-", i)] = strings.Repeat("v", 60)
		pod.Spec.Tolerations = append(pod.Spec.Tolerations, corev1.Toleration{Key: fmt.Sprint("k", i)})
	}
	pod.Spec.NodeSelector = map[string]string{"zone": "a"}
	return pod
}

// A pod without its labels is not resized, because a budget or a node may select by them. Its sizes are kept: an
// in-flight resize is still observed and reverted.
func TestAPodOfTooManyLabelsIsMarkedAndKeepsItsContainers(t *testing.T) {
	whole := tenantsPod()
	left := trimmed(t, trim.Object, whole.DeepCopy())
	assert.True(t, workload.Large(left.Annotations))
	assert.Equal(t, map[string]string{"pod-template-hash": "7c9d8b6f5"}, left.Labels)
	assert.Empty(t, left.Spec.Tolerations)
	was, ok := workload.OwnerOf(whole, "shop", nil)
	require.True(t, ok)
	is, _ := workload.OwnerOf(left, "shop", nil)
	assert.Equal(t, was, is)
	assert.Equal(t, podview.TemplateHash(whole), podview.TemplateHash(left))
	assert.Equal(t, podview.Read(whole), podview.Read(left))
	assert.Equal(t, resize.Footprint(whole), resize.Footprint(left))
	require.Len(t, left.Spec.Volumes, 1)
	assert.Nil(t, left.Spec.Volumes[0].EmptyDir.SizeLimit)
	assert.Equal(t, []corev1.VolumeMount{{Name: left.Spec.Volumes[0].Name}}, left.Spec.Containers[0].VolumeMounts)
	assert.Contains(t, left.Annotations, "attune.io/seeded")

	_, refusal := resize.Admit(left, resize.Plan{}, resize.GateInput{Rules: resize.Rules{Mode: v1alpha1.UpdateAuto}})
	require.NotNil(t, refusal)
	assert.Equal(t, resize.ReasonTooLarge, refusal.Reason)
	stays := lifecycle.Stays(left, lifecycle.Eviction{Allowed: true, Replicas: 3})
	require.NotNil(t, stays)
	assert.Equal(t, resize.ReasonTooLarge, stays.Reason)
}

// A pod with too many containers counts on its node with the sum of its requests.
func TestAPodOfTooManyContainersCountsForItsNode(t *testing.T) {
	whole := runningPod(1)
	whole.Spec.Overhead = corev1.ResourceList{"cpu": resource.MustParse("10m")}
	for i := range 500 {
		c := *whole.Spec.Containers[0].DeepCopy()
		c.Name = fmt.Sprint("c", i)
		c.Args = []string{strings.Repeat("x", 400)}
		whole.Spec.Containers = append(whole.Spec.Containers, c)
	}
	left := trimmed(t, trim.Object, whole.DeepCopy())
	assert.True(t, workload.Large(left.Annotations))
	assert.Len(t, left.Spec.Containers, 1)
	assert.Equal(t, resize.Footprint(whole), resize.Footprint(left))
	assert.Equal(t, whole.Labels, left.Labels)
	assert.Equal(t, whole.Status.Phase, left.Status.Phase)
	assert.Equal(t, corev1.ConditionTrue, left.Status.Conditions[0].Status)
}

func TestHonestPodsAndWorkloadsAreNeverTooLarge(t *testing.T) {
	pod := runningPod(1)
	for i := range 50 {
		c, status := bulky(fmt.Sprint("sidecar-", i)), *pod.Status.ContainerStatuses[0].DeepCopy()
		c.Args, status.Name = []string{strings.Repeat("x", 500)}, c.Name
		pod.Spec.Containers = append(pod.Spec.Containers, c)
		pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, status)
	}
	for i := range 30 {
		pod.Labels[fmt.Sprint("team.example.org/label-", i)] = strings.Repeat("v", 63)
		pod.Spec.Tolerations = append(pod.Spec.Tolerations, corev1.Toleration{Key: fmt.Sprint("dedicated.example.org/", i), Operator: corev1.TolerationOpExists})
	}
	d := &appsv1.Deployment{ObjectMeta: *pod.ObjectMeta.DeepCopy(), Spec: appsv1.DeploymentSpec{Template: corev1.PodTemplateSpec{Spec: *pod.Spec.DeepCopy()}}}
	labels := maps.Clone(pod.Labels)
	pod, d = trimmed(t, trim.Object, pod), trimmed(t, trim.Object, d)
	assert.False(t, workload.Large(pod.Annotations))
	assert.False(t, workload.Large(d.Annotations))
	assert.Equal(t, labels, pod.Labels)
	assert.Equal(t, labels, d.Labels)
	assert.Len(t, pod.Spec.Containers, 53)
	assert.Len(t, d.Spec.Template.Spec.Containers, 53)
}

func TestAWorkloadThatIsTooLargeIsSkipped(t *testing.T) {
	of := func(change func(*appsv1.Deployment)) workload.Workload {
		d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", Labels: map[string]string{"app": "web"}}}
		d.Spec.Template.Spec = runningPod(1).Spec
		change(d)
		w, ok := workload.From(trimmed(t, trim.Object, d))
		require.True(t, ok)
		return w
	}
	labels := of(func(d *appsv1.Deployment) { d.Labels = tenantsPod().Labels })
	assert.True(t, labels.TooLarge())
	assert.Empty(t, labels.Labels)
	assert.Len(t, labels.Template.Spec.Containers, 3)
	containers := of(func(d *appsv1.Deployment) { d.Spec.Template.Spec.Containers = make([]corev1.Container, 1000) })
	assert.True(t, containers.TooLarge())
	assert.Equal(t, map[string]string{"app": "web"}, containers.Labels)
	assert.Empty(t, containers.Template.Spec.Containers)
	assert.False(t, podview.SameProgram(runningPod(1), &containers.Template.Spec))
	_, skipped := containers.Skipped()
	assert.True(t, skipped)
}

// An unnecessary hold is harmless: the kept part of a large autoscaler or budget blocks more than the original.
func TestTooLargeObjectsBlockMore(t *testing.T) {
	hpa := &autoscalingv2.HorizontalPodAutoscaler{}
	for i := range 100 {
		hpa.Spec.Metrics = append(hpa.Spec.Metrics, autoscalingv2.MetricSpec{Type: autoscalingv2.ContainerResourceMetricSourceType, ContainerResource: &autoscalingv2.ContainerResourceMetricSource{
			Name: corev1.ResourceCPU, Container: fmt.Sprint("c", i), Target: autoscalingv2.MetricTarget{AverageUtilization: ptr.To(int32(50))},
		}})
	}
	few := hpa.DeepCopy()
	few.Spec.Metrics = few.Spec.Metrics[:2]
	want := few.DeepCopy()
	assert.Equal(t, want, trimmed(t, trim.Object, few))
	all := trimmed(t, trim.Object, hpa).Spec.Metrics
	require.Len(t, all, 2)
	assert.Equal(t, corev1.ResourceCPU, all[0].Resource.Name)
	assert.Equal(t, corev1.ResourceMemory, all[1].Resource.Name)

	others := &autoscalingv2.HorizontalPodAutoscaler{Spec: autoscalingv2.HorizontalPodAutoscalerSpec{Metrics: []autoscalingv2.MetricSpec{{Type: autoscalingv2.PodsMetricSourceType, Pods: &autoscalingv2.PodsMetricSource{}}}}}
	assert.Equal(t, []autoscalingv2.MetricSpec{{Type: autoscalingv2.ExternalMetricSourceType}}, trimmed(t, trim.Object, others).Spec.Metrics, "none would be CPU")

	budget := &policyv1.PodDisruptionBudget{Spec: policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{MatchLabels: tenantsPod().Labels}}}
	assert.Equal(t, &metav1.LabelSelector{}, trimmed(t, trim.Object, budget).Spec.Selector)

	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Labels: tenantsPod().Labels}}
	discovered := trimmed(t, trim.Object, node.DeepCopy())
	assert.False(t, discovered.Spec.Unschedulable, "500 labels are what some programs write")
	assert.Equal(t, node.Labels, discovered.Labels)
	for i := range 500 {
		node.Labels[fmt.Sprint("more-", i)] = strings.Repeat("v", 60)
	}
	assert.True(t, trimmed(t, trim.Object, node).Spec.Unschedulable, "whom it takes is not known")
}

// The cache keeps the fields of attune's own VPAs that show their owner and whether they are up to date.
func TestPublishedVPAsKeepTheirMarks(t *testing.T) {
	vpa := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "autoscaling.k8s.io/v1", "kind": "VerticalPodAutoscaler",
		"spec":   map[string]any{"recommenders": []any{map[string]any{"name": "attune"}}},
		"status": map[string]any{"recommendation": map[string]any{"containerRecommendations": []any{map[string]any{"containerName": strings.Repeat("x", 1<<10)}}}},
	}}
	vpa.SetLabels(map[string]string{"app.kubernetes.io/managed-by": "attune", "team": "shop"})
	role := metav1.OwnerReference{APIVersion: "rbac.authorization.k8s.io/v1", Kind: "ClusterRole", Name: "attune-bridge-vpa", UID: "u1"}
	vpa.SetOwnerReferences([]metav1.OwnerReference{role})
	kept := func(change func(*unstructured.Unstructured)) *unstructured.Unstructured {
		of := vpa.DeepCopy()
		change(of)
		once := trimmed[any](t, trim.Object, of).(*unstructured.Unstructured)
		assert.Equal(t, once, trimmed[any](t, trim.Object, once.DeepCopy()), "trimming twice is trimming once")
		return once
	}
	whole := kept(func(*unstructured.Unstructured) {})
	assert.True(t, autoscale.Recommends(whole))
	assert.Equal(t, []metav1.OwnerReference{role}, whole.GetOwnerReferences())
	assert.Less(t, jsonBytes(t, whole), 1<<10)

	assert.False(t, autoscale.Recommends(kept(func(u *unstructured.Unstructured) {
		require.NoError(t, unstructured.SetNestedSlice(u.Object, []any{}, "status", "recommendation", "containerRecommendations"))
	})))
	foreign := kept(func(u *unstructured.Unstructured) { u.SetLabels(nil) })
	assert.False(t, autoscale.Recommends(foreign), "what others recommend is not kept")
	assert.Equal(t, []metav1.OwnerReference{role}, foreign.GetOwnerReferences(), "one that was taken over by its label still belongs to the role")
	assert.Empty(t, kept(func(u *unstructured.Unstructured) {
		u.SetOwnerReferences([]metav1.OwnerReference{role, {APIVersion: "v1", Kind: "ConfigMap", Name: "x", UID: "u2"}})
	}).GetOwnerReferences())
	long := kept(func(u *unstructured.Unstructured) {
		u.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: strings.Repeat("y", 1<<18), Kind: "ClusterRole", Name: strings.Repeat("y", 1<<18), UID: types.UID(strings.Repeat("y", 1<<18))}})
	})
	assert.Less(t, jsonBytes(t, long), 4<<10)
}

// A recommendation stores these texts. JSON replaces a part of a character, so the stored text would always differ.
func TestCutTextsHaveNoPartOfACharacter(t *testing.T) {
	long := "x" + strings.Repeat("é", 300)
	o := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "keda.sh/v1alpha1", "kind": "ScaledObject", "metadata": map[string]any{"name": "web", "namespace": "shop"},
		"spec": map[string]any{
			"scaleTargetRef": map[string]any{"name": "web"},
			"advanced":       map[string]any{"horizontalPodAutoscalerConfig": map[string]any{"name": long}},
			"triggers":       []any{map[string]any{"type": "cpu", "metricType": "Utilization", "metadata": map[string]any{"value": "70", "containerName": long}}},
		},
	}}
	_, err := trim.Object(o)
	require.NoError(t, err)
	bindings := autoscale.ScaledObjectBindings(o, workload.Workload{Identity: workload.Identity{Kind: v1alpha1.KindDeployment, Namespace: "shop", Name: "web"}})
	require.Len(t, bindings, 1)
	for _, text := range []string{bindings[0].HPA, bindings[0].Container} {
		assert.True(t, utf8.ValidString(text), "%q", text)
		assert.Len(t, text, 253)
	}
}

// A cached ScaledObject blocks the same as the whole one, and keeps nothing of its other triggers.
func TestScaledObjectsKeepWhatTheyScaleOn(t *testing.T) {
	var triggers []any
	for range 1000 {
		triggers = append(triggers, map[string]any{"type": "kafka", "metadata": map[string]any{"topic": strings.Repeat("x", 1000)}})
	}
	triggers = append(triggers, "none", map[string]any{"type": "cpu", "metricType": "Utilization", "metadata": map[string]any{"value": "70", "containerName": "app"}})
	o := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "keda.sh/v1alpha1", "kind": "ScaledObject", "metadata": map[string]any{"name": "web", "namespace": "shop", "generation": int64(3)},
		"spec": map[string]any{
			"scaleTargetRef": map[string]any{"name": "web"}, "triggers": triggers,
			"advanced": map[string]any{"horizontalPodAutoscalerConfig": map[string]any{"name": "scaler"}},
		},
	}}
	web := workload.Workload{Identity: workload.Identity{Kind: v1alpha1.KindDeployment, Namespace: "shop", Name: "web"}}
	before := autoscale.ScaledObjectBindings(o, web)
	require.Len(t, before, 1)
	_, err := trim.Object(o)
	require.NoError(t, err)
	assert.Equal(t, before, autoscale.ScaledObjectBindings(o, web))
	assert.Less(t, len(clip.JSON(o.Object)), 1000)
}
