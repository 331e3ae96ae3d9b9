package ui

import (
	"strconv"
	"strings"
)

// Pages is which part of a list a page has, and where the others are.
type Pages struct {
	// From and To count from 1; Total is the length of the list.
	From, To, Total int
	// Previous and Next are empty at the ends.
	Previous, Next string
	first, last    int
}

// pagesOf returns a page of a list at a path, which may have a query. A number beyond the list is that of its last page, one below 1 that of the first.
func pagesOf(path string, page, total int) Pages {
	pages := max(1, (total+mostRows-1)/mostRows)
	page = min(max(page, 1), pages)
	p := Pages{Total: total, first: (page - 1) * mostRows, last: min(page*mostRows, total)}
	p.From, p.To = min(p.first+1, p.last), p.last
	numbered := path + "?page="
	if strings.Contains(path, "?") {
		numbered = path + "&page="
	}
	if page > 1 {
		p.Previous = numbered + strconv.Itoa(page-1)
	}
	if page < pages {
		p.Next = numbered + strconv.Itoa(page+1)
	}
	return p
}
