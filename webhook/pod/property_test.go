package pod

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	helpers "k8s.io/component-helpers/resource"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/constraint"
	"attune.io/attune/podview"
	"attune.io/attune/recommender"
)

// scene is a random pod, a random seed for it, and a random namespace.
type scene struct {
	pod    *corev1.Pod
	rec    *v1alpha1.AttuneRecommendation
	ranges []*corev1.LimitRange
	quotas []*corev1.ResourceQuota
}

func (s *scene) namespace() *Namespace {
	ns := &Namespace{Bounds: constraint.BoundsOf(s.ranges)}
	for _, q := range s.quotas {
		ns.Quotas = append(ns.Quotas, constraint.QuotaLeftOf(q))
	}
	return ns
}

// dice creates scenes. Amounts are drawn from few values, so that equal ones and edge cases are frequent.
type dice struct{ *rand.Rand }

func (d dice) chance(percent int) bool { return d.IntN(100) < percent }

func (d dice) amount(r recommender.Resource) resource.Quantity {
	if r == recommender.CPU {
		return resource.MustParse([]string{"1m", "10m", "100m", "333m", "500m", "1", "1500m", "2", "3", "7"}[d.IntN(10)])
	}
	return resource.MustParse([]string{"1", "16Mi", "64Mi", "100M", "128Mi", "333333333", "512Mi", "1Gi", "3Gi", "7Gi"}[d.IntN(10)])
}

// requirements of a style: 0 none, 1 guaranteed, 2 anything valid, 3 all set and burstable.
func (d dice) requirements(style int) (out corev1.ResourceRequirements) {
	for _, r := range recommender.Resources {
		name := podview.NameOf(r)
		a, b := d.amount(r), d.amount(r)
		if a.Cmp(b) > 0 {
			a, b = b, a
		}
		switch {
		case style == 0:
		case style == 1:
			out.Requests = set(out.Requests, name, b)
			out.Limits = set(out.Limits, name, b)
		case style == 2 && d.chance(30): // requests only
			out.Requests = set(out.Requests, name, a)
		case style == 3 || d.chance(60):
			out.Requests = set(out.Requests, name, a)
			out.Limits = set(out.Limits, name, b)
		case d.chance(30): // an explicit zero counts as absent
			out.Requests = set(out.Requests, name, resource.Quantity{})
		}
	}
	return out
}

func set(list corev1.ResourceList, name corev1.ResourceName, q resource.Quantity) corev1.ResourceList {
	if list == nil {
		list = corev1.ResourceList{}
	}
	list[name] = q
	return list
}

func (d dice) scene(t *testing.T) *scene {
	t.Helper()
	s := &scene{pod: podOf(), rec: recommendation()}
	style := d.IntN(4)
	for i := range max(0, d.IntN(5)-2) {
		c := container(t, fmt.Sprintf("init%d", i), "")
		if d.chance(50) {
			c = sidecar(t, fmt.Sprintf("side%d", i), "")
		}
		c.Resources = d.requirements(style)
		s.pod.Spec.InitContainers = append(s.pod.Spec.InitContainers, c)
	}
	for i := range 1 + d.IntN(3) {
		c := container(t, fmt.Sprintf("app%d", i), "")
		c.Resources = d.requirements(style)
		s.pod.Spec.Containers = append(s.pod.Spec.Containers, c)
	}
	if d.chance(20) {
		s.pod.Spec.Overhead = corev1.ResourceList{"cpu": resource.MustParse("250m"), "memory": resource.MustParse("120Mi")}
	}
	if d.chance(30) {
		source := &corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumMemory}
		source.SizeLimit = d.maybe(recommender.Memory, 50)
		mounting(s.pod, corev1.VolumeSource{EmptyDir: source}, "app0", "side0", "side1")
	}
	d.seed(s)
	for range d.IntN(3) {
		s.ranges = append(s.ranges, d.limitRange())
	}
	for range d.IntN(3) {
		s.quotas = append(s.quotas, d.quota())
	}
	return s
}

