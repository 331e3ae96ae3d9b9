package main

import (
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/client-go/rest"
)

// TestAPodHoldsTheLease: two processes of a pod, one after the other, are the same holder.
func TestAPodHoldsTheLease(t *testing.T) {
	o := options{leaderElect: true, podUID: "705ab4f5", namespace: "attune-system"}
	config := &rest.Config{UserAgent: "attune"}
	first, err := o.lock(config)
	require.NoError(t, err)
	next, err := o.lock(config)
	require.NoError(t, err)
	host, err := os.Hostname()
	require.NoError(t, err)
	assert.Equal(t, host+"_705ab4f5", first.Identity())
	assert.Equal(t, first.Identity(), next.Identity())
	assert.Equal(t, "attune-system/attune.attune.io", first.Describe())
	assert.Equal(t, "attune", config.UserAgent, "the manager's own is as it was")

	for name, outside := range map[string]*options{"not in a pod": {leaderElect: true}, "nobody is elected": {podUID: "705ab4f5"}} {
		lock, err := outside.lock(config)
		require.NoError(t, err, name)
		assert.Nil(t, lock, name)
	}
}
