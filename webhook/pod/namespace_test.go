package pod

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/constraint"
)

// list parses "cpu=1 memory=1Gi".
func list(t testing.TB, text string) corev1.ResourceList { return res(t, text).Requests }

func ranges(items ...corev1.LimitRangeItem) []*corev1.LimitRange {
	return []*corev1.LimitRange{{
		ObjectMeta: metav1.ObjectMeta{Name: "limits", Namespace: "shop"}, Spec: corev1.LimitRangeSpec{Limits: items},
	}}
}

func TestLimitRanges(t *testing.T) {
	each := func(item corev1.LimitRangeItem) corev1.LimitRangeItem {
		item.Type = corev1.LimitTypeContainer
		return item
	}
	whole := func(item corev1.LimitRangeItem) corev1.LimitRangeItem { item.Type = corev1.LimitTypePod; return item }
	cases := []struct {
		name        string
		item        corev1.LimitRangeItem
		has         string
		cpu, memory string
		want        string
		reason      Reason
	}{
		{name: "raised to the minimum", item: each(corev1.LimitRangeItem{Min: list(t, "cpu=100m memory=128Mi")}),
			has: "cpu=1 memory=1Gi", cpu: "50m", memory: "64Mi", want: "cpu=100m memory=128Mi", reason: Seeded},
		{name: "cut to the maximum it would be Guaranteed: CPU stays below", item: each(corev1.LimitRangeItem{Max: list(t, "cpu=2 memory=2Gi")}),
			has: "cpu=500m/1 memory=1Gi/1Gi", cpu: "3", memory: "4Gi", want: "cpu=1999m/2 memory=2Gi/2Gi", reason: Seeded},
		{name: "cut to the maximum, and no CPU below it: memory stays below", item: each(corev1.LimitRangeItem{Max: list(t, "cpu=2 memory=2Gi"), Min: list(t, "cpu=2")}),
			has: "cpu=2/2 memory=1Gi/1536Mi", cpu: "3", memory: "4Gi", want: "cpu=2/2 memory=2147483647/2Gi", reason: Seeded},
		{name: "cut to the maximum, still burstable", item: each(corev1.LimitRangeItem{Max: list(t, "cpu=2 memory=2Gi")}),
			has: "cpu=500m/1 memory=1Gi/1Gi", cpu: "1500m", memory: "4Gi", want: "cpu=1500m/2 memory=2Gi/2Gi", reason: Seeded},
		{name: "cut to whole MiB below an odd maximum", item: each(corev1.LimitRangeItem{Max: list(t, "memory=500M")}),
			has: "cpu=500m/1 memory=128Mi/300Mi", memory: "1Gi", want: "cpu=500m/1 memory=476Mi/476Mi", reason: Seeded},
		{name: "cut to an odd maximum where it was no less", item: each(corev1.LimitRangeItem{Max: list(t, "memory=500M")}),
			has: "cpu=500m/1 memory=128Mi/500M", memory: "1Gi", want: "cpu=500m/1 memory=476Mi/500M", reason: Seeded},
		{name: "raised to whole MiB above an odd minimum", item: each(corev1.LimitRangeItem{Min: list(t, "memory=100M")}),
			has: "cpu=1 memory=1Gi", memory: "64Mi", want: "cpu=1 memory=96Mi", reason: Seeded},
		{name: "a request is raised to whole MiB rather than its ratio broken", item: each(corev1.LimitRangeItem{MaxLimitRequestRatio: list(t, "memory=3")}),
			has: "cpu=1 memory=500Mi/1Gi", memory: "100Mi", want: "cpu=1 memory=134Mi/400Mi", reason: Seeded},
		{name: "a request is raised rather than its ratio broken", item: each(corev1.LimitRangeItem{MaxLimitRequestRatio: list(t, "cpu=4")}),
			has: "cpu=500m/2 memory=1Gi", cpu: "10m", want: "cpu=10m/40m memory=1Gi", reason: Seeded},
		{name: "ratio against a floor", item: each(corev1.LimitRangeItem{MaxLimitRequestRatio: list(t, "memory=1500m")}),
			has: "cpu=1 memory=1Gi/1Gi", memory: "100Mi", want: "cpu=1 memory=200Mi/300Mi", reason: Seeded},
		{name: "a pod that is refused anyway is left as it is", item: each(corev1.LimitRangeItem{Min: list(t, "cpu=2")}),
			has: "cpu=1 memory=1Gi", cpu: "3", want: "cpu=1 memory=1Gi", reason: LimitRange},
		{name: "a maximum needs a limit", item: each(corev1.LimitRangeItem{Max: list(t, "cpu=2")}),
			has: "cpu=1 memory=1Gi", cpu: "500m", want: "cpu=1 memory=1Gi", reason: LimitRange},
		{name: "guaranteed within the maximum, in whole cores", item: each(corev1.LimitRangeItem{Max: list(t, "cpu=2500m")}),
			has: "cpu=2/2 memory=1Gi/1Gi", cpu: "2100m", want: "cpu=2/2 memory=1Gi/1Gi", reason: AsSeeded},
		{name: "guaranteed at the minimum", item: each(corev1.LimitRangeItem{Min: list(t, "memory=128Mi")}),
			has: "cpu=2/2 memory=1Gi/1Gi", memory: "64Mi", want: "cpu=2/2 memory=128Mi/128Mi", reason: Seeded},
		{name: "pod minimum: the resource stays", item: whole(corev1.LimitRangeItem{Min: list(t, "cpu=500m")}),
			has: "cpu=1 memory=1Gi", cpu: "100m", memory: "64Mi", want: "cpu=1 memory=64Mi", reason: Seeded},
		{name: "pod maximum: the resource stays", item: whole(corev1.LimitRangeItem{Max: list(t, "memory=1Gi")}),
			has: "cpu=1 memory=512Mi/1Gi", cpu: "100m", memory: "1Gi", want: "cpu=100m memory=512Mi/1Gi", reason: Seeded},
		{name: "of claims", item: corev1.LimitRangeItem{Type: corev1.LimitTypePersistentVolumeClaim, Min: list(t, "cpu=7")},
			has: "cpu=1 memory=1Gi", cpu: "100m", want: "cpu=100m memory=1Gi", reason: Seeded},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			seed := seedFor(t, "app", c.cpu, c.memory)
			if strings.HasPrefix(c.name, "a request is raised to whole") {
				seed.MemoryLimitFloor = amountOf(t, "400Mi")
			}
			if c.name == "ratio against a floor" {
				seed.MemoryLimitFloor = amountOf(t, "300Mi")
			}
			rec, ns := Read(recommendation(seed)), &Namespace{Bounds: constraint.BoundsOf(ranges(c.item))}
			pod := podOf(container(t, "app", c.has))
			d := SeedPod(view(t, pod), rec, ns, now)
			after := applied(t, pod, d)
			assert.Equal(t, []string{c.want}, resources(after))
			assert.Equal(t, c.reason, d.Reason)
			assertStable(t, after, rec, ns)
		})
	}
}

