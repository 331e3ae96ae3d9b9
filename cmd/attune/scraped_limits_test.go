package main

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/usage/embedded"
)

// Limits are returned for pods whose workloads are in a mode that raises memory before an OOM kill.
func TestLimits(t *testing.T) {
	scheme := runtime.NewScheme()
	require.NoError(t, clientgoscheme.AddToScheme(scheme))
	require.NoError(t, v1alpha1.AddToScheme(scheme))
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "db-0",
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "StatefulSet", Name: "db", Controller: ptr.To(true)}}}}
	pod.Spec.Containers = []corev1.Container{
		{Name: "app", Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("450Mi")}}}, {Name: "side"},
	}
	orphan := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "orphan"}}
	for mode, told := range map[v1alpha1.UpdateType]bool{v1alpha1.UpdateAuto: true, v1alpha1.UpdateCanary: true, v1alpha1.UpdateOneShot: false, v1alpha1.UpdateRecommend: false} {
		rec := &v1alpha1.AttuneRecommendation{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "statefulset-db"}}
		rec.Spec.Workload, rec.Spec.Mode = v1alpha1.WorkloadRef{Kind: v1alpha1.KindStatefulSet, Name: "db"}, mode
		reader := scrapedPods{fake.NewClientBuilder().WithScheme(scheme).WithObjects(pod, orphan, rec).Build(), func(namespace string) bool { return namespace == "shop" }}
		limits, err := reader.Limits(t.Context(), embedded.Pod{Namespace: "shop", Name: "db-0"})
		require.NoError(t, err)
		if want := map[string]float64(nil); !told {
			assert.Equal(t, want, limits, mode)
		} else {
			assert.Equal(t, map[string]float64{"app": 450 << 20}, limits, mode)
		}
		raised, err := reader.Raised(t.Context())
		require.NoError(t, err)
		assert.Equal(t, told, raised["shop"], mode)
		name, known := reader.Recommendation(t.Context(), embedded.Pod{Namespace: "shop", Name: "db-0"})
		assert.True(t, known)
		assert.Equal(t, types.NamespacedName{Namespace: "shop", Name: "statefulset-db"}, name)
		for _, other := range []embedded.Pod{{Namespace: "shop", Name: "orphan"}, {Namespace: "shop", Name: "gone"}, {Namespace: "other", Name: "db-0"}} {
			limits, err := reader.Limits(t.Context(), other)
			require.NoError(t, err)
			assert.Empty(t, limits)
			_, known := reader.Recommendation(t.Context(), other)
			assert.False(t, known)
		}
	}
}
