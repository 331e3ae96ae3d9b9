package resize_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"attune.io/attune/podview"
	"attune.io/attune/recommender"
	. "attune.io/attune/resize"
)

// Rules that refuse a whole plan.
func TestPlatformRefusesPods(t *testing.T) {
	smaller := wish(size(250, 500, 512, 1024))
	claims := func(p *corev1.Pod) { p.Spec.Containers[0].Resources.Claims = []corev1.ResourceClaim{{Name: "gpu"}} }
	own := func(p *corev1.Pod) {
		requirements := podview.ToRequirements(size(2000, 2000, 4096, 4096))
		p.Spec.Resources = &requirements
		p.Status.QOSClass = podview.QOSClass(p)
	}
	for _, tc := range []struct {
		name      string
		pod       *corev1.Pod
		caps      Capabilities
		reason    string // empty: allowed
		transient bool
	}{
		{"an ordinary pod", web(), able(), "", false},
		{"3 terminating", with(web(), func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: noon} }), able(), ReasonPodDeleted, false},
		{"4 succeeded", with(web(), func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded }), able(), ReasonPodFinished, false},
		{"4 failed, evicted, OutOfcpu", with(web(), func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }), able(), ReasonPodFinished, false},
		{"5 not scheduled yet", with(web(), func(p *corev1.Pod) { p.Spec.NodeName = "" }), able(), ReasonNotScheduled, true},
		{"6 containers not started", with(web(), func(p *corev1.Pod) {
			p.Status.ContainerStatuses[0] = corev1.ContainerStatus{Name: "app", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff"}}}
		}), able(), ReasonNotStarted, true},
		{"11 node not ready", web(), capable(func(c *Capabilities) { c.NodeReady = false }), ReasonNodeNotReady, true},
		{"22 another resize under way", with(web(), func(p *corev1.Pod) { setCondition(p, corev1.PodResizeInProgress, "", "", 1) }), able(), ReasonResizeUnderway, true},
		{"22 another one deferred", with(web(), func(p *corev1.Pod) {
			setCondition(p, corev1.PodResizePending, corev1.PodReasonDeferred, "", 1)
		}), able(), ReasonResizeUnderway, true},
		{"22 another one not seen yet", with(web(), func(p *corev1.Pod) { p.Generation = 2 }), able(), ReasonResizeUnderway, true},
		{"46 own resources before 1.36", with(web(), own), capable(func(c *Capabilities) { c.ServerMinor = 35 }), ReasonPodLevelResources, false},
		{"46 own resources, node without the feature", with(web(), own), able(), ReasonPodLevelResources, false},
		{"46 own resources, node with the feature", with(web(), own),
			capable(func(c *Capabilities) { c.Features = []string{FeaturePodLevelResize} }), "", false},
		{"46 own resources that are empty, before 1.37", with(web(), func(p *corev1.Pod) {
			p.Spec.Resources = &corev1.ResourceRequirements{}
			p.Status.QOSClass = corev1.PodQOSBestEffort
		}), able(), ReasonBestEffort, false},
		{"46 own resources that are empty, since 1.37", with(web(), func(p *corev1.Pod) {
			p.Spec.Resources = &corev1.ResourceRequirements{}
		}), able(), "", false},
		{"47 mirror pod", with(web(), func(p *corev1.Pod) { p.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "x"} }), able(), ReasonStaticPod, false},
		{"47 windows pod", with(web(), func(p *corev1.Pod) { p.Spec.OS = &corev1.PodOS{Name: corev1.Windows} }), able(), ReasonWindows, false},
		{"47 windows node", web(), capable(func(c *Capabilities) { c.Windows = true }), ReasonWindows, false},
		{"50 claims up to 1.36", with(web(), claims), able(), ReasonResourceClaims, false},
		{"50 claims of an init container", with(withInit(web(), "init", size(10, 0, 0, 0)), func(p *corev1.Pod) {
			p.Spec.InitContainers[0].Resources.Claims = []corev1.ResourceClaim{{Name: "gpu"}}
		}), able(), ReasonResourceClaims, false},
		{"50 claims from 1.37", with(web(), claims), capable(func(c *Capabilities) { c.ServerMinor = 37 }), "", false},
		{"86 no pods/resize", web(), capable(func(c *Capabilities) { c.Resizable = false }), ReasonResizeNotSupported, false},
		{"86 nothing is known", web(), Capabilities{}, ReasonResizeNotSupported, false},
		{"87 an old kubelet under a new API server", web(), capable(func(c *Capabilities) { c.KubeletMinor = 32 }), ReasonResizeNotSupported, false},
		{"18 a running container without resources in its status (KWOK)", with(web(), func(p *corev1.Pod) {
			p.Status.ContainerStatuses[0].Resources = nil
		}), able(), ReasonNodeWithoutResize, false},
		{"6 a pod without requests", running(recommender.Size{}), able(), ReasonBestEffort, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			plan, refusal := PlanFor(tc.pod, smaller, tc.caps, noon)
			if tc.reason == "" {
				require.Nil(t, refusal, "%v", refusal)
				assert.False(t, plan.Empty())
				return
			}
			require.NotNil(t, refusal)
			assert.Equal(t, tc.reason, refusal.Reason)
			assert.Equal(t, tc.transient, refusal.Transient)
			assert.NotEmpty(t, refusal.Message)
			assert.True(t, plan.Empty())
		})
	}
}

