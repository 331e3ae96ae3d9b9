package embedded

import "sync"

// mostWaiting bounds the samples that wait for the disk, of 24 bytes each: those of one minute for three times the
// Ceiling.
const mostWaiting = 1 << 18

// queue passes samples to the disk, so that no scrape waits for the disk. add never blocks. mutex guards the
// fields below it.
type queue struct {
	// news has an element while samples may be waiting.
	news chan struct{}

	mutex sync.Mutex
	// batch are the samples that wait.
	batch []scraped
	// spare is the memory of an earlier batch, for the next one. lost counts the samples that found no room since
	// the last take.
	spare []scraped
	lost  int
}

// newQueue makes an empty queue. news has room for one element: several additions are one piece of news.
func newQueue() queue { return queue{news: make(chan struct{}, 1)} }

// add copies the samples. Those that find no room are lost, and counted.
func (q *queue) add(batch []scraped) {
	if len(batch) == 0 {
		return
	}
	q.mutex.Lock()
	defer q.mutex.Unlock()
	if len(q.batch)+len(batch) > mostWaiting {
		q.lost += len(batch)
		return
	}
	if q.batch == nil {
		q.batch, q.spare = q.spare, nil
	}
	q.batch = append(q.batch, batch...)
	select {
	case q.news <- struct{}{}:
	default:
	}
}

// take returns the samples that wait, and how many were lost since the last call. The caller owns the batch until
// done.
func (q *queue) take() (batch []scraped, lost int) {
	q.mutex.Lock()
	defer q.mutex.Unlock()
	batch, lost = q.batch, q.lost
	q.batch, q.lost = nil, 0
	return batch, lost
}

// done gives the memory of a batch back for reuse. It is cleared, so that it keeps no series alive.
func (q *queue) done(batch []scraped) {
	q.mutex.Lock()
	defer q.mutex.Unlock()
	if cap(batch) > 0 {
		clear(batch)
		q.spare = batch[:0]
	}
}
