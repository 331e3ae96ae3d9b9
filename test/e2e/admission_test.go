package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"attune.io/attune/api/v1alpha1"
)

// TestInitialSeedsNewPodsOnly: pods born in a labelled namespace have the target's size and say so;
// pods that ran before, and pods born in a namespace without the label, have what their template says.
func TestInitialSeedsNewPodsOnly(t *testing.T) {
	ctx := need(t)
	namespace(ctx, t, "initial", true)
	namespace(ctx, t, "unlabelled", false)
	d := deployment(ctx, t, "initial", "web", 1, app("app", asked))
	other := deployment(ctx, t, "unlabelled", "web", 1, app("app", asked))
	before := pods(ctx, t, d)[0]
	policyFor(ctx, t, d, v1alpha1.UpdateInitial, nil)
	policyFor(ctx, t, other, v1alpha1.UpdateInitial, nil)
	for _, each := range []*appsv1.Deployment{d, other} {
		eventually(t, "a seed for "+each.Namespace, func() error { return hasSeed(ctx, each) })
	}
	eventually(t, "the webhook knows the seed", func() error { return createdWith(ctx, d, wanted) })

	scale(ctx, t, d, 3)
	scale(ctx, t, other, 2)
	for _, pod := range pods(ctx, t, d) {
		if pod.UID == before.UID {
			assert.Equal(t, asked, sizeOf(pod.Spec.Containers[0].Resources), "a running pod of an Initial policy")
			assert.Equal(t, before.Generation, pod.Generation)
			continue
		}
		assert.Equal(t, wanted, sizeOf(pod.Spec.Containers[0].Resources), "a pod born later")
		assert.Equal(t, before.Status.QOSClass, pod.Status.QOSClass)
		assert.Equal(t, asked, seededFrom(t, pod), "the annotation's original")
		changed := pod.DeepCopy()
		metav1.SetMetaDataLabel(&changed.ObjectMeta, "changed", "later")
		require.NoError(t, env.client.Patch(ctx, changed, client.MergeFrom(&pod)), "a later change of a seeded pod is nothing to the webhook")
		assert.Equal(t, wanted, sizeOf(changed.Spec.Containers[0].Resources))
	}
	for _, pod := range pods(ctx, t, other) {
		assert.Equal(t, asked, sizeOf(pod.Spec.Containers[0].Resources), "a pod born in an unlabelled namespace")
		assert.NotContains(t, pod.Annotations, v1alpha1.SeededAnnotation)
	}
}

// seededFrom is the original size that a seeded pod's annotation tells.
func seededFrom(t *testing.T, pod corev1.Pod) size {
	t.Helper()
	var seeded v1alpha1.Seeded
	require.NoError(t, json.Unmarshal([]byte(pod.Annotations[v1alpha1.SeededAnnotation]), &seeded))
	require.Len(t, seeded.Original, 1)
	text := func(q *resource.Quantity) string {
		if q == nil {
			return ""
		}
		return q.String()
	}
	o := seeded.Original[0]
	return size{cpu: text(o.CPURequest), memory: text(o.MemoryRequest), cpuLimit: text(o.CPULimit), memoryLimit: text(o.MemoryLimit)}
}

func hasSeed(ctx context.Context, d *appsv1.Deployment) error {
	rec, err := recommendation(ctx, d)
	if err != nil {
		return err
	}
	if rec.Spec.Seed == nil {
		return fmt.Errorf("withheld: %s; containers %v", rec.Spec.SeedBlocked, rec.Spec.Containers)
	}
	return nil
}

func hasNoSeed(ctx context.Context, d *appsv1.Deployment) error {
	rec, err := recommendation(ctx, d)
	if err == nil && rec.Spec.Seed != nil {
		err = fmt.Errorf("seed %v", rec.Spec.Seed)
	}
	return err
}

func scale(ctx context.Context, t *testing.T, d *appsv1.Deployment, replicas int32) {
	t.Helper()
	before := d.DeepCopy()
	d.Spec.Replicas = ptr.To(replicas)
	require.NoError(t, env.client.Patch(ctx, d, client.MergeFrom(before)))
	ready(ctx, t, d)
}

// dryRunPod is a pod as the Deployment's ReplicaSet would create it, admitted in a dry run: what it would
// be born as, without disturbing the workload.
func dryRunPod(ctx context.Context, d *appsv1.Deployment) (*corev1.Pod, error) {
	set, err := replicaSet(ctx, d)
	if err != nil {
		return nil, err
	}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			GenerateName: set.Name + "-", Namespace: d.Namespace, Labels: set.Spec.Template.Labels,
			Annotations: d.Spec.Template.Annotations,
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: "apps/v1", Kind: "ReplicaSet", Name: set.Name, UID: set.UID,
				Controller: ptr.To(true), BlockOwnerDeletion: ptr.To(true),
			}},
		},
		Spec: *d.Spec.Template.Spec.DeepCopy(),
	}
	return pod, env.client.Create(ctx, pod, client.DryRunAll)
}

func replicaSet(ctx context.Context, d *appsv1.Deployment) (*appsv1.ReplicaSet, error) {
	sets := &appsv1.ReplicaSetList{}
	if err := env.client.List(ctx, sets, client.InNamespace(d.Namespace), client.MatchingLabels(d.Spec.Selector.MatchLabels)); err != nil {
		return nil, err
	}
	for i := range sets.Items {
		if *sets.Items[i].Spec.Replicas > 0 {
			return &sets.Items[i], nil
		}
	}
	return nil, fmt.Errorf("%s has no ReplicaSet with pods", d.Name)
}

// createdWith checks the size of the first container of a pod that would be born now.
func createdWith(ctx context.Context, d *appsv1.Deployment, want size) error {
	pod, err := dryRunPod(ctx, d)
	if err != nil {
		return err
	}
	if got := sizeOf(pod.Spec.Containers[0].Resources); got != want {
		return fmt.Errorf("born with %v, want %v", got, want)
	}
	return nil
}
