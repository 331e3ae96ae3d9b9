package admission

import (
	"encoding/json"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/podview"
)

// now is when every scene plays.
var now = time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)

func (d dice) recommendation(pod *corev1.Pod) *v1alpha1.AttuneRecommendation {
	of := identity(pod)
	if d.chance(3) {
		of.Name = "another"
	}
	rec := &v1alpha1.AttuneRecommendation{
		ObjectMeta: metav1.ObjectMeta{Name: of.RecommendationName(), Namespace: of.Namespace},
		Spec:       v1alpha1.AttuneRecommendationSpec{Workload: v1alpha1.WorkloadRef{Kind: of.Kind, Name: of.Name}},
	}
	if d.chance(3) {
		rec.Spec.SeedBlocked = "paused"
		return rec
	}
	rec.Spec.Seed = &v1alpha1.Seed{
		Revision:   pick(d, "r1", "r1", "r1", "7 \"é\\\u2028<&>\x01"),
		ValidUntil: metav1.NewTime(now.Add(pick(d, time.Hour, time.Hour, 24*time.Hour, 1))),
		RaiseOnly:  d.chance(25),
	}
	if d.chance(3) {
		rec.Spec.Seed.ValidUntil = metav1.NewTime(now.Add(-pick(d, 0, time.Hour)))
	}
	if d.chance(2) {
		rec.Status.BadSeeds = []string{"r0", rec.Spec.Seed.Revision}
	}
	d.seeds(rec, pod)
	return rec
}

func (d dice) seeds(rec *v1alpha1.AttuneRecommendation, pod *corev1.Pod) {
	node := d.chance(25)
	for _, c := range containers(pod) {
		if d.chance(10) {
			continue
		}
		rec.Spec.Seed.Containers = append(rec.Spec.Seed.Containers, d.seed(c.Name, node))
		if d.chance(25) {
			d.remember(rec, c)
		}
	}
	if d.chance(10) {
		rec.Spec.Seed.Containers = append(rec.Spec.Seed.Containers, d.seed("gone", node))
	}
}

func (d dice) seed(container string, node bool) v1alpha1.ContainerSeed {
	seed := v1alpha1.ContainerSeed{
		Name:       container,
		CPURequest: d.maybe(corev1.ResourceCPU, 85), CPULimitFollows: d.chance(60),
		MemoryRequest: d.maybe(corev1.ResourceMemory, 85), MemoryLimitFollows: d.chance(60),
		MemoryLimitFloor: d.maybe(corev1.ResourceMemory, 25), AllowMemoryDecrease: d.chance(50),
	}
	if d.chance(25) {
		seed.CPUBoost = &v1alpha1.CPUBoost{Multiplier: pick[v1alpha1.Decimal](d, "1.1", "2", "3.7", "100", "0.5", "x"), Most: d.maybe(corev1.ResourceCPU, 50)}
	}
	if d.chance(40) {
		seed.CPULimitRule = &v1alpha1.CPULimitRule{Remove: true}
	} else if d.chance(40) {
		seed.CPULimitRule = &v1alpha1.CPULimitRule{
			RatioThousandths: pick(d, int64(0), 1000, 1500, 3000, -1), Min: d.maybe(corev1.ResourceCPU, 40), Max: d.maybe(corev1.ResourceCPU, 40),
		}
	}
	if node {
		seed.MemoryLimit = d.maybe(corev1.ResourceMemory, 80)
	}
	if d.chance(1) {
		seed.CPURequest, seed.MemoryLimit = new(resource.MustParse("-1")), new(resource.MustParse("-1Gi"))
	}
	return seed
}

// remember writes down what containers of the name were created with: this one's size, or another.
func (d dice) remember(rec *v1alpha1.AttuneRecommendation, c corev1.Container) {
	size := podview.ReadSpec(c.Resources)
	if d.chance(40) {
		size = podview.ReadSpec(d.requirements(complete))
	}
	rec.Status.Originals = append(rec.Status.Originals, v1alpha1.Originals{
		Containers: []v1alpha1.ContainerResources{{Name: c.Name, Resources: podview.ToResources(size)}},
	})
}

