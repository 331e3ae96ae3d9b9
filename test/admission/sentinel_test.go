package admission

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// sentinel tells when the API server's plugins have seen every limit range and quota: they learn of
// changes in order, so once a last change has its effect, all before it have theirs.
type sentinel struct {
	api   kubernetes.Interface
	lr    *corev1.LimitRange
	quota *corev1.ResourceQuota
}

const (
	rangesPost = "sentinel-ranges"
	quotasPost = "sentinel-quotas"
)

// newSentinel has a limit range and a quota that refuse nothing yet. They are there from the start, for
// a plugin that knows nothing of a namespace asks the storage instead.
func newSentinel(t *testing.T, api kubernetes.Interface) *sentinel {
	t.Helper()
	makeNamespace(t, api, rangesPost)
	makeNamespace(t, api, quotasPost)
	return &sentinel{
		api: api,
		lr: makeRange(t, api, rangesPost, &corev1.LimitRange{ObjectMeta: metav1.ObjectMeta{Name: "last"}, Spec: corev1.LimitRangeSpec{
			Limits: []corev1.LimitRangeItem{{Type: corev1.LimitTypePod}},
		}}),
		quota: makeQuota(t, api, quotasPost, roomFor("10")),
	}
}

func roomFor(pods string) *corev1.ResourceQuota {
	hard := corev1.ResourceList{corev1.ResourcePods: resource.MustParse(pods)}
	return &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Name: "last"},
		Spec:       corev1.ResourceQuotaSpec{Hard: hard},
		Status:     corev1.ResourceQuotaStatus{Hard: hard, Used: corev1.ResourceList{corev1.ResourcePods: resource.MustParse("0")}},
	}
}

// await makes the last change and returns once the API server acts upon it.
func (s *sentinel) await(t *testing.T) {
	t.Helper()
	s.lr.Spec.Limits[0].Min = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}
	_, err := s.api.CoreV1().LimitRanges(rangesPost).Update(t.Context(), s.lr, metav1.UpdateOptions{})
	require.NoError(t, err)
	s.quota.Status.Hard = roomFor("0").Status.Hard
	_, err = s.api.CoreV1().ResourceQuotas(quotasPost).UpdateStatus(t.Context(), s.quota, metav1.UpdateOptions{})
	require.NoError(t, err)
	for _, post := range []string{rangesPost, quotasPost} {
		require.Eventually(t, func() bool { return try(t, s.api, post, plain()) != nil }, 5*time.Minute, 20*time.Millisecond, post)
	}
}

func plain() *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "plain"}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: "example.com/app"}}}}
}
