package prometheus

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	clocktesting "k8s.io/utils/clock/testing"

	"attune.io/attune/usage"
)

// TestClientsAreKept: one client serves many queries, until its credentials may be out of date or it gave no answer.
func TestClientsAreKept(t *testing.T) {
	noon := time.Date(2025, 6, 2, 12, 0, 0, 0, time.UTC)
	now := clocktesting.NewFakePassiveClock(noon)
	c := NewClients(now)
	made := 0
	dial := func() (Metered, error) {
		made++
		client, err := New(Config{Address: "http://prometheus:9090"})
		return Metered{Client: client}, err
	}
	first, err := c.Of("a", dial)
	require.NoError(t, err)
	now.SetTime(noon.Add(clientLasts - time.Second))
	again, err := c.Of("a", dial)
	require.NoError(t, err)
	assert.Same(t, first.Client, again.Client)
	assert.Equal(t, 1, made)
	now.SetTime(noon)
	_, err = c.Of("b", dial)
	require.NoError(t, err)
	assert.Equal(t, 2, made, "another server")

	now.SetTime(noon.Add(clientLasts + 1))
	renewed, err := c.Of("a", dial)
	require.NoError(t, err)
	assert.NotSame(t, first.Client, renewed.Client)
	assert.Len(t, c.known.Keys(), 1, "what is too old is let go")

	c.Drop("a", first.Client)
	assert.Len(t, c.known.Keys(), 1, "another one has taken its place")
	c.Drop("a", renewed.Client)
	assert.Empty(t, c.known.Keys())

	_, err = c.Of("a", func() (Metered, error) { return Metered{}, errors.New("no such secret") })
	require.Error(t, err)
	assert.Empty(t, c.known.Keys(), "a failure is not kept")
	for i := range 2 * mostClients {
		_, err = c.Of(usage.Digest(rune('a'+i)), dial)
		require.NoError(t, err)
	}
	assert.Len(t, c.known.Keys(), mostClients)
}
