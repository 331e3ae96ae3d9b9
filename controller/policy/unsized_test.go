package policy

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/policy"
	"attune.io/attune/internal/trim"
	"attune.io/attune/internal/workload"
)

// contain gives a workload of a fleet so many containers.
func (f *fleet) contain(i, containers int) {
	d := f.memory.objects["Deployment/shop"][fleetName(i)].DeepCopyObject().(*appsv1.Deployment)
	first := d.Spec.Template.Spec.Containers[0]
	d.Spec.Template.Spec.Containers = nil
	for c := range containers {
		d.Spec.Template.Spec.Containers = append(d.Spec.Template.Spec.Containers, corev1.Container{Name: fmt.Sprintf("c%04d", c), Image: first.Image, Resources: first.Resources})
	}
	f.memory.put(d)
}

// A workload with too many containers gets no recommendation and no series, and its policy reports that; the others
// are sized. With one container less, it is sized.
func TestAWorkloadOfTooManyContainersIsNotSized(t *testing.T) {
	f := newFleet(t, 4)
	f.contain(1, policy.MostContainers+1)
	f.contain(2, policy.MostContainers)
	f.contain(3, 2000)
	f.pass(t)
	recs := f.memory.recommendations("shop")
	require.Len(t, recs, 2)
	assert.Equal(t, 1+policy.MostContainers, f.published.containers())
	assert.Equal(t, metav1.ConditionFalse, f.ready().Status)
	assert.Equal(t, v1alpha1.ReasonTooManyContainers, f.ready().Reason)
	assert.EqualValues(t, 4, f.policy().Status.Workloads.Discovered)
	assert.EqualValues(t, 2, f.policy().Status.Workloads.WithRecommendations)
	assert.Equal(t, "2 of 4 workloads are not sized, because each has more than 64 containers: Deployment/app-000001 and 1 more", f.ready().Message)

	f.contain(1, policy.MostContainers)
	f.contain(3, 1)
	f.pass(t)
	assert.Len(t, f.memory.recommendations("shop"), 4)
	assert.Equal(t, v1alpha1.ReasonMonitoring, f.ready().Reason)
}

// Containers that end before the others start count, as do sidecars: all of them are in every pod.
func TestInitContainersCount(t *testing.T) {
	f := newFleet(t, 1)
	f.contain(0, policy.MostContainers)
	d := f.memory.objects["Deployment/shop"][fleetName(0)].DeepCopyObject().(*appsv1.Deployment)
	d.Spec.Template.Spec.InitContainers = []corev1.Container{{Name: "first"}}
	f.memory.put(d)
	f.pass(t)
	assert.Empty(t, f.memory.recommendations("shop"))
	assert.Equal(t, v1alpha1.ReasonTooManyContainers, f.ready().Reason, "it has no others")
}

// A tenant with ten workloads of 2,000 containers costs other tenants nothing.
func TestManyContainersCostNothing(t *testing.T) {
	f := newFleet(t, 10)
	for i := range 10 {
		f.contain(i, 2000)
	}
	f.pass(t)
	assert.Empty(t, f.memory.recommendations("shop"))
	assert.Zero(t, f.published.containers())
	var status []byte
	status, err := json.Marshal(f.policy().Status)
	require.NoError(t, err)
	assert.Less(t, len(status), 4<<10)
}

