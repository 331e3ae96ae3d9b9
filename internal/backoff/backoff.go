// Package backoff computes how long to wait after consecutive failures. The caller counts them.
package backoff

import "time"

// mostDoublings limits the shift, so that a first wait of an hour does not overflow.
const mostDoublings = 16

// Wait returns first after one failure and doubles it for each further failure, up to most. It returns 0 without a
// failure.
func Wait(first, most time.Duration, failures int) time.Duration {
	if failures <= 0 {
		return 0
	}
	return min(first<<min(failures-1, mostDoublings), most)
}
