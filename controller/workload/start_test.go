package workload

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/trim"
	"attune.io/attune/internal/workload"
	"attune.io/attune/podview"
	"attune.io/attune/recommender"
	"attune.io/attune/resize/withdraw"
	"attune.io/attune/tuning"
)

const denied = `pods "web-abc-x" is forbidden: ValidatingAdmissionPolicy 'small-containers' denied request: containers may have at most 200m CPU as limit`

// seeding is the recommendation of Deployment web with a seed of 800m; the template has 500m.
func seeding(w tuning.View) *v1alpha1.AttuneRecommendation {
	cpu := podview.Quantity(recommender.CPU, 800)
	w.Rec.Spec.Seed = &v1alpha1.Seed{Revision: "r1", ValidUntil: metav1.NewTime(now.Add(24 * time.Hour)), Containers: []v1alpha1.ContainerSeed{{Name: "app", CPURequest: &cpu}}}
	return w.Rec
}

func failedCreate(api, kind, name string, at time.Time) *corev1.Event {
	return &corev1.Event{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "e"}, Reason: workload.FailedCreate, Message: "Error creating: " + denied, LastTimestamp: metav1.NewTime(at),
		InvolvedObject: corev1.ObjectReference{APIVersion: api, Kind: kind, Namespace: "shop", Name: name},
	}
}

// A Deployment reports by a condition that its pods are rejected. How fast it is reported does not depend on its
// ReplicaSet.
func TestARejectedDeploymentLosesItsAdmissionResources(t *testing.T) {
	d := deploymentOf(template, 1)
	d.UID = "web"
	d.Status.Conditions = []appsv1.DeploymentCondition{
		{Type: appsv1.DeploymentReplicaFailure, Status: corev1.ConditionTrue, Reason: "FailedCreate", Message: denied, LastTransitionTime: metav1.NewTime(now.Add(-time.Hour))},
	}
	l := newLab(t, seeding(seen(t, template)), d)
	l.pass()
	w := l.rec().Status.AdmissionWithdrawn
	require.NotNil(t, w)
	assert.Equal(t, v1alpha1.ReasonAdmissionRejected, w.Reason)
	assert.Equal(t, denied, w.Message)
	told := strings.Join(l.told, "\n")
	assert.Contains(t, told, "PartialObjectMetadata/web of AttuneRecommendation/deployment-web: Warning AdmissionRejected New pods are created without admission resources until", "on the owner")
	assert.Contains(t, told, "AttuneRecommendation/deployment-web: Warning AdmissionRejected")
	assert.LessOrEqual(t, l.storm(10), 1)
	assert.Len(t, l.told, 2, "it is told once")
}

func TestTheConditionOfADeploymentWakesItsWorkload(t *testing.T) {
	before := deploymentOf(template, 1)
	after := before.DeepCopy()
	after.Status.Conditions = []appsv1.DeploymentCondition{{Type: appsv1.DeploymentReplicaFailure, Status: corev1.ConditionTrue, Reason: "FailedCreate", Message: denied, LastTransitionTime: metav1.NewTime(now)}}
	assert.True(t, workloadChanged().Update(event.UpdateEvent{ObjectOld: before, ObjectNew: after}))
	after.Status.Conditions[0].Type = appsv1.DeploymentProgressing
	assert.False(t, workloadChanged().Update(event.UpdateEvent{ObjectOld: before, ObjectNew: after}))
}