// A sized workload that grows beyond the limit is released like one that no policy selects any more: it gets no seed
// from then on, and its open records are completed, for which its policy is kept.
func TestWorkloadThatGrowsTooLargeIsReleased(t *testing.T) {
	f := newFleet(t, 2)
	f.pass(t)
	rec := f.memory.recommendations("shop")[0].DeepCopy()
	require.NotNil(t, rec.Spec.Seed)
	rec.Status.Records = []v1alpha1.ResizeRecord{{PodUID: "pod", PodName: "app"}}
	rec.Status.Verified = []v1alpha1.VerifiedResources{{Name: "app"}}
	f.memory.put(rec)
	f.contain(0, policy.MostContainers+1)
	f.pass(t)

	now := f.memory.recommendations("shop")[0]
	assert.True(t, released(now.Spec))
	assert.Equal(t, v1alpha1.ReasonTooManyContainers, now.Spec.SeedBlocked)
	assert.Equal(t, rec.Status, now.Status, "the workload loop finishes what is open")
	assert.Contains(t, f.policy().Finalizers, v1alpha1.CleanupFinalizer)
	f.memory.written()
	f.pass(t)
	assert.Zero(t, f.memory.written(), "it is said once")

	rec = now.DeepCopy()
	rec.Status.Records = nil
	f.memory.put(rec)
	f.pass(t)
	assert.Empty(t, f.policy().Finalizers)
	f.contain(0, 1)
	f.pass(t)
	assert.NotEmpty(t, f.memory.recommendations("shop")[0].Spec.Containers)
}

// age a workload of a fleet: the higher, the younger.
func (f *fleet) age(i, seconds int) {
	d := f.memory.objects["Deployment/shop"][fleetName(i)].DeepCopyObject().(*appsv1.Deployment)
	d.CreationTimestamp = metav1.NewTime(today.Add(time.Duration(seconds) * time.Second))
	f.memory.put(d)
}

// The oldest workloads of a namespace are sized, whichever policies select them; the others' policy reports how many
// are not. A workload that gets a place is sized.
func TestWorkloadsBeyondTheBoundAreLeftOut(t *testing.T) {
	f := newFleet(t, 5)
	f.most = 3
	for i := range 5 {
		f.age(i, 10-i)
	}
	f.pass(t)
	var sized []string
	for _, rec := range f.memory.recommendations("shop") {
		sized = append(sized, rec.Spec.Workload.Name)
	}
	assert.Equal(t, []string{fleetName(2), fleetName(3), fleetName(4)}, sized)
	assert.Equal(t, metav1.ConditionFalse, f.ready().Status)
	assert.Equal(t, v1alpha1.ReasonTooManyWorkloads, f.ready().Reason)
	assert.Equal(t, "the policies of namespace shop select more than 3 workloads or 12 containers; attune sizes the oldest, and 2 of this policy's 5 workloads are not sized: Deployment/app-000000 and 1 more", f.ready().Message)

	delete(f.memory.objects["Deployment/shop"], fleetName(4))
	f.age(0, -1) // created again it would be younger; here it is the oldest
	f.pass(t)
	byName := map[string]*v1alpha1.AttuneRecommendation{}
	for _, rec := range f.memory.recommendations("shop") {
		byName[rec.Spec.Workload.Name] = rec
	}
	assert.NotEmpty(t, byName[fleetName(0)].Spec.Containers)
	assert.Nil(t, byName[fleetName(1)])
	assert.Equal(t, "PolicyNoLongerMatches", byName[fleetName(4)].Spec.SeedBlocked)

	f.most = 2
	f.age(1, 20)
	f.pass(t)
	younger := f.memory.recommendations("shop")[1]
	require.Equal(t, fleetName(2), younger.Spec.Workload.Name)
	assert.Equal(t, v1alpha1.ReasonTooManyWorkloads, younger.Spec.SeedBlocked, "an older one took its place")
	f.most = 5
	f.age(1, 21)
	f.pass(t)
	assert.Equal(t, v1alpha1.ReasonMonitoring, f.ready().Reason)
}

// Their containers count as well: workloads with many containers are fewer.
func TestContainersOfANamespaceAreBounded(t *testing.T) {
	f := newFleet(t, 5)
	f.most = 5 // and 20 containers
	for i := range 5 {
		f.contain(i, 8)
	}
	f.pass(t)
	assert.Len(t, f.memory.recommendations("shop"), 2)
	assert.Equal(t, 16, f.published.containers())
	assert.Contains(t, f.ready().Message, "and 3 of this policy's 5 workloads are not sized: Deployment/app-000002 and 2 more")
}

