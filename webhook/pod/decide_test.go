package pod

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/constraint"
	"attune.io/attune/podview"
)

func TestSeedPod(t *testing.T) {
	type change func(*testing.T, *v1alpha1.ContainerSeed)
	stays := func(_ *testing.T, s *v1alpha1.ContainerSeed) { s.CPULimitFollows, s.MemoryLimitFollows = false, false }
	keepsMemory := func(_ *testing.T, s *v1alpha1.ContainerSeed) { s.AllowMemoryDecrease = false }
	node := func(limit string) change {
		return func(t *testing.T, s *v1alpha1.ContainerSeed) {
			s.CPULimitFollows, s.MemoryLimitFollows, s.MemoryLimit = false, false, amountOf(t, limit)
		}
	}
	floor := func(amount string) change {
		return func(t *testing.T, s *v1alpha1.ContainerSeed) { s.MemoryLimitFloor = amountOf(t, amount) }
	}
	followed := func(t *testing.T, s *v1alpha1.ContainerSeed) {
		s.MemoryLimit, s.MemoryLimitFloor = amountOf(t, "890Mi"), amountOf(t, "886Mi")
	}

	cases := []struct {
		name        string
		has         string
		cpu, memory string
		change      change
		raiseOnly   bool
		want        string
		reason      Reason
	}{
		{name: "lowers both, limits keep their ratio",
			has: "cpu=1/2 memory=1Gi/2Gi", cpu: "250m", memory: "256Mi",
			want: "cpu=250m/500m memory=256Mi/512Mi", reason: Seeded},
		{name: "raises both",
			has: "cpu=100m/200m memory=64Mi/64Mi", cpu: "300m", memory: "128Mi",
			want: "cpu=300m/600m memory=128Mi/128Mi", reason: Seeded},
		{name: "no limit, none given",
			has: "cpu=1 memory=1Gi", cpu: "250m", memory: "256Mi",
			want: "cpu=250m memory=256Mi", reason: Seeded},
		{name: "a resource without a seed stays",
			has: "cpu=1/2 memory=1Gi/2Gi", cpu: "250m",
			want: "cpu=250m/500m memory=1Gi/2Gi", reason: Seeded},
		{name: "has the seed by itself",
			has: "cpu=250m memory=256Mi", cpu: "250m", memory: "256Mi",
			want: "cpu=250m memory=256Mi", reason: AsSeeded},
		{name: "a missing request is added",
			has: "cpu=1", cpu: "500m", memory: "128Mi",
			want: "cpu=500m memory=128Mi", reason: Seeded},
		{name: "best effort becomes burstable, with requests only",
			has: "", cpu: "100m", memory: "128Mi", change: node("256Mi"),
			want: "cpu=100m memory=128Mi", reason: Seeded},

		{name: "raise only: never lowered",
			has: "cpu=1/2 memory=1Gi/2Gi", cpu: "250m", memory: "256Mi", raiseOnly: true,
			want: "cpu=1/2 memory=1Gi/2Gi", reason: AsSeeded},
		{name: "the limit ends at twice the template's",
			has: "cpu=1/2 memory=512Mi/1Gi", cpu: "250m", memory: "1200Mi",
			want: "cpu=250m/500m memory=1200Mi/2Gi", reason: Seeded},
		{name: "a limit of eight times its request ends at twice the request",
			has: "cpu=1/2 memory=128Mi/1Gi", cpu: "250m", memory: "600Mi",
			want: "cpu=250m/500m memory=600Mi/1200Mi", reason: Seeded},
		{name: "such a limit stays above twice the request",
			has: "cpu=1/2 memory=128Mi/1Gi", cpu: "250m", memory: "200Mi",
			want: "cpu=250m/500m memory=200Mi/1Gi", reason: Seeded},
		{name: "the limit ends at its floor, which a kill taught",
			has: "cpu=1/2 memory=128Mi/1Gi", cpu: "250m", memory: "600Mi", change: floor("3Gi"),
			want: "cpu=250m/500m memory=600Mi/3Gi", reason: Seeded},
		{name: "raise only: by resource",
			has: "cpu=1/2 memory=64Mi/128Mi", cpu: "250m", memory: "256Mi", raiseOnly: true,
			want: "cpu=1/2 memory=256Mi/256Mi", reason: Seeded},
		{name: "raise only: an explicit limit does not lower one",
			has: "cpu=1 memory=64Mi/1Gi", memory: "128Mi", change: node("256Mi"), raiseOnly: true,
			want: "cpu=1 memory=128Mi/1Gi", reason: Seeded},
		{name: "memory is not lowered without leave",
			has: "cpu=1/2 memory=1Gi/2Gi", cpu: "250m", memory: "256Mi", change: keepsMemory,
			want: "cpu=250m/500m memory=1Gi/2Gi", reason: Seeded},
		{name: "memory is raised without leave",
			has: "cpu=1/2 memory=1Gi/2Gi", cpu: "250m", memory: "2Gi", change: keepsMemory,
			want: "cpu=250m/500m memory=2Gi/4Gi", reason: Seeded},

		{name: "limits that stay hold requests down",
			has: "cpu=100m/200m memory=64Mi/1Gi", cpu: "300m", memory: "128Mi", change: stays,
			want: "cpu=200m/200m memory=128Mi/1Gi", reason: Seeded},
		{name: "requests that would meet both limits would make the pod guaranteed: CPU stays below",
			has: "cpu=100m/200m memory=64Mi/128Mi", cpu: "300m", memory: "256Mi", change: stays,
			want: "cpu=199m/200m memory=128Mi/128Mi", reason: Seeded},
		{name: "CPU at its limit is not lowered for it: memory stays below",
			has: "cpu=200m/200m memory=64Mi/128Mi", cpu: "300m", memory: "256Mi", change: stays,
			want: "cpu=200m/200m memory=134217727/128Mi", reason: Seeded},
		{name: "a CPU request of less than the least: memory stays below",
			has: "cpu=1m/2m memory=64Mi/128Mi", cpu: "300m", memory: "256Mi", change: stays,
			want: "cpu=1m/2m memory=128Mi/128Mi", reason: Seeded},
		{name: "no request can stay below its limit",
			has: "cpu=200m/200m memory=2Mi/4Mi", cpu: "300m", memory: "256Mi", change: stays,
			want: "cpu=200m/200m memory=2Mi/4Mi", reason: QoSClass},
		{name: "a memory limit is not below its floor",
			has: "cpu=1/2 memory=1Gi/1Gi", memory: "256Mi", change: floor("300Mi"),
			want: "cpu=1/2 memory=256Mi/300Mi", reason: Seeded},

		{name: "a limit that usage follows is the limit, without the ratio",
			has: "cpu=1 memory=480Mi/512Mi", memory: "888Mi", change: followed,
			want: "cpu=1 memory=888Mi/890Mi", reason: Seeded},
		{name: "such a limit lowers none that the template raised",
			has: "cpu=1 memory=480Mi/2Gi", memory: "600Mi", change: followed,
			want: "cpu=1 memory=600Mi/2Gi", reason: Seeded},
		{name: "such a limit is added to no template that dropped its own",
			has: "cpu=1 memory=480Mi", memory: "600Mi", change: followed,
			want: "cpu=1 memory=600Mi", reason: Seeded},
		{name: "such a limit leaves a CPU limit that stays",
			has: "cpu=500m/500m memory=888Mi/888Mi", cpu: "250m", memory: "888Mi",
			change: func(t *testing.T, s *v1alpha1.ContainerSeed) { followed(t, s); s.CPULimitFollows = false },
			want:   "cpu=500m/500m memory=888Mi/888Mi", reason: FixedLimit},

		{name: "node strategy: memory limit as given, CPU limit stays",
			has: "cpu=100m/2 memory=64Mi/128Mi", cpu: "300m", memory: "100Mi", change: node("200Mi"),
			want: "cpu=300m/2 memory=100Mi/200Mi", reason: Seeded},
		{name: "node strategy: a memory limit where there was none",
			has: "cpu=100m memory=64Mi", cpu: "300m", memory: "100Mi", change: node("200Mi"),
			want: "cpu=300m memory=100Mi/200Mi", reason: Seeded},
		{name: "node strategy: the given limit is not below the floor either",
			has: "cpu=100m memory=64Mi", memory: "100Mi",
			change: func(t *testing.T, s *v1alpha1.ContainerSeed) { node("200Mi")(t, s); floor("300Mi")(t, s) },
			want:   "cpu=100m memory=100Mi/300Mi", reason: Seeded},
		{name: "a seed beyond any machine is none",
			has: "cpu=100m memory=64Mi", cpu: "2P", memory: "2Pi",
			want: "cpu=100m memory=64Mi", reason: AsSeeded},
		{name: "node strategy: guaranteed stays guaranteed at the peak",
			has: "cpu=100m/100m memory=64Mi/64Mi", cpu: "300m", memory: "100Mi", change: node("200Mi"),
			want: "cpu=300m/300m memory=100Mi/100Mi", reason: Seeded},

		{name: "guaranteed: request and limit move together",
			has: "cpu=500m/500m memory=1Gi/1Gi", cpu: "250m", memory: "256Mi",
			want: "cpu=250m/250m memory=256Mi/256Mi", reason: Seeded},
		{name: "guaranteed: whole cores stay whole",
			has: "cpu=4/4 memory=1Gi/1Gi", cpu: "2100m", memory: "256Mi",
			want: "cpu=3/3 memory=256Mi/256Mi", reason: Seeded},
		{name: "guaranteed: the floor of the limit holds for both",
			has: "cpu=4/4 memory=1Gi/1Gi", memory: "256Mi", change: floor("300Mi"),
			want: "cpu=4/4 memory=300Mi/300Mi", reason: Seeded},
		{name: "an OOM kill where memory is held: the limit alone is raised",
			has: "cpu=1 memory=256Mi/1Gi", cpu: "250m", change: floor("1332Mi"),
			want: "cpu=250m memory=256Mi/1332Mi", reason: Seeded},
		{name: "an OOM kill where all is held: the limit alone is raised",
			has: "cpu=1 memory=256Mi/1Gi", change: floor("1332Mi"),
			want: "cpu=1 memory=256Mi/1332Mi", reason: Seeded},
		{name: "an OOM kill where memory is held: a higher limit stays",
			has: "cpu=1 memory=256Mi/2Gi", change: floor("1332Mi"),
			want: "cpu=1 memory=256Mi/2Gi", reason: AsSeeded},
		{name: "an OOM kill where memory is held: a limit that the policy leaves alone stays",
			has: "cpu=1 memory=256Mi/1Gi", change: func(t *testing.T, s *v1alpha1.ContainerSeed) { stays(t, s); floor("1332Mi")(t, s) },
			want: "cpu=1 memory=256Mi/1Gi", reason: AsSeeded},
		{name: "an OOM kill where memory is held: no limit is added",
			has: "cpu=1 memory=256Mi", change: floor("1332Mi"),
			want: "cpu=1 memory=256Mi", reason: AsSeeded},
		{name: "an OOM kill where memory is held: guaranteed stays guaranteed",
			has: "cpu=1/1 memory=1Gi/1Gi", change: floor("1332Mi"),
			want: "cpu=1/1 memory=1332Mi/1332Mi", reason: Seeded},
		{name: "guaranteed: a limit that stays keeps the request",
			has: "cpu=500m/500m memory=1Gi/1Gi", cpu: "250m", memory: "256Mi", change: stays,
			want: "cpu=500m/500m memory=1Gi/1Gi", reason: FixedLimit},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			s := seedFor(t, "app", c.cpu, c.memory)
			if c.change != nil {
				c.change(t, &s)
			}
			rec := recommendation(s)
			rec.Spec.Seed.RaiseOnly = c.raiseOnly
			pod := podOf(container(t, "app", c.has))

			d := SeedPod(view(t, pod), Read(rec), &Namespace{}, now)

			after := applied(t, pod, d)
			assert.Equal(t, []string{c.want}, resources(after))
			assert.Equal(t, c.reason, d.Reason)
			assert.Equal(t, c.reason != Seeded, d.Patch == nil)
			assertStable(t, after, Read(rec), &Namespace{})
		})
	}
}

