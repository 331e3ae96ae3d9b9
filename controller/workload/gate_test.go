package workload

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

// TestAnEvictionNamesTheVeryPod: another pod of the name, or the same pod after a change, is not evicted.
func TestAnEvictionNamesTheVeryPod(t *testing.T) {
	pod := running("web-1", small)
	pod.UID, pod.ResourceVersion = types.UID("this one"), "17"
	eviction := evictionOf(pod)
	assert.Equal(t, "shop", eviction.Namespace)
	assert.Equal(t, "web-1", eviction.Name)
	require.NotNil(t, eviction.DeleteOptions)
	require.NotNil(t, eviction.DeleteOptions.Preconditions)
	assert.Equal(t, metav1.Preconditions{UID: ptr.To(types.UID("this one")), ResourceVersion: ptr.To("17")}, *eviction.DeleteOptions.Preconditions)
}
