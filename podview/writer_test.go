package podview_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"attune.io/attune/podview"
)

func TestWriterOfAResize(t *testing.T) {
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	entry := func(manager, subresource, fields string, ago time.Duration) metav1.ManagedFieldsEntry {
		return metav1.ManagedFieldsEntry{Manager: manager, Subresource: subresource, Time: &metav1.Time{Time: at.Add(-ago)}, FieldsV1: metav1.NewFieldsV1(fields)}
	}
	const sizes = `{"f:spec":{"f:containers":{"k:{\"name\":\"app\"}":{"f:resources":{"f:requests":{"f:cpu":{}}}}}}}`
	pod := &corev1.Pod{}
	pod.ManagedFields = []metav1.ManagedFieldsEntry{
		entry("kube-controller-manager", "", sizes, 0),
		entry("kubelet", "status", `{"f:status":{"f:containerStatuses":{}}}`, 0),
		entry(podview.FieldManager, "resize", sizes, 0),
		entry("labels", "resize", `{"f:metadata":{"f:labels":{}}}`, 0),
		{Manager: "no time", Subresource: "resize"},
	}
	by, when := podview.ResizedBy(pod)
	assert.Empty(t, by)
	assert.True(t, when.IsZero())

	pod.ManagedFields = append(pod.ManagedFields, entry("kubectl-patch", "resize", sizes, 2*time.Hour), entry("cnpg", "resize", sizes, time.Hour), entry("older", "resize", sizes, 3*time.Hour))
	by, when = podview.ResizedBy(pod)
	assert.Equal(t, "cnpg", by, "the last one")
	assert.Equal(t, at.Add(-time.Hour), when)
}
