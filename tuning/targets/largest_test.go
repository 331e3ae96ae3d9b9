package targets

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/podview"
	"attune.io/attune/recommender"
)

const gi = 1 << 30

// using returns a workload whose container has constant usage.
func using(t *testing.T, cores, bytes float64, requests, limits corev1.ResourceList) View {
	t.Helper()
	v := sizing(t, nil)
	var steps []recommender.StepUsage
	for at := now.Add(-7 * 24 * time.Hour); !at.After(now); at = at.Add(5 * time.Minute) {
		steps = append(steps, recommender.StepUsage{At: at, CPUCores: cores, MemoryBytes: bytes})
	}
	v.History.Profiles = map[string]recommender.Profile{"app": recommender.NewProfile(steps, 5*time.Minute)}
	v.Workload.Template.Spec.Containers[0].Resources = corev1.ResourceRequirements{Requests: requests, Limits: limits}
	return v
}

func list(cpu, memory string) corev1.ResourceList {
	return corev1.ResourceList{"cpu": resource.MustParse(cpu), "memory": resource.MustParse(memory)}
}

func TestNoTargetIsAboveTheLargestNode(t *testing.T) {
	largest := [2]recommender.Amount{64_000, 256 * gi}
	for name, tc := range map[string]struct {
		cores, bytes float64
		edit         func(*View)
		want         []string
	}{
		"fits":                            {cores: 1, bytes: gi},
		"1,600 cores":                     {cores: 1600, bytes: gi, want: []string{"cpu NodeCapacity"}},
		"just under the node":             {cores: 53, bytes: gi},
		"just above the node":             {cores: 54, bytes: gi, want: []string{"cpu NodeCapacity"}},
		"both":                            {cores: 1600, bytes: 1 << 40, want: []string{"cpu NodeCapacity", "memory NodeCapacity"}},
		"no node is known":                {cores: 1600, bytes: gi, edit: func(v *View) { v.Largest = [2]recommender.Amount{} }},
		"the template requests more":      {cores: 1600, bytes: gi, edit: func(v *View) { v.Largest[recommender.CPU] = 100 }, want: []string{"cpu NodeCapacity"}},
		"it is lowered, and still larger": {cores: 0.2, bytes: gi, edit: func(v *View) { v.Largest[recommender.CPU] = 100 }},
		"another container takes the rest": {cores: 40, bytes: gi, edit: func(v *View) {
			spec := &v.Workload.Template.Spec
			spec.Containers = append(spec.Containers, corev1.Container{Name: "db", Resources: corev1.ResourceRequirements{Requests: list("20", "1Gi")}})
		}, want: []string{"cpu NodeCapacity"}},
		"overhead takes the rest": {cores: 40, bytes: gi, edit: func(v *View) {
			v.Workload.Template.Spec.Overhead = corev1.ResourceList{"cpu": resource.MustParse("20")}
		}, want: []string{"cpu NodeCapacity"}},
	} {
		t.Run(name, func(t *testing.T) {
			v := using(t, tc.cores, tc.bytes, list("1", "512Mi"), nil)
			v.Largest = largest
			if tc.edit != nil {
				tc.edit(&v)
			}
			spec := Desired(v)
			assert.Equal(t, tc.want, reasons(spec.Containers[0]))
			if len(tc.want) == 0 {
				return
			}
			if spec.Seed != nil {
				assert.Nil(t, spec.Seed.Containers[0].CPURequest)
			}
			assert.Contains(t, spec.Containers[0].Holds[0].Message, "a pod would request ")
			assert.Contains(t, spec.Containers[0].Holds[0].Message, "nodes.largest")
		})
	}
}

// A limit above its request is no larger than the node either: where the request is the whole node, nothing is raised.
func TestARequestOfAWholeNodeLeavesNoRoomForItsLimit(t *testing.T) {
	v := using(t, 10, gi, list("1", "512Mi"), list("2", "1Gi"))
	whole := podview.FromResources(Desired(v).Containers[0].Target)[recommender.CPU].Request
	for largest, want := range map[recommender.Amount][]string{whole: {"cpu NodeCapacity"}, whole + 1: nil} {
		v.Largest = [2]recommender.Amount{largest, 256 * gi}
		got := Desired(v).Containers[0]
		assert.Equal(t, want, reasons(got), largest)
		if want != nil {
			assert.Contains(t, got.Holds[0].Message, "container app would have a limit of 12001m of cpu, but the largest node on which it may run has 12 next to its DaemonSet pods.")
		} else {
			assert.Equal(t, largest, podview.FromResources(got.Target)[recommender.CPU].Limit)
		}
	}
}