func TestPodMinimumHoldsForLimitsToo(t *testing.T) {
	ns := &Namespace{Bounds: constraint.BoundsOf(ranges(corev1.LimitRangeItem{Type: corev1.LimitTypePod, Min: list(t, "cpu=500m")}))}
	rec := Read(recommendation(seedFor(t, "app", "100m", "")))
	pod := podOf(container(t, "app", "cpu=250m/500m"), container(t, "unlimited", "cpu=2"))

	d := SeedPod(view(t, pod), rec, ns, now)

	assert.Equal(t, LimitRange, d.Reason, "the limits' sum would be 200m, though the requests' is plenty")
	assert.Nil(t, d.Patch)
}

func TestQuotas(t *testing.T) {
	cases := []struct {
		name        string
		quotas      []*corev1.ResourceQuota
		has         string
		cpu, memory string
		want        string
		reason      Reason
	}{
		{name: "fits exactly", quotas: []*corev1.ResourceQuota{quota("requests.cpu", "10", "8")},
			has: "cpu=1 memory=1Gi", cpu: "2", want: "cpu=2 memory=1Gi", reason: Seeded},
		{name: "one millicore short", quotas: []*corev1.ResourceQuota{quota("requests.cpu", "10", "8001m")},
			has: "cpu=1 memory=1Gi", cpu: "2", want: "cpu=1 memory=1Gi", reason: Quota},
		{name: "the short name", quotas: []*corev1.ResourceQuota{quota("cpu", "10", "8001m")},
			has: "cpu=1 memory=1Gi", cpu: "2", want: "cpu=1 memory=1Gi", reason: Quota},
		{name: "the stricter of two names", quotas: []*corev1.ResourceQuota{twoNames("8")},
			has: "cpu=1 memory=1Gi", cpu: "2", want: "cpu=1 memory=1Gi", reason: Quota},
		{name: "both names", quotas: []*corev1.ResourceQuota{twoNames("7")},
			has: "cpu=1 memory=1Gi", cpu: "2", want: "cpu=2 memory=1Gi", reason: Seeded},
		{name: "just tightened", quotas: []*corev1.ResourceQuota{resized("9", "10")},
			has: "cpu=1 memory=1Gi", cpu: "2", want: "cpu=1 memory=1Gi", reason: Quota},
		{name: "just loosened", quotas: []*corev1.ResourceQuota{resized("10", "9")},
			has: "cpu=1 memory=1Gi", cpu: "2", want: "cpu=1 memory=1Gi", reason: Quota},
		{name: "not yet counted", quotas: []*corev1.ResourceQuota{quota("requests.cpu", "10", "")},
			has: "cpu=1 memory=1Gi", cpu: "2", want: "cpu=1 memory=1Gi", reason: Quota},
		{name: "lowering needs no room", quotas: []*corev1.ResourceQuota{quota("requests.cpu", "10", "")},
			has: "cpu=1 memory=1Gi", cpu: "500m", want: "cpu=500m memory=1Gi", reason: Seeded},
		{name: "limits count by themselves", quotas: []*corev1.ResourceQuota{quota("limits.cpu", "10", "7")},
			has: "cpu=1/2 memory=1Gi", cpu: "2", want: "cpu=1/2 memory=1Gi", reason: Quota},
		{name: "the other resource is seeded", quotas: []*corev1.ResourceQuota{quota("requests.memory", "2Gi", "1Gi")},
			has: "cpu=1 memory=1Gi", cpu: "2", memory: "2Gi", want: "cpu=2 memory=1Gi", reason: Seeded},
		{name: "every quota", quotas: []*corev1.ResourceQuota{quota("requests.cpu", "10", "1"), quota("requests.cpu", "3", "2")},
			has: "cpu=1 memory=1Gi", cpu: "2", want: "cpu=1 memory=1Gi", reason: Quota},
		{name: "a quota of classes that the pod would leave", quotas: []*corev1.ResourceQuota{scoped(corev1.ResourceQuotaScopeBestEffort)},
			has: "", cpu: "100m", memory: "64Mi", want: "", reason: Quota},
		{name: "a quota of other scopes", quotas: []*corev1.ResourceQuota{scoped(corev1.ResourceQuotaScopeTerminating)},
			has: "", cpu: "100m", memory: "64Mi", want: "cpu=100m memory=64Mi", reason: Seeded},
		{name: "of other things", quotas: []*corev1.ResourceQuota{quota("services", "1", "1")},
			has: "cpu=1 memory=1Gi", cpu: "2", want: "cpu=2 memory=1Gi", reason: Seeded},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			rec, ns := Read(recommendation(seedFor(t, "app", c.cpu, c.memory))), &Namespace{}
			for _, q := range c.quotas {
				ns.Quotas = append(ns.Quotas, constraint.QuotaLeftOf(q))
			}
			pod := podOf(container(t, "app", c.has))
			d := SeedPod(view(t, pod), rec, ns, now)
			after := applied(t, pod, d)
			assert.Equal(t, []string{c.want}, resources(after))
			assert.Equal(t, c.reason, d.Reason)
			assertStable(t, after, rec, ns)
		})
	}
}

