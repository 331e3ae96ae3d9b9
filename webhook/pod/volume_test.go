package pod

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/recommender"
)

// shm is a memory-backed volume.
func shm(t *testing.T, sizeLimit string) corev1.VolumeSource {
	t.Helper()
	return corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumMemory, SizeLimit: amountOf(t, sizeLimit)}}
}

// mounting adds the volume v to the pod, and a mount to each of the named containers.
func mounting(pod *corev1.Pod, source corev1.VolumeSource, containers ...string) *corev1.Pod {
	pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: "config"}, corev1.Volume{Name: "v", VolumeSource: source})
	for _, list := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			for _, name := range containers {
				if list[i].Name == name {
					list[i].VolumeMounts = []corev1.VolumeMount{{Name: "config", MountPath: "/etc/web"}, {Name: "v", MountPath: "/dev/shm"}, {Name: "v", MountPath: "/tmp"}}
				}
			}
		}
	}
	return pod
}

// The kubelet sizes a memory-backed volume by the memory limits of the pod. A smaller limit makes the volume smaller.
func TestSeedKeepsLimitOfMemoryVolumes(t *testing.T) {
	const burstable, guaranteed = "cpu=1 memory=1Gi/4Gi", "cpu=1/1 memory=4Gi/4Gi"
	disk := corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}
	huge := corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumHugePages}}
	claim := corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{VolumeClaimTemplate: &corev1.PersistentVolumeClaimTemplate{}}}
	projected := corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{}}
	floor := func(s *v1alpha1.ContainerSeed) { s.MemoryLimitFloor = amountOf(t, "330Mi") }
	node := func(s *v1alpha1.ContainerSeed) { s.MemoryLimitFollows, s.MemoryLimit = false, amountOf(t, "400Mi") }
	for name, tc := range map[string]struct {
		has    string
		volume corev1.VolumeSource
		mounts string
		memory string
		edit   func(*v1alpha1.ContainerSeed)
		want   string
		held   bool
	}{
		"without a size limit":             {burstable, shm(t, ""), "app", "300Mi", floor, "cpu=1 memory=300Mi/4Gi", true},
		"larger than the new limit":        {burstable, shm(t, "2Gi"), "app", "300Mi", floor, "cpu=1 memory=300Mi/4Gi", true},
		"no room beside what it needs":     {burstable, shm(t, "900Mi"), "app", "300Mi", floor, "cpu=1 memory=300Mi/4Gi", true},
		"room beside what it needs":        {burstable, shm(t, "64Mi"), "app", "300Mi", floor, "cpu=1 memory=300Mi/1200Mi", false},
		"without a floor of the limit":     {burstable, shm(t, "950Mi"), "app", "300Mi", nil, "cpu=1 memory=300Mi/4Gi", true},
		"a size limit of 0 is none":        {burstable, shm(t, "0"), "app", "300Mi", nil, "cpu=1 memory=300Mi/4Gi", true},
		"Guaranteed: both stay":            {guaranteed, shm(t, ""), "app", "300Mi", nil, guaranteed, true},
		"strategy Node":                    {burstable, shm(t, ""), "app", "300Mi", node, "cpu=1 memory=300Mi/4Gi", true},
		"strategy Node adds no limit":      {"cpu=1 memory=1Gi", shm(t, ""), "app", "300Mi", node, "cpu=1 memory=300Mi", true},
		"a limit may be raised":            {burstable, shm(t, ""), "app", "3Gi", nil, "cpu=1 memory=3Gi/6Gi", false},
		"the neighbour mounts it":          {burstable, shm(t, ""), "other", "300Mi", nil, "cpu=1 memory=300Mi/1200Mi", false},
		"on disk":                          {burstable, disk, "app", "300Mi", nil, "cpu=1 memory=300Mi/1200Mi", false},
		"huge pages are no memory":         {burstable, huge, "app", "300Mi", nil, "cpu=1 memory=300Mi/1200Mi", false},
		"a generic ephemeral volume":       {burstable, claim, "app", "300Mi", nil, "cpu=1 memory=300Mi/1200Mi", false},
		"a token, which the kubelet sizes": {burstable, projected, "app", "300Mi", nil, "cpu=1 memory=300Mi/1200Mi", false},
	} {
		for _, native := range []bool{false, true} {
			t.Run(name+map[bool]string{true: ", in a native sidecar"}[native], func(t *testing.T) {
				seed := seedFor(t, "app", "", tc.memory)
				if tc.edit != nil {
					tc.edit(&seed)
				}
				// The second container makes no pod of one container Burstable.
				pod := podOf(container(t, "other", map[bool]string{true: guaranteed, false: "cpu=1"}[tc.has == guaranteed]))
				if native {
					pod.Spec.InitContainers = []corev1.Container{sidecar(t, "app", tc.has)}
				} else {
					pod.Spec.Containers = append([]corev1.Container{container(t, "app", tc.has)}, pod.Spec.Containers...)
				}
				pod = mounting(pod, tc.volume, tc.mounts)
				rec := Read(recommendation(seed))

				d := SeedPod(view(t, pod), rec, &Namespace{}, now)

				after := applied(t, pod, d)
				assert.Equal(t, tc.want, resources(after)[0])
				if tc.held {
					assert.Equal(t, []Blocked{{Container: "app", Resource: recommender.Memory, Reason: MemoryVolume}}, d.Blocked)
				} else {
					assert.Empty(t, d.Blocked)
				}
				assertStable(t, after, rec, &Namespace{})
			})
		}
	}
}

