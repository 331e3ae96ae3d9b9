package pod

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/constraint"
)

// ruled is a seed of 250m CPU with a rule for the limit.
func ruled(t *testing.T, rule v1alpha1.CPULimitRule) v1alpha1.ContainerSeed {
	seed := seedFor(t, "app", "250m", "")
	seed.CPULimitRule = &rule
	return seed
}

var remove = v1alpha1.CPULimitRule{Remove: true}

func TestCPULimitRules(t *testing.T) {
	for name, c := range map[string]struct {
		seed           v1alpha1.ContainerSeed
		template, want string
		pod            func(*corev1.Pod)
		ranges         []corev1.LimitRangeItem
		quota          corev1.ResourceName
		blocked        string
	}{
		"removed":                           {seed: ruled(t, remove), template: "cpu=500m/1 memory=1Gi/2Gi", want: "cpu=250m memory=1Gi/2Gi"},
		"removed, equal in a Burstable pod": {seed: ruled(t, remove), template: "cpu=500m/500m memory=1Gi/2Gi", want: "cpu=250m memory=1Gi/2Gi"},
		"removed, the only limit":           {seed: ruled(t, remove), template: "cpu=500m/1 memory=1Gi", want: "cpu=250m memory=1Gi"},
		"no limit to remove":                {seed: ruled(t, remove), template: "cpu=500m memory=1Gi", want: "cpu=250m memory=1Gi"},
		"a Guaranteed pod":                  {seed: ruled(t, remove), template: "cpu=500m/500m memory=1Gi/1Gi", want: "cpu=250m/250m memory=1Gi/1Gi", blocked: "the CPU limit stays: the pod is Guaranteed, and without the limit it would be Burstable. Set a request below a limit in the pod template"},
		"a default":                         {seed: ruled(t, remove), template: "cpu=500m/1 memory=1Gi", want: "cpu=250m/500m memory=1Gi", ranges: []corev1.LimitRangeItem{{Type: "Container", Default: cpu("200m")}}, blocked: "the CPU limit stays: a LimitRange of the namespace has a default, max or maxLimitRequestRatio of CPU. Remove it"},
		"a max":                             {seed: ruled(t, remove), template: "cpu=500m/1 memory=1Gi", want: "cpu=250m/500m memory=1Gi", ranges: []corev1.LimitRangeItem{{Type: "Container", Max: cpu("2")}}, blocked: "the CPU limit stays: a LimitRange of the namespace has a default, max or maxLimitRequestRatio of CPU. Remove it"},
		"a max of pods":                     {seed: ruled(t, remove), template: "cpu=500m/1 memory=1Gi", want: "cpu=250m/500m memory=1Gi", ranges: []corev1.LimitRangeItem{{Type: "Pod", Max: cpu("2")}}, blocked: "the CPU limit stays: a LimitRange of the namespace has a default, max or maxLimitRequestRatio of CPU. Remove it"},
		"a ratio":                           {seed: ruled(t, remove), template: "cpu=500m/1 memory=1Gi", want: "cpu=250m/500m memory=1Gi", ranges: []corev1.LimitRangeItem{{Type: "Container", MaxLimitRequestRatio: cpu("4")}}, blocked: "the CPU limit stays: a LimitRange of the namespace has a default, max or maxLimitRequestRatio of CPU. Remove it"},
		"a min alone":                       {seed: ruled(t, remove), template: "cpu=500m/1 memory=1Gi", want: "cpu=300m memory=1Gi", ranges: []corev1.LimitRangeItem{{Type: "Container", Min: cpu("300m")}}},
		"a quota on limits.cpu":             {seed: ruled(t, remove), template: "cpu=500m/1 memory=1Gi", want: "cpu=250m/500m memory=1Gi", quota: "limits.cpu", blocked: "the CPU limit stays: a ResourceQuota of the namespace counts limits.cpu, and rejects containers without one. Remove limits.cpu from it"},
		"a quota on requests":               {seed: ruled(t, remove), template: "cpu=500m/1 memory=1Gi", want: "cpu=250m memory=1Gi", quota: "requests.cpu"},
		"a sandbox": {seed: ruled(t, remove), template: "cpu=500m/1 memory=1Gi", want: "cpu=250m/500m memory=1Gi",
			pod:     func(p *corev1.Pod) { p.Spec.Overhead = corev1.ResourceList{"memory": resource.MustParse("100Mi")} },
			blocked: "the CPU limit stays: the runtime class runs the pod in a VM, whose number of CPUs may come from the limit. Use cpu.limits Keep"},
		"nothing but raises": {seed: raiseOnly(ruled(t, remove)), template: "cpu=500m/1 memory=1Gi", want: "cpu=500m memory=1Gi"},
		"without a target":   {seed: without(ruled(t, remove)), template: "cpu=500m/1 memory=1Gi/2Gi", want: "cpu=500m/1 memory=1Gi/2Gi"},

		"a ratio of limits":           {seed: ruled(t, v1alpha1.CPULimitRule{RatioThousandths: 3000}), template: "cpu=500m/1 memory=1Gi", want: "cpu=250m/750m memory=1Gi"},
		"at least":                    {seed: ruled(t, v1alpha1.CPULimitRule{Min: amountOf(t, "2")}), template: "cpu=500m/1 memory=1Gi", want: "cpu=250m/2 memory=1Gi"},
		"at most":                     {seed: ruled(t, v1alpha1.CPULimitRule{Max: amountOf(t, "300m")}), template: "cpu=500m/1 memory=1Gi", want: "cpu=250m/300m memory=1Gi"},
		"usage keeps it":              {seed: used(t, ruled(t, v1alpha1.CPULimitRule{Max: amountOf(t, "300m")}), "700m"), template: "cpu=500m/1 memory=1Gi", want: "cpu=250m/700m memory=1Gi"},
		"equal in a Burstable pod":    {seed: ruled(t, v1alpha1.CPULimitRule{RatioThousandths: 3000}), template: "cpu=500m/500m memory=1Gi", want: "cpu=250m/750m memory=1Gi"},
		"a ratio of a Guaranteed pod": {seed: ruled(t, v1alpha1.CPULimitRule{RatioThousandths: 3000}), template: "cpu=500m/500m memory=1Gi/1Gi", want: "cpu=250m/250m memory=1Gi/1Gi"},
		"one would make Guaranteed":   {seed: ruled(t, v1alpha1.CPULimitRule{RatioThousandths: 1000}), template: "cpu=500m/1 memory=1Gi/1Gi", want: "cpu=250m/251m memory=1Gi/1Gi"},
		"a ratio above a LimitRange":  {seed: ruled(t, v1alpha1.CPULimitRule{RatioThousandths: 9000}), template: "cpu=500m/1 memory=1Gi", want: "cpu=250m/2 memory=1Gi", ranges: []corev1.LimitRangeItem{{Type: "Container", Max: cpu("2")}}},
		"none is added":               {seed: ruled(t, v1alpha1.CPULimitRule{RatioThousandths: 3000, Min: amountOf(t, "2")}), template: "cpu=500m memory=1Gi", want: "cpu=250m memory=1Gi"},
	} {
		t.Run(name, func(t *testing.T) {
			pod := podOf(container(t, "app", c.template))
			if c.pod != nil {
				c.pod(pod)
			}
			ns := &Namespace{Bounds: constraint.BoundsOf([]*corev1.LimitRange{{Spec: corev1.LimitRangeSpec{Limits: c.ranges}}})}
			if c.quota != "" {
				ns.Quotas = []constraint.QuotaLeft{constraint.QuotaLeftOf(quota(c.quota, "100", "1"))}
			}
			rec := Read(recommendation(c.seed))
			d := SeedPod(view(t, pod), rec, ns, now)
			after := applied(t, pod, d)
			assert.Equal(t, c.want, text(after.Spec.Containers[0].Resources))
			assertStable(t, after, rec, ns)
			blocked := ""
			for _, b := range d.Blocked {
				assert.Equal(t, CPULimitNeeded, b.Reason)
				blocked = b.Message
			}
			assert.Equal(t, c.blocked, blocked)
		})
	}
}

