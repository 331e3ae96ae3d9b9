package pod

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/constraint"
)

func boostedSeed(t *testing.T, cpu, multiplier, most string) v1alpha1.ContainerSeed {
	t.Helper()
	seed := seedFor(t, "app", cpu, "256Mi")
	seed.CPUBoost = &v1alpha1.CPUBoost{Multiplier: v1alpha1.Decimal(multiplier), Most: amountOf(t, most)}
	return seed
}

func boostsOf(t *testing.T, pod *corev1.Pod) (text []string) {
	t.Helper()
	var seeded v1alpha1.Seeded
	if raw := pod.Annotations[v1alpha1.SeededAnnotation]; raw != "" {
		require.NoError(t, json.Unmarshal([]byte(raw), &seeded))
	}
	for _, b := range seeded.Boosted {
		limit := "-"
		if b.BaseCPULimit != nil {
			limit = b.BaseCPULimit.String()
		}
		text = append(text, b.Name+" "+b.CPURequest.String()+" then "+b.BaseCPURequest.String()+"/"+limit)
	}
	return text
}

func TestBoostAtAdmission(t *testing.T) {
	for name, c := range map[string]struct {
		has, cpu, multiplier, most string
		edit                       func(*v1alpha1.ContainerSeed)
		raiseOnly                  bool
		want, note                 string
	}{
		"twice the seed, the limit with it": {has: "cpu=1/2 memory=256Mi", cpu: "200m", multiplier: "2",
			want: "cpu=400m/800m memory=256Mi", note: "app 400m then 200m/400m"},
		"no limit, none given": {has: "cpu=1 memory=256Mi", cpu: "200m", multiplier: "2.3",
			want: "cpu=460m memory=256Mi", note: "app 460m then 200m/-"},
		"above the template too": {has: "cpu=300m memory=256Mi", cpu: "200m", multiplier: "3", want: "cpu=600m memory=256Mi", note: "app 600m then 200m/-"},
		"what is not lowered is multiplied as it is": {has: "cpu=1 memory=256Mi", cpu: "200m", multiplier: "2", raiseOnly: true,
			want: "cpu=2 memory=256Mi", note: "app 2 then 1/-"},
		"no more than the policy allows": {has: "cpu=1 memory=256Mi", cpu: "200m", multiplier: "10", most: "500m",
			want: "cpu=500m memory=256Mi", note: "app 500m then 200m/-"},
		"no less than the seed": {has: "cpu=1 memory=256Mi", cpu: "700m", multiplier: "10", most: "500m", want: "cpu=700m memory=256Mi"},
		"no more than a limit that stays": {has: "cpu=1/1500m memory=256Mi", cpu: "900m", multiplier: "4", edit: func(s *v1alpha1.ContainerSeed) { s.CPULimitFollows = false },
			want: "cpu=1500m/1500m memory=256Mi", note: "app 1500m then 900m/1500m"},
		"a Guaranteed pod stays one": {has: "cpu=500m/500m memory=256Mi/256Mi", cpu: "200m", multiplier: "2",
			want: "cpu=400m/400m memory=256Mi/256Mi", note: "app 400m then 200m/200m"},
		"whole cores stay whole": {has: "cpu=2/2 memory=256Mi/256Mi", cpu: "700m", multiplier: "1.5",
			want: "cpu=2/2 memory=256Mi/256Mi", note: "app 2 then 1/1"},
		"a Burstable pod does not become Guaranteed": {has: "cpu=300m/800m memory=256Mi/256Mi", cpu: "400m", multiplier: "4", edit: func(s *v1alpha1.ContainerSeed) { s.CPULimitFollows = false },
			want: "cpu=400m/800m memory=256Mi/256Mi"},
		"without a seed for CPU there is none": {has: "cpu=1 memory=1Gi", multiplier: "2", want: "cpu=1 memory=256Mi"},
		"a multiplier that cannot be read":     {has: "cpu=1 memory=256Mi", cpu: "200m", multiplier: "NaN", want: "cpu=200m memory=256Mi"},
		"a multiplier beyond measure":          {has: "cpu=1 memory=256Mi", cpu: "200m", multiplier: "1e9", want: "cpu=200m memory=256Mi"},
		"a multiplier that lowers":             {has: "cpu=1 memory=256Mi", cpu: "200m", multiplier: "0.5", want: "cpu=200m memory=256Mi"},
	} {
		t.Run(name, func(t *testing.T) {
			seed := boostedSeed(t, c.cpu, c.multiplier, c.most)
			if c.edit != nil {
				c.edit(&seed)
			}
			rec := recommendation(seed)
			rec.Spec.Seed.RaiseOnly = c.raiseOnly
			pod := podOf(container(t, "app", c.has))
			after := applied(t, pod, SeedPod(view(t, pod), Read(rec), &Namespace{}, now))
			assert.Equal(t, []string{c.want}, resources(after))
			var notes []string
			if c.note != "" {
				notes = []string{c.note}
			}
			assert.Equal(t, notes, boostsOf(t, after))
			assertStable(t, after, Read(rec), &Namespace{})
		})
	}
}