// Under the strategy Node a Guaranteed pod gets the known peaks, even if the seed has only one of them: an HPA controls
// the other, or it was not measured.
func TestAGuaranteedPodIsGivenThePeaksThatAreKnown(t *testing.T) {
	for _, tc := range []struct{ cpu, memory, want string }{
		{"300m", "", "cpu=300m/300m memory=64Mi/64Mi"},
		{"", "100Mi", "cpu=100m/100m memory=100Mi/100Mi"},
	} {
		s := seedFor(t, "app", tc.cpu, tc.memory)
		s.CPULimitFollows, s.MemoryLimitFollows = false, false
		if tc.memory != "" {
			s.MemoryLimit = amountOf(t, "120Mi")
		}
		rec := recommendation(s)
		rec.Spec.Strategy = v1alpha1.StrategyNode
		pod := podOf(container(t, "app", "cpu=100m/100m memory=64Mi/64Mi"))

		d := SeedPod(view(t, pod), Read(rec), &Namespace{}, now)

		after := applied(t, pod, d)
		assert.Equal(t, []string{tc.want}, resources(after))
		assert.Equal(t, Seeded, d.Reason)
		assertStable(t, after, Read(rec), &Namespace{})
	}
}

// A container with a verified size may be lowered; a container with only a target is not, whatever the others have.
func TestAContainerIsRaisedOnlyByItself(t *testing.T) {
	kept, untried := seedFor(t, "app", "250m", "256Mi"), seedFor(t, "side", "250m", "2Gi")
	untried.RaiseOnly = true
	pod := podOf(container(t, "app", "cpu=1/2 memory=1Gi/2Gi"), container(t, "side", "cpu=1/2 memory=1Gi/2Gi"))

	d := SeedPod(view(t, pod), Read(recommendation(kept, untried)), &Namespace{}, now)

	after := applied(t, pod, d)
	assert.Equal(t, []string{"cpu=250m/500m memory=256Mi/512Mi", "cpu=1/2 memory=2Gi/4Gi"}, resources(after))
	assertStable(t, after, Read(recommendation(kept, untried)), &Namespace{})
}

