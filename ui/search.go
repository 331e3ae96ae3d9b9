package ui

import (
	"net/url"
	"strings"
	"time"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/clip"
	"attune.io/attune/internal/workload"
)

// mostQuery is how many bytes of a search are looked for.
const mostQuery = 200

// searchPage is the model of the page of a search.
type searchPage struct {
	At    time.Time
	Query string
	// Looked is false where nothing was looked for yet.
	Looked bool
	Rows   []workloadRow
	Pages
}

// searchOf finds the workloads whose NAMESPACE/KIND/NAME has a text in it, in upper or lower case.
func searchOf(c Cluster, query string, page int) searchPage {
	query = clip.Text(strings.TrimSpace(query), mostQuery)
	out := searchPage{At: c.At, Query: query, Looked: query != ""}
	if !out.Looked {
		return out
	}
	var found []*v1alpha1.AttuneRecommendation
	for _, rec := range byName(c.Recommendations) {
		id := workload.IdentityOf(rec)
		if strings.Contains(strings.ToLower(id.Namespace+"/"+id.String()), strings.ToLower(query)) {
			found = append(found, rec)
		}
	}
	out.Pages = pagesOf(Path+"search?q="+url.QueryEscape(query), page, len(found))
	for _, rec := range found[out.first:out.last] {
		out.Rows = append(out.Rows, rowOf(rec))
	}
	return out
}
