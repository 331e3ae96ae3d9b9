package ports

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestLoopbackHost(t *testing.T) {
	for host, want := range map[string]bool{
		"localhost": true, "localhost:8082": true, "127.0.0.1": true, "127.9.9.9:1": true, "[::1]:8082": true, "::1": true,
		"": false, "evil.example": false, "localhost.evil.example": false, "10.0.0.1:8082": false, "127.0.0.1.evil.example:80": false,
	} {
		assert.Equal(t, want, loopbackHost(host), host)
	}
}

func TestForeignPage(t *testing.T) {
	for site, want := range map[string]bool{"": false, "none": false, "same-origin": false, "same-site": true, "cross-site": true, "something new": true} {
		assert.Equal(t, want, foreignPage(site), site)
	}
}