// New pods of a template generation whose new pods crashed are raised and never lowered, in the containers that were
// lowered.
func TestSeedDoesNotLowerGenerationWithFailedStarts(t *testing.T) {
	pod := podOf(container(t, "app", "cpu=1/2 memory=128Mi/256Mi"), container(t, "side", "cpu=1/2 memory=1Gi/2Gi"))
	rec := recommendation(seedFor(t, "app", "250m", "256Mi"), seedFor(t, "side", "250m", "256Mi"))
	lowered := []string{"cpu=250m/500m memory=256Mi/512Mi", "cpu=250m/500m memory=256Mi/512Mi"}
	for hash, want := range map[string][]string{
		"7c9d8b6f5": {"cpu=1/2 memory=256Mi/512Mi", "cpu=250m/500m memory=256Mi/512Mi"},
		"another":   lowered,
	} {
		rec.Status.FailedStarts = []v1alpha1.FailedStart{{Name: "app", TemplateHash: hash}}
		after := applied(t, pod, SeedPod(view(t, pod), Read(rec), &Namespace{}, now))
		assert.Equal(t, want, resources(after), hash)
		assertStable(t, after, Read(rec), &Namespace{})
	}
}

// assertStable: a second call, as after another webhook's change, changes nothing.
func assertStable(t *testing.T, after *corev1.Pod, rec *Recommendation, ns *Namespace) {
	t.Helper()
	again := SeedPod(view(t, after), rec, ns, now)
	assert.Empty(t, string(again.Patch))
}