func (d dice) seed(s *scene) {
	defer func() {
		if n := len(s.rec.Spec.Seed.Containers); n > 0 {
			s.rec.Spec.Seed.Containers[d.IntN(n)].RaiseOnly = d.chance(40)
		}
	}()
	s.rec.Spec.Seed.RaiseOnly = d.chance(30)
	s.rec.Spec.Seed.LargestPod = v1alpha1.Resources{
		CPURequest: d.maybe(recommender.CPU, 30), CPULimit: d.maybe(recommender.CPU, 30),
		MemoryRequest: d.maybe(recommender.Memory, 30), MemoryLimit: d.maybe(recommender.Memory, 30),
	}
	node := d.chance(30)
	for _, c := range append(s.pod.Spec.InitContainers, s.pod.Spec.Containers...) {
		if d.chance(15) {
			continue
		}
		seed := v1alpha1.ContainerSeed{
			Name: c.Name, AllowMemoryDecrease: d.chance(50), CPULimitFollows: d.chance(60), MemoryLimitFollows: d.chance(60),
		}
		seed.CPURequest = d.maybe(recommender.CPU, 80)
		seed.MemoryRequest = d.maybe(recommender.Memory, 80)
		seed.CPULimitFloor, seed.MemoryLimitFloor = d.maybe(recommender.CPU, 30), d.maybe(recommender.Memory, 30)
		seed.CPULimitRule = d.limitRule()
		if d.chance(30) {
			seed.CPUBoost = &v1alpha1.CPUBoost{Multiplier: []v1alpha1.Decimal{"1.1", "2", "3.7", "100", "x"}[d.IntN(5)], Most: d.maybe(recommender.CPU, 50)}
		}
		if node && seed.MemoryRequest != nil {
			seed.MemoryLimit = d.maybe(recommender.Memory, 80)
		}
		s.rec.Spec.Seed.Containers = append(s.rec.Spec.Seed.Containers, seed)
		if d.chance(30) {
			known := v1alpha1.ContainerResources{Name: c.Name, Resources: podview.ToResources(podview.ReadSpec(d.requirements(2)))}
			s.rec.Status.Originals = append(s.rec.Status.Originals, v1alpha1.Originals{Containers: []v1alpha1.ContainerResources{known}})
		}
	}
}

func (d dice) limitRule() *v1alpha1.CPULimitRule {
	switch d.IntN(4) {
	case 0:
		return &v1alpha1.CPULimitRule{Remove: true}
	case 1:
		return &v1alpha1.CPULimitRule{RatioThousandths: int64(d.IntN(2) * (1000 + d.IntN(4000))), Min: d.maybe(recommender.CPU, 50), Max: d.maybe(recommender.CPU, 50)}
	}
	return nil
}

func (d dice) maybe(r recommender.Resource, percent int) *resource.Quantity {
	if !d.chance(percent) {
		return nil
	}
	q := d.amount(r)
	return &q
}

func (d dice) limitRange() *corev1.LimitRange {
	item := corev1.LimitRangeItem{Type: corev1.LimitTypeContainer}
	if d.chance(30) {
		item.Type = corev1.LimitTypePod
	}
	for _, r := range recommender.Resources {
		if d.chance(20) {
			item.Min = set(item.Min, podview.NameOf(r), d.amount(r))
		}
		if d.chance(20) {
			item.Max = set(item.Max, podview.NameOf(r), d.amount(r))
		}
		if item.Type == corev1.LimitTypeContainer && d.chance(10) {
			item.Default = set(item.Default, podview.NameOf(r), d.amount(r))
		}
		if d.chance(20) {
			ratio := resource.MustParse([]string{"1", "1500m", "2", "2001m", "10"}[d.IntN(5)])
			item.MaxLimitRequestRatio = set(item.MaxLimitRequestRatio, podview.NameOf(r), ratio)
		}
	}
	return &corev1.LimitRange{
		ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint(d.Uint32()), Namespace: "shop"},
		Spec:       corev1.LimitRangeSpec{Limits: []corev1.LimitRangeItem{item}},
	}
}