// Rules that remove a part of one container's move.
func TestPlatformLeavesOut(t *testing.T) {
	was, lower, higher := size(500, 1000, 512, 1024), size(250, 500, 256, 512), size(1000, 2000, 1024, 2048)
	mixed := size(250, 500, 1024, 2048)
	notReady := func() *corev1.Pod {
		return with(running(was), func(p *corev1.Pod) { podview.Condition(p, corev1.PodReady).Status = corev1.ConditionFalse })
	}
	restarted := func(ago time.Duration) *corev1.Pod {
		return with(running(was), func(p *corev1.Pod) {
			p.Status.ContainerStatuses[0].RestartCount = 1
			p.Status.ContainerStatuses[0].State.Running.StartedAt = metav1.NewTime(noon.Add(-ago))
		})
	}
	crashLooping := func(ago time.Duration) *corev1.Pod {
		return with(restarted(0), func(p *corev1.Pod) {
			p.Status.ContainerStatuses[0].State = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}}
			p.Status.ContainerStatuses[0].LastTerminationState.Terminated = &corev1.ContainerStateTerminated{FinishedAt: metav1.NewTime(noon.Add(-ago))}
		})
	}
	started := func(ago time.Duration) *corev1.Pod {
		return with(running(was), func(p *corev1.Pod) {
			p.Status.ContainerStatuses[0].State.Running.StartedAt = metav1.NewTime(noon.Add(-ago))
		})
	}
	critical := func() *corev1.Pod {
		return with(running(was), func(p *corev1.Pod) { priority := int32(2_000_000_000); p.Spec.Priority = &priority })
	}
	unschedulablePod := func() *corev1.Pod {
		return with(running(was), func(p *corev1.Pod) {
			p.Spec.NodeName, p.Status.Phase, p.Status.ContainerStatuses = "", corev1.PodPending, nil
			p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable}}
		})
	}
	guaranteedPod := func() *corev1.Pod { return running(size(1000, 1000, 1024, 1024)) }
	mounting := func(sizeLimit string) *corev1.Pod {
		return with(running(was), func(p *corev1.Pod) {
			source := &corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumMemory}
			if sizeLimit != "" {
				q := resource.MustParse(sizeLimit)
				source.SizeLimit = &q
			}
			p.Spec.Volumes = []corev1.Volume{{Name: "shm", VolumeSource: corev1.VolumeSource{EmptyDir: source}}}
			p.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "shm"}}
		})
	}
	static := capable(func(c *Capabilities) { c.StaticCPU, c.StaticMemory = true, true })
	for _, tc := range []struct {
		name   string
		pod    *corev1.Pod
		wish   recommender.Size
		usage  recommender.Amount
		caps   Capabilities
		want   recommender.Size // planned size; the pod's own size: no change
		reason string           // why a part is missing; empty: nothing is missing
	}{
		{"5 an unschedulable pod may shrink", unschedulablePod(), lower, 0, able(), lower, ""},
		{"5 an unschedulable pod does not grow", unschedulablePod(), mixed, 0, able(), size(250, 500, 512, 1024), ReasonNotScheduled},
		{"7 a pod that is not ready is not lowered", notReady(), lower, 0, able(), was, ReasonNotReady},
		{"7 a pod that is not ready may grow", notReady(), higher, 0, able(), higher, ""},
		{"7 of a mixed wish the growth is left", notReady(), mixed, 0, able(), size(500, 1000, 1024, 2048), ReasonNotReady},
		{"10 restarted 9 minutes ago: not lowered", restarted(9 * time.Minute), lower, 0, able(), was, ReasonRestartedLately},
		{"10 restarted 9 minutes ago: may grow", restarted(9 * time.Minute), higher, 0, able(), higher, ""},
		{"10 restarted 10 minutes ago: lowered", restarted(10 * time.Minute), lower, 0, able(), lower, ""},
		{"10 in a crash loop: not lowered", crashLooping(time.Minute), lower, 0, able(), was, ReasonRestartedLately},
		{"a container that waits to start: its CPU limit is not raised", crashLooping(time.Minute), size(1000, 2000, 2048, 4096), 0, able(), size(500, 1000, 2048, 4096), ReasonNotRunning},
		{"a container that waits to start: a CPU request alone is raised", crashLooping(time.Minute), size(700, 0, 0, 0), 0, able(), size(700, 1000, 512, 1024), ""},
		{"16 a start in the future is a late one", restarted(-time.Minute), lower, 0, able(), was, ReasonRestartedLately},
		{"32 a critical pod does not grow", critical(), higher, 0, able(), was, ReasonCriticalPriority},
		{"32 a critical pod may shrink", critical(), lower, 0, able(), lower, ""},
		{"32 of a mixed wish the lowering is left", critical(), mixed, 0, able(), size(250, 500, 512, 1024), ReasonCriticalPriority},
		{"35 started 29 s ago: the memory limit stays", started(29 * time.Second), lower, 0, able(), size(250, 500, 256, 1024), ReasonStartedJustNow},
		{"35 started 30 s ago: it moves", started(30 * time.Second), lower, 0, able(), lower, ""},
		{"36 page cache above the new limit: the limit stays", running(was), lower, 950 * mi, able(), size(250, 500, 256, 1024), ReasonMemoryInUse},
		{"36 less than a tenth of headroom: the limit stays", running(was), lower, 466 * mi, able(), size(250, 500, 256, 1024), ReasonMemoryInUse},
		{"36 enough headroom", running(was), lower, 400 * mi, able(), lower, ""},
		{"36 usage does not hold a raise", running(was), higher, 1020 * mi, able(), higher, ""},
		{"43 static CPU manager: memory alone of a Guaranteed pod", guaranteedPod(), size(500, 500, 512, 512), 0,
			capable(func(c *Capabilities) { c.StaticCPU = true }), size(1000, 1000, 512, 512), ReasonStaticCPU},
		{"43 static CPU manager: fractional CPU is no exception", running(size(1500, 1500, 1024, 1024)), size(500, 500, 1024, 1024), 0,
			capable(func(c *Capabilities) { c.StaticCPU = true }), size(1500, 1500, 1024, 1024), ReasonStaticCPU},
		{"44 static memory manager: CPU alone", guaranteedPod(), size(500, 500, 512, 512), 0,
			capable(func(c *Capabilities) { c.StaticMemory = true }), size(500, 500, 1024, 1024), ReasonStaticMemory},
		{"43 static policies hold no Burstable pod", running(was), lower, 0, static, lower, ""},
		{"43 a 1.33 kubelet with a static policy: nothing of a Guaranteed pod", guaranteedPod(), size(1000, 1000, 2048, 2048), 0,
			capable(func(c *Capabilities) { c.StaticCPU, c.KubeletMinor = true, 33 }), size(1000, 1000, 1024, 1024), ReasonStaticPolicy},
		{"45 swap: the memory request stays", running(was), lower, 0, capable(func(c *Capabilities) { c.Swap = true }),
			size(250, 500, 512, 512), ReasonSwap},
		{"45 swap: a limit below the request stays as well", running(was), size(250, 500, 128, 256), 0,
			capable(func(c *Capabilities) { c.Swap = true }), size(250, 500, 512, 1024), ReasonSwap},
		{"45 swap holds no Guaranteed pod", guaranteedPod(), size(500, 500, 512, 512), 0,
			capable(func(c *Capabilities) { c.Swap = true }), size(500, 500, 512, 512), ""},
		{"45 swap: request equal to limit has none", running(size(500, 1000, 512, 512)), size(250, 500, 256, 256), 0,
			capable(func(c *Capabilities) { c.Swap = true }), size(250, 500, 256, 256), ""},
		{"45 swap: RestartContainer may", restarting(running(was), corev1.ResourceMemory), lower, 0,
			capable(func(c *Capabilities) { c.Swap = true }), lower, ""},
		{"13 a 1.33 kubelet: the memory limit stays, the request goes", running(was), lower, 0,
			capable(func(c *Capabilities) { c.KubeletMinor = 33 }), size(250, 500, 256, 1024), ReasonMemoryLimitDecrease},
		{"13 a 1.33 API server", running(was), lower, 0,
			capable(func(c *Capabilities) { c.ServerMinor = 33 }), size(250, 500, 256, 1024), ReasonMemoryLimitDecrease},
		{"87 a kubelet nobody knows", running(was), lower, 0,
			capable(func(c *Capabilities) { c.KubeletMinor = 0 }), size(250, 500, 256, 1024), ReasonMemoryLimitDecrease},
		{"13 a 1.33 kubelet: RestartContainer may", restarting(running(was), corev1.ResourceMemory), lower, 0,
			capable(func(c *Capabilities) { c.KubeletMinor = 33 }), lower, ""},
		{"13 a limit that is added counts as lowered", running(size(500, 0, 512, 0)), size(500, 0, 512, 1024), 0,
			capable(func(c *Capabilities) { c.KubeletMinor = 33 }), size(500, 0, 512, 0), ReasonMemoryLimitDecrease},
		{"13 a limit is added only where usage is known", running(size(500, 0, 512, 0)), size(500, 0, 512, 1024), 0, able(), size(500, 0, 512, 0), ReasonMemoryUnknown},
		{"13 a limit is added above usage", running(size(500, 0, 512, 0)), size(500, 0, 512, 1024), 800 * mi, able(), size(500, 0, 512, 1024), ""},
		{"6 a Guaranteed pod keeps request and limit together", guaranteedPod(), size(500, 500, 512, 512), 0,
			capable(func(c *Capabilities) { c.KubeletMinor = 33 }), size(500, 500, 1024, 1024), ReasonMemoryLimitDecrease},
		{"91 a memory volume without a size limit: the memory limit stays", mounting(""), lower, 0, able(), size(250, 500, 256, 1024), ReasonMemoryVolume},
		{"91 a memory volume that leaves no room", mounting("256Mi"), lower, 300 * mi, able(), size(250, 500, 256, 1024), ReasonMemoryVolume},
		{"91 a memory volume that leaves room", mounting("64Mi"), lower, 300 * mi, able(), lower, ""},
		{"77 amounts that mean nothing are raised", running(was), size(1, 3, 1, 2), 0, able(), size(2, 10, 4, 16), ""},
		{"77 what is below already and does not move stays", running(size(500, 1000, 8, 8)), size(250, 500, 8, 8), 0, able(), size(250, 500, 8, 8), ""},
		{"77 equal amounts stay equal", guaranteedPod(), size(1, 1, 1, 1), 0, able(), size(10, 10, 16, 16), ""},
		{"78 a request above its limit is cut to it", running(was), size(2000, 0, 512, 0), 0, able(), size(1000, 1000, 512, 1024), ""},
		{"7 absent amounts are left alone", running(was), size(0, 0, 600, 0), 0, able(), size(500, 1000, 600, 1024), ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			before := specOf(tc.pod)["app"]
			plan, refusal := PlanFor(tc.pod, []podview.Container{{Name: "app", Size: tc.wish, MemoryUsage: tc.usage}}, tc.caps, noon)
			assert.Equal(t, tc.want, specOf(plan.Apply(tc.pod))["app"])
			if tc.want == before {
				require.NotNil(t, refusal, "nothing is asked for, and nobody says why")
				assert.Equal(t, tc.reason, refusal.Reason)
				assert.Equal(t, "app", refusal.Container)
				return
			}
			require.Nil(t, refusal, "%v", refusal)
			if tc.reason == "" {
				assert.Empty(t, plan.LeftOut)
				return
			}
			require.Len(t, plan.LeftOut, 1)
			assert.Equal(t, tc.reason, plan.LeftOut[0].Reason)
			assert.Equal(t, passing[tc.reason], plan.LeftOut[0].Transient)
			assert.Equal(t, "app", plan.LeftOut[0].Container)
		})
	}
}

