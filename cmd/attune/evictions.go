package main

import (
	"net/http"
	"strings"
)

// evictionsAtOnce makes a 429 to an eviction an error at once. The API server answers 429 with ten seconds to wait
// while a disruption budget has not been looked at, and client-go would wait and retry ten times: a worker would
// stand still for 100 seconds, and with it the reverts of other workloads. The loops retry by themselves.
func evictionsAtOnce(next http.RoundTripper) http.RoundTripper { return atOnce{next} }

// atOnce is the transport that evictionsAtOnce returns.
type atOnce struct{ next http.RoundTripper }

// RoundTrip implements http.RoundTripper. Without the header Retry-After, client-go does not retry a 429.
func (a atOnce) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := a.next.RoundTrip(r)
	if err == nil && answer.StatusCode == http.StatusTooManyRequests && strings.HasSuffix(r.URL.Path, "/eviction") {
		answer.Header.Del("Retry-After")
	}
	return answer, err
}