// If the end of a boost requires a restart, the container would start again without it: it gets no boost.
func TestNoBoostIfItsEndRestartsTheContainer(t *testing.T) {
	app := container(t, "app", "cpu=1 memory=256Mi")
	app.ResizePolicy = []corev1.ContainerResizePolicy{{ResourceName: corev1.ResourceCPU, RestartPolicy: corev1.RestartContainer}}
	pod := podOf(app)
	after := applied(t, pod, SeedPod(view(t, pod), Read(recommendation(boostedSeed(t, "200m", "2", ""))), &Namespace{}, now))
	assert.Equal(t, []string{"cpu=200m memory=256Mi"}, resources(after))
	assert.Empty(t, boostsOf(t, after))

	app.ResizePolicy[0].ResourceName = corev1.ResourceMemory
	pod = podOf(app)
	after = applied(t, pod, SeedPod(view(t, pod), Read(recommendation(boostedSeed(t, "200m", "2", ""))), &Namespace{}, now))
	assert.Equal(t, []string{"cpu=400m memory=256Mi"}, resources(after))
}

// A quota without room for the boost has room for the seed.
func TestQuotaWithoutRoomPreventsBoost(t *testing.T) {
	rec := Read(recommendation(boostedSeed(t, "800m", "2", "")))
	for name, c := range map[string]struct{ hard, want string }{
		"room for the boost":        {"2", "cpu=1600m memory=256Mi"},
		"room for the seed":         {"1", "cpu=800m memory=256Mi"},
		"room for the pod as it is": {"500m", "cpu=500m memory=256Mi"},
	} {
		t.Run(name, func(t *testing.T) {
			ns := &Namespace{Quotas: []constraint.QuotaLeft{constraint.QuotaLeftOf(quota("requests.cpu", c.hard, "0"))}}
			pod := podOf(container(t, "app", "cpu=500m memory=256Mi"))
			after := applied(t, pod, SeedPod(view(t, pod), rec, ns, now))
			assert.Equal(t, []string{c.want}, resources(after))
			assert.Equal(t, c.hard == "2", len(boostsOf(t, after)) == 1)
			assertStable(t, after, rec, ns)
		})
	}
}

// Another webhook changes a boosted container: the boost is computed from the seed, not from the boosted size.
func TestBoostIsComputedFromSeed(t *testing.T) {
	rec := Read(recommendation(boostedSeed(t, "200m", "2", "")))
	pod := podOf(container(t, "app", "cpu=1 memory=256Mi"))
	once := applied(t, pod, SeedPod(view(t, pod), rec, &Namespace{}, now))
	require.Equal(t, []string{"cpu=400m memory=256Mi"}, resources(once))
	once.Spec.Containers[0].Resources = res(t, "cpu=450m memory=256Mi") // another webhook
	twice := applied(t, once, SeedPod(view(t, once), rec, &Namespace{}, now))
	assert.Equal(t, []string{"cpu=400m memory=256Mi"}, resources(twice))
	assert.Equal(t, []string{"app 400m then 200m/-"}, boostsOf(t, twice))
	assertStable(t, twice, rec, &Namespace{})
}

// A boost up to the limit would make this pod Guaranteed, which would change its class: the boost is removed. The
// size without it must still be admitted.
func TestTheSizeWithoutABoostHasToBeAdmitted(t *testing.T) {
	seed := boostedSeed(t, "300m", "4", "")
	seed.MemoryRequest = amountOf(t, "512Mi")
	seed.CPULimitFollows, seed.MemoryLimitFollows = false, false
	rec := Read(recommendation(seed))
	for name, c := range map[string]struct {
		bounds []*corev1.LimitRange
		want   string
	}{
		"admitted":              {nil, "cpu=300m/1 memory=512Mi/512Mi"},
		"too far below a limit": {ranges(corev1.LimitRangeItem{Type: corev1.LimitTypePod, MaxLimitRequestRatio: list(t, "cpu=2")}), "cpu=1/1 memory=536870911/512Mi"},
		"too little":            {ranges(corev1.LimitRangeItem{Type: corev1.LimitTypePod, Min: list(t, "cpu=500m")}), "cpu=1/1 memory=536870911/512Mi"},
	} {
		t.Run(name, func(t *testing.T) {
			ns := &Namespace{Bounds: constraint.BoundsOf(c.bounds)}
			pod := podOf(container(t, "app", "cpu=1/1 memory=256Mi/512Mi"))
			after := applied(t, pod, SeedPod(view(t, pod), rec, ns, now))
			assert.Equal(t, []string{c.want}, resources(after))
			assert.Empty(t, boostsOf(t, after))
			assertStable(t, after, rec, ns)
		})
	}
}