// withdrawn is a recommendation with a seed whose pods were rejected or did not start.
func withdrawn(t *testing.T, w v1alpha1.AdmissionWithdrawn) *Recommendation {
	t.Helper()
	rec := recommendation(seedFor(t, "app", "250m", "256Mi"))
	rec.Status.AdmissionWithdrawn = &w
	return Read(rec)
}

// After its time, a withdrawal permits one trial pod.
func TestAWithdrawalEnds(t *testing.T) {
	rec := withdrawn(t, v1alpha1.AdmissionWithdrawn{Until: metav1.NewTime(now)})
	assert.Equal(t, Seeded, SeedPod(view(t, podOf(container(t, "app", "cpu=1/2 memory=1Gi/2Gi"))), rec, &Namespace{}, now).Reason)
}

func TestLeavesPodsAlone(t *testing.T) {
	good := func(t *testing.T) *Recommendation { return Read(recommendation(seedFor(t, "app", "250m", "256Mi"))) }
	cases := []struct {
		name   string
		change func(*corev1.Pod)
		rec    func(*testing.T) *Recommendation
		now    time.Time
		reason Reason
	}{
		{name: "nothing is known", rec: func(*testing.T) *Recommendation { return nil }, reason: NoRecommendation},
		{name: "no seed", rec: func(*testing.T) *Recommendation {
			rec := recommendation()
			rec.Spec.Seed = nil
			return Read(rec)
		}, reason: NoSeed},
		{name: "a seed that harmed", rec: func(t *testing.T) *Recommendation {
			rec := recommendation(seedFor(t, "app", "250m", "256Mi"))
			rec.Status.BadSeeds = []string{"r0", "r1"}
			return Read(rec)
		}, reason: NoSeed},
		{name: "withdrawn", rec: func(t *testing.T) *Recommendation {
			return withdrawn(t, v1alpha1.AdmissionWithdrawn{Until: metav1.NewTime(now.Add(time.Second))})
		}, reason: Withdrawn},
		{name: "withdrawn, and another pod is tried", rec: func(t *testing.T) *Recommendation {
			return withdrawn(t, v1alpha1.AdmissionWithdrawn{Until: metav1.NewTime(now), TrialPod: "web-1"})
		}, reason: Withdrawn},
		{name: "rejected without as well", rec: func(t *testing.T) *Recommendation {
			return withdrawn(t, v1alpha1.AdmissionWithdrawn{Until: metav1.NewTime(now), RejectedWithout: true})
		}, reason: Withdrawn},
		{name: "expired, at the second", now: now.Add(time.Hour), reason: SeedExpired},
		{name: "of another container", rec: func(t *testing.T) *Recommendation {
			return Read(recommendation(seedFor(t, "other", "250m", "256Mi")))
		}, reason: AsSeeded},
		{name: "opted out", change: func(p *corev1.Pod) {
			p.Annotations = map[string]string{v1alpha1.SkipAnnotation: "true"}
		}, reason: Skipped},
		{name: "mirror", change: func(p *corev1.Pod) {
			p.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "x"}
		}, reason: MirrorPod},
		{name: "windows, by the node selector", change: func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{corev1.LabelOSStable: "windows"} }, reason: Windows},
		{name: "windows", change: func(p *corev1.Pod) { p.Spec.OS = &corev1.PodOS{Name: corev1.Windows} }, reason: Windows},
		{name: "pod level", change: func(p *corev1.Pod) {
			p.Spec.Resources = &corev1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": resource.MustParse("1")}}
		}, reason: PodLevelResources},
		{name: "absurd", change: func(p *corev1.Pod) {
			p.Spec.Containers[0].Resources.Requests["memory"] = resource.MustParse("1Ei")
		}, reason: Unreadable},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			pod := podOf(container(t, "app", "cpu=1/2 memory=1Gi/2Gi"))
			if c.change != nil {
				c.change(pod)
			}
			if c.rec == nil {
				c.rec = good
			}
			if c.now.IsZero() {
				c.now = now
			}
			d := SeedPod(view(t, pod), c.rec(t), &Namespace{}, c.now)
			assert.Equal(t, c.reason, d.Reason)
			assert.Nil(t, d.Patch)
		})
	}
	t.Run("linux is not windows, skip must be true", func(t *testing.T) {
		pod := podOf(container(t, "app", "cpu=1/2 memory=1Gi/2Gi"))
		pod.Spec.OS = &corev1.PodOS{Name: corev1.Linux}
		pod.Annotations = map[string]string{v1alpha1.SkipAnnotation: "false"}
		assert.Equal(t, Seeded, SeedPod(view(t, pod), good(t), &Namespace{}, now.Add(59*time.Minute)).Reason)
	})
}

