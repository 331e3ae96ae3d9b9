package node

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	quantity "k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/answers"
	"attune.io/attune/internal/board"
	"attune.io/attune/internal/event"
	"attune.io/attune/internal/workload"
	"attune.io/attune/podview"
	"attune.io/attune/recommender"
	"attune.io/attune/resize"
)

// answered returns what the node answer says about a pod after a reconcile.
func answered(s *scene, name string) answers.NodePod {
	answer := s.look(s.share(always)).answer()
	i := slices.IndexFunc(answer.Pods, func(p answers.NodePod) bool { return p.Name == name })
	return answer.Pods[i]
}

func text(of string) *string { return &of }

// goldenScene is a node of 5 CPUs that its three pods just fit on: A needs 1 and peaks at 3, B and C need 1 and peak
// at 2.
func goldenScene() *scene {
	s := sceneOf("5", 1000, member("a", size(3000, 64, 128)), member("b", size(1500, 64, 128)), member("c", size(1500, 64, 128)))
	s.recommendations["a"] = recommended("a", 3000, 64)
	return s
}

func TestAnswer(t *testing.T) {
	s := goldenScene()
	s.pods = append(s.pods, member("other", size(0, 64, 0)))
	s.recommendations["a"].Spec.Containers[0].Target = podview.ToResources(size(3000, 64, 128))
	answer := s.look(s.share(always)).answer()
	assert.Equal(t, "node-1", answer.Node)
	assert.Equal(t, answers.NodeAmounts{CPU: "5", Memory: "1Gi"}, answer.Allocatable)
	assert.Equal(t, answers.NodeAmounts{CPU: "0", Memory: "64Mi"}, answer.Fixed)
	assert.Equal(t, answers.NodeAmounts{CPU: "5", Memory: "960Mi"}, answer.Available)
	assert.Equal(t, &answers.NodeDecided{At: noon, Needed: answers.NodeAmounts{CPU: "5", Memory: "192Mi"}, Holders: []answers.NodeHolder{}}, answer.Decided)
	require.Len(t, answer.Pods, 4)
	a := answer.Pods[0]
	assert.Equal(t, "shop/a shop/Deployment/a Low", a.Name+" "+a.Group+" "+a.Ranking)
	assert.True(t, a.Shares)
	c := a.Containers[0]
	assert.Equal(t, "app", c.Name)
	assert.Equal(t, text("3"), c.Holds.CPURequest)
	assert.Equal(t, text("3"), c.Wants.CPURequest)
	assert.Equal(t, answers.Amounts{CPURequest: text("2"), MemoryRequest: text("64Mi"), MemoryLimit: text("128Mi")}, c.Gets)
	assert.Equal(t, &c.Gets, c.Share)
	assert.Equal(t, &answers.Quantities{CPU: text("1"), Memory: text("64Mi")}, c.Base)
	assert.Equal(t, &answers.Quantities{CPU: text("3"), Memory: text("64Mi")}, c.Peak)
	assert.Empty(t, c.Why)
	require.NotEmpty(t, c.Steps)
	assert.Equal(t, answers.Step{Resource: "cpu", Name: "base", Before: "0", After: "1", Reason: "base demand"}, c.Steps[0])
	assert.Contains(t, c.Steps[1].Reason, "the node reserves 2 for spikes: the spike of shop/Deployment/a")
	other := answer.Pods[3]
	assert.Equal(t, answers.NodePod{Name: "shop/other", Reason: "NoPolicy", Message: "no policy manages its workload", Containers: []answers.NodeContainer{{
		Name: "app", Holds: answers.Amounts{MemoryRequest: text("64Mi")}, Gets: answers.Amounts{MemoryRequest: text("64Mi")},
	}}}, other)
}

