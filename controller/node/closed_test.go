package node

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/podview"
	"attune.io/attune/recommender"
	"attune.io/attune/recommender/node"
	"attune.io/attune/resize"
)

// closed is a node in a closed loop: its grants are applied, each resize is observed for 5 m 20 s, and a scheduler
// gives all visible free room to other pods.
type closed struct {
	*scene
	t         *testing.T
	known     remembered
	has       recommender.Amount
	filler    *corev1.Pod
	bases     map[types.UID]recommender.Amount
	watched   map[types.UID]time.Time
	resized   map[types.UID]time.Time
	gated     map[types.UID]time.Time
	lastMoved time.Time
}

func newClosed(t *testing.T, random *rand.Rand) *closed {
	t.Helper()
	x := &closed{t: t, bases: map[types.UID]recommender.Amount{}, watched: map[types.UID]time.Time{}, resized: map[types.UID]time.Time{}, gated: map[types.UID]time.Time{}}
	var pods []*corev1.Pod
	peaks := map[types.UID]recommender.Amount{}
	for i := range 2 + random.IntN(8) {
		base := recommender.Amount(50 + random.IntN(1500))
		peak := base + recommender.Amount(random.IntN(2000))
		pod := member(fmt.Sprintf("p%d", i), size(peak, 64, 128))
		x.bases[pod.UID], peaks[pod.UID] = base, peak
		x.has += peak
		pods = append(pods, pod)
	}
	x.filler = member("filler", size(1, 1, 0))
	x.scene = sceneOf(fmt.Sprintf("%dm", x.has), 0, append(pods, x.filler)...)
	delete(x.recommendations, x.filler.UID)
	for uid, peak := range peaks {
		x.recommendations[uid] = recommended(string(uid), peak, 64)
	}
	x.base = func(pod *corev1.Pod, _ string, r recommender.Resource) (recommender.Usage, bool) {
		return []recommender.Usage{recommender.Usage(x.bases[pod.UID]), recommender.Usage(64 * mi)}[r], true
	}
	x.held = func(_ types.NamespacedName, uid types.UID) string {
		if x.gated[uid].After(x.now) {
			return "Rollout"
		}
		return ""
	}
	return x
}

func (x *closed) hold(pod *corev1.Pod, amount recommender.Amount) {
	requirements := podview.ToRequirements(size(amount, 64, 128))
	pod.Spec.Containers[0].Resources = requirements
	pod.Status.ContainerStatuses[0].Resources, pod.Status.ContainerStatuses[0].AllocatedResources = &requirements, requirements.Requests
}

func (x *closed) free() recommender.Amount {
	free := x.has
	for _, pod := range x.pods {
		free -= resize.Footprint(pod)[cpu]
	}
	return free
}

// look reconciles the node, and applies the grants that fit.
func (x *closed) look() {
	for uid, rec := range x.recommendations {
		if rec.Status.Records = nil; x.watched[uid].After(x.now) {
			rec.Status.Records = []v1alpha1.ResizeRecord{{PodUID: uid, Phase: v1alpha1.RecordWatching}}
		}
	}
	x.known = x.known.see(x.scene)
	x.changed = x.known.changed
	out := x.share(always)
	require.Empty(x.t, out.result.Evictions, "at %s", x.now.Sub(noon))
	require.False(x.t, out.result.Overcommitted[cpu], "at %s", x.now.Sub(noon))
	for _, raises := range []bool{false, true} {
		for _, pod := range out.ledger.members {
			to, holds := out.grants[pod.UID].Sizes["app"][cpu].Request, resize.Footprint(pod)[cpu]
			if to == 0 || (to > holds) != raises || to-holds > x.free() {
				continue
			}
			if last := x.resized[pod.UID]; !last.IsZero() {
				require.GreaterOrEqual(x.t, x.now.Sub(last), node.Pace, "two resizes of %s", pod.Name)
			}
			x.resized[pod.UID] = x.now
			x.hold(pod, to)
			x.watched[pod.UID], x.lastMoved = x.now.Add(320*time.Second), x.now
		}
	}
	if free := x.free(); free > 0 {
		x.filler.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = resource.MustParse(fmt.Sprintf("%dm", resize.Footprint(x.filler)[cpu]+free))
	}
}

// While demands stay the same, no pod is evicted and no node is overcommitted, whichever pods are observed or
// blocked, and even if the scheduler gives away every free millicore. Within an hour after the last block, nothing
// changes any more.
func TestConstantDemandsEvictNoPod(t *testing.T) {
	for seed := range uint64(60) {
		random := rand.New(rand.NewPCG(seed, 7))
		x := newClosed(t, random)
		const holds, all = 4 * time.Hour, 7 * time.Hour
		for at := time.Duration(0); at < all; at += 80 * time.Second {
			x.now = noon.Add(at)
			if at < holds && random.IntN(10) == 0 {
				x.gated[x.pods[random.IntN(len(x.pods)-1)].UID] = x.now.Add(time.Duration(random.IntN(40)) * time.Minute)
			}
			x.look()
		}
		assert.Less(t, x.lastMoved.Sub(noon), holds+40*time.Minute+time.Hour, "seed %d", seed)
	}
}