// A user has just raised a request in the template; the pods of the new generation are created before any loop has
// read it.
func TestAChangedTemplateIsNotUndercut(t *testing.T) {
	rec := recommendation(seedFor(t, "app", "250m", "256Mi"))
	generation := func(hash, container string, original v1alpha1.Resources) v1alpha1.Originals {
		return v1alpha1.Originals{TemplateHash: hash, Containers: []v1alpha1.ContainerResources{{Name: container, Resources: original}}}
	}
	rec.Status.Originals = []v1alpha1.Originals{
		generation("a", "app", v1alpha1.Resources{CPURequest: amountOf(t, "1"), MemoryRequest: amountOf(t, "1Gi")}),
		generation("b", "app", v1alpha1.Resources{CPURequest: amountOf(t, "2"), MemoryRequest: amountOf(t, "1Gi")}),
		generation("c", "mesh", v1alpha1.Resources{CPURequest: amountOf(t, "3"), MemoryRequest: amountOf(t, "3Gi")}),
	}
	cases := []struct {
		name, has, want string
		reason          Reason
	}{
		{"the first generation", "cpu=1 memory=1Gi", "cpu=250m memory=256Mi", Seeded},
		{"the second", "cpu=2 memory=1Gi", "cpu=250m memory=256Mi", Seeded},
		{"more CPU than ever: CPU stays", "cpu=3 memory=1Gi", "cpu=3 memory=256Mi", Seeded},
		{"more of both", "cpu=3 memory=3Gi", "cpu=3 memory=3Gi", TemplateChanged},
		{"less than the seed: raised", "cpu=100m memory=64Mi", "cpu=250m memory=256Mi", Seeded},
		{"no request: given one", "memory=1Gi", "cpu=250m memory=256Mi", Seeded},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			pod := podOf(container(t, "app", c.has))
			d := SeedPod(view(t, pod), Read(rec), &Namespace{}, now)
			after := applied(t, pod, d)
			assert.Equal(t, []string{c.want}, resources(after))
			assert.Equal(t, c.reason, d.Reason)
			assertStable(t, after, Read(rec), &Namespace{})
		})
	}
}

func TestSeveralContainers(t *testing.T) {
	pod := podOf(
		container(t, "app", "cpu=1 memory=1Gi"),
		container(t, "held", "cpu=1 memory=1Gi"),
		container(t, "bare", ""),
	)
	pod.Spec.InitContainers = []corev1.Container{
		container(t, "setup", "cpu=2 memory=2Gi"),
		sidecar(t, "mesh", "cpu=200m memory=128Mi"),
	}
	rec := Read(recommendation(
		seedFor(t, "app", "250m", "256Mi"),
		seedFor(t, "bare", "50m", "32Mi"),
		seedFor(t, "setup", "10m", "16Mi"),
		seedFor(t, "mesh", "100m", "64Mi"),
	))

	d := SeedPod(view(t, pod), rec, &Namespace{}, now)

	after := applied(t, pod, d)
	assert.Equal(t, []string{
		"cpu=2 memory=2Gi", // an init container that ends is not sized
		"cpu=100m memory=64Mi",
		"cpu=250m memory=256Mi",
		"cpu=1 memory=1Gi",
		"cpu=50m memory=32Mi",
	}, resources(after))
	assertStable(t, after, rec, &Namespace{})

	var seeded v1alpha1.Seeded
	require.NoError(t, json.Unmarshal([]byte(after.Annotations[v1alpha1.SeededAnnotation]), &seeded))
	assert.Equal(t, "deployment-web", seeded.Recommendation)
	assert.Equal(t, "r1", seeded.Revision)
	require.Len(t, seeded.Original, 3)
	assert.Equal(t, "mesh", seeded.Original[0].Name)
	assert.Equal(t, "app", seeded.Original[1].Name)
	assert.Equal(t, "1Gi", seeded.Original[1].MemoryRequest.String())
	assert.Nil(t, seeded.Original[1].MemoryLimit)
	assert.Equal(t, v1alpha1.ContainerResources{Name: "bare"}, seeded.Original[2])
}

func TestPatchIsMinimal(t *testing.T) {
	rec := Read(recommendation(seedFor(t, "app", "250m", "256Mi")))
	note := `"value":"{\"recommendation\":\"deployment-web\",\"revision\":\"r1\",\"original\":[{\"name\":\"app\"`
	cases := []struct {
		name, has   string
		annotations map[string]string
		want        string
	}{
		{name: "one amount", has: "cpu=1 memory=256Mi", annotations: map[string]string{"a": "b"},
			want: `[{"op":"add","path":"/spec/containers/0/resources/requests/cpu","value":"250m"},` +
				`{"op":"add","path":"/metadata/annotations/attune.io~1seeded",` + note + `,\"cpuRequest\":\"1\",\"memoryRequest\":\"256Mi\"}]}"}]`},
		{name: "no list, no annotations", has: "",
			want: `[{"op":"add","path":"/spec/containers/0/resources/requests","value":{"cpu":"250m"}},` +
				`{"op":"add","path":"/spec/containers/0/resources/requests/memory","value":"256Mi"},` +
				`{"op":"add","path":"/metadata/annotations","value":{"attune.io/seeded":` + note[8:] + `}]}"}}]`},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			pod := podOf(container(t, "app", c.has))
			pod.Annotations = c.annotations
			assert.Equal(t, c.want, string(SeedPod(view(t, pod), rec, &Namespace{}, now).Patch))
		})
	}
	t.Run("no resources at all", func(t *testing.T) {
		p := &Pod{Spec: Spec{Containers: []Container{{Name: "app"}}}}
		d := SeedPod(p, rec, &Namespace{}, now)
		assert.Contains(t, string(d.Patch), `[{"op":"add","path":"/spec/containers/0/resources","value":{}},`+
			`{"op":"add","path":"/spec/containers/0/resources/requests","value":{"cpu":"250m"}},`)
	})
	t.Run("other resources stay", func(t *testing.T) {
		pod := podOf(container(t, "app", "cpu=1/2 memory=1Gi/2Gi ephemeral-storage=1Gi/2Gi example.com/gpu=1/1"))
		after := applied(t, pod, SeedPod(view(t, pod), rec, &Namespace{}, now))
		left := after.Spec.Containers[0].Resources
		assert.Equal(t, "cpu=250m/500m memory=256Mi/512Mi", text(left))
		assert.Equal(t, pod.Spec.Containers[0].Resources.Requests["example.com/gpu"], left.Requests["example.com/gpu"])
		assert.Equal(t, pod.Spec.Containers[0].Resources.Limits["ephemeral-storage"], left.Limits["ephemeral-storage"])
	})
}

