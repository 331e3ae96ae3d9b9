package ui_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/answers"
	"attune.io/attune/ui"
)

// counting wraps Caches: each computation takes 1.1 s and is counted.
type counting struct {
	Caches
	mutex            sync.Mutex
	begun, now, most int
}

func (c *counting) Savings(ctx context.Context) func(*v1alpha1.AttuneRecommendation) answers.SavingsEntry {
	c.mutex.Lock()
	c.begun++
	c.now++
	c.most = max(c.most, c.now)
	c.mutex.Unlock()
	time.Sleep(1100 * time.Millisecond)
	c.mutex.Lock()
	c.now--
	c.mutex.Unlock()
	return c.Caches.Savings(ctx)
}

// If viewers reload in a loop, one request at a time computes savings, and the last page is reused for a while.
func TestSavingsAreAddedUpOnceForAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		caches := &counting{Caches: Small()}
		handler := ui.NewHandler(caches, func(_ string, err error) { t.Error(err) })
		ask := func(path string) *httptest.ResponseRecorder {
			w := httptest.NewRecorder()
			handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
			return w
		}
		first := ask("/ui/savings")
		assert.Equal(t, http.StatusOK, first.Code)
		assert.Equal(t, first.Body.String(), ask("/ui/savings").Body.String())
		assert.Equal(t, 1, caches.begun)
		time.Sleep(15 * time.Second)
		assert.Equal(t, http.StatusOK, ask("/ui/savings").Code)
		assert.Equal(t, 2, caches.begun, "after a while it is added up again")
		assert.NotEqual(t, first.Body.String(), ask("/ui/savings/shop").Body.String())
		assert.Equal(t, 3, caches.begun, "another page")

		var wait sync.WaitGroup
		codes := make([]int, 8)
		for i, path := range []string{"/ui/savings", "/ui/savings/shop"} {
			for n := range 4 {
				wait.Go(func() { codes[4*i+n] = ask(path).Code })
			}
		}
		wait.Wait()
		assert.Equal(t, 1, caches.most, "at a time")
		for _, code := range codes {
			assert.Contains(t, []int{http.StatusOK, http.StatusServiceUnavailable}, code)
		}
	})
}

// One request computes and one waits. Other requests get an answer at once, so savings block neither other pages nor
// the page that was computed last.
func TestFewWaitForSavings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		caches := &counting{Caches: Small()}
		handler := ui.NewHandler(caches, func(_ string, err error) { t.Error(err) })
		ask := func(path string) (string, time.Duration) {
			w, begun := httptest.NewRecorder(), time.Now()
			handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
			return words(t, w.Body.String()), time.Since(begun)
		}
		ask("/ui/savings")
		const late = "Other savings are being computed: try again in a few seconds."
		var wait sync.WaitGroup
		told := make([]string, 9)
		for i := range told {
			wait.Go(func() { told[i], _ = ask(fmt.Sprintf("/ui/savings/shop?page=%d", i)) })
		}
		synctest.Wait()
		said, took := ask("/ui/savings")
		assert.NotContains(t, said, late)
		assert.Zero(t, took)
		wait.Wait()
		turned := 0
		for _, said := range told {
			if strings.Contains(said, late) {
				turned++
			}
		}
		assert.Equal(t, 7, turned)
		assert.Equal(t, 1, caches.most)
		said, _ = ask("/ui/savings/shop?page=9")
		assert.NotContains(t, said, late, "the places were given back")
	})
}

// A request that waits too long for another computation gets a page that says so.
func TestSavingsThatWaitTooLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		caches := &counting{Caches: Small()}
		handler := ui.NewHandler(caches, func(_ string, err error) { t.Error(err) })
		ask := func(path string, within time.Duration) string {
			ctx, stop := context.WithTimeout(t.Context(), within)
			defer stop()
			w := httptest.NewRecorder()
			handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil).WithContext(ctx))
			return words(t, w.Body.String())
		}
		var wait sync.WaitGroup
		wait.Go(func() {
			assert.NotContains(t, ask("/ui/savings", time.Minute), "Timed out")
		})
		synctest.Wait()
		assert.Contains(t, ask("/ui/savings/shop", time.Second), "Other savings are being computed")
		wait.Wait()
		assert.NotContains(t, ask("/ui/savings/shop", time.Minute), "Timed out", "the place was given back")
	})
}
