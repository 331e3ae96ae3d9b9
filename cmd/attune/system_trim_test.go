package main

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// One function trims objects of all kinds, so that no kind is cached untrimmed.
func TestEveryCachedKindIsTrimmed(t *testing.T) {
	options := cacheOptions(nil)
	for kind, of := range options.ByObject {
		assert.Nil(t, of.Transform, "%T", kind)
	}
	limits, err := options.DefaultTransform(&corev1.LimitRange{ObjectMeta: metav1.ObjectMeta{Name: "l", Annotations: map[string]string{"a": "b"}}})
	require.NoError(t, err)
	assert.Equal(t, &corev1.LimitRange{ObjectMeta: metav1.ObjectMeta{Name: "l"}}, limits)
}
