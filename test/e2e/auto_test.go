package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/test/cluster"
)

// 100m and 100Mi used: 100m + 20 % and 100Mi + 30 %, and no more (maxAllowed: confidence is a little
// under 1 at times); limits at twice the request, as the template has them.
var (
	asked  = size{cpu: "250m", memory: "512Mi", cpuLimit: "500m", memoryLimit: "1Gi"}
	wanted = size{cpu: "120m", memory: "130Mi", cpuLimit: "240m", memoryLimit: "260Mi"}
)

// TestAutoResizesARunningPodInPlace: the same pod, not restarted, has other requests and limits, in its
// spec, its status and its cgroup; after a clean watch the size is kept and new pods are born with it. No bound
// of the policy's says how large it is: what the workload used does. The web page shows the target that explain does.
func TestAutoResizesARunningPodInPlace(t *testing.T) {
	ctx := need(t)
	namespace(ctx, t, "auto", true)
	web := newDeployment("auto", "web", 1, app("app", asked))
	for _, o := range []owner{{web, v1alpha1.KindDeployment, nil}, statefulSetOf("db", web), daemonSetOf("agent", web)} {
		t.Run(string(o.kind), func(t *testing.T) {
			t.Parallel()
			resizedInPlace(t, o)
		})
	}
}

// owner is a workload with one pod; template is what its pods come from, nil where they come from a ReplicaSet.
type owner struct {
	client.Object
	kind     v1alpha1.WorkloadKind
	template *corev1.PodTemplateSpec
}

func statefulSetOf(name string, like *appsv1.Deployment) owner {
	labels, template := renamed(name, like)
	return owner{&appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: like.Namespace, Name: name},
		Spec:       appsv1.StatefulSetSpec{Replicas: ptr.To[int32](1), ServiceName: name, Selector: labels, Template: template},
	}, v1alpha1.KindStatefulSet, &template}
}

// daemonSetOf is one that has a pod on the first node only.
func daemonSetOf(name string, like *appsv1.Deployment) owner {
	labels, template := renamed(name, like)
	onNode(&template.Spec, 1)
	return owner{&appsv1.DaemonSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: like.Namespace, Name: name},
		Spec:       appsv1.DaemonSetSpec{Selector: labels, Template: template},
	}, v1alpha1.KindDaemonSet, &template}
}

func renamed(name string, like *appsv1.Deployment) (*metav1.LabelSelector, corev1.PodTemplateSpec) {
	template := *like.Spec.Template.DeepCopy()
	template.Labels = map[string]string{"app": name}
	return &metav1.LabelSelector{MatchLabels: template.Labels}, template
}

// named is as much of a Deployment as tells where an owner is.
func (o owner) named() *appsv1.Deployment {
	return &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: o.GetNamespace(), Name: o.GetName()}}
}

// pod is the owner's only one, once it is ready.
func (o owner) pod(t *testing.T) (pod corev1.Pod) {
	t.Helper()
	within(t, roomComes, "the pod of "+o.GetName()+" ready", func() error {
		list := &corev1.PodList{}
		if err := env.client.List(t.Context(), list, client.InNamespace(o.GetNamespace()), client.MatchingLabels{"app": o.GetName()}); err != nil {
			return err
		}
		if len(list.Items) != 1 {
			return fmt.Errorf("%d pods", len(list.Items))
		}
		pod = list.Items[0]
		return is(t, &pod, corev1.PodReady, "")
	})
	return pod
}

// createdWith checks the size of a pod that the owner's controller would create now.
func (o owner) createdWith(ctx context.Context, want size) error {
	if d, ok := o.Object.(*appsv1.Deployment); ok {
		return createdWith(ctx, d, want)
	}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			GenerateName: o.GetName() + "-", Namespace: o.GetNamespace(), Labels: o.template.Labels,
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: string(o.kind), Name: o.GetName(), UID: o.GetUID(), Controller: ptr.To(true)}},
		},
		Spec: *o.template.Spec.DeepCopy(),
	}
	if err := env.client.Create(ctx, pod, client.DryRunAll); err != nil {
		return err
	}
	if got := sizeOf(pod.Spec.Containers[0].Resources); got != want {
		return fmt.Errorf("born with %v, want %v", got, want)
	}
	return nil
}