func TestAnnotationIsAHint(t *testing.T) {
	rec := Read(recommendation(seedFor(t, "app", "250m", "256Mi")))
	honest := func(t *testing.T, original string) string {
		pod := podOf(container(t, "app", original))
		return applied(t, pod, SeedPod(view(t, pod), rec, &Namespace{}, now)).Annotations[v1alpha1.SeededAnnotation]
	}
	cases := []struct {
		name, has, annotation, want string
		changed                     bool
	}{
		{name: "ours: believed", has: "cpu=250m memory=256Mi", annotation: honest(t, "cpu=1 memory=1Gi"), want: "cpu=1 memory=1Gi"},
		{name: "does not match what the container has", has: "cpu=2 memory=2Gi", annotation: honest(t, "cpu=1 memory=1Gi"),
			want: "cpu=2 memory=2Gi", changed: true},
		{name: "matches one resource", has: "cpu=250m memory=2Gi", annotation: honest(t, "cpu=1 memory=1Gi"),
			want: "cpu=1 memory=2Gi", changed: true},
		{name: "limits that the seed would not make", has: "cpu=250m/1 memory=256Mi", annotation: honest(t, "cpu=1 memory=1Gi"),
			want: "cpu=250m memory=1Gi", changed: true},
		{name: "another revision", has: "cpu=2 memory=2Gi", changed: true, want: "cpu=2 memory=2Gi",
			annotation: `{"recommendation":"deployment-web","revision":"r0","original":[{"name":"app","cpuRequest":"9"}]}`},
		{name: "another recommendation", has: "cpu=2 memory=2Gi", changed: true, want: "cpu=2 memory=2Gi",
			annotation: `{"recommendation":"deployment-other","revision":"r1","original":[{"name":"app","cpuRequest":"9"}]}`},
		{name: "another revision, though the values are this one's", has: "cpu=250m memory=256Mi", changed: true,
			annotation: `{"recommendation":"deployment-web","revision":"r0","original":[{"name":"app","cpuRequest":"9"}]}`},
		{name: "another recommendation, though the values are this one's", has: "cpu=250m memory=256Mi", changed: true,
			annotation: `{"recommendation":"deployment-other","revision":"r1","original":[{"name":"app","cpuRequest":"9"}]}`},
		{name: "a quantity that takes very long to read", has: "cpu=2 memory=2Gi", changed: true, want: "cpu=2 memory=2Gi",
			annotation: `{"recommendation":"deployment-web","revision":"r1","original":[{"name":"app","cpuRequest":"1e-2147483647"}]}`},
		{name: "not JSON", has: "cpu=2 memory=2Gi", annotation: `}{`, want: "cpu=2 memory=2Gi", changed: true},
		{name: "absurd", has: "cpu=2 memory=2Gi", changed: true, want: "cpu=2 memory=2Gi",
			annotation: `{"recommendation":"deployment-web","revision":"r1","original":[{"name":"app","cpuRequest":"-9","memoryRequest":"1E"}]}`},
		{name: "forged on a pod that needs no seed: taken away", has: "cpu=250m memory=256Mi", annotation: `{}`, changed: true},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			pod := podOf(container(t, "app", c.has))
			pod.Annotations = map[string]string{v1alpha1.SeededAnnotation: c.annotation}
			d := SeedPod(view(t, pod), rec, &Namespace{}, now)
			assert.Equal(t, c.changed, d.Patch != nil, string(d.Patch))

			after := applied(t, pod, d)
			assert.Equal(t, int64(250), after.Spec.Containers[0].Resources.Requests.Cpu().MilliValue())
			assert.Equal(t, int64(256<<20), after.Spec.Containers[0].Resources.Requests.Memory().Value())
			assert.Equal(t, c.want, originalOf(t, after))
			if c.want == "" {
				assert.NotContains(t, after.Annotations, v1alpha1.SeededAnnotation)
			}
			assertStable(t, after, rec, &Namespace{})
		})
	}
}