func (d dice) quota() *corev1.ResourceQuota {
	r := recommender.Resources[d.IntN(2)]
	key := corev1.ResourceName([]string{"", "requests.", "limits."}[d.IntN(3)] + r.String())
	q := quota(key, "1", "")
	hard, used := d.amount(r), d.amount(r)
	q.Spec.Hard[key], q.Status.Hard = hard, corev1.ResourceList{key: hard}
	if d.chance(80) {
		q.Status.Used[key] = used
	}
	if d.chance(20) {
		q.Spec.Scopes = []corev1.ResourceQuotaScope{corev1.ResourceQuotaScopeNotBestEffort}
	}
	return q
}

// TestRandomPods checks every promise of this package on random pods.
func TestRandomPods(t *testing.T) {
	reasons, below := map[Reason]int{}, 0
	for n := range uint64(4000) {
		d := checkScene(t, n)
		reasons[d.Reason]++
		for _, b := range d.Blocked {
			if b.Reason == QoSClass && b.Container != "" {
				below++
			}
		}
		if t.Failed() {
			t.Fatalf("seed of the dice: %d", n)
		}
	}
	// The test is useful only if the dice cover all results.
	for _, reason := range []Reason{Seeded, AsSeeded, LimitRange, Quota, FixedLimit, MemoryVolume, NodeCapacity, CPULimitNeeded} {
		assert.Positive(t, reasons[reason], reason)
	}
	assert.Positive(t, below, "a request stays just below its limit")
}

func FuzzSeedPod(f *testing.F) {
	f.Add(uint64(1))
	f.Fuzz(func(t *testing.T, n uint64) { checkScene(t, n) })
}

func checkScene(t *testing.T, n uint64) Decision {
	t.Helper()
	d := dice{rand.New(rand.NewPCG(n, 0))}
	s := d.scene(t)
	rec, ns := Read(s.rec), s.namespace()

	decision := SeedPod(view(t, s.pod), rec, ns, now)
	after := applied(t, s.pod, decision)

	checkAlone(t, s, after)
	checkContainers(t, s, after)
	checkSizes(t, s, after)
	checkClass(t, s.pod, after)
	checkNamespace(t, s, after)
	checkAnnotation(t, s.pod, after)
	assertStable(t, after, rec, ns)
	checkTampered(t, d, s, after)
	return decision
}

// checkAlone: only resources and the annotation have changed.
func checkAlone(t *testing.T, s *scene, after *corev1.Pod) {
	t.Helper()
	blank := after.DeepCopy()
	delete(blank.Annotations, v1alpha1.SeededAnnotation)
	if len(blank.Annotations) == 0 {
		blank.Annotations = nil
	}
	for i := range blank.Spec.Containers {
		blank.Spec.Containers[i].Resources = s.pod.Spec.Containers[i].Resources
	}
	for i := range blank.Spec.InitContainers {
		if blank.Spec.InitContainers[i].RestartPolicy != nil {
			blank.Spec.InitContainers[i].Resources = s.pod.Spec.InitContainers[i].Resources
		}
	}
	assert.Equal(t, asJSON(t, s.pod), asJSON(t, blank))
}

func asJSON(t *testing.T, v any) string {
	t.Helper()
	raw, err := json.Marshal(v)
	require.NoError(t, err)
	return string(raw)
}

func all(pod *corev1.Pod) []corev1.Container {
	return append(append([]corev1.Container{}, pod.Spec.InitContainers...), pod.Spec.Containers...)
}