// Other kinds have no condition: their controllers write events. The name of a ReplicaSet is its Deployment's with a
// hash.
func TestEventsOfRejectedPodsFindTheirWorkload(t *testing.T) {
	scaled, ok := workload.KindOf(schema.GroupKind{Group: "kafka.example.io", Kind: "Cluster"})
	require.True(t, ok)
	for _, of := range []struct {
		api, kind, name string
		workload        v1alpha1.WorkloadKind
	}{
		{"apps/v1", "ReplicaSet", "web-7c9", v1alpha1.KindDeployment},
		{"apps/v1", "ReplicaSet", "web-7c9", v1alpha1.KindRollout},
		{"apps/v1", "ReplicaSet", "web", v1alpha1.KindReplicaSet},
		{"apps/v1", "StatefulSet", "web", v1alpha1.KindStatefulSet},
		{"apps/v1", "DaemonSet", "web", v1alpha1.KindDaemonSet},
		{"batch/v1", "Job", "web", v1alpha1.KindJob},
		{"batch/v1", "Job", "web-29384756", v1alpha1.KindCronJob}, // the Job may be deleted already
		{"kafka.example.io/v1", "Cluster", "web", scaled},
	} {
		t.Run(string(of.workload), func(t *testing.T) {
			rec := seeding(seen(t, template))
			rec.Spec.Workload.Kind = of.workload
			rec.Name = workload.Identity{Kind: of.workload, Namespace: "shop", Name: "web"}.RecommendationName()
			l := newLab(t, rec)
			woken := l.c.wakers().rejected(t.Context(), failedCreate(of.api, of.kind, of.name, now))
			require.Len(t, woken, 1)
			assert.Equal(t, rec.Name, woken[0].Name)
			last, known := l.c.memory.rejections.Find(client.ObjectKeyFromObject(rec))
			require.True(t, known)
			assert.Equal(t, now, last.At)

			l.c.wakers().rejected(t.Context(), failedCreate(of.api, of.kind, of.name, now.Add(-time.Minute)))
			last, _ = l.c.memory.rejections.Find(client.ObjectKeyFromObject(rec))
			assert.Equal(t, now, last.At, "an older event says nothing new")
			l.c.memory.forget(client.ObjectKeyFromObject(rec))
			_, known = l.c.memory.rejections.Find(client.ObjectKeyFromObject(rec))
			assert.False(t, known)
		})
	}
	l := newLab(t, seeding(seen(t, template)))
	for name, e := range map[string]*corev1.Event{
		"of no workload":   failedCreate("apps/v1", "ReplicaSet", "other-7c9", now),
		"of another's API": failedCreate("apps.kruise.io/v1", "StatefulSet", "web", now),
		"with another reason": func() *corev1.Event {
			e := failedCreate("apps/v1", "ReplicaSet", "web-7c9", now)
			e.Reason = "x"
			return e
		}(),
		"from another namespace": func() *corev1.Event {
			e := failedCreate("apps/v1", "ReplicaSet", "web-7c9", now)
			e.InvolvedObject.Namespace = "other"
			return e
		}(),
	} {
		assert.Empty(t, l.c.wakers().rejected(t.Context(), e), name)
	}
}

// Only Deployments have a condition. The owner of an adopted ReplicaSet is found by it too.
func TestWorkloadOfEveryKindLosesItsAdmissionResourcesWhenItsPodsAreRejected(t *testing.T) {
	pods := corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Resources: podview.ToRequirements(template)}}}}
	named := metav1.ObjectMeta{Name: "web", Namespace: "shop", UID: "web"}
	for kind, of := range map[v1alpha1.WorkloadKind]struct {
		object client.Object
		event  *corev1.Event
	}{
		v1alpha1.KindStatefulSet: {&appsv1.StatefulSet{ObjectMeta: named, Spec: appsv1.StatefulSetSpec{Template: pods}}, failedCreate("apps/v1", "StatefulSet", "web", now)},
		v1alpha1.KindDaemonSet:   {&appsv1.DaemonSet{ObjectMeta: named, Spec: appsv1.DaemonSetSpec{Template: pods}}, failedCreate("apps/v1", "DaemonSet", "web", now)},
		v1alpha1.KindReplicaSet:  {&appsv1.ReplicaSet{ObjectMeta: named, Spec: appsv1.ReplicaSetSpec{Template: pods}}, failedCreate("apps/v1", "ReplicaSet", "web", now)},
		v1alpha1.KindJob:         {&batchv1.Job{ObjectMeta: named, Spec: batchv1.JobSpec{Template: pods}}, failedCreate("batch/v1", "Job", "web", now)},
		v1alpha1.KindCronJob: {&batchv1.CronJob{ObjectMeta: named, Spec: batchv1.CronJobSpec{JobTemplate: batchv1.JobTemplateSpec{Spec: batchv1.JobSpec{Template: pods}}}},
			failedCreate("batch/v1", "Job", "web-29384756", now)},
	} {
		t.Run(string(kind), func(t *testing.T) {
			rec := seeding(seen(t, template))
			rec.Spec.Workload.Kind = kind
			rec.Name = workload.Identity{Kind: kind, Namespace: "shop", Name: "web"}.RecommendationName()
			l := newLab(t, rec, of.object)
			l.pass()
			require.Nil(t, l.rec().Status.AdmissionWithdrawn)
			of.event.LastTimestamp = metav1.NewTime(l.clock.Now())
			l.c.wakers().rejected(t.Context(), of.event)
			l.pass()
			require.NotNil(t, l.rec().Status.AdmissionWithdrawn)
			assert.Equal(t, v1alpha1.ReasonAdmissionRejected, l.rec().Status.AdmissionWithdrawn.Reason)
			assert.Contains(t, strings.Join(l.told, "\n"), "PartialObjectMetadata/web of AttuneRecommendation/"+rec.Name+": Warning AdmissionRejected", "on the owner")
		})
	}
}

