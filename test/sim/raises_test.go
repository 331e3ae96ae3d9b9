package sim

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/resize"
)

// raiseLab tells of the raises of one container.
type raiseLab struct {
	*lab
	*raises
	pod   *corev1.Pod
	needs float64
}

func newRaiseLab(most int64) *raiseLab {
	l := &raiseLab{lab: newLab(), needs: 500 * mib}
	l.raises = newRaises(l.lab.scene, func(types.NamespacedName) int64 { return most }, func(types.NamespacedName, string) (float64, bool) { return l.needs, true })
	l.pod = &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-1", UID: "uid-1"}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "app"}}}}
	l.limit(400 * mib)
	return l
}

// limit has the pod resized.
func (l *raiseLab) limit(to int64) {
	old := l.pod
	l.pod = old.DeepCopy()
	l.pod.Generation++
	l.pod.Spec.Containers[0].Resources.Limits = corev1.ResourceList{corev1.ResourceMemory: *resource.NewQuantity(to, resource.BinarySI)}
	l.raises.changed(modified(old, l.pod))
}

// record has the record of a raise stored, or none.
func (l *raiseLab) record(reason string, phase v1alpha1.RecordPhase) {
	l.raises.changed(modified(recommendation(nil), recommendation(func(r *v1alpha1.AttuneRecommendation) {
		if phase != "" {
			r.Status.Records = []v1alpha1.ResizeRecord{{PodUID: "uid-1", PodName: "web-1", Phase: phase, Reason: reason, WrittenAt: metav1.NewTime(l.time.Truncate(time.Hour))}}
		}
	})))
}

// raise the container once, and close the record.
func (l *raiseLab) raise(to int64) {
	l.record(resize.ReasonClimb, v1alpha1.RecordWritten)
	l.limit(to)
	l.record("", "")
}

func (l *raiseLab) minutes(n int) {
	for range n {
		l.go_(time.Minute)
		l.raises.tick()
	}
}

func TestRaisesSeesWrongRaises(t *testing.T) {
	for name, c := range map[string]struct {
		most  int64
		story func(*raiseLab)
		wrong string
	}{
		"three raises": {story: func(l *raiseLab) { l.raise(500 * mib); l.raise(600 * mib); l.raise(700 * mib) }},
		"four raises":  {story: func(l *raiseLab) { l.raise(500 * mib); l.raise(600 * mib); l.raise(700 * mib); l.raise(800 * mib) }, wrong: "three raises a day"},
		"a fourth one a day later": {story: func(l *raiseLab) {
			l.raise(500 * mib)
			l.raise(600 * mib)
			l.raise(700 * mib)
			l.go_(25 * time.Hour)
			l.raise(800 * mib)
		}},
		"above maxAllowed":    {most: 450 * mib, story: func(l *raiseLab) { l.raise(500 * mib) }, wrong: "raises are allowed"},
		"more than twice":     {story: func(l *raiseLab) { l.raise(900 * mib) }, wrong: "raises are allowed"},
		"without an end":      {story: func(l *raiseLab) { l.record(resize.ReasonClimb, v1alpha1.RecordWatching); l.minutes(300) }, wrong: "raises end"},
		"with an end":         {story: func(l *raiseLab) { l.raise(500 * mib); l.minutes(300) }},
		"a spike that stays":  {story: func(l *raiseLab) { l.raise(500 * mib); l.needs = 100 * mib; l.minutes(200) }, wrong: "spikes are given back"},
		"a spike that is not": {story: func(l *raiseLab) { l.raise(500 * mib); l.minutes(200) }},
		"given back": {story: func(l *raiseLab) {
			l.raise(500 * mib)
			l.needs = 100 * mib
			l.minutes(10)
			l.limit(400 * mib)
			l.minutes(200)
		}},
		"kept, and told": {story: func(l *raiseLab) {
			l.raise(500 * mib)
			l.needs = 100 * mib
			l.told("Pod web-1 keeps its raised memory, although the growth was a spike: page cache")
			l.minutes(200)
		}},
		"an eviction": {story: func(l *raiseLab) {
			l.record(resize.ReasonClimb, v1alpha1.RecordWritten)
			l.record(resize.ReasonDeferred, v1alpha1.RecordEvicting)
			l.raises.wrote(l.write("create/eviction", "Pod", "", nil))
		}, wrong: "no eviction for a raise"},
		"one that is never valid": {story: func(l *raiseLab) {
			l.record(resize.ReasonClimb, v1alpha1.RecordWritten)
			l.raises.wrote(l.write("patch/resize", "Pod", "", apierrors.NewInvalid(schema.GroupKind{Kind: "Pod"}, "web-1", nil)))
		}, wrong: "raises are valid"},
	} {
		t.Run(name, func(t *testing.T) {
			l := newRaiseLab(c.most)
			c.story(l)
			if c.wrong == "" {
				assert.Empty(t, l.wrong)
				return
			}
			l.found(t, c.wrong)
		})
	}
}

// The world of a seed that draws no ramp is as it was; one that draws them has some, the same each time.
func TestRampsAreDrawnInAShareOfTheSeeds(t *testing.T) {
	n := 0
	for seed := range uint64(300) {
		p := seeded(seed)
		if !ramped(seed, drawn(seed)) {
			assert.Equal(t, withoutFunctions(drawn(seed)), withoutFunctions(p))
			continue
		}
		n++
		climbs := 0
		for _, of := range p.Workloads {
			if of.Demand.ramp.speed > 0 {
				climbs++
			}
		}
		assert.Positive(t, climbs, seed)
		assert.Equal(t, withoutFunctions(seeded(seed)), withoutFunctions(p))
	}
	assert.InDelta(t, 60, n, 25)
}

// withoutFunctions is a plan without its function: two of them are never equal. Hazard says whether there is one.
func withoutFunctions(p plan) plan {
	p.Validate = nil
	return p
}
