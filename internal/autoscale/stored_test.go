package autoscale

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/workload"
	"attune.io/attune/recommender"
)

var stored = workload.Workload{Identity: workload.Identity{Kind: v1alpha1.KindDeployment, Namespace: "shop", Name: "web"}}

// scaler returns an HPA that scales the workload on CPU utilization between two numbers of replicas.
func scaler(name string, least, most int32) autoscalingv2.HorizontalPodAutoscaler {
	h := autoscalingv2.HorizontalPodAutoscaler{}
	h.Name, h.Spec.MinReplicas, h.Spec.MaxReplicas = name, &least, most
	h.Spec.ScaleTargetRef = autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "web"}
	h.Spec.Metrics = []autoscalingv2.MetricSpec{{Type: autoscalingv2.ResourceMetricSourceType, Resource: &autoscalingv2.ResourceMetricSource{
		Name: "cpu", Target: autoscalingv2.MetricTarget{Type: autoscalingv2.UtilizationMetricType, AverageUtilization: ptr.To[int32](70)},
	}}}
	return h
}

// An HPA that goes away or becomes fixed blocks for another day, across restarts: only the stored list remembers it.
func TestHPAThatGoesAwayBlocksForADay(t *testing.T) {
	at := time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)
	onAverage := scaler("web", 2, 40)
	onAverage.Spec.Metrics[0].Resource.Target = autoscalingv2.MetricTarget{AverageValue: ptr.To(resource.MustParse("500m"))}
	hpas := func(list ...autoscalingv2.HorizontalPodAutoscaler) Autoscalers { return Autoscalers{HPAs: list} }
	for name, c := range map[string]struct {
		then      Autoscalers
		blocked   bool
		rows      int
		afterADay bool
	}{
		"it is deleted":                                {hpas(), true, 1, false},
		"it becomes fixed":                             {hpas(scaler("web", 3, 3)), true, 1, false},
		"it is created again under another name":       {hpas(scaler("web-2", 2, 40)), true, 1, true},
		"it is fixed under another name":               {hpas(scaler("web-2", 3, 3)), true, 1, false},
		"it stays":                                     {hpas(scaler("web", 2, 40)), true, 1, true},
		"a user changes its metric to an average":      {hpas(onAverage), false, 0, false},
		"KEDA pauses its ScaledObject and deletes it":  {Autoscalers{ScaledObjects: []unstructured.Unstructured{object(t, kedaCPU)}}, true, 1, true},
		"its ScaledObject has only triggers of queues": {Autoscalers{ScaledObjects: []unstructured.Unstructured{object(t, kedaQueue)}}, true, 1, false},
	} {
		t.Run(name, func(t *testing.T) {
			rows := hpas(scaler("web", 2, 40)).Of(stored).WithStored(nil, at).Stored()
			require.Equal(t, []v1alpha1.HPABinding{{HPA: "web", Resource: "cpu", Percent: 70}}, rows)
			later := at
			look := func(after time.Duration) Holds {
				later = later.Add(after)
				h := c.then.Of(stored).WithStored(rows, later)
				rows = h.Stored()
				return h
			}
			held := look(time.Minute)
			assert.Equal(t, c.blocked, held.On("app", recommender.CPU) != nil)
			assert.Equal(t, c.blocked, held.Gate([]v1alpha1.ContainerTarget{{Name: "app"}}, nil, later)["app"].Of[recommender.CPU])
			assert.Nil(t, held.On("app", recommender.Memory))
			assert.Len(t, rows, c.rows)
			before := rows
			assert.True(t, held.Equal(look(time.Hour)), "nothing changes meanwhile")
			assert.Equal(t, before, rows, "nothing is written meanwhile")
			assert.Equal(t, c.afterADay, look(23*time.Hour).On("app", recommender.CPU) != nil)
			assert.Equal(t, c.afterADay, len(rows) == 1)
			assert.Equal(t, c.afterADay, look(0).On("app", recommender.CPU) != nil)
		})
	}
	gone := hpas().Of(stored).WithStored([]v1alpha1.HPABinding{{HPA: "web", Resource: "cpu", Percent: 70}}, at).On("app", recommender.CPU)
	assert.Equal(t, "HorizontalPodAutoscaler web (gone, or with equal minReplicas and maxReplicas, since 2026-05-04T12:00:00Z; in case it comes back, the block stays until 2026-05-05T12:00:00Z) "+
		"scales on the cpu utilization (target 70 % of the request): another request would change the number of replicas. Use averageValue in the HPA, or cpu.hpa: Keep in the policy (not with strategy Node)", gone.Message)
	assert.Nil(t, hpas(scaler("web", 3, 3)).Of(stored).WithStored(nil, at).On("app", recommender.CPU), "it was always fixed")

	back := hpas(scaler("web", 2, 40)).Of(stored).WithStored(hpas().Of(stored).WithStored([]v1alpha1.HPABinding{{HPA: "web", Resource: "cpu"}}, at).Stored(), at.Add(30*time.Second))
	assert.Equal(t, []v1alpha1.HPABinding{{HPA: "web", Resource: "cpu", Percent: 70}}, back.Stored(), "it came back after 30 s")
}

// A replica whose clock was a month ahead stored the time. The block ends a day later, and is written once.
func TestHPAGoneInTheFutureBlocksForADay(t *testing.T) {
	at := time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)
	rows := []v1alpha1.HPABinding{{HPA: "web", Resource: "cpu", Gone: &metav1.Time{Time: at.Add(30 * 24 * time.Hour)}}}
	held := Holds{}.WithStored(rows, at)
	require.NotNil(t, held.On("app", recommender.CPU))
	rows = held.Stored()
	assert.True(t, held.Equal(Holds{}.WithStored(rows, at.Add(time.Hour))), "nothing is written meanwhile")
	assert.Nil(t, Holds{}.WithStored(rows, at.Add(24*time.Hour)).On("app", recommender.CPU))
}

