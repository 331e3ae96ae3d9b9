// Package backoff computes how long to wait after consecutive failures. The caller counts them.
package backoff

import "time"

// mostDoublings bounds the shift: a first wait of an hour does not overflow.
const mostDoublings = 16

// Wait returns first after one failure, twice as long after each further one, and never more than most. Without a failure
// it is 0.
func Wait(first, most time.Duration, failures int) time.Duration {
	if failures <= 0 {
		return 0
	}
	return min(first<<min(failures-1, mostDoublings), most)
}