// Which workloads are left out does not depend on the order in which a cache lists them, or on policies. Workloads
// that no policy selects or that are too large take no place.
func TestLeftOutWorkloadsDependOnAgeAndName(t *testing.T) {
	policies := []v1alpha1.AttunePolicy{
		claiming("blue", 0, func(s *v1alpha1.AttunePolicySpec) {
			s.TargetRef.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"team": "blue"}}
		}),
		claiming("red", 1, func(s *v1alpha1.AttunePolicySpec) {
			s.TargetRef.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"team": "red"}}
		}),
	}
	large := versioned("large", 9, "red").(*appsv1.Deployment)
	large.Spec.Template.Spec.Containers = make([]corev1.Container, policy.MostContainers+1)
	objects := []workload.Object{
		versioned("a", 1, "blue"), versioned("b", 2, "red"), versioned("c", 3, "blue"), versioned("d", 4, "red"),
		versioned("0", 5, "green"), large,
	}
	objects[3].SetCreationTimestamp(metav1.NewTime(today.Add(-time.Hour)))
	for i := range 3 {
		objects[i].SetCreationTimestamp(metav1.NewTime(today))
	}
	var none *matching
	for range len(objects) {
		objects = append(objects[1:], objects[0])
		m := none.next(policies, objects, 3)
		assert.Equal(t, []string{"a"}, names(m.to("blue").won))
		assert.Equal(t, []string{"b", "d"}, names(m.to("red").won), "the oldest, and of equal ones those that come first by name")
		assert.Equal(t, unsized{1, "Deployment/c"}, m.to("blue").younger)
		assert.Equal(t, unsized{1, "Deployment/large"}, m.to("red").crowded)
		assert.Same(t, m, m.next(policies, objects, 3))
		assert.NotSame(t, m, m.next(policies, objects, 2))
		assert.Equal(t, []string{"a", "c"}, names(m.next(policies, objects, 4).to("blue").won))
	}
}

// The namespace's limit is fixed.
func TestANamespaceHasSoManyWorkloads(t *testing.T) {
	f := newFleet(t, policy.MostWorkloads+2)
	f.change(func(s *v1alpha1.AttunePolicySpec) { s.UpdateStrategy.Type = ptr.To(v1alpha1.UpdateObserve) })
	f.pass(t)
	assert.Len(t, f.memory.recommendations("shop"), policy.MostWorkloads)
	assert.Contains(t, f.ready().Message, "select more than 2000 workloads or 8000 containers")
}

// Finished Jobs create no more pods, and take no Deployment's place.
func TestEndedJobsComeLast(t *testing.T) {
	long := metav1.NewTime(today.Add(-30 * 24 * time.Hour))
	var objects []workload.Object
	for i := range 3 {
		job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: fmt.Sprint("job-", i), ResourceVersion: "1", CreationTimestamp: long}}
		if i > 0 {
			job.Status.Conditions = []batchv1.JobCondition{{Type: []batchv1.JobConditionType{batchv1.JobComplete, batchv1.JobFailed}[i-1], Status: corev1.ConditionTrue, Message: "long"}}
		}
		_, err := trim.Object(job)
		require.NoError(t, err)
		objects = append(objects, job)
	}
	web := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", ResourceVersion: "1", CreationTimestamp: metav1.NewTime(today)}}
	objects = append(objects, web)
	jobs := claiming("jobs", 0, func(s *v1alpha1.AttunePolicySpec) { s.TargetRef.Kind = v1alpha1.KindJob })
	all := claiming("web", 1, func(s *v1alpha1.AttunePolicySpec) { s.TargetRef.Kind = v1alpha1.KindDeployment })
	var none *matching
	m := none.next([]v1alpha1.AttunePolicy{jobs, all}, objects, 2)
	assert.Equal(t, []string{"web"}, names(m.to("web").won))
	assert.Equal(t, []string{"job-0"}, names(m.to("jobs").won), "the one that runs")
}
