package terminal

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestProgressLines(t *testing.T) {
	p := &Progress{}
	for want, line := range map[string]string{
		"[........................]   0 %, 0s: web":                                         p.line(0, 0, "web"),
		"[######..................]  25 %, 3s, 9s left: web":                                p.line(0.25, 3*time.Second, "web"),
		"[########################] 100 %, 1m0s, 0s left: …oyment/very-long-name-of-it/app": p.line(1.5, time.Minute, "a-namespace-that-is-long/Deployment/very-long-name-of-it/app"),
		`[############............]  50 %, 2s, 2s left: \x1b[31m red \a`:                    p.line(0.5, 2*time.Second, "\x1b[31m\nred\t\a"),
	} {
		assert.Equal(t, want, line)
	}
}
