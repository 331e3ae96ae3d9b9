package workload

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/board"
	"attune.io/attune/internal/workload"
	"attune.io/attune/tuning"
)

// TestNoFinalizerBlocksNamespaceDeletion: if attune has Roles in namespaces, the permission to remove a finalizer is
// deleted with the namespace, and so are the pods under observation.
func TestNoFinalizerBlocksNamespaceDeletion(t *testing.T) {
	for name, terminating := range map[string]bool{"stays": false, "goes": true} {
		t.Run(name, func(t *testing.T) {
			scheme := runtime.NewScheme()
			require.NoError(t, corev1.AddToScheme(scheme))
			require.NoError(t, v1alpha1.AddToScheme(scheme))
			namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}
			if terminating {
				namespace.Finalizers, namespace.DeletionTimestamp = []string{"kubernetes"}, &metav1.Time{Time: time.Now()}
			}
			rec := &v1alpha1.AttuneRecommendation{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "deployment-web", Finalizers: []string{"example.com/other", v1alpha1.RecordsFinalizer}}}
			rec.Status.Records = []v1alpha1.ResizeRecord{{PodName: "web-1", PodUID: "u"}}
			c := &Controller{Grants: &board.Grants{}, Confirmed: &board.Confirmed{}, Client: fake.NewClientBuilder().WithScheme(scheme).WithObjects(namespace, rec).Build(), Clock: clock.RealClock{}}
			require.NoError(t, c.Client.Get(t.Context(), client.ObjectKeyFromObject(rec), rec))
			for range 2 {
				require.NoError(t, c.storer().guard(t.Context(), rec, true))
			}
			require.NoError(t, c.Client.Get(t.Context(), client.ObjectKeyFromObject(rec), rec))
			if terminating {
				assert.Equal(t, []string{"example.com/other"}, rec.Finalizers)
			} else {
				assert.Contains(t, rec.Finalizers, v1alpha1.RecordsFinalizer)
			}
		})
	}
}

// TestNamespaceIsSizedAsTheWebhookSelects: a pod is evicted only if the webhook sizes its successor.
func TestNamespaceIsSizedAsTheWebhookSelects(t *testing.T) {
	labelled := map[string]string{v1alpha1.InjectLabel: v1alpha1.InjectEnabled}
	for name, c := range map[string]struct {
		labels map[string]string
		of     workload.Admission
		sized  bool
	}{
		"labelled":             {labelled, workload.Admission{}, true},
		"no label":             {nil, workload.Admission{}, false},
		"excluded":             {labelled, workload.Admission{Excluded: []string{"shop"}}, false},
		"not watched":          {labelled, workload.Admission{Watched: []string{"bank"}}, false},
		"attune's own":         {labelled, workload.Admission{Operator: "shop"}, false},
		"another one excluded": {labelled, workload.Admission{Operator: "attune-system", Excluded: []string{"bank"}, Watched: []string{"shop"}}, true},
	} {
		t.Run(name, func(t *testing.T) {
			scheme := runtime.NewScheme()
			require.NoError(t, corev1.AddToScheme(scheme))
			require.NoError(t, policyv1.AddToScheme(scheme))
			namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop", Labels: c.labels}}
			loop := &Controller{Client: fake.NewClientBuilder().WithScheme(scheme).WithObjects(namespace).Build(), Access: Access{Admission: c.of}}
			view := tuning.View{Rec: &v1alpha1.AttuneRecommendation{ObjectMeta: metav1.ObjectMeta{Namespace: "shop"}}}
			require.NoError(t, loop.observeNamespace(t.Context(), &view))
			assert.Equal(t, c.sized, view.Namespace.NotSized == "", view.Namespace.NotSized)
		})
	}
}
