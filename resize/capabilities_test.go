package resize_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"

	. "attune.io/attune/resize"
)

// Versions of API servers and kubelets contain more than numbers, and every vendor has its own format.
func TestMinor(t *testing.T) {
	for version, want := range map[string]int{
		"v1.36.3": 36, "1.33": 33, "v1.34+": 34, "v1.35.0-alpha.1+abc": 35, "v1.37.2-gke.1000": 37, "v1.33-eks-0aa1": 33, " v1.36.0\n": 36,
		"": 0, "v1": 0, "v1.": 0, "v1.x": 0, "v2.36.0": 0, "v11.36.0": 0, "master": 0,
	} {
		assert.Equal(t, want, MinorOf(version), version)
	}
}

func TestNodeReady(t *testing.T) {
	node := &corev1.Node{}
	assert.False(t, NodeReady(nil))
	assert.False(t, NodeReady(node))
	for status, want := range map[corev1.ConditionStatus]bool{corev1.ConditionTrue: true, corev1.ConditionFalse: false, corev1.ConditionUnknown: false} {
		node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeMemoryPressure, Status: corev1.ConditionTrue}, {Type: corev1.NodeReady, Status: status}}
		assert.Equal(t, want, NodeReady(node), status)
		assert.Equal(t, want, CapabilitiesOf(node, "v1.36.0").NodeReady, status)
	}
}