// Why a pod of 3 CPUs with a share of 2 is not lowered now, and why others are not raised.
func TestAnswerSaysWhy(t *testing.T) {
	const a = "shop/a"
	why := func(resource, reason, message string) answers.ShareReason {
		return answers.ShareReason{Resource: resource, Reason: reason, Message: message}
	}
	for name, c := range map[string]struct {
		edit    func(*scene)
		of      string
		frozen  string
		message string
		gets    string
		why     []answers.ShareReason
	}{
		"a gate holds it": {
			edit: func(s *scene) {
				s.held = func(_ types.NamespacedName, uid types.UID) string {
					return map[types.UID]string{"a": "WorkloadPaused"}[uid]
				}
			}, of: a, frozen: "WorkloadPaused", message: "the pod cannot be resized now: WorkloadPaused", gets: "3",
			why: []answers.ShareReason{why("cpu", "Frozen", "the pod cannot be resized now: WorkloadPaused")},
		},
		"its last resize is watched": {
			edit: func(s *scene) {
				s.recommendations["a"].Status.Records = []v1alpha1.ResizeRecord{{PodUID: "a", Phase: v1alpha1.RecordWatching}}
			}, of: a, frozen: "ResizeUnderway", message: "its last resize is in progress or observed", gets: "3",
			why: []answers.ShareReason{why("cpu", "Frozen", "its last resize is in progress or observed")},
		},
		"it was lowered a while ago": {
			edit: func(s *scene) {
				s.changed = func(uid types.UID) changes {
					return map[types.UID]changes{"a": {lowered: noon.Add(-5 * time.Minute)}}[uid]
				}
			}, of: a, gets: "3",
			why: []answers.ShareReason{why("cpu", "LoweredLately", "its pod was lowered recently, and is not lowered again before 2026-03-01T12:10:00Z")},
		},
		"it was resized a moment ago": {
			edit: func(s *scene) {
				s.changed = func(uid types.UID) changes {
					return map[types.UID]changes{"a": {resized: noon.Add(-5 * time.Minute)}}[uid]
				}
			}, of: a, frozen: "ResizedLately", message: "the pod was resized recently: attune resizes a pod at most once every 8m0s", gets: "3",
			why: []answers.ShareReason{why("cpu", "Frozen", "the pod was resized recently: attune resizes a pod at most once every 8m0s")},
		},
		"it was resized a while ago": {
			edit: func(s *scene) {
				s.node.Status.Allocatable[corev1.ResourceCPU] = *cores(6)
				s.changed = func(uid types.UID) changes {
					return map[types.UID]changes{"a": {resized: noon.Add(-30 * time.Minute)}}[uid]
				}
			}, of: a, gets: "3",
			why: []answers.ShareReason{why("cpu", "ResizedLately", "its pod was resized recently and has its base demand of CPU and its memory; it follows its share again from 2026-03-01T13:00:00Z")},
		},
		"the change is small": {
			edit: func(s *scene) {
				s.pods[0], s.node.Status.Allocatable[corev1.ResourceCPU] = member("a", size(2100, 64, 128)), *cores(6)
			}, of: a, gets: "2100m",
			why: []answers.ShareReason{why("cpu", "SmallChange", "the change is too small for a resize of its pod")},
		},
		"it is not ready": {
			edit: func(s *scene) { s.pods[0].Status.Conditions = nil }, of: a, gets: "3",
			why: []answers.ShareReason{why("cpu", "MinAllowed", "the pod is not ready, or restarted recently")},
		},
		"others have the room of its raise": {
			edit: func(s *scene) {
				s.pods[1] = member("b", size(1200, 64, 128))
				s.held = func(_ types.NamespacedName, uid types.UID) string { return map[types.UID]string{"a": "Schedule"}[uid] }
			}, of: "shop/b", gets: "1200m",
			why: []answers.ShareReason{why("cpu", "NoRoom", "other pods still hold the room that it needs; the pods to raise divide the free room, base demands first")},
		},
		"nothing was measured of it": {
			edit: func(s *scene) {
				s.node.Status.Allocatable[corev1.ResourceCPU] = *cores(8)
				base := s.base
				s.base = func(pod *corev1.Pod, container string, r recommender.Resource) (recommender.Usage, bool) {
					if pod.Name == "a" && r == cpu {
						return 0, false
					}
					return base(pod, container, r)
				}
			}, of: a, gets: "3",
			why: []answers.ShareReason{why("cpu", "NotMeasured", "the demand of the container is not known yet, or its change is blocked: the container keeps its resources")},
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := goldenScene()
			c.edit(s)
			got := answered(s, c.of)
			assert.True(t, got.Shares)
			assert.Equal(t, c.frozen != "", got.Frozen)
			assert.Equal(t, c.frozen, got.Reason)
			assert.Equal(t, c.message, got.Message)
			assert.Equal(t, c.why, got.Containers[0].Why)
			assert.Equal(t, c.gets, *got.Containers[0].Gets.CPURequest)
			if name == "nothing was measured of it" {
				assert.Nil(t, got.Containers[0].Base.CPU)
				assert.Nil(t, got.Containers[0].Peak.CPU)
				assert.Equal(t, "memory", got.Containers[0].Steps[0].Resource)
			}
		})
	}
}

