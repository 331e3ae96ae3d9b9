package pod

import (
	"testing"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/constraint"
)

// A created pod never gets less than a container needs to start, whatever was measured or configured, or its template
// has.
func TestSeedKeepsLeastSizes(t *testing.T) {
	stays := func(s *v1alpha1.ContainerSeed) { s.CPULimitFollows, s.MemoryLimitFollows = false, false }
	node := func(limit string) func(*v1alpha1.ContainerSeed) {
		return func(s *v1alpha1.ContainerSeed) { stays(s); s.MemoryLimit = amountOf(t, limit) }
	}
	boosted := func(s *v1alpha1.ContainerSeed) { s.CPUBoost = &v1alpha1.CPUBoost{Multiplier: "3"} }
	most := func(amount string) []*corev1.LimitRange {
		return []*corev1.LimitRange{{Spec: corev1.LimitRangeSpec{Limits: []corev1.LimitRangeItem{{
			Type: corev1.LimitTypeContainer, Max: corev1.ResourceList{"memory": resource.MustParse(amount)},
		}}}}}
	}
	for name, tc := range map[string]struct {
		has, cpu, memory string
		edit             func(*v1alpha1.ContainerSeed)
		limits           []*corev1.LimitRange
		raiseOnly        bool
		want             string
	}{
		"memory measured as 0":                {has: "cpu=50m memory=128Mi/256Mi", cpu: "12m", memory: "1Ki", want: "cpu=12m memory=4Mi/16Mi"},
		"memory measured as 0, Guaranteed":    {has: "cpu=50m/50m memory=128Mi/128Mi", memory: "1Ki", want: "cpu=50m/50m memory=16Mi/16Mi"},
		"maxAllowed without a unit":           {has: "cpu=1 memory=128Mi/256Mi", memory: "512", want: "cpu=1 memory=4Mi/16Mi"},
		"an idle CPU":                         {has: "cpu=100m/200m memory=1Gi", cpu: "1m", want: "cpu=2m/10m memory=1Gi"},
		"an idle CPU, Guaranteed":             {has: "cpu=100m/100m memory=1Gi/1Gi", cpu: "1m", want: "cpu=10m/10m memory=1Gi/1Gi"},
		"Guaranteed with whole cores":         {has: "cpu=2/2 memory=1Gi/1Gi", cpu: "1m", want: "cpu=1/1 memory=1Gi/1Gi"},
		"no request so far":                   {has: "cpu=1", memory: "1Ki", want: "cpu=1 memory=4Mi"},
		"BestEffort":                          {has: "", cpu: "1m", memory: "1Ki", want: "cpu=2m memory=4Mi"},
		"a boost of an idle CPU":              {has: "cpu=100m/200m memory=1Gi", cpu: "1m", edit: boosted, want: "cpu=3m/10m memory=1Gi"},
		"strategy Node":                       {has: "cpu=1 memory=128Mi/256Mi", memory: "1Ki", edit: node("2Ki"), want: "cpu=1 memory=4Mi/16Mi"},
		"strategy Node, a limit is added":     {has: "cpu=1 memory=128Mi", memory: "1Ki", edit: node("2Ki"), want: "cpu=1 memory=4Mi/16Mi"},
		"the template has less":               {has: "cpu=1m/5m memory=2Mi/8Mi", cpu: "1m", memory: "1Ki", want: "cpu=1m/5m memory=2Mi/8Mi"},
		"the template has less, Guaranteed":   {has: "cpu=5m/5m memory=8Mi/8Mi", cpu: "1m", memory: "1Ki", want: "cpu=5m/5m memory=8Mi/8Mi"},
		"the template has less and is raised": {has: "cpu=1 memory=2Mi/4Mi", memory: "3Mi", want: "cpu=1 memory=4Mi/16Mi"},
		"the template's limit is not raised":  {has: "cpu=1 memory=2Mi/8Mi", memory: "3Mi", want: "cpu=1 memory=4Mi/8Mi"},
		"raise only":                          {has: "cpu=1 memory=2Mi/8Mi", memory: "1Ki", raiseOnly: true, want: "cpu=1 memory=2Mi/8Mi"},
		"a limit that stays is below":         {has: "cpu=1 memory=1Mi/3Mi", memory: "2Mi", edit: stays, want: "cpu=1 memory=3Mi/3Mi"},
		"a LimitRange that allows less":       {has: "cpu=1 memory=2Mi/8Mi", memory: "3Mi", limits: most("8Mi"), want: "cpu=1 memory=4Mi/8Mi"},
		"a LimitRange between the two":        {has: "cpu=1 memory=2Mi/4Mi", memory: "3Mi", limits: most("12Mi"), want: "cpu=1 memory=2Mi/4Mi"},
		"a LimitRange below all of them":      {has: "cpu=1 memory=1Mi/2Mi", memory: "2Mi", limits: most("2Mi"), want: "cpu=1 memory=2Mi/2Mi"},
		"a LimitRange, Guaranteed":            {has: "cpu=1/1 memory=4Mi/4Mi", memory: "6Mi", limits: most("8Mi"), want: "cpu=1/1 memory=4Mi/4Mi"},
	} {
		t.Run(name, func(t *testing.T) {
			seed := seedFor(t, "app", tc.cpu, tc.memory)
			if tc.edit != nil {
				tc.edit(&seed)
			}
			rec := recommendation(seed)
			rec.Spec.Seed.RaiseOnly = tc.raiseOnly
			pod, ns := podOf(container(t, "app", tc.has)), &Namespace{Bounds: constraint.BoundsOf(tc.limits)}
			after := applied(t, pod, SeedPod(view(t, pod), Read(rec), ns, now))
			assert.Equal(t, []string{tc.want}, resources(after))
			assertStable(t, after, Read(rec), ns)
		})
	}
}