func TestBothNumbersAreTold(t *testing.T) {
	v := using(t, 1600, gi, list("1", "512Mi"), nil)
	v.Largest = [2]recommender.Amount{64_000, 256 * gi}
	assert.Contains(t, Desired(v).Containers[0].Holds[0].Message, "a pod would request 1920 of cpu, but the largest node on which it may run has 64 next to its DaemonSet pods.")
	v.Workload.Kind = v1alpha1.KindDaemonSet
	assert.Contains(t, Desired(v).Containers[0].Holds[0].Message, "the smallest node on which the DaemonSet runs has 64 next to its other DaemonSet pods")
}

func TestNoLimitIsRaisedAboveTheLargestNode(t *testing.T) {
	for name, tc := range map[string]struct {
		limits            corev1.ResourceList
		cpu, memory, most string
	}{
		"a placeholder request":      {list("4", "100Gi"), "40", "120Gi", "55Gi"},
		"an original limit above it": {list("100", "300Gi"), "100", "300Gi", "55Gi"},
		"a limit near what it needs": {list("30m", "40Gi"), "36", "80Gi", "55Gi"},
	} {
		t.Run(name, func(t *testing.T) {
			v := using(t, 20, 50*gi, list("20m", "10Mi"), tc.limits)
			v.Largest = [2]recommender.Amount{40_000, 120 * gi}
			target := Desired(v).Containers[0]
			assert.Empty(t, target.Holds)
			assert.Equal(t, []string{tc.cpu, tc.memory, tc.most}, []string{text(target.Target.CPULimit), text(target.Target.MemoryLimit), text(target.MemoryLimitFloor)})
		})
	}
	// No rule dropped a sample of 10 TiB, but the limit of the running pod stays within the node.
	v := using(t, 0.1, 10<<40, list("200m", "512Mi"), list("1", "200Gi"))
	v.Largest = [2]recommender.Amount{64_000, 256 * gi}
	target := Desired(v).Containers[0]
	assert.Equal(t, []string{"memory FollowsItsLimit", "memory NodeCapacity"}, reasons(target))
	assert.Nil(t, Desired(v).Seed.Containers[0].MemoryRequest, "and of a created pod too")
	assert.Equal(t, "256Gi", text(target.MemoryLimitFloor))
}

func TestTheBoundOfNodesIsStored(t *testing.T) {
	v := using(t, 1, gi, list("1", "512Mi"), nil)
	plain := Desired(v)
	assert.Nil(t, plain.LargestNode)
	assert.Zero(t, plain.Seed.LargestPod)

	v.Largest, v.Placement = [2]recommender.Amount{64_000, 256 * gi}, "a"
	spec := Desired(v)
	assert.Equal(t, "a", spec.LargestNode.Placement)
	assert.Equal(t, plain.Seed.Revision, spec.Seed.Revision, "the revision does not follow the nodes")
	all := podview.FromResources(spec.Seed.LargestPod)
	assert.Equal(t, recommender.Size{{Request: 64_000, Limit: 64_000}, {Request: 256 * gi, Limit: 256 * gi}}, all)
	assert.Equal(t, v.Largest, podview.LargestNode(spec.LargestNode))
	assert.Equal(t, now, spec.LargestNode.SeenAt.Time)

	rec := &v1alpha1.AttuneRecommendation{Spec: spec}
	rec.UID = "uid"
	other := *spec.DeepCopy()
	other.LargestNode.CPU, other.Seed.LargestPod.CPURequest = ptr.To(resource.MustParse("96")), ptr.To(resource.MustParse("96"))
	assert.False(t, WorthWriting(rec, other, now), "another node changes nothing that is allowed")
	other.LargestNode = nil
	assert.True(t, WorthWriting(rec, other, now))

	v.Stored.LargestNode, v.Gone, v.Now = spec.LargestNode, true, now.Add(time.Hour)
	assert.Equal(t, now, Desired(v).LargestNode.SeenAt.Time, "it was seen then")
}