// passing are the reasons that lift by themselves.
var passing = map[string]bool{
	ReasonNotReady: true, ReasonNotRunning: true, ReasonRestartedLately: true, ReasonStartedJustNow: true, ReasonMemoryInUse: true, ReasonNotScheduled: true,
}

func TestOtherVolumesDoNotBlockTheMemoryLimit(t *testing.T) {
	// Case 91: only a memory-backed volume that the container itself mounts counts.
	limit := quantity("512Mi")
	memory := corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumMemory}}
	bounded := corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumMemory, SizeLimit: &limit}}
	disk := corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}
	for _, tc := range []struct {
		name    string
		volume  corev1.VolumeSource
		mounter int
		held    bool
	}{
		{"a config map", corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{}}, 0, false},
		{"a directory on disk", disk, 0, false},
		{"a memory volume of the neighbour", memory, 1, false},
		{"a memory volume of its own", memory, 0, true},
		{"a bounded one, usage unknown", bounded, 0, true},
	} {
		pod := running(prior, prior)
		pod.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: tc.volume}}
		pod.Spec.Containers[tc.mounter].VolumeMounts = []corev1.VolumeMount{{Name: "v"}}
		_, refusal := PlanFor(pod, wish(size(0, 0, 0, 512)), able(), noon)
		check(t, map[bool]string{true: ReasonMemoryVolume}[tc.held], refusal)
	}
}