// twoNames is a quota on CPU under both of its names, the stricter one first.
func twoNames(used string) *corev1.ResourceQuota {
	q, other := quota("cpu", "9", used), quota("requests.cpu", "10", used)
	q.Spec.Hard["requests.cpu"] = other.Spec.Hard["requests.cpu"]
	q.Status.Hard["requests.cpu"] = other.Status.Hard["requests.cpu"]
	q.Status.Used["requests.cpu"] = other.Status.Used["requests.cpu"]
	return q
}

// resized is a quota on CPU, 8 of which are used, whose status is not updated yet.
func resized(spec, status string) *corev1.ResourceQuota {
	q := quota("cpu", spec, "8")
	q.Status.Hard = corev1.ResourceList{"cpu": resource.MustParse(status)}
	return q
}

func scoped(scope corev1.ResourceQuotaScope) *corev1.ResourceQuota {
	q := quota("pods", "10", "1")
	q.Spec.ScopeSelector = &corev1.ScopeSelector{MatchExpressions: []corev1.ScopedResourceSelectorRequirement{
		{ScopeName: scope, Operator: corev1.ScopeSelectorOpExists},
	}}
	return q
}

func TestQuotaCountsThePodAsAWhole(t *testing.T) {
	ns := &Namespace{Quotas: []constraint.QuotaLeft{constraint.QuotaLeftOf(quota("requests.cpu", "10", "9"))}}
	rec := Read(recommendation(seedFor(t, "app", "900m", "")))

	t.Run("one container may grow by what another gives", func(t *testing.T) {
		both := Read(recommendation(seedFor(t, "app", "900m", ""), seedFor(t, "mesh", "100m", "")))
		pod := podOf(container(t, "app", "cpu=500m"), container(t, "mesh", "cpu=700m"))
		assert.Equal(t, []string{"cpu=900m", "cpu=100m"}, resources(applied(t, pod, SeedPod(view(t, pod), both, ns, now))))
	})
	t.Run("overhead is counted", func(t *testing.T) {
		pod := podOf(container(t, "app", "cpu=500m"))
		require := func(overhead, want string) {
			pod.Spec.Overhead = corev1.ResourceList{"cpu": resource.MustParse(overhead)}
			assert.Equal(t, []string{want}, resources(applied(t, pod, SeedPod(view(t, pod), rec, ns, now))))
		}
		require("100m", "cpu=900m")
		require("101m", "cpu=500m")
	})
	t.Run("overhead is counted where there is a limit", func(t *testing.T) {
		limits := &Namespace{Quotas: []constraint.QuotaLeft{constraint.QuotaLeftOf(quota("limits.cpu", "10", "8"))}}
		pod := podOf(container(t, "app", "cpu=500m/1"))
		pod.Spec.Overhead = corev1.ResourceList{"cpu": resource.MustParse("201m")}
		assert.Equal(t, []string{"cpu=500m/1"}, resources(applied(t, pod, SeedPod(view(t, pod), rec, limits, now))))
	})
	t.Run("growing inside a greater init container costs nothing", func(t *testing.T) {
		pod := podOf(container(t, "app", "cpu=500m"))
		pod.Spec.InitContainers = []corev1.Container{container(t, "setup", "cpu=2")}
		assert.Equal(t, []string{"cpu=2", "cpu=900m"}, resources(applied(t, pod, SeedPod(view(t, pod), rec, ns, now))))
	})
	t.Run("held resources are named", func(t *testing.T) {
		pod := podOf(container(t, "app", "cpu=500m"))
		pod.Spec.Overhead = corev1.ResourceList{"cpu": resource.MustParse("1")}
		assert.Equal(t, []Blocked{{Resource: 0, Reason: Quota}}, SeedPod(view(t, pod), rec, ns, now).Blocked)
	})
}

