package pod

import (
	"encoding/json"
	"math/rand/v2"
	"testing"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	differ "gomodules.xyz/jsonpatch/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/podview"
	"attune.io/attune/recommender"
)

// TestPatchProducesIntendedPod: the patch that this package writes changes a pod as intended, like a patch that a
// library computes from the two pods.
func TestPatchProducesIntendedPod(t *testing.T) {
	for n := range uint64(2000) {
		checkPatch(t, n)
	}
}

func FuzzPatch(f *testing.F) {
	f.Add(uint64(1))
	f.Fuzz(checkPatch)
}

func checkPatch(t *testing.T, n uint64) {
	t.Helper()
	d := dice{rand.New(rand.NewPCG(n, 1))}
	pod := d.scene(t).pod
	d.unusual(pod)
	before := d.terse(t, pod)
	var p Pod
	require.NoError(t, json.Unmarshal(before, &p))
	units := unitsOf(&p)
	d.sizes(units)
	note := []string{"", "cpu 100m", `"quoted\ " and` + "\n\tbroken"}[d.IntN(3)]

	want := meant(pod, units, note)
	after, err := json.Marshal(want)
	require.NoError(t, err)
	operations, err := differ.CreatePatch(before, after)
	require.NoError(t, err)
	theirs, err := json.Marshal(operations)
	require.NoError(t, err)

	ours := patch(&p, units, note)
	got := patched(t, before, ours)
	assert.True(t, equality.Semantic.DeepEqual(want, got), "%d: %s\nmakes of %s\n%s, and not\n%s", n, ours, before, asJSON(t, got), after)
	assert.True(t, equality.Semantic.DeepEqual(patched(t, before, theirs), got), "%d: %s\nis not %s", n, ours, theirs)
}

// unusual sets amounts and annotations that scenes do not have.
func (d dice) unusual(pod *corev1.Pod) {
	if d.chance(30) {
		pod.Spec.Containers[0].Resources.Requests = corev1.ResourceList{"memory": resource.MustParse("100000000500m"), "nvidia.com/gpu": resource.MustParse("1")}
	}
	if d.chance(50) {
		pod.Annotations = map[string]string{"a/b~c": "other"}
	}
	if d.chance(30) {
		annotate(pod, "an older note")
	}
}

// annotate sets the annotation of an earlier call on a pod.
func annotate(pod *corev1.Pod, note string) {
	if pod.Annotations == nil {
		pod.Annotations = map[string]string{}
	}
	pod.Annotations[v1alpha1.SeededAnnotation] = note
}

// terse is the pod as JSON; some containers with empty resources have none.
func (d dice) terse(t *testing.T, pod *corev1.Pod) []byte {
	t.Helper()
	var plain map[string]any
	require.NoError(t, json.Unmarshal([]byte(asJSON(t, pod)), &plain))
	for _, list := range []string{"containers", "initContainers"} {
		containers, _ := plain["spec"].(map[string]any)[list].([]any)
		for _, c := range containers {
			c := c.(map[string]any)
			if resources, there := c["resources"].(map[string]any); there && len(resources) == 0 && d.chance(50) {
				delete(c, "resources")
			}
		}
	}
	return []byte(asJSON(t, plain))
}

// sizes sets any possible wanted sizes. Requests and limits that exist stay set.
func (d dice) sizes(units []unit) {
	for i := range units {
		u := &units[i]
		u.will = u.is
		for _, r := range recommender.Resources {
			if d.chance(60) {
				u.will[r].Request = podview.AmountOf(r, d.amount(r))
			}
			if u.is[r].Limit > 0 && d.chance(60) || d.chance(10) {
				u.will[r].Limit = podview.AmountOf(r, d.amount(r))
			}
		}
	}
}

// meant is the pod with the sizes and the annotation that a patch must set.
func meant(pod *corev1.Pod, units []unit, note string) *corev1.Pod {
	out := pod.DeepCopy()
	for _, u := range units {
		c := &out.Spec.Containers
		if u.init {
			c = &out.Spec.InitContainers
		}
		resources := &(*c)[u.index].Resources
		for _, r := range recommender.Resources {
			will := u.will[r]
			if will == u.is[r] {
				continue
			}
			if will.Request > 0 {
				resources.Requests = set(resources.Requests, podview.NameOf(r), podview.Quantity(r, will.Request))
			}
			if will.Limit > 0 {
				resources.Limits = set(resources.Limits, podview.NameOf(r), podview.Quantity(r, will.Limit))
			}
		}
	}
	if delete(out.Annotations, v1alpha1.SeededAnnotation); note != "" {
		annotate(out, note)
	}
	return out
}

// patched is the pod after a patch of an object; an empty patch changes nothing.
func patched(t testing.TB, object, patch []byte) *corev1.Pod {
	t.Helper()
	if len(patch) > 0 {
		operations, err := jsonpatch.DecodePatch(patch)
		require.NoError(t, err, string(patch))
		object, err = operations.Apply(object)
		require.NoError(t, err, string(patch))
	}
	out := &corev1.Pod{}
	require.NoError(t, json.Unmarshal(object, out))
	return out
}
