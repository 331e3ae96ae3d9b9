package podview

import (
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestListsAndMaps(t *testing.T) {
	list := []int{1, 2}
	*Pointers(list)[1] = 3
	assert.Equal(t, []int{1, 3}, list, "Pointers point into the list")

	assert.Equal(t, []string{"1", "3"}, Map(list, strconv.Itoa))
	assert.Nil(t, Map(nil, strconv.Itoa))

	var counts map[string]int
	SetIn(&counts, "a", 1)
	SetIn(&counts, "b", 2)
	assert.Equal(t, map[string]int{"a": 1, "b": 2}, counts)
}
