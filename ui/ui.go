// Package ui renders the pages of the operator's leader: the fleet, a namespace, a workload, the nodes, savings, a
// search. They are read-only and load no other resources.
//
// NewHandler (handler.go) answers requests. It reads objects through Caches and builds a model from them (fleet.go,
// namespace.go with searches, workload.go with usage.go, node.go, saved.go). html/template renders the model with the
// files *.html (page.go) and escapes every name. The texts about targets, blocked resources, savings and nodes come
// from package answers, which the plugin uses too. The package holds no client. Start reading at NewHandler.
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

// Caches is the source of all data on the pages. Callers must not change the returned values.
type Caches interface {
	// All returns the policies and recommendations of a namespace, or of all namespaces if it is empty.
	All(ctx context.Context, namespace string) (Cluster, error)
	// Explain explains a recommendation from its template, its running pods and the settings of its policy. The caches
	// do not hold the steps of the computation: with steps true, Explain reads them from the API server.
	Explain(ctx context.Context, rec *v1alpha1.AttuneRecommendation, steps bool) Explained
	// Usage returns the usage of a workload's containers, by container name, oldest first.
	Usage(ctx context.Context, rec *v1alpha1.AttuneRecommendation) map[string][]recommender.StepUsage
	// Beside returns further data about a workload.
	Beside(ctx context.Context, rec *v1alpha1.AttuneRecommendation) Beside
	// Savings returns a function that computes the savings of a workload. One goroutine may use it, for one page.
	Savings(ctx context.Context) func(rec *v1alpha1.AttuneRecommendation) answers.SavingsEntry
	// Nodes lists all nodes.
	Nodes(ctx context.Context) (Nodes, error)
	// Node returns how the pods of a node share it; false if the node does not exist.
	Node(ctx context.Context, name string) (answers.NodeAnswer, bool, error)
}

// Cluster is a snapshot of the policies and recommendations.
type Cluster struct {
	// Policies has the namespaced policies, and the cluster policies in effect there (policy.AsPolicy).
	Policies        []v1alpha1.AttunePolicy
	Recommendations []v1alpha1.AttuneRecommendation
	At              time.Time
}

// Explained is the explanation of one workload.
type Explained struct {
	answers.Explanation
	// Problem is a sentence that says why there is no explanation; empty if there is one.
	Problem string
	// Note is a sentence that says which part of the explanation is missing; empty if it is complete.
	Note string
}

// Limits of a page. A page of the fleet or of a namespace has mostRows rows and links to the next one.
const (
	mostRows = 100
	// mostPersons limits the policies on the first page, mostPods the pods of a container, mostLines the containers in
	// a row of a namespace.
	mostPersons, mostPods, mostLines = 20, 20, 5
	// mostPage is the maximum size of a page in bytes. A larger page is not sent.
	mostPage = 4 << 20
)

// pathOf returns the path of a workload's page.
func pathOf(id workload.Identity) string {
	return namespacePath(id.Namespace) + "/" + segment(string(id.Kind)) + "/" + segment(id.Name)
}

func namespacePath(name string) string { return Path + "ns/" + segment(name) }

// segment escapes a name for use in a path.
func segment(name string) string { return url.PathEscape(name) }

// Pages says which part of a list a page shows, and links to the others.
type Pages struct {
	// From and To count from 1. Total is the length of the list.
	From, To, Total int
	// Previous and Next are empty at the ends of the list.
	Previous, Next string
	first, last    int
}

// pagesOf returns a page of a list at path, which may have a query. A page number outside the list becomes the
// first or the last page.
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
