package answers_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/answers"
)

func TestNextResizeHasATimeOrAReason(t *testing.T) {
	rec := &v1alpha1.AttuneRecommendation{}
	assert.Empty(t, answers.NextResize(rec))
	rec.Status.NextResize = &v1alpha1.NextResize{Reason: "Quota"}
	assert.Equal(t, "Next resize: no time is known (Quota).", answers.NextResize(rec))
	rec.Status.NextResize.At = &metav1.Time{Time: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)}
	assert.Equal(t, "Next resize: not before 2026-03-01T12:00:00Z (Quota).", answers.NextResize(rec))
}