func cpu(amount string) corev1.ResourceList {
	return corev1.ResourceList{"cpu": resource.MustParse(amount)}
}

func raiseOnly(seed v1alpha1.ContainerSeed) v1alpha1.ContainerSeed {
	seed.RaiseOnly = true
	return seed
}

func without(seed v1alpha1.ContainerSeed) v1alpha1.ContainerSeed {
	seed.CPURequest = nil
	return seed
}

func used(t *testing.T, seed v1alpha1.ContainerSeed, floor string) v1alpha1.ContainerSeed {
	seed.CPULimitFloor = amountOf(t, floor)
	return seed
}

// A boost of a container without a limit ends without one.
func TestBoostWithoutACPULimit(t *testing.T) {
	seed := ruled(t, remove)
	seed.CPUBoost = &v1alpha1.CPUBoost{Multiplier: "2"}
	pod := podOf(container(t, "app", "cpu=500m/1 memory=1Gi/2Gi"))
	rec, ns := Read(recommendation(seed)), &Namespace{}
	after := applied(t, pod, SeedPod(view(t, pod), rec, ns, now))
	assert.Equal(t, "cpu=500m memory=1Gi/2Gi", text(after.Spec.Containers[0].Resources))
	assert.Contains(t, after.Annotations[v1alpha1.SeededAnnotation], `"cpuLimit":"1"`)
	assert.NotContains(t, after.Annotations[v1alpha1.SeededAnnotation], `baseCPULimit`)
	assertStable(t, after, rec, ns)
}

