package workload

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/podview"
	"attune.io/attune/recommender"
)

// abandoned is a lab with a deleted policy of two pods that were sized at admission. Its recommendation is released,
// as the policy loop does it. web-1 was OOM-killed since.
func abandoned(t *testing.T, objects ...client.Object) *lab {
	t.Helper()
	lowered := func(name string) *corev1.Pod { return born(t, running(name, seedSize), "r1", template) }
	rec := seen(t, template).Rec
	rec.Spec.Mode = v1alpha1.UpdateObserve
	rec.Status.Originals = []v1alpha1.Originals{{TemplateHash: "abc", Containers: []v1alpha1.ContainerResources{{Name: "app", Resources: podview.ToResources(template)}}}}
	objects = append(objects, deploymentOf(template, 2), endedBefore(lowered("web-1"), "OOMKilled", 1, time.Minute), lowered("web-2"))
	l := newLab(t, rec, objects...)
	require.NoError(t, l.api.Delete(t.Context(), &v1alpha1.AttunePolicy{ObjectMeta: metav1.ObjectMeta{Name: "all", Namespace: "shop"}}))
	return l
}

func (l *lab) sizeOf(pod string) recommender.Size {
	return podview.ReadSpec(l.pod(pod).Spec.Containers[0].Resources)
}

func TestADeletedPolicyKeepsTheSafetyNet(t *testing.T) {
	l := abandoned(t)
	l.storm(10)
	assert.Equal(t, 1, l.patches)
	assert.Equal(t, template, l.sizeOf("web-1"))
	assert.Equal(t, seedSize, l.sizeOf("web-2"), "nothing else begins without a policy")
	assert.Contains(t, l.rec().Finalizers, v1alpha1.RecordsFinalizer, "the record is open")
	degraded := meta.FindStatusCondition(l.rec().Status.Conditions, v1alpha1.ConditionDegraded)
	assert.Equal(t, v1alpha1.ReasonBelowOriginal, degraded.Reason)

	// The kubelet carries it out, and nothing else happens in a day.
	pod := l.pod("web-1")
	pod.Status.ObservedGeneration = pod.Generation
	status, resources := &pod.Status.ContainerStatuses[0], pod.Spec.Containers[0].Resources
	status.Resources, status.AllocatedResources = &resources, resources.Requests
	require.NoError(t, l.api.Status().Update(t.Context(), pod))
	l.live(24 * time.Hour)
	assert.Equal(t, 1, l.patches, "once for each kill")
	rec := l.rec()
	assert.Empty(t, rec.Status.Records)
	assert.Equal(t, v1alpha1.ReasonHealthy, meta.FindStatusCondition(rec.Status.Conditions, v1alpha1.ConditionDegraded).Reason)
	assert.NotContains(t, rec.Finalizers, v1alpha1.RecordsFinalizer)
	assert.Less(t, l.status, 10, "a day of rest")
}

// If the policy is deleted, the remaining defaults decide about reverts.
func TestDefaultsDecideAboutRevertsWithoutAPolicy(t *testing.T) {
	defaults := &v1alpha1.AttuneDefaults{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.DefaultsName}}
	defaults.Spec.UpdateStrategy = &v1alpha1.UpdateStrategy{AutoRevert: ptr.To(false)}
	l := abandoned(t, defaults)
	l.live(24 * time.Hour)
	assert.Zero(t, l.patches)
	degraded := meta.FindStatusCondition(l.rec().Status.Conditions, v1alpha1.ConditionDegraded)
	assert.Equal(t, v1alpha1.ReasonBelowOriginal, degraded.Reason)
	assert.Contains(t, degraded.Message, "autoRevert is false")
	assert.Less(t, l.status, 5, "it is said once")
}