func TestStoredHPABindingsAreBounded(t *testing.T) {
	var many Autoscalers
	for i := range 20 {
		h := scaler(string(rune('a'+i)), 1, 9)
		many.HPAs = append(many.HPAs, h)
	}
	h := many.Of(stored)
	assert.Len(t, h.Stored(), v1alpha1.MaxHPABindings)
	assert.True(t, h.Equal(many.Of(stored).WithStored(h.Stored(), time.Now())))
}

const kedaCPU = `
apiVersion: keda.sh/v1alpha1
kind: ScaledObject
metadata: {name: web, namespace: shop, annotations: {autoscaling.keda.sh/paused: "true"}}
spec:
  scaleTargetRef: {name: web}
  advanced: {horizontalPodAutoscalerConfig: {name: web}}
  triggers:
  - {type: kafka, metadata: {topic: orders, lagThreshold: "5"}}
  - {type: cpu, metricType: Utilization, metadata: {value: "70"}}`

const kedaQueue = `
apiVersion: keda.sh/v1alpha1
kind: ScaledObject
metadata: {name: web, namespace: shop}
spec:
  scaleTargetRef: {name: web}
  triggers: [{type: rabbitmq, metadata: {value: "5"}}]`

func TestScaledObjectsBlockWhatTheyScaleOn(t *testing.T) {
	of := func(spec string) []Binding {
		o := object(t, "apiVersion: keda.sh/v1alpha1\nkind: ScaledObject\nmetadata: {name: orders, namespace: shop}\nspec: "+spec)
		return ScaledObjectBindings(&o, stored)
	}
	assert.Equal(t, []Binding{
		{HPA: "keda-hpa-orders", ScaledObject: "orders", Resource: recommender.CPU, Percent: 60},
		{HPA: "keda-hpa-orders", ScaledObject: "orders", Resource: recommender.Memory, Container: "app"},
	}, of(`{scaleTargetRef: {name: web}, triggers: [{type: cpu, metricType: Utilization, metadata: {value: "60"}}, {type: memory, metadata: {type: Utilization, value: x, containerName: app}}]}`))
	for _, none := range []string{
		`{scaleTargetRef: {name: web}, triggers: [{type: cpu, metricType: AverageValue, metadata: {value: 500m}}]}`,
		`{scaleTargetRef: {name: web}, triggers: [{type: cpu, metadata: {type: AverageValue, value: 500m}}]}`,
		`{scaleTargetRef: {name: other}, triggers: [{type: cpu, metricType: Utilization}]}`,
		`{scaleTargetRef: {kind: StatefulSet, name: web}, triggers: [{type: cpu, metricType: Utilization}]}`,
		`{scaleTargetRef: {apiVersion: argoproj.io/v1alpha1, kind: Rollout, name: web}, triggers: [{type: cpu, metricType: Utilization}]}`,
		`{scaleTargetRef: {name: web}, triggers: nothing}`, `{scaleTargetRef: {name: web}, triggers: [7]}`, `{}`,
	} {
		assert.Empty(t, of(none), none)
	}
	held := Autoscalers{ScaledObjects: []unstructured.Unstructured{object(t, kedaCPU)}}.Of(stored)
	assert.Contains(t, held.On("app", recommender.CPU).Message, "HorizontalPodAutoscaler web (of ScaledObject web, also while it is paused) scales on the cpu utilization")
	both := Autoscalers{HPAs: []autoscalingv2.HorizontalPodAutoscaler{scaler("web", 2, 40)}, ScaledObjects: []unstructured.Unstructured{object(t, kedaCPU)}}
	assert.Len(t, both.Of(stored).Stored(), 1, "one row for KEDA's HPA and its ScaledObject")
}

// KEDA is stopped. A user changes the target of the ScaledObject, and changes it back an hour later: attune did not write it, so the
// target of the user is the original one.
func TestTargetThatAUserChangedBackWhileKEDALags(t *testing.T) {
	at := time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)
	hpa := scaler("web", 2, 40)
	hpa.OwnerReferences = []metav1.OwnerReference{{APIVersion: "keda.sh/v1alpha1", Kind: "ScaledObject", Name: "web"}}
	look := func(target string, h Holds) Holds {
		o := object(t, kedaCPU)
		triggers, _, _ := unstructured.NestedSlice(o.Object, "spec", "triggers")
		triggers[1].(map[string]any)["metadata"] = map[string]any{"value": target}
		_ = unstructured.SetNestedSlice(o.Object, triggers, "spec", "triggers")
		return Autoscalers{HPAs: []autoscalingv2.HorizontalPodAutoscaler{hpa}, ScaledObjects: []unstructured.Unstructured{o}, MayRetarget: true}.Of(stored).
			WithStored(h.Stored(), at)
	}
	changed := look("80", look("70", Holds{}))
	assert.Zero(t, changed.Stored()[0].OriginalPercent, "attune did not change it")
	back := look("70", changed)
	assert.False(t, back.Retargeted())
	assert.EqualValues(t, 70, back.bindings[0].Original)
}

func object(t *testing.T, text string) unstructured.Unstructured {
	t.Helper()
	u := unstructured.Unstructured{}
	require.NoError(t, yaml.Unmarshal([]byte(text), &u.Object))
	return u
}
