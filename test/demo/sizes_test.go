package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestSizesAreWatchedFromTheMarkOn(t *testing.T) {
	s := &sizes{}
	assert.Zero(t, s.since(now))
	require.Error(t, s.mark(512*mebibyte), "nothing was watched yet")
	for i, limit := range []int64{512, 512, 156, 512} {
		s.add(limit*mebibyte, now.Add(time.Duration(i)*time.Second))
	}
	assert.Equal(t, "512Mi, 156Mi, 512Mi", s.String())
	require.ErrorContains(t, s.above(156*mebibyte), "156Mi again", "without a mark all count")
	require.ErrorContains(t, s.mark(156*mebibyte), "156Mi yet")
	require.NoError(t, s.mark(512*mebibyte))
	s.add(600*mebibyte, now.Add(time.Minute))
	assert.Equal(t, time.Minute, s.since(now))
	require.NoError(t, s.above(156*mebibyte))
	s.add(157*mebibyte, now)
	require.NoError(t, s.above(156*mebibyte))
	s.add(156*mebibyte, now)
	require.EqualError(t, s.above(156*mebibyte), "its limit was 156Mi again, and 156Mi had killed it")
}

func TestABrokenWatchProvesNothing(t *testing.T) {
	s := &sizes{given: []given{{limit: 512}}, ended: true}
	require.ErrorContains(t, s.above(1), "broke off")
}