// A startup boost raises no CPU limit above max: it gives less CPU instead. It never lowers a request.
func TestBoostStaysWithinTheMaximumOfCPULimits(t *testing.T) {
	for name, c := range map[string]struct{ template, max, want string }{
		"below max":                          {"cpu=500m/1 memory=1Gi", "2", "cpu=750m/1500m memory=1Gi"},
		"bounded":                            {"cpu=500m/1 memory=1Gi", "600m", "cpu=599m/600m memory=1Gi"},
		"the request is there already":       {"cpu=500m/1 memory=1Gi", "200m", "cpu=250m/251m memory=1Gi"},
		"request = limit in a Burstable pod": {"cpu=500m/500m memory=1Gi", "600m", "cpu=600m/600m memory=1Gi"},
		"a Guaranteed pod has no rule":       {"cpu=500m/500m memory=1Gi/1Gi", "600m", "cpu=750m/750m memory=1Gi/1Gi"},
		"no limit":                           {"cpu=500m memory=1Gi", "600m", "cpu=750m memory=1Gi"},
	} {
		seed := ruled(t, v1alpha1.CPULimitRule{Max: amountOf(t, c.max)})
		seed.CPUBoost = &v1alpha1.CPUBoost{Multiplier: "3"}
		pod := podOf(container(t, "app", c.template))
		rec, ns := Read(recommendation(seed)), &Namespace{}
		after := applied(t, pod, SeedPod(view(t, pod), rec, ns, now))
		assert.Equal(t, c.want, text(after.Spec.Containers[0].Resources), name)
		assertStable(t, after, rec, ns)
	}
}

// In drawn pods with rules for their CPU limits, the QoS class stays, no request is above its limit, and no
// limit of a Guaranteed pod is removed.
func TestDrawnPodsWithCPULimitRules(t *testing.T) {
	pods := 10_000
	if n, err := strconv.Atoi(os.Getenv("ATTUNE_DRAWS")); err == nil { // make test-long
		pods = n
	}
	removed, ruled := 0, 0
	for n := range pods {
		d := dice{rand.New(rand.NewPCG(uint64(n), 44))}
		s := d.scene(t)
		for i := range s.rec.Spec.Seed.Containers {
			s.rec.Spec.Seed.Containers[i].CPULimitFollows = true
		}
		pod, rec, ns := view(t, s.pod), Read(s.rec), s.namespace()
		was := unitsOf(pod)
		units := sized(pod, rec, ns, now, &Decision{})
		from, to := classOf(was, is), classOf(units, will)
		told := func() string { return fmt.Sprintf("draw %d: %s: %s to %s", n, asJSON(t, s), from, to) }
		require.True(t, units == nil || from == to || from == corev1.PodQOSBestEffort && to == corev1.PodQOSBurstable, told)
		for i := range units {
			for r, a := range units[i].will {
				require.False(t, a.Limit > 0 && a.Request > a.Limit && units[i].is[r] != a, told)
				if units[i].is[r].Limit > 0 && a.Limit == 0 {
					require.Equal(t, corev1.PodQOSBurstable, from, told)
					require.Empty(t, ns.limitKept(false), told)
					require.Positive(t, a.Request, told)
					removed++
				}
			}
			if seed := rec.Seed.of(units[i].Name); seed != nil && seed.Of[0].rule.Sets() && units[i].will != units[i].is {
				ruled++
			}
		}
	}
	assert.Greater(t, removed, pods/100)
	assert.Greater(t, ruled, pods/100)
}
