package main

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"attune.io/attune/usage"
	"attune.io/attune/usage/prometheus"
)

// TestClientsAreKept: one is made for many questions, until its credentials may be old or it gave no answer.
func TestClientsAreKept(t *testing.T) {
	var c clients
	made := 0
	dial := func() (measured, error) {
		made++
		client, err := prometheus.New(prometheus.Config{Address: "http://prometheus:9090"})
		return measured{Client: client}, err
	}
	noon := time.Date(2025, 6, 2, 12, 0, 0, 0, time.UTC)
	first, err := c.of("a", noon, dial)
	require.NoError(t, err)
	again, err := c.of("a", noon.Add(clientLasts-time.Second), dial)
	require.NoError(t, err)
	assert.Same(t, first.Client, again.Client)
	assert.Equal(t, 1, made)
	_, err = c.of("b", noon, dial)
	require.NoError(t, err)
	assert.Equal(t, 2, made, "another server")

	renewed, err := c.of("a", noon.Add(clientLasts), dial)
	require.NoError(t, err)
	assert.NotSame(t, first.Client, renewed.Client)
	assert.Len(t, c.known, 1, "what is too old is let go")

	c.drop("a", first.Client)
	assert.Len(t, c.known, 1, "another one has taken its place")
	c.drop("a", renewed.Client)
	assert.Empty(t, c.known)

	_, err = c.of("a", noon, func() (measured, error) { return measured{}, errors.New("no such secret") })
	require.Error(t, err)
	assert.Empty(t, c.known, "a failure is not kept")
	for i := range 2 * mostClients {
		_, err = c.of(usage.Digest(rune('a'+i)), noon, dial)
		require.NoError(t, err)
	}
	assert.Len(t, c.known, mostClients)
}
