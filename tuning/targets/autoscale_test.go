package targets

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/policy"
	"attune.io/attune/internal/workload"
	"attune.io/attune/podview"
	"attune.io/attune/recommender"
)

var now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

const mi = 1 << 20

// sizing returns the view of a container with a week of usage, 200m and 300Mi. Its requests and limits are 1 CPU and
// 512Mi.
func sizing(t *testing.T, held map[recommender.Resource]string, floors ...v1alpha1.Floor) View {
	t.Helper()
	p := &v1alpha1.AttunePolicy{Spec: v1alpha1.AttunePolicySpec{
		TargetRef:      v1alpha1.TargetRef{Kind: v1alpha1.KindDeployment},
		PolicySettings: v1alpha1.PolicySettings{UpdateStrategy: &v1alpha1.UpdateStrategy{Type: ptr.To(v1alpha1.UpdateInitial)}},
	}}
	settings, err := policy.Resolve(nil, nil, p)
	require.NoError(t, err)
	var steps []recommender.StepUsage
	for at := now.Add(-7 * 24 * time.Hour); !at.After(now); at = at.Add(5 * time.Minute) {
		steps = append(steps, recommender.StepUsage{At: at, CPUCores: 0.2, MemoryBytes: 300 * mi})
	}
	amounts := corev1.ResourceList{"cpu": resource.MustParse("1"), "memory": resource.MustParse("512Mi")}
	return View{
		Workload: workload.Workload{
			Identity: workload.Identity{Kind: v1alpha1.KindDeployment, Namespace: "shop", Name: "web"},
			Template: &corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{
				Name: "app", Resources: corev1.ResourceRequirements{Requests: amounts, Limits: amounts},
			}}}},
		},
		Policy: p, Settings: settings, Now: now,
		History: History{Profiles: map[string]recommender.Profile{"app": recommender.NewProfile(steps, 5*time.Minute)}},
		Status:  v1alpha1.AttuneRecommendationStatus{Floors: floors},
		Blocked: func(_ string, r recommender.Resource) *recommender.Hold {
			if reason := held[r]; reason != "" {
				return &recommender.Hold{Reason: recommender.Reason(reason), Message: "because"}
			}
			return nil
		},
	}
}

func kill(floor int64) v1alpha1.Floor {
	return v1alpha1.Floor{Container: "app", Resource: "memory", Reason: "oomkill",
		Amount: podview.Quantity(recommender.Memory, recommender.Amount(floor)), LearnedAt: metav1.NewTime(now)}
}

func TestWhatAnAutoscalerLeavesOfASeed(t *testing.T) {
	const nothing = ""
	both := func(reason string) map[recommender.Resource]string {
		return map[recommender.Resource]string{recommender.CPU: reason, recommender.Memory: reason}
	}
	for _, tc := range []struct {
		name                       string
		held                       map[recommender.Resource]string
		floors                     []v1alpha1.Floor
		cpu, memory, limit, reason string
	}{
		{name: "nothing held", cpu: "240m", memory: "390Mi", limit: "330Mi"},
		{name: "an HPA on CPU", held: map[recommender.Resource]string{recommender.CPU: "HPA"}, memory: "390Mi", limit: "330Mi"},
		{name: "an HPA on memory", held: map[recommender.Resource]string{recommender.Memory: "HPA"}, cpu: "240m"},
		{name: "an HPA on both", held: both("HPA"), reason: "Blocked"},
		{name: "an HPA on memory that killed", held: map[recommender.Resource]string{recommender.Memory: "HPA"}, floors: []v1alpha1.Floor{kill(700 * mi)}, cpu: "240m", limit: "700Mi"},
		{name: "a VPA", held: both("VPA"), reason: "VPA"},
		{name: "a VPA where memory killed", held: both("VPA"), floors: []v1alpha1.Floor{kill(700 * mi)}, reason: "VPA"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			spec := Desired(sizing(t, tc.held, tc.floors...))
			require.Len(t, spec.Containers, 1)
			assert.Equal(t, tc.reason, spec.SeedBlocked)
			assert.Equal(t, tc.limit, text(spec.Containers[0].MemoryLimitFloor), "what the running pod's limit is raised to")
			assert.NotEqual(t, v1alpha1.Resources{}, spec.Containers[0].Target, "the target is still shown")
			if spec.Seed == nil {
				assert.Equal(t, nothing, tc.cpu+tc.memory)
				return
			}
			seed := spec.Seed.Containers[0]
			assert.Equal(t, []string{tc.cpu, tc.memory}, []string{text(seed.CPURequest), text(seed.MemoryRequest)})
			if tc.held[recommender.Memory] != "" {
				assert.False(t, seed.AllowMemoryDecrease)
			}
		})
	}
}