func TestNodesThatAreGoneCountWithinTheHistoryWindow(t *testing.T) {
	const window = 7 * 24 * time.Hour
	other := &v1alpha1.LargestNode{Memory: ptr.To(resource.MustParse("1Ti")), SeenAt: metav1.NewTime(now), Placement: "b"}
	stored := func(age time.Duration) *v1alpha1.LargestNode {
		return &v1alpha1.LargestNode{CPU: ptr.To(resource.MustParse("64")), Memory: ptr.To(resource.MustParse("256Gi")), SeenAt: metav1.NewTime(now.Add(-age)), Placement: "a"}
	}
	small := [2]recommender.Amount{8000, 32 * gi}
	large := [2]recommender.Amount{64_000, 256 * gi}
	for name, tc := range map[string]struct {
		known  [2]recommender.Amount
		stored *v1alpha1.LargestNode
		kind   v1alpha1.WorkloadKind
		want   [2]recommender.Amount
	}{
		"nothing":                    {},
		"nodes only":                 {known: small, want: small},
		"a pool that scaled to zero": {stored: stored(time.Hour), want: large},
		"a larger pool is gone":      {known: small, stored: stored(6 * 24 * time.Hour), want: large},
		"for longer than the window": {known: small, stored: stored(window + time.Second), want: small},
		"a DaemonSet":                {known: small, stored: stored(time.Hour), kind: v1alpha1.KindDaemonSet, want: small},
		"of another node selector":   {known: small, stored: other, want: small},
		"a DaemonSet without a node": {stored: stored(time.Hour), kind: v1alpha1.KindDaemonSet, want: large},
	} {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, tc.want, LargestOf(tc.known, tc.stored, "a", tc.kind, window, now))
		})
	}
}

// The webhook raises limits up to maxAllowed where that is less than the largest node, and keeps the CPU limit that usage
// needs.
func TestSeedHasTheBoundsOfLimits(t *testing.T) {
	v := using(t, 0.02, 300*mi, list("1", "512Mi"), list("2", "1Gi")).with(t, func(s *v1alpha1.AttunePolicySpec) {
		s.CPU, s.Memory = &v1alpha1.CPUSettings{}, &v1alpha1.MemorySettings{}
		s.CPU.MaxAllowed, s.Memory.MaxAllowed = ptr.To(resource.MustParse("4")), ptr.To(resource.MustParse("8Gi"))
	})
	profile := v.History.Profiles["app"]
	profile.Of[recommender.CPU].Peak = 1000
	v.History.Profiles["app"] = profile
	bounds := func() []string {
		seed := Desired(v).Seed
		return []string{text(seed.LargestPod.CPURequest), text(seed.LargestPod.CPULimit), text(seed.LargestPod.MemoryLimit), text(seed.Containers[0].CPULimitFloor)}
	}
	assert.Equal(t, []string{"", "4", "8Gi", "1100m"}, bounds())
	v.Largest = [2]recommender.Amount{2_000, 256 * gi}
	assert.Equal(t, []string{"2", "2", "8Gi", "1100m"}, bounds())
	v.Settings.Recommender.Of[recommender.CPU].LimitsFollow = false
	assert.Equal(t, []string{"2", "2", "8Gi", ""}, bounds())
}

// Usage above the template's limit and maxAllowed raises no limit of new pods above both. An OOM kill does.
func TestSeedRaisesLimitsAboveMaxAllowedAfterKillsAlone(t *testing.T) {
	v := using(t, 0.02, 300*mi, list("1", "512Mi"), list("2", "1Gi")).with(t, func(s *v1alpha1.AttunePolicySpec) {
		s.Memory = &v1alpha1.MemorySettings{}
		s.Memory.MaxAllowed = ptr.To(resource.MustParse("800Mi"))
	})
	profile := v.History.Profiles["app"]
	profile.Of[recommender.Memory].Peak = 1200 * mi
	v.History.Profiles["app"] = profile
	floors := func() []string {
		spec := Desired(v)
		target := spec.Containers[0]
		return []string{text(target.Target.MemoryLimit), text(target.MemoryLimitFloor), text(spec.Seed.Containers[0].MemoryLimitFloor)}
	}
	assert.Equal(t, []string{"1Gi", "1320Mi", "1Gi"}, floors())
	v.Status.Floors = []v1alpha1.Floor{kill(1250 * mi)}
	assert.Equal(t, []string{"1250Mi", "1320Mi", "1250Mi"}, floors())
}