// Which pods have to leave, which of them are chosen now, and which may not be evicted.
func TestAnswerEvictions(t *testing.T) {
	s := sceneOf("2", 1500, member("a", size(2000, 64, 128)), member("b", size(2000, 64, 128)))
	look := s.look(s.share(func(*corev1.Pod) bool { return false }))
	require.Len(t, look.answer().Evictions, 1)
	assert.True(t, look.answer().Evictions[0].Waits)
	answer := s.look(s.share(always)).answer()
	assert.Equal(t, []answers.NodeEviction{{
		Name: "shop/a", Ranking: "Low", Reason: "CPU does not fit: with this pod, the remaining pods need 3500m, and 2 is available; ranking Low, own spike 500m",
	}}, answer.Evictions)
	assert.Equal(t, "Evicted", answer.Pods[0].Containers[0].Why[0].Reason)
	assert.Equal(t, "2", *answer.Pods[0].Containers[0].Gets.CPURequest, "it keeps what it holds")
	assert.Nil(t, answer.Pods[0].Containers[0].Share.CPURequest)
	assert.False(t, answer.Decided.Overcommitted)

	s.stays = func(types.NamespacedName, types.UID) string { return "LastReplica" }
	answer = s.look(s.share(always)).answer()
	assert.Empty(t, answer.Evictions)
	assert.True(t, answer.Decided.Overcommitted)
	assert.Equal(t, "LastReplica Never", answer.Pods[0].Stays+" "+answer.Pods[0].Ranking)
}

// The answer names the pods that keep others short, with the reason.
func TestAnswerHolders(t *testing.T) {
	s := sceneOf("8", 3000, member("a", size(7000, 64, 128)), member("b", size(1000, 64, 128)))
	s.recommendations["a"].Spec.Containers[0].Demand.CPUPeak = cores(3)
	s.held = func(_ types.NamespacedName, uid types.UID) string {
		return map[types.UID]string{"a": "WorkloadPaused"}[uid]
	}
	assert.Equal(t, []answers.NodeHolder{{
		Name: "shop/a", Resource: "cpu", Above: "4", Reason: "Frozen", Message: "the pod cannot be resized now: WorkloadPaused",
	}}, s.look(s.share(always)).answer().Decided.Holders)
}

// For a node without members, only the sums are stored.
func TestAnswerWithoutSharingPods(t *testing.T) {
	s := sceneOf("8", 1000, member("a", size(1000, 64, 128)))
	delete(s.recommendations, "a")
	look := s.look(s.share(always))
	assert.Empty(t, look.others)
	assert.Equal(t, answers.NodeAmounts{CPU: "7", Memory: "960Mi"}, look.answer().Available)
	assert.NotNil(t, look.answer().Pods, "an empty list, not null")
}