func text(q *resource.Quantity) string {
	if q == nil {
		return ""
	}
	return q.String()
}

// A container without usage data gets more memory after an OOM kill.
func TestAKillSeedsWithoutHistory(t *testing.T) {
	for name, tc := range map[string]struct {
		floors []v1alpha1.Floor
		most   string
		want   string
	}{
		"not killed":           {nil, "", ""},
		"killed":               {[]v1alpha1.Floor{kill(700 * mi)}, "", "700Mi"},
		"killed at its bounds": {[]v1alpha1.Floor{kill(700 * mi)}, "600Mi", ""},
		"killed by something else": {[]v1alpha1.Floor{{Container: "app", Resource: "memory", Reason: "restart",
			Amount: resource.MustParse("700Mi"), LearnedAt: metav1.NewTime(now)}}, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			v := sizing(t, nil, tc.floors...)
			v.History.Profiles = nil
			if tc.most != "" {
				most := resource.MustParse(tc.most)
				v.Settings.Recommender.Of[recommender.Memory].MaxAllowed = podview.AmountOf(recommender.Memory, most)
			}
			spec := Desired(v)
			if tc.want == "" {
				assert.Nil(t, spec.Seed)
				assert.Equal(t, "Blocked", spec.SeedBlocked)
				return
			}
			require.NotNil(t, spec.Seed, spec.SeedBlocked)
			require.Len(t, spec.Seed.Containers, 1)
			c := spec.Seed.Containers[0]
			assert.Equal(t, tc.want, text(c.MemoryLimitFloor))
			assert.False(t, c.AllowMemoryDecrease)
			assert.Nil(t, c.CPURequest, "CPU is not known")
		})
	}
}

// The seed after an OOM kill, by the container's own size and by the block on its memory.
func TestAKillSeedsTheLimit(t *testing.T) {
	amounts := func(memory string) corev1.ResourceList {
		list := corev1.ResourceList{"cpu": resource.MustParse("1")}
		if memory != "" {
			list["memory"] = resource.MustParse(memory)
		}
		return list
	}
	for name, tc := range map[string]struct {
		request, limit, held string
		floor                int64
		noHistory            bool
		want, wantLimit      string
	}{
		"not held":                           {request: "256Mi", limit: "1Gi", floor: 1332 * mi, want: "390Mi", wantLimit: "1332Mi"},
		"an HPA":                             {request: "256Mi", limit: "1Gi", held: "HPA", floor: 1332 * mi, wantLimit: "1332Mi"},
		"an HPA, request = limit":            {request: "1Gi", limit: "1Gi", held: "HPA", floor: 1332 * mi},
		"an HPA, no limit":                   {request: "1Gi", held: "HPA", floor: 1332 * mi},
		"an HPA, no kill":                    {request: "256Mi", limit: "1Gi", held: "HPA"},
		"no history":                         {request: "256Mi", limit: "1Gi", noHistory: true, floor: 1332 * mi, wantLimit: "1332Mi"},
		"no history, no limit":               {request: "1Gi", noHistory: true, floor: 1332 * mi, want: "1332Mi"},
		"no limit: the request is the floor": {request: "1Gi", floor: 1332 * mi, want: "1332Mi"},
		"a VPA":                              {request: "256Mi", limit: "1Gi", held: "VPA", floor: 1332 * mi},
	} {
		t.Run(name, func(t *testing.T) {
			v := sizing(t, map[recommender.Resource]string{recommender.Memory: tc.held})
			if tc.floor > 0 {
				v.Status.Floors = []v1alpha1.Floor{kill(tc.floor)}
			}
			if tc.noHistory {
				v.History.Profiles = nil
			}
			c := &v.Workload.Template.Spec.Containers[0]
			c.Resources = corev1.ResourceRequirements{Requests: amounts(tc.request), Limits: amounts(tc.limit)}
			spec := Desired(v)
			if spec.Seed == nil {
				assert.Empty(t, tc.want+tc.wantLimit)
				return
			}
			s := spec.Seed.Containers[0]
			assert.Equal(t, tc.want, text(s.MemoryRequest))
			if tc.limit != "" {
				assert.Equal(t, tc.wantLimit, text(s.MemoryLimitFloor))
			}
		})
	}
}