func TestTransientOnlyIfAllOfItIs(t *testing.T) {
	pod := running(prior, prior)
	pod.Status.ContainerStatuses[0].State.Running.StartedAt.Time = noon
	wished := []podview.Container{{Name: "app", Size: size(0, 0, 0, 600)}, {Name: "side-1", Size: size(0, 0, 0, 600), MemoryUsage: 600 * mi}}
	_, refusal := PlanFor(pod, wished, able(), noon)
	require.NotNil(t, refusal)
	assert.True(t, refusal.Transient)
	_, refusal = PlanFor(pod, wished, capable(func(c *Capabilities) { c.KubeletMinor = 33 }), noon)
	require.NotNil(t, refusal)
	assert.False(t, refusal.Transient)
	limit := quantity("1Gi")
	pod.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumMemory, SizeLimit: &limit}}}}
	pod.Spec.Containers[1].VolumeMounts = []corev1.VolumeMount{{Name: "v"}}
	wished[1].MemoryUsage = 10 * mi
	_, refusal = PlanFor(pod, wished, able(), noon)
	require.NotNil(t, refusal)
	assert.Equal(t, ReasonStartedJustNow, refusal.Reason)
	assert.False(t, refusal.Transient, "waiting helps one of the two")
}

// Rules about the plan as a whole.
func TestPlatformRefusesPlans(t *testing.T) {
	own := func(p *corev1.Pod) {
		requirements := podview.ToRequirements(size(1000, 2000, 1024, 2048))
		p.Spec.Resources = &requirements
		p.Status.QOSClass = podview.QOSClass(p)
	}
	podLevel := capable(func(c *Capabilities) { c.Features = []string{FeaturePodLevelResize} })
	small := capable(func(c *Capabilities) { c.Allocatable = [2]recommender.Amount{1500, 2 * gi} })
	for _, tc := range []struct {
		name   string
		pod    *corev1.Pod
		wish   recommender.Size
		caps   Capabilities
		reason string
	}{
		{"QoS: Burstable may not become Guaranteed", running(size(500, 500, 2, 4)), size(500, 500, 4, 4), able(), ReasonQOSClass},
		{"QoS: all at its limits but one", running(size(500, 1000, 512, 1024), size(100, 100, 64, 64)), size(1000, 1000, 512, 1024), able(), ""},
		{"QoS: Guaranteed may not become Burstable", running(size(500, 500, 512, 512)), size(250, 500, 512, 512), able(), ReasonQOSClass},
		{"QoS: Guaranteed moves together", running(size(500, 500, 512, 512)), size(250, 250, 256, 256), able(), ""},
		{"26 more than the node has", web(), size(2000, 2000, 512, 1024), small, ReasonNodeCapacity},
		{"26 all that the node has", web(), size(1500, 1500, 512, 1024), small, ""},
		{"92 overhead counts", with(web(), func(p *corev1.Pod) {
			p.Spec.Overhead = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1m")}
		}), size(1500, 2000, 512, 1024), small, ReasonNodeCapacity},
		{"26 an init container that dominates does not hide growth", withInit(web(), "init", size(1400, 0, 0, 0)), size(1501, 2000, 512, 1024), small, ReasonNodeCapacity},
		{"46 more requests than the pod's own", with(web(), own), size(1001, 1500, 512, 1024), podLevel, ReasonPodLevelResources},
		{"46 a limit above the pod's own", with(web(), own), size(600, 2001, 512, 1024), podLevel, ReasonPodLevelResources},
		{"46 within the pod's own", with(web(), own), size(1000, 2000, 1024, 2048), podLevel, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			plan, refusal := PlanFor(tc.pod, wish(tc.wish), tc.caps, noon)
			if tc.reason == "" {
				require.Nil(t, refusal, "%v", refusal)
				assert.Equal(t, tc.wish, specOf(plan.Apply(tc.pod))["app"])
				return
			}
			require.NotNil(t, refusal)
			assert.Equal(t, tc.reason, refusal.Reason)
		})
	}
}

