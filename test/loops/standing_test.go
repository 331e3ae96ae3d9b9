package loops

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"attune.io/attune/test/kubelet"
)

// Rollouts that make no progress: a partition, updateStrategy OnDelete, a paused Deployment, one whose controller gave up.
// The ready pods of the newest template are resized, the others wait and say since when.
func TestPodsOfStandingRolloutsAreResized(t *testing.T) {
	t.Parallel()
	const newest = "2"
	for name, stand := range map[string]func(*world) string{
		"partition": func(w *world) string {
			w.statefulSet("web", 3, w.app("cpu=500m,memory=512Mi", ""))
			w.startNewPods()
			w.edit(&appsv1.StatefulSet{}, func(o client.Object) {
				s := o.(*appsv1.StatefulSet)
				s.Spec.UpdateStrategy.RollingUpdate = &appsv1.RollingUpdateStatefulSetStrategy{Partition: ptr.To[int32](2)}
				metav1.SetMetaDataAnnotation(&s.Spec.Template.ObjectMeta, "version", newest)
			})
			return "StatefulSet"
		},
		"OnDelete": func(w *world) string {
			w.secondNode(kubelet.Options{})
			w.workload("DaemonSet", w.app("cpu=500m,memory=512Mi", ""))
			w.edit(&appsv1.DaemonSet{}, func(o client.Object) {
				o.(*appsv1.DaemonSet).Spec.UpdateStrategy.Type = appsv1.OnDeleteDaemonSetStrategyType
			})
			w.startNewPods()
			w.edit(&appsv1.DaemonSet{}, func(o client.Object) {
				template := &o.(*appsv1.DaemonSet).Spec.Template
				metav1.SetMetaDataAnnotation(&template.ObjectMeta, "version", newest)
				template.Spec.Containers[0].Image = "example.org/app:2"
			})
			w.run(time.Minute, time.Minute)
			require.NoError(w.t, w.direct.Delete(w.t.Context(), &w.pods()[0]))
			return "DaemonSet"
		},
		"ProgressDeadlineExceeded": func(w *world) string {
			w.deployment("web", 4, w.app("cpu=500m,memory=512Mi", ""))
			w.startNewPods()
			w.roll(newest)
			w.readyOnce(newest)
			w.progressing(corev1.ConditionFalse)
			return "Deployment"
		},
		"paused": func(w *world) string {
			w.deployment("web", 4, w.app("cpu=500m,memory=512Mi", ""))
			w.startNewPods()
			w.roll(newest)
			w.readyOnce(newest)
			w.run(time.Minute, time.Minute)
			w.edit(&appsv1.Deployment{}, func(o client.Object) { o.(*appsv1.Deployment).Spec.Paused = true })
			w.progressing(corev1.ConditionUnknown)
			return "Deployment"
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, kubelet.Options{})
			w.usage.of["app"] = used{CPU: 0.1, Memory: 200}
			kind := stand(w)
			w.run(2*time.Minute, time.Minute)
			w.policy("all", "targetRef: {kind: "+kind+"}\nupdateStrategy: {type: Auto, cooldown: 10m, safetyObservationPeriod: 5m}"+lowersCPU)
			w.run(20*time.Minute, 5*time.Minute)
			assert.Equal(t, "RolloutInProgress", blockedBy(w.recommendation()).Reason)
			assert.Zero(t, w.generations()-int64(len(w.pods())), "not before it stands for 30 minutes")
			w.run(2*time.Hour, 10*time.Minute)
			older, resized := 0, 0
			for _, pod := range w.pods() {
				switch is := cpuRequest(&pod) < 500; {
				case pod.Annotations["version"] != newest:
					older++
					assert.False(t, is, "%s runs an older template", pod.Name)
				case is:
					resized++
				}
			}
			assert.Equal(t, 1, resized, "the ready pod of the newest template\n%s", w.describe())
			assert.NotZero(t, older)
			assert.Contains(t, blockedBy(w.recommendation()).Message, "attune resizes the pods of the newest template")
			assert.Contains(t, blockedBy(w.recommendation()).Message, "pods run the newest template")
			w.writes = 0
			w.wire()
			w.run(6*time.Hour, 10*time.Minute)
			assert.LessOrEqual(t, float64(w.writes), writesAMinute*6*60, "at rest, also after a restart")
			// New pods are sized meanwhile.
			w.seeded = true
			require.NotNil(t, w.recommendation().Spec.Seed)
		})
	}
}

// edit changes workload web.
func (w *world) edit(o client.Object, change func(client.Object)) {
	w.t.Helper()
	require.NoError(w.t, w.direct.Get(w.t.Context(), client.ObjectKey{Namespace: w.namespace, Name: "web"}, o))
	change(o)
	require.NoError(w.t, w.direct.Update(w.t.Context(), o))
}

// readyOnce lets only one pod of a version be ready.
func (w *world) readyOnce(version string) {
	one := ""
	w.ready = func(pod *corev1.Pod) bool {
		if pod.Annotations["version"] != version {
			return true
		}
		if one == "" {
			one = pod.Name
		}
		return pod.Name == one
	}
}

// progressing adds the condition Progressing as the Deployment controller has it from now on.
func (w *world) progressing(status corev1.ConditionStatus) {
	since := metav1.NewTime(w.clock.Now())
	w.seen = func(o client.Object) {
		if d, ok := o.(*appsv1.Deployment); ok {
			d.Status.Conditions = []appsv1.DeploymentCondition{{Type: appsv1.DeploymentProgressing, Status: status, LastTransitionTime: since}}
		}
	}
}
