package constraint

import (
	"testing"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"

	"attune.io/attune/recommender"
)

// The quotas of a namespace limit the seed of a new pod and the resize of a running one. Admission is stricter: it
// takes the smaller amount of spec and status, rounded down, and ignores scopes.
func TestAdmissionReadsAQuotaMoreStrictlyThanAResize(t *testing.T) {
	pod := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Resources: corev1.ResourceRequirements{
		Requests: list("cpu=1 memory=1Gi"), Limits: list("memory=1Gi"),
	}}}}}
	quota := func(spec, hard, used string, scopes ...corev1.ResourceQuotaScope) *corev1.ResourceQuota {
		return &corev1.ResourceQuota{
			Spec:   corev1.ResourceQuotaSpec{Hard: list(spec), Scopes: scopes},
			Status: corev1.ResourceQuotaStatus{Hard: list(hard), Used: list(used)},
		}
	}
	const all = recommender.MaxAmount
	for name, tc := range map[string]struct {
		quota       *corev1.ResourceQuota
		more, whole recommender.Amount // CPU that a resize and a new pod may have; all means no limit
	}{
		"counted":                      {quota("requests.cpu=10", "requests.cpu=10", "requests.cpu=9"), 1000, 1000},
		"under its short name":         {quota("cpu=10", "cpu=10", "cpu=9"), 1000, 1000},
		"a part of a millicore":        {quota("cpu=9000500u", "cpu=9000500u", "cpu=9"), 1, 0},
		"tightened, not yet in force":  {quota("cpu=9500m", "cpu=10", "cpu=9"), 1000, 500},
		"added, not yet in force":      {quota("cpu=10", "", ""), all, 0},
		"not counted yet":              {quota("cpu=10", "cpu=10", ""), 0, 0},
		"of jobs alone":                {quota("cpu=10", "cpu=10", "cpu=9", corev1.ResourceQuotaScopeTerminating), all, 1000},
		"of a class that the pod has":  {quota("cpu=10", "cpu=10", "cpu=9", corev1.ResourceQuotaScopeNotBestEffort), 1000, 1000},
		"of limits that it has not":    {quota("limits.cpu=10", "limits.cpu=10", "limits.cpu=9"), 0, all},
		"of something else altogether": {quota("pods=10", "pods=10", "pods=10"), all, all},
	} {
		t.Run(name, func(t *testing.T) {
			room, left := NewQuotaRoom([]corev1.ResourceQuota{*tc.quota}), QuotaLeftOf(tc.quota)
			assert.Equal(t, tc.more, room.Left(pod)[recommender.CPU].Request)
			fits := func(request recommender.Amount) bool {
				return left.Admits(recommender.CPU, recommender.Allocation{}, recommender.Allocation{Request: request})
			}
			assert.True(t, fits(tc.whole))
			assert.Equal(t, tc.whole == all, fits(tc.whole+1))
		})
	}
}
