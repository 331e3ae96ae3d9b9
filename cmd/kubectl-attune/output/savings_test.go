package output

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/answers"
)

// Without the pods, saved amounts are not known. Without a workload there is no table.
func TestUnknownIsNotZero(t *testing.T) {
	rec := &v1alpha1.AttuneRecommendation{ObjectMeta: metav1.ObjectMeta{Namespace: "shop"}, Spec: v1alpha1.AttuneRecommendationSpec{Workload: v1alpha1.WorkloadRef{Name: "web"}}}
	answer := Savings{SavingsReport: answers.NewSavingsReport([]answers.SavingsEntry{{View: answers.View{Recommendation: rec}, Figures: answers.SavingsFigures{Available: answers.SavedAmounts{-200, 1 << 30}}}}, false)}
	assert.Nil(t, answer.Total.Saved)
	assert.Nil(t, answer.Workloads[0].Saved)
	out, err := answer.Human(false)
	require.NoError(t, err)
	assert.Contains(t, out, "Saved already: not known.\nAvailable, not applied yet: -200m of CPU and 1Gi of memory.\nEverything is counted.\n")
	out, err = Savings{SavingsReport: answers.NewSavingsReport(nil, true)}.Human(true)
	require.NoError(t, err)
	assert.Empty(t, out)
}
