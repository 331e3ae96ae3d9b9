package main

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	"attune.io/attune/api/v1alpha1"
)

func TestLesson(t *testing.T) {
	killer := size{memory: 78 * mebibyte, memoryLimit: 156 * mebibyte}
	object := func(change func(*v1alpha1.AttuneRecommendation)) *v1alpha1.AttuneRecommendation {
		rec := &v1alpha1.AttuneRecommendation{}
		rec.Spec.Containers = []v1alpha1.ContainerTarget{{Target: v1alpha1.Resources{MemoryRequest: ptr.To(resource.MustParse("203Mi"))}}}
		rec.Status.Floors = []v1alpha1.Floor{{Resource: "cpu", Amount: resource.MustParse("1")}, {Resource: "memory", Amount: resource.MustParse("203Mi")}}
		rec.Status.History = []v1alpha1.HistoryEntry{{Result: "Success"}, {Result: "Reverted"}}
		change(rec)
		return rec
	}
	setTarget := func(amount string) func(*v1alpha1.AttuneRecommendation) {
		return func(r *v1alpha1.AttuneRecommendation) {
			r.Spec.Containers[0].Target.MemoryRequest = ptr.To(resource.MustParse(amount))
		}
	}
	floor, target, err := lesson(object(setTarget("300Mi")), killer)
	require.NoError(t, err)
	assert.Equal(t, "203Mi", floor.Amount.String())
	assert.Equal(t, "300Mi", target)
	_, _, err = lesson(object(setTarget("202Mi")), killer)
	require.NoError(t, err, "a floor fades from the moment on in which it was learned")

	for want, rec := range map[string]*v1alpha1.AttuneRecommendation{
		"no resize that was Reverted":                              object(func(r *v1alpha1.AttuneRecommendation) { r.Status.History = r.Status.History[:1] }),
		"no floor for memory":                                      object(func(r *v1alpha1.AttuneRecommendation) { r.Status.Floors = r.Status.Floors[:1] }),
		"its floor 156Mi is not above the limit 156Mi that killed": object(func(r *v1alpha1.AttuneRecommendation) { r.Status.Floors[1].Amount = resource.MustParse("156Mi") }),
		"its target 200Mi is below its floor 203Mi":                object(setTarget("200Mi")),
		"no target for memory":                                     object(func(r *v1alpha1.AttuneRecommendation) { r.Spec.Containers[0].Target = v1alpha1.Resources{} }),
	} {
		_, _, err := lesson(rec, killer)
		require.ErrorContains(t, err, want)
	}
}
