package answers

import (
	"runtime"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestVersionNamesCommitAndGo(t *testing.T) {
	got := BuildVersion()
	assert.Equal(t, "dev", got.Version)
	assert.Equal(t, runtime.Version(), got.GoVersion)
	for commit, want := range map[string]string{"": "v1.2.3, commit unknown, go1.26\n", "0a1b2c": "v1.2.3, commit 0a1b2c, go1.26\n"} {
		text, err := Version{Version: "v1.2.3", Commit: commit, GoVersion: "go1.26"}.Human(false)
		assert.NoError(t, err)
		assert.Equal(t, want, text)
	}
}
