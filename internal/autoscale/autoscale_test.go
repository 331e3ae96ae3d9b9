package autoscale_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/autoscale"
	"attune.io/attune/internal/trim"
	"attune.io/attune/podview"
	"attune.io/attune/recommender"
	"attune.io/attune/resize"
)

var now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func TestVPABlocksAllResourcesUnlessOff(t *testing.T) {
	for mode, holds := range map[string]bool{
		"Off": false, "": true, "Auto": true, "Initial": true, "Recreate": true, "InPlaceOrRecreate": true, "InPlace": true, "later": true,
	} {
		all := autoscale.Autoscalers{VPAs: []unstructured.Unstructured{vpa("sizer", mode)}}.Of(web())
		assert.Equal(t, holds, all.VPA() == "sizer", mode)
		for _, r := range recommender.Resources {
			hold := all.On("any", r)
			require.Equal(t, holds, hold != nil, "%s %s", mode, r)
			if hold != nil {
				assert.Equal(t, recommender.Hold{Resource: r, Reason: "VPA", Message: "VerticalPodAutoscaler sizer sizes the workload too. Set its updateMode to Off and remove its startupBoost, or delete it"}, *hold)
			}
		}
	}
}

// VPA's startup boost works in any mode: its webhook raises the CPU of new pods, and its updater resizes them in place
// when they are ready.
func TestVPAWithStartupBoostBlocksInModeOff(t *testing.T) {
	boost := map[string]any{"cpu": map[string]any{"type": "Factor", "factor": int64(2)}}
	for name, set := range map[string]func(spec map[string]any){
		"of the pod": func(spec map[string]any) { spec["startupBoost"] = boost },
		"of a container": func(spec map[string]any) {
			spec["resourcePolicy"] = map[string]any{"containerPolicies": []any{"odd", map[string]any{"containerName": "app", "startupBoost": boost}}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			v := vpa("booster", "Off")
			set(v.Object["spec"].(map[string]any))
			trimmed, err := trim.Object(v.DeepCopy()) // as the cache does
			require.NoError(t, err)
			for _, of := range []*unstructured.Unstructured{&v, trimmed.(*unstructured.Unstructured)} {
				holds := autoscale.Autoscalers{VPAs: []unstructured.Unstructured{*of}}.Of(web())
				assert.Equal(t, "booster", holds.VPA())
				require.NotNil(t, holds.Refusal())
				assert.Contains(t, holds.Refusal().Message, "startupBoost")
			}
			v.Object["spec"].(map[string]any)["targetRef"].(map[string]any)["name"] = "other"
			assert.Empty(t, autoscale.Autoscalers{VPAs: []unstructured.Unstructured{v}}.Of(web()).VPA())
		})
	}
	none := vpa("booster", "Off")
	none.Object["spec"].(map[string]any)["startupBoost"] = map[string]any{}
	assert.Empty(t, autoscale.Autoscalers{VPAs: []unstructured.Unstructured{none}}.Of(web()).VPA(), "no boost")
}

func TestForeignAndInvalidVPAsBlockNothing(t *testing.T) {
	other := vpa("sizer", "Auto")
	require.NoError(t, unstructured.SetNestedField(other.Object, "web-2", "spec", "targetRef", "name"))
	broken := vpa("sizer", "Auto")
	broken.Object["spec"] = "text"
	empty := unstructured.Unstructured{Object: map[string]any{}}
	none := autoscale.Autoscalers{VPAs: []unstructured.Unstructured{other, broken, empty}}.Of(web())
	assert.Empty(t, none.VPA())
	assert.Nil(t, none.Refusal())
	assert.Nil(t, none.On("app", recommender.CPU))

	odd := vpa("sizer", "Auto")
	require.NoError(t, unstructured.SetNestedField(odd.Object, int64(7), "spec", "updatePolicy", "updateMode"))
	assert.Equal(t, "sizer", autoscale.Autoscalers{VPAs: []unstructured.Unstructured{odd}}.Of(web()).VPA(), "a mode that cannot be read is not Off")
}