func checkContainers(t *testing.T, s *scene, after *corev1.Pod) {
	t.Helper()
	seeds := map[string]*v1alpha1.ContainerSeed{}
	for i := range s.rec.Spec.Seed.Containers {
		seeds[s.rec.Spec.Seed.Containers[i].Name] = &s.rec.Spec.Seed.Containers[i]
	}
	guaranteed := podview.QOSClass(s.pod) == corev1.PodQOSGuaranteed
	now := all(after)
	for i, c := range all(s.pod) {
		was, is, seed := podview.ReadSpec(c.Resources), podview.ReadSpec(now[i].Resources), seeds[c.Name]
		if seed == nil {
			assert.Equal(t, was, is, "a container without a seed stays")
			continue
		}
		for _, r := range recommender.Resources {
			w, a := was[r], is[r]
			assert.False(t, a.Limit > 0 && a.Request > a.Limit, "request above limit: %+v", a)
			assert.False(t, w.Request > 0 && a.Request == 0, "request lost")
			if removed := r == recommender.CPU && readRule(seed).Remove && w.Limit > 0 && a.Limit == 0; removed {
				assert.False(t, guaranteed)
				assert.Positive(t, a.Request)
				continue
			}
			assert.Equal(t, w.Limit == 0, a.Limit == 0 || r == recommender.Memory && seed.MemoryLimit != nil && w.Limit == 0, "limit lost or made up")
			if s.rec.Spec.Seed.RaiseOnly || seed.RaiseOnly || r == recommender.Memory && !seed.AllowMemoryDecrease {
				assert.GreaterOrEqual(t, a.Request, w.Request)
				assert.True(t, a.Limit == 0 || a.Limit >= w.Limit)
			}
			if r == recommender.Memory && !s.pod.Spec.Overhead.Memory().IsZero() {
				assert.True(t, a.Limit == 0 || a.Limit >= w.Limit, "a sandbox keeps its memory limit")
			}
			if r == recommender.Memory && !guaranteed && seed.MemoryLimitFollows && amountAt(r, seed.MemoryLimit) > 0 {
				assert.GreaterOrEqual(t, a.Limit, w.Limit, "a limit that usage follows lowers none")
			}
			if r == recommender.CPU && len(s.ranges) == 0 && w.Request < w.Limit {
				assert.GreaterOrEqual(t, a.Limit, min(w.Limit, podview.FromPointer(r, seed.CPULimitFloor)), "usage keeps the CPU limit")
			}
			if guaranteed && r == recommender.CPU && w.Request%1000 == 0 {
				assert.Zero(t, a.Request%1000, "whole cores stay whole")
			}
		}
	}
}

// checkSizes: the changed sizes are neither too small to start with nor too large for a node, and leave memory-backed
// volumes their room.
func checkSizes(t *testing.T, s *scene, after *corev1.Pod) {
	t.Helper()
	least := recommender.Size{recommender.CPU: {Request: 2, Limit: 10}, recommender.Memory: {Request: 4 << 20, Limit: 16 << 20}}
	largest := podview.FromResources(s.rec.Spec.Seed.LargestPod)
	requested := [2][2]recommender.Amount{podview.Requests(s.pod), podview.Requests(after)}
	now := all(after)
	for r := range largest {
		most := largest[r].Request
		assert.True(t, most == 0 || requested[1][r] <= max(most, requested[0][r]), "%v requested, the largest node has %v", requested, most)
	}
	unbounded := len(s.pod.Spec.Volumes) > 0 && s.pod.Spec.Volumes[1].EmptyDir.SizeLimit == nil
	floors := map[string]recommender.Size{}
	for _, c := range s.rec.Spec.Seed.Containers {
		floors[c.Name] = podview.FromResources(v1alpha1.Resources{CPULimit: c.CPULimitFloor, MemoryLimit: c.MemoryLimitFloor})
	}
	for i, c := range all(s.pod) {
		was, is := podview.ReadSpec(c.Resources), podview.ReadSpec(now[i].Resources)
		for _, r := range recommender.Resources {
			w, a := was[r], is[r]
			// A request that is cut to a limit of the template, or of a LimitRange, may be less.
			assert.True(t, a.Request == w.Request || a.Request >= min(least[r].Request, max(w.Request, a.Limit, w.Limit)) || a.Request == a.Limit, "request %+v of %+v", a, w)
			assert.True(t, a.Limit == w.Limit || a.Limit >= least[r].Limit || r == recommender.CPU && a.Limit == 0, "limit %+v of %+v", a, w)
			// A limit is not above the node: that is the bound of limits, unless maxAllowed or a kill is (then a floor above
			// maxAllowed may be up to the node). A limit just above its request keeps the class.
			if most := largest[r].Limit; most > 0 {
				most = max(most, recommender.Brake(floors[c.Name][r].Limit, largest[r].Request))
				above := (w.Limit == 0 || w.Request != w.Limit) && a.Limit == r.Whole(a.Request+1)
				assert.True(t, a.Limit <= max(most, w.Limit, a.Request) || above, "limit %+v of %+v", a, w)
			}
		}
		if memory := recommender.Memory; unbounded && len(c.VolumeMounts) > 0 && was[memory].Limit > 0 {
			assert.GreaterOrEqual(t, is[memory].Limit, was[memory].Limit)
		}
	}
}

