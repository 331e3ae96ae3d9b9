package main

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestFewScrapesAtOnce(t *testing.T) {
	filter, err := fewScrapes(nil, nil)
	require.NoError(t, err)
	began, end := make(chan struct{}), make(chan struct{})
	handler, err := filter(logr.Discard(), http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		began <- struct{}{}
		<-end
	}))
	require.NoError(t, err)
	scrape := func() int {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
		return w.Code
	}
	ended := make(chan int, mostScrapes)
	for range mostScrapes {
		go func() { ended <- scrape() }()
		<-began
	}
	assert.Equal(t, http.StatusServiceUnavailable, scrape())
	close(end)
	for range mostScrapes {
		assert.Equal(t, http.StatusOK, <-ended)
	}
	go func() { ended <- scrape() }()
	<-began
	assert.Equal(t, http.StatusOK, <-ended)
}