func (o owner) recommendation(ctx context.Context) (*v1alpha1.AttuneRecommendation, error) {
	rec := &v1alpha1.AttuneRecommendation{}
	name := strings.ToLower(string(o.kind)) + "-" + o.GetName()
	return rec, env.client.Get(ctx, client.ObjectKey{Namespace: o.GetNamespace(), Name: name}, rec)
}

func resizedInPlace(t *testing.T, o owner) {
	ctx := t.Context()
	require.NoError(t, env.client.Create(ctx, o.Object))
	t.Cleanup(func() {
		if !t.Failed() {
			require.NoError(t, env.client.Delete(context.WithoutCancel(ctx), o.Object, client.PropagationPolicy(metav1.DeletePropagationBackground)))
		}
	})
	before := o.pod(t)
	require.Equal(t, asked, sizeOf(before.Spec.Containers[0].Resources), "seeded before there was a policy")
	policyFor(ctx, t, o.named(), v1alpha1.UpdateAuto, func(s *v1alpha1.AttunePolicySpec) {
		s.TargetRef.Kind = o.kind
		s.CPU.MaxAllowed, s.Memory.MaxAllowed = nil, nil
	})

	var after corev1.Pod
	eventually(t, "resized on the kubelet", func() error {
		if err := env.client.Get(ctx, client.ObjectKeyFromObject(&before), &after); err != nil {
			return err
		}
		status, spec := after.Status.ContainerStatuses[0], sizeOf(after.Spec.Containers[0].Resources)
		if spec.cpu == asked.cpu || spec.memoryLimit == asked.memoryLimit || status.Resources == nil || sizeOf(*status.Resources) != spec {
			return fmt.Errorf("spec %v, status %v, conditions %v", spec, status.Resources, after.Status.Conditions)
		}
		return nil
	})
	assert.Equal(t, before.UID, after.UID)
	assert.Zero(t, after.Status.ContainerStatuses[0].RestartCount)
	assert.Equal(t, before.Status.ContainerStatuses[0].ContainerID, after.Status.ContainerStatuses[0].ContainerID)
	kept := isWhatWasUsed(t, after.Spec.Containers[0].Resources)
	cpu, limits := after.Spec.Containers[0].Resources.Requests.Cpu().MilliValue(), after.Spec.Containers[0].Resources.Limits
	grant, err := env.cluster.Grant(&after, "app")
	require.NoError(t, err)
	assert.Equal(t, cluster.GrantOf(grant.Version, cpu, limits.Cpu().MilliValue(), limits.Memory().Value()), grant)

	eventually(t, "kept after a clean watch", func() error {
		rec, err := o.recommendation(ctx)
		if err != nil {
			return err
		}
		if len(rec.Status.Verified) != 1 || len(rec.Status.Records) != 0 {
			return fmt.Errorf("kept %v, records %v", rec.Status.Verified, rec.Status.Records)
		}
		return nil
	})
	rec, err := o.recommendation(ctx)
	require.NoError(t, err)
	require.NotEmpty(t, rec.Status.History)
	assert.Equal(t, "Success", rec.Status.History[0].Result)

	eventually(t, "a new pod born with the kept size", func() error { return o.createdWith(ctx, kept) })
	if o.kind == v1alpha1.KindDeployment {
		onThePage(t, o)
	}
}

// isWhatWasUsed: 100m and 20 %, 100 MiB and 30 %, and at most 5 % more for what the history lacks; limits at twice that.
func isWhatWasUsed(t *testing.T, r corev1.ResourceRequirements) size {
	t.Helper()
	const lacks = 1.05
	cpu, memory := float64(r.Requests.Cpu().MilliValue()), float64(r.Requests.Memory().Value())/mebibyte
	assert.GreaterOrEqual(t, cpu, 120.0)
	assert.LessOrEqual(t, cpu, 120*lacks)
	assert.GreaterOrEqual(t, memory, 130.0)
	assert.LessOrEqual(t, memory, 130*lacks)
	assert.InDelta(t, 2*cpu, float64(r.Limits.Cpu().MilliValue()), 2)
	assert.InDelta(t, 2*memory, float64(r.Limits.Memory().Value())/mebibyte, 2)
	return sizeOf(r)
}
