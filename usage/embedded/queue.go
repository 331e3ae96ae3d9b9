package embedded

import "sync"

// mostWaiting bounds the samples that wait for the disk, 24 bytes each: a minute's of three times the Ceiling.
const mostWaiting = 1 << 18

// queue holds samples for the disk, so that scraping never waits for it.
type queue struct {
	// news has an element while samples may be waiting.
	news chan struct{}

	mutex sync.Mutex
	batch []scraped
	// spare is memory of an earlier batch.
	spare []scraped
	lost  int
}

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

// take what is waiting, and the number of those that were lost since the last time.
func (q *queue) take() (batch []scraped, lost int) {
	q.mutex.Lock()
	defer q.mutex.Unlock()
	batch, lost = q.batch, q.lost
	q.batch, q.lost = nil, 0
	return batch, lost
}

// done returns the memory of a taken batch for reuse.
func (q *queue) done(batch []scraped) {
	q.mutex.Lock()
	defer q.mutex.Unlock()
	if cap(batch) > 0 {
		clear(batch)
		q.spare = batch[:0]
	}
}
