// Package ui makes the pages that the operator's leader shows: the fleet, a namespace, a workload, the nodes, savings, a search.
// They are read-only and load nothing but themselves.
//
// NewHandler (handler.go) answers requests. It reads objects through Caches, makes a model of values of them (fleet.go,
// namespace.go with searches, workload.go with usage.go, node.go, saved.go), and has html/template fill
// the files *.html with it (page.go), which escapes every name. What a page says of targets, blocked resources,
// savings and nodes comes from package answers: the plugin says the same. The package holds no client. Start reading there.
package ui

import (
	"context"
	"net/url"
	"strconv"
	"strings"
	"time"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/answers"
	"attune.io/attune/internal/workload"
	"attune.io/attune/recommender"
)

// Caches are where pages come from. Whatever they return is only read.
type Caches interface {
	// All returns the policies and recommendations of a namespace; of every namespace where it is empty.
	All(ctx context.Context, namespace string) (Cluster, error)
	// Explain explains a recommendation by its template, its running pods and the settings of its policy. Caches do not hold the
	// steps of the computation: with steps true it reads them from the API server.
	Explain(ctx context.Context, rec *v1alpha1.AttuneRecommendation, steps bool) Explained
	// Usage returns what the containers of a workload used, by container and oldest first.
	Usage(ctx context.Context, rec *v1alpha1.AttuneRecommendation) map[string][]recommender.StepUsage
	// Beside returns what else is known of a workload.
	Beside(ctx context.Context, rec *v1alpha1.AttuneRecommendation) Beside
	// Savings returns a function that computes what a workload saves. It is used by one goroutine, for one page.
	Savings(ctx context.Context) func(rec *v1alpha1.AttuneRecommendation) answers.SavingsEntry
	// Nodes returns the names of all nodes.
	Nodes(ctx context.Context) (Nodes, error)
	// Node returns how the pods of a node share it; false: there is no such node.
	Node(ctx context.Context, name string) (answers.NodeAnswer, bool, error)
}

// Cluster is what the operator knows of policies and workloads at a time.
type Cluster struct {
	// Policies are those of namespaces, and the cluster policies that are at work there (policy.AsPolicy).
	Policies        []v1alpha1.AttunePolicy
	Recommendations []v1alpha1.AttuneRecommendation
	At              time.Time
}

// Explained is the explanation of one workload.
type Explained struct {
	answers.Explanation
	// Problem is a sentence that says why there is no explanation; empty: there is one.
	Problem string
	// Note is a sentence that says what is missing in the explanation; empty: nothing.
	Note string
}

// Bounds of a page. A page of the fleet or of a namespace has mostRows rows, and links to the next one.
const (
	mostRows = 100
	// mostPersons are the policies that the first page names; mostPods the pods of a container; mostLines the containers in a
	// row of a namespace.
	mostPersons, mostPods, mostLines = 20, 20, 5
	// mostPage is the most bytes of a page. A page that would have more is not sent.
	mostPage = 4 << 20
)

// pathOf is where the page of a workload is.
func pathOf(id workload.Identity) string {
	return namespacePath(id.Namespace) + "/" + segment(string(id.Kind)) + "/" + segment(id.Name)
}

func namespacePath(name string) string { return Path + "ns/" + segment(name) }

// segment is a name as a part of a path.
func segment(name string) string { return url.PathEscape(name) }

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
