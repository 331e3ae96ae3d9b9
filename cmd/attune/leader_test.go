package main

import (
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/client-go/rest"
)

// TestAPodHoldsTheLease: two consecutive processes of a pod are the same holder.
func TestAPodHoldsTheLease(t *testing.T) {
	o := &Options{process: processOptions{namespace: "attune-system"}, loops: loopOptions{leaderElect: true, podUID: "705ab4f5"}}
	config := &rest.Config{UserAgent: "attune"}
	first, err := newLock(o, config)
	require.NoError(t, err)
	next, err := newLock(o, config)
	require.NoError(t, err)
	host, err := os.Hostname()
	require.NoError(t, err)
	assert.Equal(t, host+"_705ab4f5", first.Identity())
	assert.Equal(t, first.Identity(), next.Identity())
	assert.Equal(t, "attune-system/attune.attune.io", first.Describe())
	assert.Equal(t, "attune", config.UserAgent, "the manager's own is as it was")

	for name, outside := range map[string]loopOptions{"not in a pod": {leaderElect: true}, "nobody is elected": {podUID: "705ab4f5"}} {
		lock, err := newLock(&Options{loops: outside}, config)
		require.NoError(t, err, name)
		assert.Nil(t, lock, name)
	}
}