// originalOf is the original of the first container in the annotation, as requests; empty without one.
func originalOf(t *testing.T, pod *corev1.Pod) string {
	t.Helper()
	note := pod.Annotations[v1alpha1.SeededAnnotation]
	if note == "" {
		return ""
	}
	var seeded v1alpha1.Seeded
	require.NoError(t, json.Unmarshal([]byte(note), &seeded))
	require.Len(t, seeded.Original, 1)
	list := corev1.ResourceList{}
	if q := seeded.Original[0].CPURequest; q != nil {
		list["cpu"] = *q
	}
	if q := seeded.Original[0].MemoryRequest; q != nil {
		list["memory"] = *q
	}
	return text(corev1.ResourceRequirements{Requests: list})
}

func TestReinvocationWithAnInjectedContainer(t *testing.T) {
	rec := Read(recommendation(seedFor(t, "app", "250m", "256Mi"), seedFor(t, "mesh", "50m", "64Mi")))
	pod := podOf(container(t, "app", "cpu=1/2 memory=1Gi/2Gi"))
	first := applied(t, pod, SeedPod(view(t, pod), rec, &Namespace{}, now))
	first.Spec.Containers = append(first.Spec.Containers, container(t, "mesh", "cpu=100m/2 memory=128Mi/1Gi"))

	d := SeedPod(view(t, first), rec, &Namespace{}, now)

	second := applied(t, first, d)
	assert.Equal(t, []string{"cpu=250m/500m memory=256Mi/512Mi", "cpu=50m/1 memory=64Mi/512Mi"}, resources(second))
	var seeded v1alpha1.Seeded
	require.NoError(t, json.Unmarshal([]byte(second.Annotations[v1alpha1.SeededAnnotation]), &seeded))
	require.Len(t, seeded.Original, 2)
	assert.Equal(t, "1", seeded.Original[0].CPURequest.String(), "the first call's original is kept")
	assert.Equal(t, "100m", seeded.Original[1].CPURequest.String())
	assertStable(t, second, rec, &Namespace{})
}

// The quota may fill between two calls: the second call does not change the result of the first.
func TestReinvocationUnderAQuotaThatFilled(t *testing.T) {
	rec := Read(recommendation(seedFor(t, "app", "2", "256Mi")))
	roomy := &Namespace{Quotas: []constraint.QuotaLeft{constraint.QuotaLeftOf(quota("requests.cpu", "10", "1"))}}
	full := &Namespace{Quotas: []constraint.QuotaLeft{constraint.QuotaLeftOf(quota("requests.cpu", "10", "9"))}}
	pod := podOf(container(t, "app", "memory=1Gi"))
	first := applied(t, pod, SeedPod(view(t, pod), rec, roomy, now))
	require.Equal(t, []string{"cpu=2 memory=256Mi"}, resources(first))
	require.Equal(t, "memory=1Gi", originalOf(t, first))

	assertStable(t, first, rec, full)
}

// Whatever a forged annotation claims about a pod, the pod keeps at least the resources that it was created with.
func TestForgedAnnotations(t *testing.T) {
	tight := &corev1.LimitRange{Spec: corev1.LimitRangeSpec{Limits: []corev1.LimitRangeItem{{
		Type: corev1.LimitTypePod, MaxLimitRequestRatio: corev1.ResourceList{"memory": resource.MustParse("1500m")},
	}}}}
	cases := []struct {
		name, has, tells string
		seed             v1alpha1.ContainerSeed
		namespace        Namespace
	}{
		{
			name: "a request that no quota has room for", has: "cpu=100m/100m memory=1Gi/1Gi", tells: `"cpuLimit":"100m"`,
			seed:      v1alpha1.ContainerSeed{CPURequest: amountOf(t, "100m"), CPULimitFollows: true},
			namespace: Namespace{Quotas: []constraint.QuotaLeft{constraint.QuotaLeftOf(quota("requests.cpu", "10", "10"))}},
		},
		{
			name: "a request that no limit range takes", has: "memory=256Mi", tells: `"cpuLimit":"1"`,
			seed:      v1alpha1.ContainerSeed{MemoryRequest: amountOf(t, "256Mi")},
			namespace: Namespace{Bounds: constraint.BoundsOf([]*corev1.LimitRange{tight})},
		},
		{
			name: "another class of service", has: "cpu=2/2 memory=1Gi/1Gi", tells: `"cpuRequest":"1","cpuLimit":"2"`,
			seed: v1alpha1.ContainerSeed{CPURequest: amountOf(t, "2"), MemoryRequest: amountOf(t, "512Mi"), AllowMemoryDecrease: true},
		},
		{
			name: "a request above the limit", has: "cpu=1/1 memory=3Gi/3Gi", tells: `"memoryRequest":"1Gi","memoryLimit":"1Mi"`,
			seed: v1alpha1.ContainerSeed{CPURequest: amountOf(t, "2"), MemoryRequest: amountOf(t, "3Gi"), MemoryLimitFollows: true},
		},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			c.seed.Name = "app"
			rec := Read(recommendation(c.seed))
			pod := podOf(container(t, "app", c.has))
			pod.Annotations = map[string]string{
				v1alpha1.SeededAnnotation: `{"recommendation":"deployment-web","revision":"r1","original":[{"name":"app",` + c.tells + `}]}`,
			}
			after := applied(t, pod, SeedPod(view(t, pod), rec, &c.namespace, now))
			assert.Equal(t, []string{c.has}, resources(after))
			assertStable(t, after, rec, &c.namespace)
		})
	}
}

