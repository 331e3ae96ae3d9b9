package store

import "math"

// pageSteps is the number of steps that get room at once: a day of 5-minute steps.
const pageSteps = 288

// pageBytes is what a page takes.
const pageBytes = pageSteps * 8

// page holds the values of consecutive steps.
type page [pageSteps]float64

// budget is the room that is left for all rings of a store.
type budget struct{ left int64 }

func (b *budget) take() bool {
	if b.left < pageBytes {
		return false
	}
	b.left -= pageBytes
	return true
}

// ring holds the values of the newest steps of one measure. Steps without data take no room where a whole
// page of them has none. Values are double precision: a single one would move 200m, times a margin of 1.2,
// over the next millicore.
type ring struct {
	pages []*page
	// first and last are the window: 0 and -1 when nothing was ever in it.
	first, last int64
	budget      *budget
}

// newRing has room for a window of steps, and for the page that the window has begun to leave.
func newRing(steps int64, budget *budget) ring {
	return ring{pages: make([]*page, steps/pageSteps+2), last: -1, budget: budget}
}

// slide moves the window and forgets what fell out of it; it says whether that was anything.
func (r *ring) slide(first, last int64) bool {
	forgot := false
	if r.last >= r.first {
		for step := r.first; step < first && step <= r.last; step++ {
			forgot = r.clear(step) || forgot
		}
	}
	r.first, r.last = max(first, r.first), max(last, r.last)
	return forgot
}

// clear forgets a step, and a page's room with the last step of the page.
func (r *ring) clear(step int64) bool {
	number, slot := r.place(step)
	values := r.pages[number]
	if values == nil {
		return false
	}
	had := !math.IsNaN(values[slot])
	values[slot] = math.NaN()
	if slot == pageSteps-1 {
		r.pages[number] = nil
		r.budget.left += pageBytes
	}
	return had
}

// put sets a step's value. False: it is outside the window, or there is no room for its page.
func (r *ring) put(step int64, value float64) bool {
	if step < r.first || step > r.last {
		return false
	}
	number, slot := r.place(step)
	if r.pages[number] == nil {
		if !r.budget.take() {
			return false
		}
		r.pages[number] = newPage()
	}
	r.pages[number][slot] = value
	return true
}

func newPage() *page {
	values := new(page)
	for i := range values {
		values[i] = math.NaN()
	}
	return values
}

// at is a step's value, NaN without one.
func (r *ring) at(step int64) float64 {
	if step < r.first || step > r.last {
		return math.NaN()
	}
	number, slot := r.place(step)
	if r.pages[number] == nil {
		return math.NaN()
	}
	return r.pages[number][slot]
}

func (r *ring) place(step int64) (number, slot int64) {
	return step / pageSteps % int64(len(r.pages)), step % pageSteps
}

// bytes that the values take.
func (r *ring) bytes() int64 {
	var n int64
	for _, page := range r.pages {
		if page != nil {
			n += pageBytes
		}
	}
	return n
}

// release gives the room back.
func (r *ring) release() {
	r.budget.left += r.bytes()
	r.pages = nil
	r.first, r.last = 0, -1
}
