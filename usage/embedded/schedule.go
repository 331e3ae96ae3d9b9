package embedded

import (
	"hash/fnv"
	"time"
)

// maxPause bounds the time between two scrapes of a node that fails.
const maxPause = 5 * time.Minute

// nextAt is the first moment after now at which a node's turn comes. Each node has its own place within
// the interval, always the same, so that their turns are spread over it whenever scraping began.
func nextAt(node string, interval time.Duration, now time.Time) time.Time {
	hash := fnv.New64a()
	_, _ = hash.Write([]byte(node))
	place := time.Duration(hash.Sum64() % uint64(interval))
	next := now.Truncate(interval).Add(place)
	for !next.After(now) {
		next = next.Add(interval)
	}
	return next
}

// pause after a number of failures in a row: from the third on one interval, doubled with each more, up to maxPause.
func pause(failures int, interval time.Duration) time.Duration {
	if failures < 3 {
		return 0
	}
	return min(interval<<min(failures-3, 10), max(interval, maxPause))
}

// mostWait is an upper bound of the time that a node waits for its turn.
func mostWait(interval time.Duration) time.Duration { return max(interval, maxPause) + 2*interval }