// The API server compares quantities, not whole bytes, and an explicit limit of zero counts.
func TestRequestsUnderOddLimits(t *testing.T) {
	cases := []struct{ name, memory, has, want string }{
		{"part of a byte over", "3Gi", "cpu=1 memory=1Gi/2.2Gi", "cpu=500m memory=2252Mi/2362232012"},
		{"less than a byte", "3Gi", "cpu=1 memory=/100m", "cpu=500m memory=/100m"},
		{"written zero", "3Gi", "cpu=1 memory=/0", "cpu=500m memory=/0"},
		{"written zero of both", "3Gi", "cpu=0/0 memory=0/0", "cpu=0/0 memory=0/0"},
		{"equal parts", "3Gi", "cpu=1/1 memory=2.2Gi/2.2Gi", "cpu=1/1 memory=2362232012800m/2362232012800m"},
		{"equal parts that part", "1Gi", "cpu=1 memory=2.2Gi/2.2Gi", "cpu=500m memory=1Gi/2362232013"},
		{"less than a byte apart is not equal", "3Gi", "cpu=1/1 memory=1/1500m", "cpu=500m/500m memory=1/1500m"},
		{"even below a byte", "3Gi", "cpu=1/1 memory=1n/1", "cpu=500m/500m memory=1n/1"},
		{"both below a byte", "3Gi", "cpu=1/1 memory=1n/100m", "cpu=500m/500m memory=1n/100m"},
		{"less than a byte is Guaranteed too", "3Gi", "cpu=1500m/1500m memory=100m/100m", "cpu=500m/500m memory=100m/100m"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			seed := seedFor(t, "app", "500m", c.memory)
			seed.MemoryLimitFollows = false
			rec := Read(recommendation(seed))
			pod := podOf(container(t, "app", c.has))
			after := applied(t, pod, SeedPod(view(t, pod), rec, &Namespace{}, now))
			assert.Equal(t, []string{c.want}, resources(after))
			assert.Equal(t, podview.QOSClass(pod), podview.QOSClass(after))
			assertStable(t, after, rec, &Namespace{})
		})
	}
}

// One claim is accepted only while another makes the pod Burstable. When that is dropped, the first is dropped too.
func TestForgedAnnotationsThatDependOnEachOther(t *testing.T) {
	rec := Read(recommendation(
		v1alpha1.ContainerSeed{Name: "app", MemoryRequest: amountOf(t, "256Mi"), MemoryLimit: amountOf(t, "512Mi")},
		v1alpha1.ContainerSeed{Name: "bare", CPURequest: amountOf(t, "100m")},
	))
	pod := podOf(container(t, "app", "memory=256Mi/512Mi"), container(t, "bare", ""))
	pod.Annotations = map[string]string{
		v1alpha1.SeededAnnotation: `{"recommendation":"deployment-web","revision":"r1","original":[{"name":"app"},{"name":"bare","cpuRequest":"1"}]}`,
	}
	after := applied(t, pod, SeedPod(view(t, pod), rec, &Namespace{}, now))
	assert.Equal(t, []string{"memory=256Mi/512Mi", "cpu=100m"}, resources(after))
	assertStable(t, after, rec, &Namespace{})
}

// The limits of a namespace may end in a fraction of a byte too: the seed stays below them.
func TestNamespacesWithPartsOfBytes(t *testing.T) {
	rec := Read(recommendation(seedFor(t, "app", "1", "2362232013")))
	most := &corev1.LimitRange{Spec: corev1.LimitRangeSpec{Limits: []corev1.LimitRangeItem{{
		Type: corev1.LimitTypeContainer, Max: corev1.ResourceList{"memory": resource.MustParse("2.2Gi")},
	}}}}
	lowered := quota("requests.memory", "2.2Gi", "0")
	lowered.Status.Hard = corev1.ResourceList{"requests.memory": resource.MustParse("3Gi")}
	for name, c := range map[string]struct {
		ns   Namespace
		want string
	}{
		"limit range": {Namespace{Bounds: constraint.BoundsOf([]*corev1.LimitRange{most})}, "cpu=1 memory=2252Mi/2252Mi"},
		"quota":       {Namespace{Quotas: []constraint.QuotaLeft{constraint.QuotaLeftOf(quota("requests.memory", "2.2Gi", "0"))}}, "cpu=1 memory=1Gi/1Gi"},
		"new quota":   {Namespace{Quotas: []constraint.QuotaLeft{constraint.QuotaLeftOf(lowered)}}, "cpu=1 memory=1Gi/1Gi"},
	} {
		t.Run(name, func(t *testing.T) {
			pod := podOf(container(t, "app", "cpu=2 memory=1Gi/1Gi"))
			after := applied(t, pod, SeedPod(view(t, pod), rec, &c.ns, now))
			assert.Equal(t, []string{c.want}, resources(after))
		})
	}
}

func quota(key corev1.ResourceName, hard, used string) *corev1.ResourceQuota {
	h, u := corev1.ResourceList{key: resource.MustParse(hard)}, corev1.ResourceList{}
	if used != "" {
		u[key] = resource.MustParse(used)
	}
	return &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Name: string(key), Namespace: "shop"},
		Spec:       corev1.ResourceQuotaSpec{Hard: h},
		Status:     corev1.ResourceQuotaStatus{Hard: h, Used: u},
	}
}
