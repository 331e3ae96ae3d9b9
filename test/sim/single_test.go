package sim

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/podview"
	"attune.io/attune/resize"
	"attune.io/attune/test/sim/api"
)

func TestBlamelessSeesALessonFromNoHarm(t *testing.T) {
	taught := recommendation(func(r *v1alpha1.AttuneRecommendation) { r.Status.Floors = []v1alpha1.Floor{{Container: "app"}} })
	for name, c := range map[string]struct {
		of           *v1alpha1.AttuneRecommendation
		nothingHarms bool
		wrong        bool
	}{
		"a floor":          {taught, true, true},
		"a back-off":       {reverts(1), true, true},
		"none":             {recommendation(nil), true, false},
		"something harmed": {taught, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab()
			b := &blameless{scene: l.scene, nothingHarms: c.nothingHarms}
			b.changed(api.Event{Type: watch.Added, Object: c.of})
			assert.Equal(t, c.wrong, len(l.wrong) > 0, "%v", l.wrong)
		})
	}
}

func TestNeighboursSeesADenialElsewhere(t *testing.T) {
	waits := recommendation(func(r *v1alpha1.AttuneRecommendation) {
		r.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionResizeBlocked, Reason: resize.ReasonNoRights}}
	})
	for name, c := range map[string]struct {
		denied   string
		noRights bool
		wrong    bool
	}{
		"elsewhere":  {"other/web-1", false, true},
		"here":       {"shop/web-1", false, false},
		"everywhere": {"other/web-1", true, false},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab()
			n := newNeighbours(l.scene, func() bool { return c.noRights })
			w := l.write("patch/resize", "Pod", "", apierrors.NewForbidden(corev1.Resource("pods"), "web-1", nil))
			w.Key = c.denied
			n.wrote(w)
			n.changed(api.Event{Type: watch.Modified, Object: waits})
			assert.Equal(t, c.wrong, len(l.wrong) > 0, "%v", l.wrong)
		})
	}
}

func TestReleasedSeesAFinalizerThatStays(t *testing.T) {
	policy := func(finalizers ...string) *v1alpha1.AttunePolicy {
		return &v1alpha1.AttunePolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "all", UID: "policy", Finalizers: finalizers}}
	}
	watched := recommendation(func(r *v1alpha1.AttuneRecommendation) {
		r.Spec.Policy.UID, r.Status.Records = "policy", []v1alpha1.ResizeRecord{{PodUID: "uid-1"}}
	})
	for name, c := range map[string]struct {
		then  []api.Event
		wrong bool
	}{
		"for nothing":        {nil, true},
		"a pod is watched":   {[]api.Event{{Type: watch.Added, Object: watched}}, false},
		"it was watched":     {[]api.Event{{Type: watch.Added, Object: watched}, {Type: watch.Deleted, Object: watched}}, true},
		"taken off":          {[]api.Event{{Type: watch.Modified, Object: policy()}}, false},
		"the policy is gone": {[]api.Event{{Type: watch.Deleted, Object: policy(v1alpha1.CleanupFinalizer)}}, false},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab()
			g := newReleased(l.scene)
			g.changed(api.Event{Type: watch.Added, Object: policy(v1alpha1.CleanupFinalizer)})
			for _, e := range c.then {
				g.changed(e)
			}
			for range 63 {
				g.tick()
				l.go_(time.Minute)
			}
			assert.Equal(t, c.wrong, len(l.wrong) > 0, "%v", l.wrong)
		})
	}
}

func TestOriginalsSeesASizeOfOurOwn(t *testing.T) {
	noted := recommendation(func(r *v1alpha1.AttuneRecommendation) {
		r.Spec.Workload.Kind, r.Spec.Workload.Name = v1alpha1.KindDeployment, "web"
		c := v1alpha1.ContainerResources{Name: "app", Resources: podview.ToResources(podview.ReadSpec(corev1.ResourceRequirements{Requests: amounts("125m", "1Gi")}))}
		r.Status.Originals = []v1alpha1.Originals{{TemplateHash: "abc", Containers: []v1alpha1.ContainerResources{c}}}
	})
	for name, c := range map[string]struct {
		template *corev1.PodSpec
		wrong    bool
	}{
		"another size":  {&corev1.PodSpec{Containers: []corev1.Container{container(amounts("1", "1Gi"), nil)}}, true},
		"the same":      {&corev1.PodSpec{Containers: []corev1.Container{container(amounts("125m", "1Gi"), nil)}}, false},
		"nothing said":  {&corev1.PodSpec{Containers: []corev1.Container{container(nil, nil)}}, false},
		"no such again": {nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab()
			o := &originals{scene: l.scene, template: func(of types.NamespacedName, hash string) *corev1.PodSpec {
				assert.Equal(t, key2("shop", "web"), of)
				assert.Equal(t, "abc", hash)
				return c.template
			}}
			o.changed(api.Event{Type: watch.Added, Object: noted})
			assert.Equal(t, c.wrong, len(l.wrong) > 0, "%v", l.wrong)
		})
	}
}
