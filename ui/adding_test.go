package ui_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/savings/report"
	"attune.io/attune/ui"
	"attune.io/attune/ui/made"
)

// counting are caches of which each addition takes 1.1 s, and is counted.
type counting struct {
	made.Caches
	mutex            sync.Mutex
	begun, now, most int
}

func (c *counting) Savings(ctx context.Context) func(*v1alpha1.AttuneRecommendation) report.Entry {
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

// Viewers in a loop have savings added up by one of the requests at a time, and the last page is shown again for a while.
func TestSavingsAreAddedUpOnceForAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		caches := &counting{Caches: made.Small()}
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

// Who waits longer for the additions of others than a page may take is told so.
func TestSavingsThatWaitTooLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		caches := &counting{Caches: made.Small()}
		handler := ui.NewHandler(caches, func(_ string, err error) { t.Error(err) })
		var wait sync.WaitGroup
		answers := make([]*httptest.ResponseRecorder, 9)
		for i := range answers {
			answers[i] = httptest.NewRecorder()
			path := "/ui/savings"
			if i%2 == 0 {
				path += "/shop"
			}
			wait.Go(func() {
				handler.ServeHTTP(answers[i], httptest.NewRequest(http.MethodGet, path+"?page="+string(rune('1'+i)), nil))
			})
		}
		wait.Wait()
		told := map[string]int{}
		for _, a := range answers {
			switch said := words(t, a.Body.String()); {
			case a.Code == http.StatusOK:
				told["added up"]++
			case strings.Contains(said, "Other savings are being added up: try again in some seconds."):
				told["waited"]++
			case strings.Contains(said, "workloads could not be added up in time"):
				told["late"]++
			}
		}
		assert.Equal(t, map[string]int{"added up": 5, "late": 1, "waited": 3}, told, "6 s for 1.1 s each")
		assert.Equal(t, 1, caches.most)
	})
}