func checkClass(t *testing.T, before, after *corev1.Pod) {
	t.Helper()
	from, to := podview.QOSClass(before), podview.QOSClass(after)
	if from != corev1.PodQOSBestEffort {
		assert.Equal(t, from, to)
		return
	}
	assert.NotEqual(t, corev1.PodQOSGuaranteed, to)
	assert.Empty(t, helpers.PodLimits(after, helpers.PodResourcesOptions{ExcludeOverhead: true}))
}

// checkNamespace: an admissible pod stays admissible, and sizes above the template's fit.
func checkNamespace(t *testing.T, s *scene, after *corev1.Pod) {
	t.Helper()
	for _, lr := range s.ranges {
		for _, item := range lr.Spec.Limits {
			for _, r := range recommender.Resources {
				if admissible(item, r, s.pod) {
					assert.True(t, admissible(item, r, after), "%s %s", r, asJSON(t, item))
				}
				if _, defaulted := item.Default[podview.NameOf(r)]; defaulted {
					assert.Equal(t, limited(s.pod, r), limited(after, r), "LimitRanger sets its default again")
				}
			}
		}
	}
	for _, q := range s.quotas {
		for key, hard := range q.Spec.Hard {
			if key == corev1.ResourceLimitsCPU {
				assert.Equal(t, limited(s.pod, recommender.CPU), limited(after, recommender.CPU), "the quota rejects a container without the limit")
			}
			was, is := counted(s.pod, key), counted(after, key)
			if is.Cmp(was) <= 0 {
				continue
			}
			used, known := q.Status.Used[key]
			left := hard.DeepCopy()
			left.Sub(used)
			assert.True(t, known && is.Cmp(left) <= 0, "%s: %s of %s", key, is.String(), left.String())
		}
	}
}

// limited are the containers with a limit.
func limited(pod *corev1.Pod, r recommender.Resource) (names []string) {
	for _, c := range all(pod) {
		if podview.ReadSpec(c.Resources)[r].Limit > 0 {
			names = append(names, c.Name)
		}
	}
	return names
}

func counted(pod *corev1.Pod, key corev1.ResourceName) resource.Quantity {
	switch key {
	case "limits.cpu", "limits.memory":
		return helpers.PodLimits(pod, helpers.PodResourcesOptions{})[key[len("limits."):]]
	case "requests.cpu", "requests.memory":
		return helpers.PodRequests(pod, helpers.PodResourcesOptions{})[key[len("requests."):]]
	}
	return helpers.PodRequests(pod, helpers.PodResourcesOptions{})[key]
}

// admissible is LimitRanger's rule in another form: exact, on quantities.
func admissible(item corev1.LimitRangeItem, r recommender.Resource, pod *corev1.Pod) bool {
	if item.Type == corev1.LimitTypePod {
		options := helpers.PodResourcesOptions{ExcludeOverhead: true}
		return obeys(item, r, helpers.PodRequests(pod, options), helpers.PodLimits(pod, options))
	}
	for _, c := range all(pod) {
		if !obeys(item, r, c.Resources.Requests, c.Resources.Limits) {
			return false
		}
	}
	return true
}

