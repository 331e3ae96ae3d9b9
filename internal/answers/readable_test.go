package answers

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"attune.io/attune/recommender"
)

func TestReadable(t *testing.T) {
	for exact, want := range map[string]string{
		"697932186": "665.6Mi", "1Gi": "1Gi", "1023": "1023", "1024": "1Ki", "1536Mi": "1.5Gi", "0": "0", "3E": "2.6Ei", "?": "?", "-1536Mi": "-1.5Gi",
	} {
		assert.Equal(t, want, Readable(recommender.Memory, exact), exact)
	}
	assert.Equal(t, "1500m", Readable(recommender.CPU, "1500m"))
	assert.Equal(t, "none", OrNone(recommender.CPU, nil))
}
