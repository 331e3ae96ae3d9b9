package main

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/assert"

	"attune.io/attune/internal/ports"
)

func TestFewScrapesAtOnce(t *testing.T) {
	began, end := make(chan struct{}), make(chan struct{})
	handler := ports.AtMost(mostScrapes, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		began <- struct{}{}
		<-end
	}), http.StatusServiceUnavailable, "try again")
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