func obeys(item corev1.LimitRangeItem, r recommender.Resource, requests, limits corev1.ResourceList) bool {
	name := podview.NameOf(r)
	request, limit := requests[name], limits[name]
	if least, ok := item.Min[name]; ok && (request.Cmp(least) < 0 || !limit.IsZero() && limit.Cmp(least) < 0) {
		return false
	}
	if most, ok := item.Max[name]; ok && (limit.IsZero() || limit.Cmp(most) > 0 || request.Cmp(most) > 0) {
		return false
	}
	ratio, ok := item.MaxLimitRequestRatio[name]
	return !ok || !request.IsZero() && !limit.IsZero() &&
		podview.AmountOf(r, limit)*1000 <= podview.AmountOf(r, request)*recommender.Amount(ratio.MilliValue())
}

// checkAnnotation: the annotation has exactly the originals of the changed containers. For boosted containers, which may
// have the same amount as before, it has the size after the boost, which is less than the present one.
func checkAnnotation(t *testing.T, before, after *corev1.Pod) {
	t.Helper()
	var seeded v1alpha1.Seeded
	if note := after.Annotations[v1alpha1.SeededAnnotation]; note != "" {
		require.NoError(t, json.Unmarshal([]byte(note), &seeded))
	}
	boosted := map[string]v1alpha1.BoostedContainer{}
	for _, b := range seeded.Boosted {
		boosted[b.Name] = b
	}
	want := map[string]recommender.Size{}
	now := all(after)
	for i, c := range all(before) {
		b, more := boosted[c.Name]
		if was := podview.ReadSpec(c.Resources); more || was != podview.ReadSpec(now[i].Resources) {
			want[c.Name] = was
		}
		if more {
			has := now[i].Resources.Requests[corev1.ResourceCPU]
			assert.Zero(t, has.Cmp(b.CPURequest), "it has what the note says")
			assert.Negative(t, b.BaseCPURequest.Cmp(has))
			assert.Equal(t, b.BaseCPULimit == nil, now[i].Resources.Limits.Cpu().IsZero())
		}
	}
	assert.Equal(t, len(seeded.Boosted), len(boosted))
	assert.Equal(t, want, originalsIn(t, after))
}

func originalsIn(t *testing.T, pod *corev1.Pod) map[string]recommender.Size {
	t.Helper()
	out := map[string]recommender.Size{}
	note := pod.Annotations[v1alpha1.SeededAnnotation]
	if note == "" {
		return out
	}
	var seeded v1alpha1.Seeded
	require.NoError(t, json.Unmarshal([]byte(note), &seeded))
	for _, o := range seeded.Original {
		out[o.Name] = podview.FromResources(o.Resources)
	}
	return out
}

// checkTampered: another webhook changes a container after us, or a user writes an annotation. In each case, one more
// call settles the pod, and it is still correct.
func checkTampered(t *testing.T, d dice, s *scene, after *corev1.Pod) {
	t.Helper()
	tampered := after.DeepCopy()
	tampered.Spec.Containers[0].Resources = d.requirements(2)
	if d.chance(30) {
		tampered.Annotations = map[string]string{v1alpha1.SeededAnnotation: d.forged(s)}
	}
	rec, ns := Read(s.rec), s.namespace()
	again := applied(t, tampered, SeedPod(view(t, tampered), rec, ns, now))
	assertStable(t, again, rec, ns)
	for _, c := range again.Spec.Containers {
		for _, a := range podview.ReadSpec(c.Resources) {
			assert.False(t, a.Limit > 0 && a.Request > a.Limit)
		}
	}
}

func (d dice) forged(s *scene) string {
	seeded := v1alpha1.Seeded{Recommendation: s.rec.Name, Revision: s.rec.Spec.Seed.Revision}
	for _, c := range s.pod.Spec.Containers {
		size := podview.ReadSpec(d.requirements(d.IntN(4)))
		seeded.Original = append(seeded.Original, v1alpha1.ContainerResources{Name: c.Name, Resources: podview.ToResources(size)})
	}
	raw, err := json.Marshal(seeded)
	if err != nil {
		panic(err)
	}
	return string(raw)
}
