package ui

import (
	"net/url"
	"strings"
	"time"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/clip"
	"attune.io/attune/internal/policy"
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
	Rows   []foundRow
	Pages
}

// foundRow is one workload that was found.
type foundRow struct{ Name, Path, Namespace, NamespacePath, Policy, Mode, Phase string }

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
		if contains(id.Namespace+"/"+id.String(), query) {
			found = append(found, rec)
		}
	}
	out.Pages = pagesOf(Path+"search?q="+url.QueryEscape(query), page, len(found))
	for _, rec := range found[out.first:out.last] {
		id := workload.IdentityOf(rec)
		out.Rows = append(out.Rows, foundRow{
			Name: id.String(), Path: pathOf(id), Namespace: id.Namespace, NamespacePath: namespacePath(id.Namespace), Policy: policy.NameOf(rec.Spec.Policy),
			Mode: string(rec.Spec.Mode), Phase: string(rec.Status.Phase),
		})
	}
	return out
}

// contains ignores upper and lower case of letters.
func contains(text, part string) bool {
	return strings.Contains(strings.ToLower(text), strings.ToLower(part))
}
