package main

import (
	"net/http"
	"strings"
)

// evictionsAtOnce hands a 429 to who asked for an eviction at once. A budget that was not looked at yet answers with
// ten seconds to wait, and the client would ask again ten times before it says so: a worker stood still for 100 seconds,
// and with it the reverts of other workloads. The loops ask again by themselves.
func evictionsAtOnce(next http.RoundTripper) http.RoundTripper { return atOnce{next} }

type atOnce struct{ next http.RoundTripper }

func (a atOnce) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := a.next.RoundTrip(r)
	if err == nil && answer.StatusCode == http.StatusTooManyRequests && strings.HasSuffix(r.URL.Path, "/eviction") {
		answer.Header.Del("Retry-After")
	}
	return answer, err
}
