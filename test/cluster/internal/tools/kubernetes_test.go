package tools

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestReleasesOfKubernetes(t *testing.T) {
	source, err := sourceDir()
	require.NoError(t, err)
	b := &builder{source: source}
	for asked, file := range map[string]string{"": "go.mod", "v1.34": "v1.34.mod", "v1.35": "v1.35.mod", "v1.36": "go.mod", "v1.37": "v1.37.mod", "v1.36.3": "go.mod"} {
		r, err := b.release(asked)
		require.NoError(t, err, asked)
		assert.Equal(t, file, r.file, asked)
		assert.Contains(t, r.linkerFlags(), "version.gitVersion="+r.version+" ", asked)
		assert.Contains(t, r.version+".", asked)
	}
	_, err = b.release("v1.3")
	assert.ErrorContains(t, err, "Kubernetes v1.3 is not among the test cluster's versions, choose one of v1.36.")
}

// What a release is made of is its own files alone: a second one is not built anew as the first one changes.
func TestTheDigestOfAReleaseIsOfItsFiles(t *testing.T) {
	source, err := sourceDir()
	require.NoError(t, err)
	b, digests := &builder{source: source}, map[string]string{}
	for _, version := range []string{"v1.34", "v1.35", "v1.36", "v1.37"} {
		r, err := b.release(version)
		require.NoError(t, err)
		sum, err := r.digest()
		require.NoError(t, err)
		digests[sum] = version
	}
	assert.Len(t, digests, 4)
}
