package tuning_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/resize"
	"attune.io/attune/tuning"
)

// The numbers of a quota change with every pod of the namespace. That sends no new event.
func TestAQuotasFiguresAreNoNews(t *testing.T) {
	d := tuning.NewPass(tuning.View{}, v1alpha1.AttuneRecommendationStatus{})
	quota := func(message string) *resize.Refusal {
		return &resize.Refusal{Reason: resize.ReasonQuota, Message: message, Transient: true}
	}
	d.Skip(quota("990m of 1 in use"))
	d.SetCondition(tuning.BlockedCondition(quota("990m of 1 in use")))
	d.Skip(quota("995m of 1 in use"))
	d.Skip(nil)
	assert.Len(t, d.Events(), 1)
	d.SetCondition(tuning.BlockedCondition(nil))
	d.Skip(quota("995m of 1 in use"))
	assert.Len(t, d.Events(), 2, "it had passed")
}