// The CPU limit that usage needs is not lowered with the request, and raises nothing. A Guaranteed pod stays one.
func TestSeedKeepsTheCPULimitThatUsageNeeds(t *testing.T) {
	for name, tc := range map[string]struct{ has, floor, want string }{
		"by the ratio":     {"cpu=1/2 memory=1Gi", "", "cpu=20m/40m memory=1Gi"},
		"kept":             {"cpu=1/2 memory=1Gi", "1100m", "cpu=20m/1100m memory=1Gi"},
		"never raised":     {"cpu=1/2 memory=1Gi", "5", "cpu=20m/2 memory=1Gi"},
		"no limit":         {"cpu=1 memory=1Gi", "1100m", "cpu=20m memory=1Gi"},
		"Guaranteed":       {"cpu=500m/500m memory=1Gi/1Gi", "1100m", "cpu=20m/20m memory=1Gi/1Gi"},
		"a limit alone":    {"cpu=2/2 memory=1Gi", "1100m", "cpu=20m/20m memory=1Gi"},
		"below the least":  {"cpu=1/2 memory=1Gi", "5m", "cpu=20m/40m memory=1Gi"},
		"a ratio of fifty": {"cpu=1/50 memory=1Gi", "1100m", "cpu=20m/1100m memory=1Gi"},
	} {
		t.Run(name, func(t *testing.T) {
			seed := seedFor(t, "app", "20m", "")
			if tc.floor != "" {
				seed.CPULimitFloor = amountOf(t, tc.floor)
			}
			pod, rec := podOf(container(t, "app", tc.has)), Read(recommendation(seed))
			after := applied(t, pod, SeedPod(view(t, pod), rec, &Namespace{}, now))
			assert.Equal(t, []string{tc.want}, resources(after))
			assertStable(t, after, rec, &Namespace{})
		})
	}
}

// The floor of a CPU limit is for decreases: it raises no limit above the template's and maxAllowed.
func TestCPULimitFloorRaisesNoLimitAboveMaxAllowed(t *testing.T) {
	for most, want := range map[string]string{"1500m": "cpu=1080m/2 memory=1Gi", "3": "cpu=1080m/3 memory=1Gi", "8": "cpu=1080m/3850m memory=1Gi"} {
		seed := seedFor(t, "app", "1080m", "")
		seed.CPULimitFloor = amountOf(t, "3850m")
		rec := recommendation(seed)
		rec.Spec.Seed.LargestPod = v1alpha1.Resources{CPURequest: amountOf(t, "64"), CPULimit: amountOf(t, most)}
		pod := podOf(container(t, "app", "cpu=500m/2 memory=1Gi"))
		after := applied(t, pod, SeedPod(view(t, pod), Read(rec), &Namespace{}, now))
		assert.Equal(t, []string{want}, resources(after))
		assertStable(t, after, Read(rec), &Namespace{})
	}
}

