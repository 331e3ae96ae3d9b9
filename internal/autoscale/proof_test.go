package autoscale

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/recommender"
)

func TestGranted(t *testing.T) {
	at := func(day int) metav1.Time { return metav1.NewTime(time.Date(2026, 11, day, 9, 0, 0, 0, time.UTC)) }
	most := resource.MustParse("1")
	row := v1alpha1.KeptRequest{Resource: "cpu", Least: resource.MustParse("462m"), Most: &most, HPAs: []string{"web"}, Since: at(20), ValidUntil: at(28)}
	target := v1alpha1.ContainerTarget{Name: "app", Kept: []v1alpha1.KeptRequest{row}}

	proof, kept := Granted(&target, recommender.CPU)
	assert.Equal(t, "Keep", proof)
	assert.Equal(t, "HorizontalPodAutoscaler web keeps the number of replicas with a request from 462m to 1; "+
		"history since 2026-11-20 09:00 UTC, valid until 2026-11-28 09:00 UTC", SentenceOf(kept))
	row.Most, row.HPAs = nil, []string{"a", "b"}
	assert.Contains(t, SentenceOf(&row), "each of the HorizontalPodAutoscalers a, b keeps the number of replicas with a request of at least 462m; ")
	row.By, row.OriginalPercent = v1alpha1.HPARetarget, 70
	assert.Equal(t, "Retarget", ProofOf(&row))
	assert.Contains(t, SentenceOf(&row), "a request of at least 462m, as attune changes its target together with the request (originally 70 %); history since 2026-11-20 09:00 UTC, valid until 2026-11-28 09:00 UTC")
	proof, kept = Granted(&target, recommender.Memory)
	assert.Empty(t, proof, "no HPA scales on it")
	assert.Nil(t, kept)

	for reason, want := range map[string]string{"HPA": ProofNone, "VPA": "", "NoData": "Keep"} {
		target.Holds = []v1alpha1.Hold{{Resource: "cpu", Reason: reason}}
		proof, _ = Granted(&target, recommender.CPU)
		assert.Equal(t, want, proof, reason)
	}
}
