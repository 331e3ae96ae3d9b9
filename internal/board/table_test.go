package board

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestTable(t *testing.T) {
	var x Table[string, int]
	assert.Zero(t, x.Of("a"))
	assert.Empty(t, x.All())
	x.Forget("a")
	x.Put("a", 1)
	x.Put("b", 2)
	x.Change("a", func(before int) int { return before + 10 })
	value, known := x.Find("a")
	assert.True(t, known)
	assert.Equal(t, 11, value)
	all := x.All()
	all["c"] = 3
	x.ForgetIf(func(_ string, value int) bool { return value > 10 })
	assert.Equal(t, map[string]int{"b": 2}, x.All(), "a copy is the caller's own")
}

func TestTableIsShared(t *testing.T) {
	var x Table[int, int]
	var all sync.WaitGroup
	for i := range 100 {
		all.Go(func() { x.Change(i%3, func(n int) int { return n + 1 }) })
	}
	all.Wait()
	assert.Equal(t, map[int]int{0: 34, 1: 33, 2: 33}, x.All())
}