// The controller names the pod three times before the reason, so the reason is not in the first 256 bytes.
func TestRejectionOfAPodWithALongNameWithdraws(t *testing.T) {
	name := strings.Repeat("w", 52)
	message := `create Pod NAME-0 in StatefulSet NAME failed error: pods "NAME-0" is forbidden: exceeded quota: compute-resources, ` +
		`requested: limits.cpu=1600m,requests.cpu=800m, used: limits.cpu=0,requests.cpu=0, limited: limits.cpu=1,requests.cpu=500m`
	rec := seeding(seen(t, template))
	rec.Spec.Workload.Kind, rec.Spec.Workload.Name = v1alpha1.KindStatefulSet, name
	rec.Name = "statefulset-" + name
	s := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "shop", UID: "web"}}
	s.Spec.Template.Spec.Containers = []corev1.Container{{Name: "app", Resources: podview.ToRequirements(template)}}
	l := newLab(t, rec, s)
	e := failedCreate("apps/v1", "StatefulSet", name, l.clock.Now())
	e.Message = strings.ReplaceAll(message, "NAME", name)
	_, err := trim.Object(e) // as the cache does
	require.NoError(t, err)
	require.Len(t, l.c.wakers().rejected(t.Context(), e), 1)
	last, _ := l.c.memory.rejections.Find(client.ObjectKeyFromObject(rec))
	assert.True(t, withdraw.MayReject(last.Message, withdraw.SeedEffect{Raises: true}), last.Message)
}

// A pod whose token does not fit into its memory limit waits forever; only its events have the reason.
func TestEventsOfAPodThatDoesNotStartAreRead(t *testing.T) {
	pod := born(t, running("web-1", sizeOf(12, 0, 1, 2)), "r1", template)
	pod.CreationTimestamp = metav1.NewTime(now.Add(-2 * time.Minute))
	pod.Status = corev1.PodStatus{Phase: corev1.PodPending}
	happened := func(reason, message string, at time.Time) *corev1.Event {
		return &corev1.Event{
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "e"}, Reason: reason, Message: message, LastTimestamp: metav1.NewTime(at),
			InvolvedObject: corev1.ObjectReference{Kind: "Pod", Namespace: "shop", Name: "web-1", UID: "web-1"},
		}
	}
	const volume = `MountVolume.SetUp failed for volume "kube-api-access-7ql22" : `
	for name, tc := range map[string]struct {
		event *corev1.Event
		ours  bool
	}{
		"no space":              {happened("FailedMount", volume+"write ca.crt: no space left on device", now.Add(-time.Minute)), true},
		"a missing ConfigMap":   {happened("FailedMount", `MountVolume.SetUp failed for volume "config" : configmap "web" not found`, now), false},
		"long ago":              {happened("FailedMount", volume+"no space left on device", now.Add(-time.Hour)), false},
		"an event of no matter": {happened("Scheduled", "Successfully assigned", now), false},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t, seeding(seen(t, template)), deploymentOf(template, 1), pod.DeepCopy())
			l.c.Live = fake.NewClientBuilder().WithScheme(l.api.Scheme()).WithObjects(tc.event).
				WithIndex(&corev1.Event{}, "involvedObject.uid", func(o client.Object) []string { return []string{string(o.(*corev1.Event).InvolvedObject.UID)} }).Build()
			l.pass()
			assert.Equal(t, tc.ours, l.rec().Status.AdmissionWithdrawn != nil)
			if tc.ours {
				assert.Contains(t, l.rec().Status.AdmissionWithdrawn.Message, "no space left on device")
			}
			words, known := l.c.memory.stalled.read(types.UID("web-1"), reportLasts, l.clock.Now())
			assert.True(t, known, "it is not asked again at once")
			assert.Equal(t, tc.ours, words != "")
			_, known = l.c.memory.stalled.read(types.UID("web-1"), reportLasts, l.clock.Now().Add(time.Minute))
			assert.False(t, known)
		})
	}
}