// A limit above the node's capacity protects nothing, so limits are not raised above it. An existing one stays.
func TestLimitsAreRaisedNoFurtherThanTheNode(t *testing.T) {
	small := capable(func(c *Capabilities) { c.Allocatable = [2]recommender.Amount{1500, 2 * gi} })
	for _, tc := range []struct {
		name            string
		was, wish, want recommender.Size
		caps            Capabilities
	}{
		{"CPU", size(500, 1000, 512, 1024), size(1200, 49150, 512, 1024), size(1200, 1500, 512, 1024), small},
		{"memory", size(500, 1000, 512, 1024), size(500, 1000, 1024, 15936), size(500, 1000, 1024, 2048), small},
		{"a limit that is above already stays", size(500, 4000, 512, 1024), size(1000, 8000, 512, 1024), size(1000, 4000, 512, 1024), small},
		{"such a limit may fall to one that is above", size(500, 4000, 512, 1024), size(400, 3200, 512, 1024), size(400, 3200, 512, 1024), small},
		{"a limit that is added", size(500, 1000, 512, 0), size(500, 1000, 512, 8192), size(500, 1000, 512, 2048), small},
		{"the node is not known", size(500, 1000, 512, 1024), size(1200, 49150, 512, 1024), size(1200, 49150, 512, 1024),
			capable(func(c *Capabilities) { c.Allocatable = [2]recommender.Amount{} })},
	} {
		t.Run(tc.name, func(t *testing.T) {
			pod := running(tc.was)
			plan, refusal := PlanFor(pod, []podview.Container{{Name: "app", Size: tc.wish, MemoryUsage: 100 * mi}}, tc.caps, noon)
			require.Nil(t, refusal, "%v", refusal)
			assert.Equal(t, tc.want, specOf(plan.Apply(pod))["app"])
			assert.Empty(t, plan.LeftOut, "nothing is reported: the pod has what it can use")
		})
	}
}