// annotate gives the pod annotations: none, strangers', a wish to be left alone, or a forged note of ours.
func (d dice) annotate(s *scene) {
	note := func(name, value string) { metav1.SetMetaDataAnnotation(&s.pod.ObjectMeta, name, value) }
	if d.chance(20) {
		note("example.com/team", "shop \"1\"")
	}
	if d.chance(4) {
		note(v1alpha1.SkipAnnotation, pick(d, "true", "true", "false", ""))
	}
	if d.chance(1) {
		note(corev1.MirrorPodAnnotationKey, "")
	}
	if d.chance(12) && s.rec.Spec.Seed != nil {
		note(v1alpha1.SeededAnnotation, d.forged(s))
	}
}

// forged is a note that nobody of ours wrote. Half of them are made to be believed: the containers have
// just what the seed says.
func (d dice) forged(s *scene) string {
	if d.chance(20) {
		return pick(d, "", "{", "[]", "null", `{"recommendation":3}`, `{"original":[{"name":"app0","cpuRequest":"-"}]}`)
	}
	seeded := v1alpha1.Seeded{Recommendation: s.rec.Name, Revision: s.rec.Spec.Seed.Revision}
	if d.chance(10) {
		seeded.Revision = "r0"
	}
	believed := d.chance(50)
	for _, list := range [][]corev1.Container{s.pod.Spec.InitContainers, s.pod.Spec.Containers} {
		for i := range list {
			original := v1alpha1.ContainerResources{Name: list[i].Name, Resources: d.resources(pick(d, shapes...))}
			seeded.Original = append(seeded.Original, original)
			if seed := seedOf(s.rec, list[i].Name); believed && seed != nil {
				match(&list[i].Resources, seed)
			}
		}
	}
	raw, err := json.Marshal(seeded)
	if err != nil {
		panic(err)
	}
	return string(raw)
}

func (d dice) resources(s shape) v1alpha1.Resources {
	list := d.requirements(s)
	at := func(list corev1.ResourceList, name corev1.ResourceName) *resource.Quantity {
		if q, ok := list[name]; ok {
			return &q
		}
		return nil
	}
	return v1alpha1.Resources{
		CPURequest: at(list.Requests, corev1.ResourceCPU), CPULimit: at(list.Limits, corev1.ResourceCPU),
		MemoryRequest: at(list.Requests, corev1.ResourceMemory), MemoryLimit: at(list.Limits, corev1.ResourceMemory),
	}
}

// match gives a container what the seed says, where it says anything.
func match(to *corev1.ResourceRequirements, seed *v1alpha1.ContainerSeed) {
	if seed.CPURequest != nil {
		put(&to.Requests, corev1.ResourceCPU, *seed.CPURequest)
		delete(to.Limits, corev1.ResourceCPU)
	}
	if seed.MemoryRequest != nil {
		put(&to.Requests, corev1.ResourceMemory, *seed.MemoryRequest)
		delete(to.Limits, corev1.ResourceMemory)
		if seed.MemoryLimit != nil {
			put(&to.Limits, corev1.ResourceMemory, *seed.MemoryLimit)
		}
	}
}

func seedOf(rec *v1alpha1.AttuneRecommendation, container string) *v1alpha1.ContainerSeed {
	for i := range rec.Spec.Seed.Containers {
		if rec.Spec.Seed.Containers[i].Name == container {
			return &rec.Spec.Seed.Containers[i]
		}
	}
	return nil
}

// containers are all of a pod's, init containers first.
func containers(pod *corev1.Pod) []corev1.Container {
	return append(append([]corev1.Container{}, pod.Spec.InitContainers...), pod.Spec.Containers...)
}
