package input

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"attune.io/attune/internal/policy"
)

// The operator accepts the policies of the samples.
func TestSamples(t *testing.T) {
	samples, err := filepath.Glob("../../../config/samples/*.yaml")
	require.NoError(t, err)
	require.NotEmpty(t, samples)
	for _, path := range samples {
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		if !bytes.Contains(text, []byte("Policy\n")) { // defaults, which are read beside a policy
			text = append(text, "\n---\napiVersion: attune.io/v1alpha1\nkind: AttunePolicy\nmetadata: {name: any, namespace: any}\nspec: {targetRef: {kind: Deployment}}\n"...)
		}
		documents, err := ParsePolicy(text)
		require.NoError(t, err, path)
		_, err = policy.Resolve(documents.Cluster, documents.Namespace, documents.Policy)
		assert.NoError(t, err, path)
	}
}