// Amounts that are already below the least sizes are not lowered further, and a plan alone does not raise them.
func TestPlanKeepsSmallerSizes(t *testing.T) {
	small := func(cpuRequest, cpuLimit, memoryRequest, memoryLimit recommender.Amount) recommender.Size {
		return recommender.Size{{Request: cpuRequest, Limit: cpuLimit}, {Request: memoryRequest * mi, Limit: memoryLimit * mi}}
	}
	for _, tc := range []struct {
		name            string
		was, wish, want recommender.Size
	}{
		{"lowered further", small(1, 5, 2, 8), recommender.Size{{Request: 1, Limit: 2}, {Request: 1024, Limit: 2048}}, small(1, 5, 2, 8)},
		{"Guaranteed, lowered further", small(5, 5, 8, 8), small(1, 1, 1, 1), small(5, 5, 8, 8)},
		{"raised", small(1, 5, 2, 8), small(1, 6, 3, 9), small(1, 10, 4, 16)},
		{"bounds without a unit", size(500, 1000, 128, 256), recommender.Size{{}, {Request: 512, Limit: 1024}}, size(500, 1000, 4, 16)},
	} {
		pod := running(tc.was)
		plan, _ := PlanFor(pod, wish(tc.wish), able(), noon)
		assert.Equal(t, tc.want, specOf(plan.Apply(pod))["app"], tc.name)
	}
}