func TestBlocksOfSeveralAutoscalers(t *testing.T) {
	all := autoscale.Autoscalers{HPAs: []autoscalingv2.HorizontalPodAutoscaler{
		hpa("z", ofPods("cpu", utilization(70))),
		hpa("a", ofContainer("app", "cpu", utilization(60)), ofContainer("app", "memory", utilization(50))),
	}}
	holds := all.Of(web())
	assert.Contains(t, holds.On("app", recommender.CPU).Message, "HorizontalPodAutoscaler a ", "the first by name speaks")
	assert.Contains(t, holds.On("side", recommender.CPU).Message, "HorizontalPodAutoscaler z ")
	assert.Equal(t, recommender.Reason("HPA"), holds.On("app", recommender.Memory).Reason)
	assert.Nil(t, holds.On("side", recommender.Memory))
	assert.Nil(t, holds.Refusal())
	assert.Equal(t, map[string]resize.Held{
		"app":  {Of: [2]bool{true, true}, By: "a"},
		"side": {Of: [2]bool{true, false}, By: "z"},
	}, holds.Gate([]v1alpha1.ContainerTarget{{Name: "app"}, {Name: "side"}}, nil, now))

	all.VPAs = []unstructured.Unstructured{vpa("y", "Auto"), vpa("x", "Auto"), vpa("b", "Off")}
	assert.Equal(t, "x", all.Of(web()).VPA())
	assert.Equal(t, recommender.Reason("VPA"), all.Of(web()).On("app", recommender.CPU).Reason, "a VPA holds more than an HPA")
}

func TestNoAutoscalersBlockNothing(t *testing.T) {
	none := autoscale.Autoscalers{}.Of(web())
	assert.Nil(t, none.On("app", recommender.CPU))
	assert.Equal(t, map[string]resize.Held{"app": {}}, none.Gate([]v1alpha1.ContainerTarget{{Name: "app"}}, nil, now))
}

func TestAnOOMFloorPassesAnHPAAndAShortHistory(t *testing.T) {
	const mi = 1 << 20
	floor := func(container, resource, reason string, amount int64, age time.Duration) v1alpha1.Floor {
		r := recommender.Memory
		if resource == "cpu" {
			r = recommender.CPU
		}
		return v1alpha1.Floor{Container: container, Resource: resource, Reason: reason,
			Amount: podview.Quantity(r, recommender.Amount(amount)), LearnedAt: metav1.NewTime(now.Add(-age))}
	}
	killed := floor("app", "memory", "oomkill", 100*mi, 0)
	held := func(reasons ...string) (holds []v1alpha1.Hold) {
		for _, reason := range reasons {
			holds = append(holds, v1alpha1.Hold{Resource: "memory", Reason: reason})
		}
		return holds
	}
	for _, tc := range []struct {
		name   string
		holds  []v1alpha1.Hold
		floors []v1alpha1.Floor
		want   recommender.Amount
	}{
		{"held by an HPA", held("HPA"), []v1alpha1.Floor{killed}, 100 * mi},
		{"the history is old", held("StaleData", "HPA"), []v1alpha1.Floor{killed}, 100 * mi},
		{"a part of a MiB counts as one", held("HPA"), []v1alpha1.Floor{floor("app", "memory", "oomkill", 100*mi+1, 0)}, 101 * mi},
		{"it fades: ×0.8 in a week", held("HPA"), []v1alpha1.Floor{floor("app", "memory", "oomkill", 100*mi, 7*24*time.Hour)}, 80 * mi},
		{"a greater one that no kill taught does not pass", held("HPA"), []v1alpha1.Floor{killed, floor("app", "memory", "restart", 200*mi, 0)}, 100 * mi},
		{"not held", nil, []v1alpha1.Floor{killed}, 0},
		{"the history is old, and no HPA was there", held("StaleData"), []v1alpha1.Floor{killed}, 100 * mi},
		{"there is no history", held("NoData"), []v1alpha1.Floor{killed}, 100 * mi},
		{"the history is short", held("InsufficientData"), []v1alpha1.Floor{killed}, 100 * mi},
		{"no history, and above maxAllowed", held("NoData", "FloorAboveMaxAllowed"), []v1alpha1.Floor{killed}, 0},
		{"CPU is held", []v1alpha1.Hold{{Resource: "cpu", Reason: "HPA"}}, []v1alpha1.Floor{killed}, 0},
		{"a VPA", held("VPA"), []v1alpha1.Floor{killed}, 0},
		{"above maxAllowed", held("FloorAboveMaxAllowed", "HPA"), []v1alpha1.Floor{killed}, 0},
		{"another container's", held("HPA"), []v1alpha1.Floor{floor("side", "memory", "oomkill", 100*mi, 0)}, 0},
		{"CPU's", held("HPA"), []v1alpha1.Floor{floor("app", "cpu", "throttle", 100, 0)}, 0},
		{"none", held("HPA"), nil, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			target := v1alpha1.ContainerTarget{Name: "app", Holds: tc.holds}
			assert.Equal(t, tc.want, resize.OOMFloor(target, tc.floors, now))

			onMemory := autoscale.Autoscalers{HPAs: []autoscalingv2.HorizontalPodAutoscaler{hpa("web", ofPods("memory", utilization(70)))}}.Of(web())
			gate := onMemory.Gate([]v1alpha1.ContainerTarget{target}, tc.floors, now)
			assert.Equal(t, tc.want == 0, gate["app"].Of[recommender.Memory], "the gate lets pass exactly what the floor does")
		})
	}
}
