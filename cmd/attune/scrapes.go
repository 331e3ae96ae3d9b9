package main

import "net/http"

// mostScrapes of the metrics at once: a scrape writes a series for every container, under a lock that the loops need.
const mostScrapes = 2

// fewScrapes limits the scrapes that run at the same time. A further one is answered with 503 at once.
func fewScrapes(handler http.Handler) http.Handler {
	turns := make(chan struct{}, mostScrapes)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case turns <- struct{}{}:
			defer func() { <-turns }()
			handler.ServeHTTP(w, r)
		default:
			http.Error(w, "two scrapes are under way: try again", http.StatusServiceUnavailable)
		}
	})
}