// The answer equals what was published, for any node, and later as well: it holds only values.
func TestAnswerIsWhatIsPublished(t *testing.T) {
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 15))
		pods := make([]*corev1.Pod, 1+rng.IntN(8))
		for i := range pods {
			pods[i] = member(fmt.Sprintf("p%d", i), size(recommender.Amount(100+rng.IntN(2500)), recommender.Amount(32+rng.IntN(100)), 300))
		}
		s := sceneOf(fmt.Sprintf("%dm", 500+rng.IntN(8000)), recommender.Usage(200+rng.IntN(1000)), pods...)
		held := map[types.UID]string{}
		for _, pod := range pods {
			if rng.IntN(4) == 0 {
				held[pod.UID] = "Cooldown"
			}
		}
		s.held = func(_ types.NamespacedName, uid types.UID) string { return held[uid] }
		out := s.share(func(*corev1.Pod) bool { return rng.IntN(2) == 0 })
		look := s.look(out)
		before, err := json.Marshal(look.answer())
		require.NoError(t, err)
		clear(held)
		checkPublished(t, pods, out.grants, look.answer())
		for _, pod := range pods {
			pod.Spec.Containers[0].Resources = corev1.ResourceRequirements{}
		}
		after, err := json.Marshal(look.answer())
		require.NoError(t, err)
		assert.Equal(t, string(before), string(after), "the answer is about the look")
	}
}

func checkPublished(t *testing.T, pods []*corev1.Pod, grants map[types.UID]board.Pod, answer answers.NodeAnswer) {
	t.Helper()
	require.Len(t, answer.Pods, len(grants))
	goes := map[string]string{}
	for _, v := range answer.Evictions {
		if !v.Waits {
			goes[v.Name] = v.Reason
		}
	}
	for _, pod := range pods {
		i := slices.IndexFunc(answer.Pods, func(p answers.NodePod) bool { return p.Name == "shop/"+pod.Name })
		shown, granted := answer.Pods[i].Containers[0], grants[pod.UID]
		assert.Equal(t, answers.AmountsOf(resize.Merge(podview.Counted(pod)[0].Size, granted.Sizes["app"])), shown.Gets)
		assert.Equal(t, granted.Evict, goes["shop/"+pod.Name])
	}
}

// The loop answers for nodes that it has reconciled, and drops deleted nodes.
func TestDecided(t *testing.T) {
	on := goldenScene()
	objects := []client.Object{on.node}
	for _, pod := range on.pods {
		pod.OwnerReferences = nil
		objects = append(objects, pod)
	}
	scheme := testScheme(t)
	byNode := func(o client.Object) []string { return []string{o.(*corev1.Pod).Spec.NodeName} }
	reader := fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithIndex(&corev1.Pod{}, workload.PodsByNode, byNode).Build()
	var said sentences
	c := &Controller{
		Client: reader, Grants: &board.Grants{}, Wake: func([]types.NamespacedName) {}, Clock: clocktesting.NewFakePassiveClock(noon),
		Events: event.NewRecorder(&said, clocktesting.NewFakePassiveClock(noon)), Interval: time.Minute,
	}
	_, known := c.Decided("node-1")
	assert.False(t, known, "it was not looked at yet")
	look := ctrl.Request{NamespacedName: types.NamespacedName{Name: "node-1"}}
	_, err := c.Reconcile(t.Context(), look)
	require.NoError(t, err)
	answer, known := c.Decided("node-1")
	assert.True(t, known)
	assert.Equal(t, noon, answer.Decided.At)
	require.NoError(t, reader.Delete(t.Context(), on.node))
	_, err = c.Reconcile(t.Context(), look)
	require.NoError(t, err)
	_, known = c.Decided("node-1")
	assert.False(t, known)
}

func cores(n int64) *quantity.Quantity { return quantity.NewQuantity(n, quantity.DecimalSI) }

func testScheme(t *testing.T) *runtime.Scheme {
	t.Helper()
	scheme := runtime.NewScheme()
	require.NoError(t, corev1.AddToScheme(scheme))
	require.NoError(t, v1alpha1.AddToScheme(scheme))
	return scheme
}