// A volume without a size limit below the sum of the pod's memory limits has that sum, whichever container mounts it.
// If one container has no limit, the volume has the size of the node.
func TestSeedKeepsLimitsThatSizeAVolume(t *testing.T) {
	const kept, lowered = "cpu=1 memory=300Mi/4Gi", "cpu=1 memory=300Mi/1200Mi"
	for name, tc := range map[string]struct {
		other  string
		volume corev1.VolumeSource
		want   string
	}{
		"without a size limit":          {"cpu=1 memory=1Gi/2Gi", shm(t, ""), kept},
		"larger than the pod's limits":  {"cpu=1 memory=1Gi/2Gi", shm(t, "8Gi"), kept},
		"as large as the pod's limits":  {"cpu=1 memory=1Gi/2Gi", shm(t, "6Gi"), kept},
		"smaller than the pod's limits": {"cpu=1 memory=1Gi/2Gi", shm(t, "1Gi"), lowered},
		"sized by the node":             {"cpu=1 memory=1Gi", shm(t, ""), lowered},
		"on disk":                       {"cpu=1 memory=1Gi/2Gi", corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}, lowered},
	} {
		for _, init := range []bool{false, true} {
			t.Run(name+map[bool]string{true: ", mounted by an init container"}[init], func(t *testing.T) {
				pod, other := podOf(container(t, "app", "cpu=1 memory=1Gi/4Gi")), container(t, "other", tc.other)
				if init {
					pod.Spec.InitContainers = []corev1.Container{other}
					pod.Spec.Containers = append(pod.Spec.Containers, container(t, "idle", "cpu=1 memory=1Gi/2Gi"))
				} else {
					pod.Spec.Containers = append(pod.Spec.Containers, other)
				}
				pod = mounting(pod, tc.volume, "other")
				rec := Read(recommendation(seedFor(t, "app", "", "300Mi")))

				d := SeedPod(view(t, pod), rec, &Namespace{}, now)

				after := applied(t, pod, d)
				assert.Equal(t, tc.want, resources(after)[len(pod.Spec.InitContainers)])
				assert.Equal(t, tc.want == kept, len(d.Blocked) == 1 && d.Blocked[0].Reason == MemoryVolume, "%v", d.Blocked)
				assertStable(t, after, rec, &Namespace{})
			})
		}
	}
}

// Seeds come from Initial (the target) and from Canary and Auto (a verified size; the template or another webhook has
// added a volume since). The received pod decides.
func TestSeedKeepsLimitOfVolumesInjectedLater(t *testing.T) {
	rec := Read(recommendation(seedFor(t, "app", "500m", "300Mi")))
	pod := podOf(container(t, "app", "cpu=1 memory=1Gi/4Gi"))
	first := applied(t, pod, SeedPod(view(t, pod), rec, &Namespace{}, now))
	require.Equal(t, []string{"cpu=500m memory=300Mi/1200Mi"}, resources(first))

	first = mounting(first, shm(t, ""), "app")
	d := SeedPod(view(t, first), rec, &Namespace{}, now)

	second := applied(t, first, d)
	assert.Equal(t, []string{"cpu=500m memory=300Mi/4Gi"}, resources(second))
	assert.Equal(t, recommender.Amount(4<<30), originalsIn(t, second)["app"][recommender.Memory].Limit, "the original is kept")
	assertStable(t, second, rec, &Namespace{})
}

// A mount that cannot be read keeps the limit: in case of doubt nothing is lowered.
func TestUnreadableMountsKeepTheLimit(t *testing.T) {
	p := view(t, mounting(podOf(container(t, "app", "cpu=1 memory=1Gi/4Gi")), shm(t, ""), "app"))
	p.Spec.Containers[0].VolumeMounts = []byte(`{"name":1}`)
	d := SeedPod(p, Read(recommendation(seedFor(t, "app", "", "300Mi"))), &Namespace{}, now)
	assert.Equal(t, MemoryVolume, d.Blocked[0].Reason)
}

// The prediction of the next pod covers its volumes too.
func TestPredictionWithMemoryVolumes(t *testing.T) {
	pod := mounting(podOf(container(t, "app", "cpu=1/1 memory=4Gi/4Gi")), shm(t, ""), "app")
	predicted, err := PredictSeed(&corev1.PodTemplateSpec{Spec: pod.Spec}, Read(recommendation(seedFor(t, "app", "500m", "300Mi"))), nil, now)
	require.NoError(t, err)
	assert.Equal(t, []Predicted{{Name: "app", Requests: [2]recommender.Amount{1000, 4 << 30}, Seeded: [2]bool{true, true}}}, predicted)
}