func TestIndex(t *testing.T) {
	x := NewIndex()
	events := x.Handler()
	rec := recommendation(seedFor(t, "app", "250m", "256Mi"))
	of := Read(rec).Of

	assert.Nil(t, x.Recommendation(of))
	events.OnAdd(rec, true)
	assert.Equal(t, Read(rec), x.Recommendation(of))

	t.Run("an object that is not named after its workload is nobody's", func(t *testing.T) {
		forged := rec.DeepCopy()
		forged.Name, forged.Spec.Seed.Revision = "zzz", "forged"
		events.OnAdd(forged, false)
		assert.Equal(t, "r1", x.Recommendation(of).Seed.Revision)

		moved := rec.DeepCopy()
		moved.Spec.Workload.Name = "other"
		events.OnUpdate(rec, moved)
		assert.Nil(t, x.Recommendation(of))
		assert.Nil(t, x.Recommendation(Read(moved).Of))
	})

	newer := rec.DeepCopy()
	newer.Spec.Seed.Revision = "r2"
	events.OnUpdate(rec, newer)
	assert.Equal(t, "r2", x.Recommendation(of).Seed.Revision)

	events.OnDelete(deleted(newer))
	assert.Nil(t, x.Recommendation(of))

	t.Run("what binds a namespace", func(t *testing.T) {
		lr, q := ranges(corev1.LimitRangeItem{Type: corev1.LimitTypeContainer, Min: list(t, "cpu=10m")})[0], quota("requests.cpu", "10", "9")
		events.OnAdd(lr, true)
		events.OnAdd(q, true)
		assert.Equal(t, &Namespace{Bounds: constraint.BoundsOf([]*corev1.LimitRange{lr}), Quotas: []constraint.QuotaLeft{constraint.QuotaLeftOf(q)}}, x.Namespace("shop"))
		assert.Equal(t, &Namespace{}, x.Namespace("other"))

		fuller := quota("requests.cpu", "10", "10")
		before := x.Namespace("shop")
		events.OnUpdate(q, fuller)
		assert.Equal(t, []constraint.QuotaLeft{constraint.QuotaLeftOf(fuller)}, x.Namespace("shop").Quotas)
		assert.Equal(t, []constraint.QuotaLeft{constraint.QuotaLeftOf(q)}, before.Quotas, "what was handed out is not changed")

		events.OnDelete(fuller)
		assert.Equal(t, &Namespace{Bounds: constraint.BoundsOf([]*corev1.LimitRange{lr})}, x.Namespace("shop"))
		events.OnDelete(lr)
		assert.Equal(t, &Namespace{}, x.Namespace("shop"))
		assert.Empty(t, x.ranges)
		assert.Empty(t, x.quotas)
	})
	assert.Panics(t, func() { x.Set(&v1alpha1.AttunePolicy{}) })
	assert.Panics(t, func() { x.Delete(&v1alpha1.AttunePolicy{}) })
}