// A LimitRange's ratio takes precedence over the floor of a CPU limit.
func TestCPULimitFloorKeepsTheRatioOfALimitRange(t *testing.T) {
	for of, want := range map[corev1.LimitType]string{corev1.LimitTypeContainer: "cpu=275m/1100m memory=1Gi", corev1.LimitTypePod: "cpu=1/2 memory=1Gi"} {
		seed := seedFor(t, "app", "20m", "")
		seed.CPULimitFloor = amountOf(t, "1100m")
		rec := Read(recommendation(seed))
		ns := &Namespace{Bounds: constraint.BoundsOf(ranges(corev1.LimitRangeItem{Type: of, MaxLimitRequestRatio: corev1.ResourceList{"cpu": resource.MustParse("4")}}))}
		pod := podOf(container(t, "app", "cpu=1/2 memory=1Gi"))
		after := applied(t, pod, SeedPod(view(t, pod), rec, ns, now))
		assert.Equal(t, []string{want}, resources(after))
		assertStable(t, after, rec, ns)
	}
}

// A runtime class with a memory overhead runs a VM: its pods keep the memory limit of the template, and Guaranteed ones
// the request too. An overhead of CPU alone changes nothing.
func TestSeedKeepsMemoryLimitOfSandboxes(t *testing.T) {
	for name, tc := range map[string]struct{ overhead, has, memory, want string }{
		"lowered":            {"160Mi", "cpu=1 memory=256Mi/512Mi", "26Mi", "cpu=1 memory=26Mi/512Mi"},
		"raised":             {"160Mi", "cpu=1 memory=256Mi/512Mi", "400Mi", "cpu=1 memory=400Mi/800Mi"},
		"Guaranteed":         {"160Mi", "cpu=1/1 memory=512Mi/512Mi", "26Mi", "cpu=1/1 memory=512Mi/512Mi"},
		"Guaranteed, raised": {"160Mi", "cpu=1/1 memory=512Mi/512Mi", "600Mi", "cpu=1/1 memory=600Mi/600Mi"},
		"without a limit":    {"160Mi", "cpu=1 memory=256Mi", "26Mi", "cpu=1 memory=26Mi"},
		"no memory overhead": {"", "cpu=1 memory=256Mi/512Mi", "26Mi", "cpu=1 memory=26Mi/52Mi"},
	} {
		t.Run(name, func(t *testing.T) {
			pod, rec := podOf(container(t, "app", tc.has)), Read(recommendation(seedFor(t, "app", "", tc.memory)))
			pod.Spec.Overhead = corev1.ResourceList{"cpu": resource.MustParse("250m")}
			if tc.overhead != "" {
				pod.Spec.Overhead["memory"] = resource.MustParse(tc.overhead)
			}
			after := applied(t, pod, SeedPod(view(t, pod), rec, &Namespace{}, now))
			assert.Equal(t, []string{tc.want}, resources(after))
			assertStable(t, after, rec, &Namespace{})
		})
	}
}

// A seed of strategy Node without a memory limit is from a policy that leaves limits alone: the request stays within the
// limit, and request and limit of a Guaranteed pod stay.
func TestNodeSeedsLeaveLimitsAlone(t *testing.T) {
	for has, want := range map[string]string{
		"cpu=1 memory=128Mi/256Mi":   "cpu=1 memory=256Mi/256Mi",
		"cpu=1 memory=128Mi/512Mi":   "cpu=1 memory=300Mi/512Mi",
		"cpu=1 memory=128Mi":         "cpu=1 memory=300Mi",
		"cpu=1/1 memory=128Mi/128Mi": "cpu=1/1 memory=128Mi/128Mi",
	} {
		seed := seedFor(t, "app", "", "300Mi")
		seed.CPULimitFollows, seed.MemoryLimitFollows = false, false
		object := recommendation(seed)
		object.Spec.Strategy = v1alpha1.StrategyNode
		pod, rec := podOf(container(t, "app", has)), Read(object)
		after := applied(t, pod, SeedPod(view(t, pod), rec, &Namespace{}, now))
		assert.Equal(t, []string{want}, resources(after))
		assertStable(t, after, rec, &Namespace{})
	}
}