func TestCapabilitiesOf(t *testing.T) {
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{corev1.LabelOSStable: "linux"}},
		Status: corev1.NodeStatus{
			NodeInfo:         corev1.NodeSystemInfo{KubeletVersion: "v1.34.4+k3s1"},
			DeclaredFeatures: []string{FeaturePodLevelResize},
			Allocatable:      corev1.ResourceList{corev1.ResourceCPU: quantity("3920m"), corev1.ResourceMemory: quantity("8Gi")},
			Conditions: []corev1.NodeCondition{
				{Type: corev1.NodeReady, Status: corev1.ConditionTrue},
				{Type: corev1.NodeDiskPressure, Status: corev1.ConditionTrue},
				{Type: corev1.NodeMemoryPressure, Status: corev1.ConditionFalse},
				{Type: "KernelDeadlock", Status: corev1.ConditionTrue},
			},
		},
	}
	assert.Equal(t, Capabilities{
		Resizable: true, ServerMinor: 36, KubeletMinor: 34, Features: []string{FeaturePodLevelResize}, NodeReady: true,
		Pressure: []string{"DiskPressure"}, Allocatable: [2]recommender.Amount{3920, 8 * gi},
	}, CapabilitiesOf(node, "v1.36.3"))

	node.Labels[corev1.LabelOSStable] = "windows"
	node.Status.Conditions[0].Status = corev1.ConditionUnknown
	caps := CapabilitiesOf(node, "v1.36.3")
	assert.True(t, caps.Windows)
	assert.False(t, caps.NodeReady, "11: a node nobody hears of is not ready")

	assert.Equal(t, Capabilities{ServerMinor: 32}, CapabilitiesOf(nil, "v1.32.9"), "86")
	assert.Equal(t, Capabilities{ServerMinor: 33, Resizable: true}, CapabilitiesOf(nil, "v1.33.0"))
	assert.Equal(t, Capabilities{}, CapabilitiesOf(nil, "unknown"))
	assert.Equal(t, Capabilities{}, CapabilitiesOf(nil, "v2.1.0"), "a version nobody knows can do nothing")
}
